"""What people are asked about pictures, and the labels they can give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shiftdata.errors import InputError


@dataclass(frozen=True)
class Answer:
    """A label, the letter that sets it (so does its number), and what it means."""

    label: str
    letter: str
    about: str


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """What labels are for. `ordered`: they go from best to worst, so that some differ by more than others.

    `pairs`: a label is about two pictures.
    """

    name: str
    question: str
    answers: tuple[Answer, ...]
    ordered: bool = False
    pairs: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(one.label for one in self.answers)


FILTER = Purpose(
    name="filter",
    question="Does the picture still show its class?",
    answers=(
        Answer("keep", "k", "it shows its class"),
        Answer("partly", "p", "a part of it, or hard to see"),
        Answer("drop", "d", "it shows something else, or nothing"),
    ),
    ordered=True,
)
STYLES = Purpose(
    name="styles",
    question="Can everything that is painted in this style be recognised?",
    answers=(Answer("good", "g", "all of it"), Answer("bad", "b", "some of it cannot")),
)
DUPLICATES = Purpose(
    name="duplicates",
    question="Are these the same picture?",
    answers=(
        Answer("same", "s", "one is a copy of the other"),
        Answer("different", "d", "alike at most"),
    ),
    pairs=True,
)
PURPOSES = {one.name: one for one in (FILTER, STYLES, DUPLICATES)}


def purpose_of(labels: Iterable[str], where: str) -> Purpose:
    """The purpose that some labels are for."""
    given = set(labels)
    for one in PURPOSES.values():
        if given and given <= {*one.labels}:
            return one
    known = "; ".join(f"{name}: {', '.join(one.labels)}" for name, one in PURPOSES.items())
    listed = ", ".join(map(repr, sorted(given)[:5])) or "nothing"
    raise InputError(f"{where} has the labels {listed:.200}, which are not those of one purpose ({known})")
