"""The domains, the scenes of each, and the unique domains of each class."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from builders.shifts.contexts.common import (
    AUTUMN,
    DARK,
    DIM,
    GRASS,
    INDOOR,
    OUTDOOR,
    ROCK,
    SAND,
    WATER,
    WINTER,
)
from builders.shifts.contexts.scene import Make
from builders.shifts.contexts.unique import ACTIONS, ATTRIBUTES, BACKGROUNDS, CAMERAS, COMPANIES
from shiftdata.errors import not_found
from shiftdata.untrusted.texts import read_csv

TABLE = Path(__file__).with_name("unique.tsv")

#: The domains of every class, each a family of scenes.
COMMON: Mapping[str, tuple[Make, ...]] = {
    "autumn": AUTUMN,
    "dark": DARK,
    "dim": DIM,
    "grass": GRASS,
    "indoor": INDOOR,
    "outdoor": OUTDOOR,
    "rock": ROCK,
    "sand": SAND,
    "water": WATER,
    "winter": WINTER,
}

#: The domains of some classes, by kind; each is one scene that varies within itself.
KINDS: Mapping[str, tuple[Make, ...]] = {
    "attribute": ATTRIBUTES,
    "action": ACTIONS,
    "background": BACKGROUNDS,
    "camera": CAMERAS,
    "company": COMPANIES,
}

UNIQUE: Mapping[str, tuple[Make, ...]] = {make.__name__: (make,) for kind in KINDS.values() for make in kind}

#: Every domain in the order of its number: the common ones first.
DOMAINS: Mapping[str, tuple[Make, ...]] = {**COMMON, **dict(sorted(UNIQUE.items()))}


@cache
def unique_of(label: str) -> tuple[str, ...]:
    table = {row["label"]: row for row in read_csv(TABLE, delimiter="\t")}
    if label not in table:
        raise not_found("class with unique domains", label, table, "Add a row for it to unique.tsv.")
    return tuple(name for kind in KINDS for name in table[label][kind].split())
