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
from shiftdata.errors import InputError, not_found
from shiftdata.format.names import PATH_PART, line_fault
from shiftdata.format.typed import read_json, record

#: Bytes of a card, and signs of each of its texts.
MOST_CARD, MOST_TEXT = 64_000, 1_000
#: What a rule of one's own begins with.
OTHER = "other: "
_HEX = re.compile("[0-9a-f]{64}")

TEMPLATE = """\
# The method card. Every field is needed; "" where there is nothing to say.
method = "my-method"            # what the leaderboard calls it
authors = ["A. Author"]
url = ""                        # a paper or a page: https://...
code = ""                       # where the code is, and which commit
code_license = ""               # such as MIT
backbone = "small-cnn"
pretraining = "none"            # such as "supervised, ImageNet-1k"
trained_on = "the task's training set"    # all data with labels, and all without
rule = "iid-worst"              # selection: {rules},
                                # or "other: ..." with a description
m = 3                           # of iid-worst-m
ties = "earliest"               # who wins among equals: earliest or latest
saw_test = false                # whether labels of the test chose anything: then the rule is an oracle
trials = 1                      # settings that were tried
cost = ""                       # such as "20 minutes on 2 cores"
date = "2026-01-31"
leaks = false                   # true for a task whose variant leaks, as its paper does

[hyper]                         # of the chosen model
# learning_rate = 0.01

[claims]                        # optional: what you expect, compared with what is computed
# "group-fairness k=8 mu=0.05" = {{ worst = 0.71 }}
"""


@dataclass(frozen=True, kw_only=True)
class TaskName:
    """How a task is made again: its protocol, and the set that methods saw without labels besides."""

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
        if self.url and not re.fullmatch(r"https?://[^\s\"'<>\\]+", self.url):
            raise InputError(f"the card's url is {self.url!r:.100}: give https://..., or leave it empty")
        try:
            date.fromisoformat(self.date)
        except ValueError:
            raise InputError(f"the card's date is {self.date!r:.40}: give it as 2026-01-31") from None
        if self.trials < 1:
            raise InputError(
                f"the card's trials are {self.trials}: give how many settings were tried, 1 or more"
            )
        if not (PATH_PART.fullmatch(self.dataset) and PATH_PART.fullmatch(self.base)):
            raise InputError(
                f"the card's dataset is {self.dataset!r:.100}, base {self.base!r:.100}: give their names, no "
                "path"
            )
        for one in (self.content_id, *self.tasks):
            if not _HEX.fullmatch(one):
                raise InputError(
                    f"{one!r:.100} is not a hash of 64 digits: write the file with `shiftdata submit`"
                )
        self._check_rule()
        return self

    def _check_texts(self) -> None:
        for name, text in self._texts():
            if len(text) > MOST_TEXT:
                raise InputError(f"the card's {name} has {len(text):,} signs: give at most {MOST_TEXT:,}")
            if text and (fault := line_fault(text)):
                raise InputError(f"the card's {name} {fault}: give one line of text")
        for name in ("method", "backbone", "pretraining", "trained_on", "rule", "date"):
            if not getattr(self, name).strip():
                raise InputError(f"the card's {name} is empty: say it, or say none")

    def _check_rule(self) -> None:
        if self.rule not in RULES and not (self.rule.startswith(OTHER) and self.rule[len(OTHER) :].strip()):
            raise not_found("selection rule", self.rule, RULES, f"Or describe your own: {OTHER!r}...")
        if self.saw_test and not self.oracle:
            oracles = ", ".join(name for name, one in RULES.items() if one.oracle)
            raise InputError(
                f"the card says that its selection saw the test, and its rule is {self.rule!r}: give an "
                f"oracle's rule ({oracles}), and it goes on the board of oracles"
            )

    def _texts(self) -> list[tuple[str, str]]:
        texts = [(one.name, getattr(self, one.name)) for one in fields(self)]
        texts += [("authors", one) for one in self.authors]
        texts += [("hyper", f"{name}={value}") for name, value in self.hyper.items()]
        texts += [("claims", name) for of, figures in self.claims.items() for name in (of, *figures)]
        texts += [("tasks", text) for one in self.tasks.values() for text in (one.protocol, one.unlabelled)]
        return [(name, text) for name, text in texts if isinstance(text, str)]


def read_card(text: str | bytes) -> Card:
    """The card of a submission's file."""
    if len(text) > MOST_CARD:
        raise InputError(f"the card has {len(text):,} bytes: give at most {MOST_CARD:,}")
    try:
        return record(Card, read_json(text)).check()
    except (ValueError, UnicodeDecodeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the card cannot be read: {error}; `shiftdata submit --card-template` prints one with every "
            "field"
        ) from error


def read_card_file(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a card that somebody wrote, as `--card-template` prints it, over known ones."""
    try:
        if path.stat().st_size > MOST_CARD:
            raise InputError(f"{path} is larger than {MOST_CARD:,} bytes: it is not a card")
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a card in TOML ({error}): see --card-template") from error
    own = {one.name for one in fields(Card)} - {"dataset", "base", "content_id", "tasks"}
    given = {"hyper": {}, "claims": {}, "leaks": False, "m": 3, "ties": "earliest"} | dict(known) | raw
    for name in given:
        if name not in own:
            raise not_found("field of a card", name, own)
    if missing := sorted(own - set(given)):
        raise InputError(f"{path} lacks {', '.join(missing)}: see --card-template")
    return given


def template() -> str:
    """A card to fill in."""
    return TEMPLATE.format(rules=", ".join(RULES))
