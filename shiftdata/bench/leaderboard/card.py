"""The method card of a submission: its authors' statement of the method, and the tasks it is for.

A card is data: JSON in the file, TOML in an editor. Every text is one line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from shiftdata.bench.selection import RULES
from shiftdata.data.format.names import PATH_PART, line_fault
from shiftdata.data.format.typed import read_json, record
from shiftdata.errors import InputError, not_found

#: Limits: bytes of a card, characters of a text.
MOST_CARD, MOST_TEXT = 64_000, 1_000
#: The prefix of a selection rule of your own.
OTHER = "other: "
_HEX = re.compile("[0-9a-f]{64}")

TEMPLATE = Path(__file__).parents[1] / "templates" / "card.toml"


@dataclass(frozen=True, kw_only=True)
class TaskName:
    """The protocol of a task, and the set that methods also saw without labels."""

    protocol: str
    unlabelled: str = ""


@dataclass(frozen=True, kw_only=True)
class Card:
    """The fields of a method card; `tasks` names each task by its hash."""

    method: str
    authors: Sequence[str]
    url: str
    code: str
    code_license: str
    backbone: str
    pretraining: str
    trained_on: str
    rule: str
    m: int
    ties: Literal["earliest", "latest"]
    trials: int
    cost: str
    date: str
    leaks: bool
    hyper: Mapping[str, Any]
    dataset: str
    base: str
    content_id: str
    tasks: Mapping[str, TaskName]

    @property
    def oracle(self) -> bool:
        """True if its rule selects by the test set."""
        return self.rule in RULES and RULES[self.rule].oracle

    def check(self) -> Card:
        """Refuse a card that cannot be shown on a page or read again."""
        for text in _texts(asdict(self)):
            fault = line_fault(text)
            if len(text) > MOST_TEXT:
                fault = f"has {len(text):,} characters, more than {MOST_TEXT:,}"
            _check(not fault, f"the card's text {text!a:.40} {fault}: give one line of text")
        for name in ("method", "backbone", "pretraining", "trained_on", "rule"):
            _check(getattr(self, name).strip(), f"the card's {name} is empty: give it, or none")
        url = not self.url or re.fullmatch(r"https?://[^\s\"'<>\\]+", self.url)
        _check(url, f"the card's url is {self.url!r:.100}: give https://..., or leave it empty")
        date_ok = re.fullmatch(r"\d{4}-\d\d-\d\d", self.date)
        _check(date_ok, f"the card's date is {self.date!r:.40}: give it as 2026-01-31")
        _check(self.trials >= 1, f"the card's trials are {self.trials}: give 1 or more that were tried")
        for name in ("dataset", "base"):
            text = getattr(self, name)
            _check(PATH_PART.fullmatch(text), f"the card's {name} is {text!r:.100}: give the name, no path")
        for text in (self.content_id, *self.tasks):
            _check(_HEX.fullmatch(text), f"{text!r:.100} is not a hash: `shiftdata submit` writes one")
        if self.rule not in RULES and not (self.rule.startswith(OTHER) and self.rule[len(OTHER) :].strip()):
            raise not_found("selection rule", self.rule, RULES, f"Or describe your own: {OTHER!r}...")
        return self


def _texts(value: Any) -> Iterator[str]:
    """Every non-empty text in a card, keys included."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str) and value:
        yield value


def _check(valid: object, message: str) -> None:
    if not valid:
        raise InputError(message)


def read_card(text: str | bytes) -> Card:
    """Read the card in a submission's file."""
    _check(len(text) <= MOST_CARD, f"the card has {len(text):,} bytes: give at most {MOST_CARD:,}")
    try:
        return record(Card, read_json(text)).check()
    except InputError:
        raise
    except ValueError as error:
        hint = "`shiftdata submit --card-template` prints one with every field"
        raise InputError(f"the card cannot be read: {error}; {hint}") from error


def read_card_file(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a card in TOML, over known ones."""
    try:
        _check(path.stat().st_size <= MOST_CARD, f"{path} is larger than {MOST_CARD:,} bytes: it is no card")
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a card in TOML ({error}): see --card-template") from error
    return {"hyper": {}, "leaks": False, "m": 3, "ties": "earliest"} | dict(known) | given


def template() -> str:
    """Return a card to fill in."""
    return TEMPLATE.read_text(encoding="utf-8").replace("{rules}", ", ".join(RULES))
