"""Compare how many examples a raw dataset has with what papers, lists and code say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from builders.raw.sources import CONTENT, NOUN, Counts

#: Examples by domain and class.
Numbers: TypeAlias = Mapping[tuple[str, str], int]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A number that is not as a source says; `at_most` where the source gives a range."""

    what: str
    found: int
    least: int
    at_most: int

    @property
    def size(self) -> int:
        return max(self.least - self.found, self.found - self.at_most)

    def text(self, noun: Sequence[str]) -> str:
        """It in words; `noun` is what an example is called, and several."""
        wanted = f"{self.least:,}" if self.least == self.at_most else f"{self.least:,} to {self.at_most:,}"
        hint = ""
        if self.least and self.found == 2 * self.least:
            hint = "; twice as many: is it there two times?"
        found = f"{self.found:,} {noun[self.found > 1]}" if self.found else f"no {noun[0]}"
        return f"{self.what}: {found}, and {wanted} expected{hint}"


def compare(
    counted: Mapping[str, Numbers], known: Sequence[Counts], noun: Sequence[str] = NOUN
) -> tuple[list[str], list[str]]:
    """What the nearest source says of each part of a release that is there, and how counts differ from it.

    `counted` are examples by domain and class, of each part; "" is the whole. `noun` is what one is called,
    and several.
    """
    expected, lines = [], []
    for base in sorted({one.base for one in known if not one.about and one.base in counted}):
        comparable = [one for one in known if not one.about and one.base == base]
        differences = {
            number: list(_differences(counted[base], one)) for number, one in enumerate(comparable)
        }
        best = min(differences, key=lambda number: sum(one.size for one in differences[number]))
        nearest = comparable[best]
        others = "".join(f"; {one.all:,} by {one}" for one in comparable if one is not nearest and one.all)
        expected.append(f"{nearest.all:,} by {nearest}{others}")
        part = f"{base}: " if base else ""
        ordered = sorted(differences[best], key=lambda one: "/" in one.what)  # domains before classes
        lines += [f"{part}{one.text(noun)}" for one in ordered]
    return expected, lines


def _differences(counted: Numbers, known: Counts) -> Iterator[Difference]:
    """Where counts differ, the domain before its classes; of a missing domain nothing more is said."""
    counts, domains = Counter[tuple[str, str]](), Counter[str]()
    for (domain, label), count in counted.items():
        counts[_plain(domain), _plain(label)] += count
        domains[_plain(domain)] += count
    content, total = domains[CONTENT], sum(domains.values())
    yield from _one("all", total, known.total)
    yield from _one("content", content, known.content)
    yield from _one("stylized", total - content, known.stylized)
    for domain, wanted in known.domains.items():
        classes = {label: counts[_plain(domain), _plain(label)] for label in known.groups.get(domain, ())}
        yield from _one(domain, domains[_plain(domain)], wanted)
        for label, count in classes.items() if domains[_plain(domain)] else ():
            yield from _one(f"{domain}/{label}", count, known.groups[domain][label])
    ranges = {_plain(name): both for name, both in known.ranges.items()}
    for (domain, label), count in sorted(counted.items()):
        both = ranges.get(_plain(domain)) or known.each
        if both and not both[0] <= count <= both[1]:
            yield Difference(what=f"{domain}/{label}", found=count, least=both[0], at_most=both[1])


def _one(what: str, found: int, wanted: int | None) -> Iterator[Difference]:
    if wanted is not None and found != wanted:
        yield Difference(what=what, found=found, least=wanted, at_most=wanted)


def _plain(name: str) -> str:
    """A name as every spelling of it has it.

    >>> _plain("Real World"), _plain("real_world")
    ('realworld', 'realworld')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower()) or name
