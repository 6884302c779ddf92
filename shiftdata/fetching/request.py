"""What is asked of a fetch, what it is about to do, and what it did."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shiftdata.fetching.resolve import short_name
from shiftdata.fetching.selection import Select, parsed
from shiftdata.fetching.sources import Sources
from shiftdata.format.conditions import condition_text
from shiftdata.places.search import NAMESPACE

#: Comparisons as a file name can have them.
SIGNS = {"!=": "-not-", "<=": "-to-", ">=": "-from-", "<": "-below-", ">": "-above-"}
SIGN = re.compile("|".join(SIGNS))


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for; see `fetch`."""

    name: str
    config: str | None = None
    select: Select | None = None
    split: str | Sequence[str] | None = None
    out: Path | None = None
    places: Sequence[str] = ()
    offline: bool = False
    replace: bool = False
    jobs: int = 4

    @property
    def of_part(self) -> bool:
        """Whether a part is asked for."""
        return bool(self.config or self.select or self.split)

    @property
    def target(self) -> Path:
        """The folder to make: named like the dataset, for a part also by what was asked for."""
        return self.out or Path(NAMESPACE) / _folder_name(self)

    @property
    def command(self) -> str:
        """The command that asks for it."""
        words = ["shiftdata", "fetch", self.name]
        words += [word for place in self.places for word in ("--from", place)]
        words += ["--config", self.config] if self.config else []
        words += [word for one in parsed(self.select or ()) for word in ("--select", condition_text(one))]
        if self.split:
            words += ["--split", self.split if isinstance(self.split, str) else ",".join(self.split)]
        words += ["--out", str(self.out)] if self.out else []
        words += ["--replace"] if self.replace else []
        return shlex.join(words)


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a fetch is about to do.

    `files` counts whole files (rows of a part are in none), `here` are bytes that are here already, `free`
    those that are free at the target.
    """

    title: str
    out: Path
    places: tuple[str, ...]
    files: int
    bytes: int
    here: int
    free: int
    notes: tuple[str, ...] = ()


@dataclass
class Outcome:
    """What a fetch did: where everything is now, and what each place gave."""

    folder: Path
    sources: Sources
    notes: list[str] = field(default_factory=list)


def _folder_name(request: Request) -> str:
    short = short_name(request.name)
    if not request.of_part:
        return short
    words = [short, request.config or ""]
    words += [
        condition_text(one).removeprefix(f"{one[0]}=").replace(",", "-")
        for one in parsed(request.select or ())
    ]
    words += [request.split or ""] if isinstance(request.split, str | None) else list(request.split)
    plain = "-".join(
        re.sub(r"[^\w.]+", "-", SIGN.sub(lambda sign: SIGNS[sign[0]], word)).strip("-")
        for word in words
        if word
    )
    digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
    return plain if len(plain) <= 80 else f"{plain[:70]}-{digest}"
