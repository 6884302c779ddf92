"""FMoW as WILDS cuts it: satellite pictures of buildings and land in three periods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from builders.raw.album import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.records import by_name
from builders.raw.tables import file_named, table_in, unlisted
from builders.raw.tree import Tree
from builders.sample import Json
from shiftdata.data.metadata.listing import ORDER

METADATA, COUNTRIES = "rgb_metadata.csv", "country_code_mapping.csv"
COLUMNS = ("split", "country_code", "timestamp", "category")
#: The first year of each period; the first period has all years before the second.
PERIODS = {"2002-2012": 2002, "2013-2015": 2013, "2016-2017": 2016}
#: Of each period the lists of WILDS by the column `split`, in the order of RLSbench's code; "" has no name.
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "2002-2012": {"train": "train", "val": "id_val", "test": "id_test"},
    "2013-2015": {"train": "", "val": "val"},
    "2016-2017": {"train": "", "test": "test"},
}
SEQUESTERED = "seq"


@dataclass(frozen=True, kw_only=True)
class Fmow:
    """`rgb_metadata.csv`, and `rgb_img_<row>.png` for each of its rows, counted from 0, sequestered ones too.

    Sequestered rows are left out. `labels` are the categories. Of the rows of later periods WILDS has only
    some in lists; the others are there without.
    """

    code_version: ClassVar[int] = 1

    labels: tuple[str, ...]

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture with category and year; then what is missing, or not listed."""
        files = by_name(tree)
        metadata = file_named(tree, files, METADATA, "what pictures show, and when")
        regions = _regions(tree, file_named(tree, files, COUNTRIES, "the region of each country"))
        table = table_in(tree, metadata, COLUMNS)
        splits, countries, times, categories = (table[name].to_pylist() for name in COLUMNS)
        years = [_year(time) for time in times]
        lists = _lists(splits, [None if year is None else _period(year) for year in years])
        for number, (split, year, category) in enumerate(zip(splits, years, categories, strict=True)):
            name = f"rgb_img_{number}.png"
            if why := self._fault(split, times[number], year, category):
                yield Odd(file=files.get(name, name), why=why)
            elif name not in files:
                yield Odd(file=name, why=f"{METADATA} lists it, and it is not there")
            elif year is not None:
                country = countries[number]
                of = {LISTS: lists[number]} if number in lists else {}
                yield Row(
                    file=files[name],
                    label=category,
                    nuisance=_period(year),
                    more={"year": year, "region": regions.get(country, "Other"), "country": country, **of},
                )
        yield from unlisted(files, {f"rgb_img_{number}.png" for number in range(len(splits))}, METADATA)

    def _fault(self, split: str, time: str, year: int | None, category: str) -> str:
        if split == SEQUESTERED:
            return f"sequestered: WILDS leaves out rows of the split {SEQUESTERED}"
        if split not in SECTIONS["2002-2012"]:
            return f"its split is {split!r}, not train, val, test or {SEQUESTERED}"
        if year is None:
            return f"its timestamp {time!r} is not a time"
        return "" if category in self.labels else f"its category {category!r} is not one of the 62"


def _lists(splits: list[str], periods: list[str | None]) -> dict[int, dict[str, Json]]:
    """The lists of each row that WILDS has in one, or that RLSbench's code reads, and its places there."""
    order = {
        (period, split): number
        for number, (period, split) in enumerate(
            (period, split) for period, sections in SECTIONS.items() for split in sections
        )
    }
    rows = [(order[one], row) for row, one in enumerate(zip(periods, splits, strict=True)) if one in order]
    places, lists = Counter[str](), dict[int, dict[str, Json]]()
    for number, (_, row) in enumerate(sorted(rows)):
        lists[row] = {ORDER: number}
        if name := SECTIONS[periods[row] or ""][splits[row]]:
            lists[row][name] = places[name]
            places[name] += 1
    return lists


def _regions(tree: Tree, file: str) -> dict[str, str]:
    """The region of each country by its three letters, where it has one."""
    table = table_in(tree, file, ("alpha-3", "region"))
    codes, regions = (table[name].to_pylist() for name in ("alpha-3", "region"))
    return {code: region for code, region in zip(codes, regions, strict=True) if region}


def _year(time: str) -> int | None:
    """The year of a time, in UTC.

    >>> _year("2012-12-31T22:30:00-05:00"), _year("2009-02-14T09:04:33Z"), _year("soon")
    (2013, 2009, None)
    """
    try:
        when = datetime.fromisoformat(time)
    except ValueError:
        return None
    return (when if when.tzinfo is None else when.astimezone(UTC)).year


def _period(year: int) -> str:
    """The period of a year.

    >>> [_period(year) for year in (2002, 2012, 2013, 2015, 2016, 2018)]
    ['2002-2012', '2002-2012', '2013-2015', '2013-2015', '2016-2017', '2016-2017']
    """
    first, *later = PERIODS
    return next((name for name in reversed(later) if year >= PERIODS[name]), first)
