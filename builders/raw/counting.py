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
    """A count that is not as a source says; `at_most` where the source gives a range."""

    where: str
    count: int
    least: int
    at_most: int

    @property
    def size(self) -> int:
        return max(self.least - self.count, self.count - self.at_most)

    def text(self, noun: Sequence[str] = NOUN) -> str:
        """Describe it; `noun` is what an example is called, and several."""
        wanted = f"{self.least:,}" if self.least == self.at_most else f"{self.least:,} to {self.at_most:,}"
        hint = "; twice as many: is it there two times?" if self.count == 2 * self.least > 0 else ""
        count = f"{self.count:,} {noun[self.count > 1]}" if self.count else f"no {noun[0]}"
        return f"{self.where}: {count}, and {wanted} expected{hint}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A part of a release ("" is the whole) against the source that is nearest to it."""

    base: str
    total: int
    wanted: int | None
    expected: str
    differences: Sequence[Difference]


def compare(counted: Mapping[str, Numbers], known: Sequence[Counts]) -> list[Comparison]:
    """Compare each part of a release that is there with the sources that count it."""
    comparable = [counts for counts in known if counts.base in counted]
    return [
        _nearest(base, counted[base], [counts for counts in comparable if counts.base == base])
        for base in sorted({counts.base for counts in comparable})
    ]


def _nearest(base: str, numbers: Numbers, known: Sequence[Counts]) -> Comparison:
    by_source = [list(_differences(numbers, counts)) for counts in known]
    best = min(range(len(known)), key=lambda number: sum(each.size for each in by_source[number]))
    others = (f"; {counts.all:,} by {counts}" for counts in known if counts is not known[best] and counts.all)
    return Comparison(
        base=base,
        total=sum(numbers.values()),
        wanted=known[best].all,
        expected=f"{known[best].all:,} by {known[best]}{''.join(others)}",
        differences=sorted(by_source[best], key=lambda each: "/" in each.where),  # domains before classes
    )


def _differences(counted: Numbers, known: Counts) -> Iterator[Difference]:
    """Compare counts; of the classes of a missing domain nothing is said."""
    counts, domains = Counter[tuple[str, str]](), Counter[str]()
    for (domain, label), count in counted.items():
        counts[_plain(domain), _plain(label)] += count
        domains[_plain(domain)] += count
    content, total = domains[CONTENT], sum(domains.values())
    stylized = total - content
    pairs = [
        ("all", total, known.total),
        ("content", content, known.content),
        ("stylized", stylized, known.stylized),
    ]
    for domain, wanted in known.domains.items():
        there = domains[_plain(domain)]
        pairs.append((domain, there, wanted))
        groups = known.groups.get(domain, {}) if there else {}
        pairs += [
            (f"{domain}/{label}", counts[_plain(domain), _plain(label)], n) for label, n in groups.items()
        ]
    for where, count, exact in pairs:
        if exact is not None and count != exact:
            yield Difference(where=where, count=count, least=exact, at_most=exact)
    for (domain, label), count in sorted(counted.items()):
        if known.each and not known.each[0] <= count <= known.each[1]:
            least, at_most = known.each
            yield Difference(where=f"{domain}/{label}", count=count, least=least, at_most=at_most)


def _plain(name: str) -> str:
    """A name as every spelling of it has it.

    >>> _plain("Real World"), _plain("real_world")
    ('realworld', 'realworld')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower()) or name
