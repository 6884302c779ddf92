"""The method card of a submission: what was done, as its authors say it, and for which tasks.

A card is data: JSON in the file, TOML in an editor. Every text is one line, and none is ever run.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any, Literal

from shiftdata.bench.selection import RULES
from shiftdata.data.format.names import PATH_PART, line_fault
from shiftdata.data.format.typed import read_json, record
from shiftdata.errors import InputError, not_found

#: Bytes of a card, and characters of each of its texts.
MOST_CARD, MOST_TEXT = 64_000, 1_000
#: What a rule of one's own begins with.
OTHER = "other: "
_HEX = re.compile("[0-9a-f]{64}")

TEMPLATE = Path(__file__).parents[1] / "templates" / "card.toml"


@dataclass(frozen=True, kw_only=True)
class TaskName:
    """How a task is made again: its protocol, and the set that methods saw without labels as well."""

    protocol: str
    unlabelled: str = ""


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a submission says of itself; `tasks` names each task by its hash."""

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
    saw_test: bool
    trials: int
    cost: str
    date: str
    leaks: bool
    hyper: Mapping[str, Any]
    claims: Mapping[str, Mapping[str, float]]
    dataset: str
    base: str
    content_id: str
    tasks: Mapping[str, TaskName]

    @property
    def oracle(self) -> bool:
        """Whether its selection saw the test, as its rule says."""
        return self.rule in RULES and RULES[self.rule].oracle

    def check(self) -> Card:
        """Refuse a card that cannot be shown in a line, or that contradicts itself."""
        self._check_texts()
        url = not self.url or re.fullmatch(r"https?://[^\s\"'<>\\]+", self.url)
        _check(url, f"the card's url is {self.url!r:.100}: give https://..., or leave it empty")
        _check(_is_date(self.date), f"the card's date is {self.date!r:.40}: give it as 2026-01-31")
        _check(self.trials >= 1, f"the card's trials are {self.trials}: give 1 or more that were tried")
        for name in ("dataset", "base"):
            text = getattr(self, name)
            _check(PATH_PART.fullmatch(text), f"the card's {name} is {text!r:.100}: give the name, no path")
        for text in (self.content_id, *self.tasks):
            _check(_HEX.fullmatch(text), f"{text!r:.100} is not a hash: `shiftdata submit` writes one")
        if self.rule not in RULES and not (self.rule.startswith(OTHER) and self.rule[len(OTHER) :].strip()):
            raise not_found("selection rule", self.rule, RULES, f"Or describe your own: {OTHER!r}...")
        oracles = ", ".join(name for name, rule in RULES.items() if rule.oracle)
        _check(
            self.oracle or not self.saw_test,
            f"the card says that its selection saw the test, and its rule is {self.rule!r}: give an oracle's "
            f"rule ({oracles}), and it goes on the board of oracles",
        )
        return self

    def _check_texts(self) -> None:
        texts = [(field.name, getattr(self, field.name)) for field in fields(self)]
        texts += [("authors", name) for name in self.authors]
        texts += [("hyper", f"{name}={value}") for name, value in self.hyper.items()]
        texts += [("claims", name) for of, figures in self.claims.items() for name in (of, *figures)]
        texts += [("tasks", text) for of in self.tasks.values() for text in (of.protocol, of.unlabelled)]
        for name, text in texts:
            if isinstance(text, str) and text:
                fault = line_fault(text)
                long = f"the card's {name} has {len(text):,} characters: give at most {MOST_TEXT:,}"
                _check(len(text) <= MOST_TEXT, long)
                _check(not fault, f"the card's {name} {fault}: give one line of text")
        for name in ("method", "backbone", "pretraining", "trained_on", "rule", "date"):
            _check(getattr(self, name), f"the card's {name} is empty: say it, or say none")


def _check(fine: object, message: str) -> None:
    if not fine:
        raise InputError(message)


def _is_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def read_card(text: str | bytes) -> Card:
    """The card of a submission's file."""
    _check(len(text) <= MOST_CARD, f"the card has {len(text):,} bytes: give at most {MOST_CARD:,}")
    try:
        return record(Card, read_json(text)).check()
    except InputError:
        raise
    except ValueError as error:
        hint = "`shiftdata submit --card-template` prints one with every field"
        raise InputError(f"the card cannot be read: {error}; {hint}") from error


def read_card_file(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a card that somebody wrote, as `--card-template` prints it, over known ones."""
    try:
        _check(path.stat().st_size <= MOST_CARD, f"{path} is larger than {MOST_CARD:,} bytes: it is no card")
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a card in TOML ({error}): see --card-template") from error
    return {"hyper": {}, "claims": {}, "leaks": False, "m": 3, "ties": "earliest"} | dict(known) | given


def template() -> str:
    """A card to fill in."""
    return TEMPLATE.read_text(encoding="utf-8").replace("{rules}", ", ".join(RULES))
