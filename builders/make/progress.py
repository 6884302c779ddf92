"""The progress of a build, and the signs of life that each process leaves in the spool."""

from __future__ import annotations

import json
import os
import platform
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from threading import Event, Thread
from typing import Any

from tqdm import tqdm

from builders.spool import Spool
from shiftdata.data.executors import Rank
from shiftdata.progress import in_notebook, progress
from shiftdata.untrusted.texts import read_json

FOLDER = "progress"
#: Seconds between two signs of life, and until a process without one counts as lost: NFS shows them late.
BEAT, LOST = 5.0, 90.0
#: Seconds between two states of a bar that nobody watches, as in a log.
IN_LOG = 30.0


@dataclass(kw_only=True)
class Status:
    """The last sign of life of a process that takes part in a build."""

    token: str = field(default_factory=lambda: secrets.token_hex(4))
    rank: int
    world: int
    recipe_id: str
    bases: Sequence[str]
    #: What must be the same for all who fill a spool.
    node: dict[str, str] = field(default_factory=dict)
    host: str = field(default_factory=platform.node)
    pid: int = field(default_factory=os.getpid)
    seen: float = 0.0
    ended: bool = False

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world} ({self.host}, process {self.pid})"

    @property
    def is_at_work(self) -> bool:
        """False for a process that ended, whether it left word or not."""
        return not self.ended and time.time() - self.seen <= LOST


def statuses(spool: Spool) -> list[Status]:
    """Return the last status of each process that has worked on a spool."""
    names, read = {entry.name for entry in fields(Status)}, []
    for name in sorted(spool.files.listed(FOLDER)):
        with suppress(OSError, ValueError, TypeError):  # it may be removed just now
            raw = read_json(spool.files.start(name))
            read.append(Status(**{key: value for key, value in raw.items() if key in names}))
    return read


class Reporter:
    """Shows the progress in a bar, and leaves signs of life where other processes see them."""

    def __init__(
        self, spool: Spool, rank: Rank, recipe_id: str, bases: Sequence[str], *, quiet: bool
    ) -> None:
        self.spool, self.quiet = spool, quiet
        self.status = Status(rank=rank.number, world=rank.world, recipe_id=recipe_id, bases=list(bases))
        self._bar: tqdm[Any] = progress("", None, "", quiet=True)
        self._end = Event()
        self._thread = Thread(target=self._beat_on, daemon=True)

    def __enter__(self) -> Reporter:
        self._beat()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(BEAT)
        self.status.ended = True
        self._beat()

    @contextmanager
    def phase(self, name: str, total: int | None, unit: str) -> Iterator[None]:
        """Show a phase, and count what is made in it."""
        rank, world = self.status.rank, self.status.world
        title = f"{name} ({rank} of {world})" if world > 1 else name
        interval = 0.1 if sys.stderr.isatty() or in_notebook() else IN_LOG
        options: dict[str, Any] = {
            "disable": self.quiet,
            "unit_scale": False,
            "smoothing": 0.05,
            "mininterval": interval,
        }
        with progress(title, total, unit, **options) as self._bar:
            yield

    def made(self, count: int | bool) -> None:
        """Count what this process made."""
        self._bar.update(count)

    def listed(self, done: int) -> None:
        """Show what all processes have made so far, by a listing of now."""
        self._bar.update(max(0, done - self._bar.n))

    def _beat_on(self) -> None:
        while not self._end.wait(BEAT):
            self._beat()

    def _beat(self) -> None:
        """Give a sign of life; no trouble with it ends a build."""
        status = self.status
        status.seen = time.time()
        with suppress(OSError):
            if self.spool.is_open():
                self.spool.files.write(f"{FOLDER}/{status.token}.json", json.dumps(asdict(status)).encode())
