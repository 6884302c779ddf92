"""Persons of the American Community Survey (ACS PUMS), as the Census gives their files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from builders.raw.album import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.tables import numbers, table_in
from builders.raw.tree import Tree
from builders.sample import BadItem
from shiftdata.data.metadata.listing import ORDER

#: The numbers (FIPS) of the states by their letters.
STATES = {"AR": "05", "MD": "24", "MA": "25", "NJ": "34", "SD": "46", "PR": "72"}
#: From this year on files are named by the number of the state, and the year stands in a folder alone.
BY_NUMBER = 2017
FILE = re.compile(r"ss(?P<year>\d\d)p(?P<state>[a-z]{2})\.csv|psam_p(?P<number>\d\d)\.csv", re.IGNORECASE)
YEAR = re.compile(r"(?:19|20)\d\d")
FIVE_YEARS = re.compile(r"5[ _-]?years?", re.IGNORECASE)
INCOME = "PINCP"
RICH = 50_000
#: Whom ACSIncome keeps: column, least value, and how papers write it.
FILTERS = (
    ("AGEP", 17, "AGEP > 16"),
    (INCOME, 101, "PINCP > 100"),
    ("WKHP", 1, "WKHP > 0"),
    ("PWGTP", 1, "PWGTP >= 1"),
)

#: A year and a state.
Survey: TypeAlias = tuple[int, str]


@dataclass(frozen=True, kw_only=True)
class AcsIncome:
    """Files of persons, `{year}/1-Year/ss{yy}p{state}.csv` to 2016 and `psam_p{number}.csv` from 2017.

    `domains` gives each its year and states. `features` are columns, whose codes stay numbers. `labels` are
    those of an income up to 50,000 dollars, and above. Persons whom ACSIncome does not keep are left out.
    """

    code_version: ClassVar[int] = 1

    domains: Mapping[str, tuple[int, Sequence[str]]]
    features: Sequence[str]
    labels: tuple[str, str]

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every person, in the order of RLSbench's code; whom the filters leave out, and missing files."""
        files = dict[Survey, str]()
        for file in tree.files:
            survey = _survey(file)
            if isinstance(survey, Odd):
                yield survey
            elif survey and survey in files:
                yield Odd(file=file, why=f"a second file of this year and state, beside {files[survey]}")
            elif survey:
                files[survey] = file
        for domain, (year, states) in self.domains.items():
            number = 0
            for state in states:
                if (year, state) not in files:
                    yield Odd(
                        file=file_of(year, state), why=f"missing: the tree has no file of {state} in {year}"
                    )
                    continue
                for found in self._persons(tree, files[year, state], domain, number):
                    number += isinstance(found, Row)
                    yield found

    def _persons(self, tree: Tree, file: str, domain: str, number: int) -> Iterator[Found]:
        """Those of a file whom the filters keep, counted from `number`; how many each filter leaves out."""
        table = self._table(tree, file)
        left = np.ones(len(table), bool)
        for column, least, said in FILTERS:
            keeps = table[:, self._columns.index(column)] >= least  # what is not known is not
            if count := int((left & ~keeps).sum()):
                yield Odd(file=f"{file}, {said}: {count:,} persons", why="left out by a filter of ACSIncome")
            left &= keeps
        rich = table[:, self._columns.index(INCOME)] > RICH
        for place, part in enumerate(np.flatnonzero(left).tolist(), number):
            label = self.labels[int(rich[part])]
            yield Row(file=file, part=part, label=label, nuisance=domain, more={LISTS: {ORDER: place}})

    def example(self, tree: Tree, file: str, part: int) -> dict[str, int | None]:
        """The features of a person; None where one is not known."""
        table = self._table(tree, file)
        if part >= len(table):
            raise BadItem("the file has become shorter")
        cells = zip(self.features, table[part].tolist(), strict=False)  # the columns of filters come last
        return {name: None if math.isnan(cell) else int(cell) for name, cell in cells}

    @cached_property
    def _columns(self) -> list[str]:
        return list(dict.fromkeys([*self.features, *(column for column, *_ in FILTERS)]))

    def _table(self, tree: Tree, file: str) -> NDArray[np.float64]:
        """The columns of a file, NaN where a cell is blank."""

        def read() -> NDArray[np.float64]:
            cells = table_in(tree, file, self._columns)
            columns = [numbers(tree, file, cells, name, whole=True).to_numpy() for name in self._columns]
            return np.column_stack(columns)

        return tree.keep("persons", file, read)


def file_of(year: int, state: str) -> str:
    """Where the Census has the file of a year and state.

    >>> file_of(2014, "MD"), file_of(2017, "MD")
    ('2014/1-Year/ss14pmd.csv', '2017/1-Year/psam_p24.csv')
    """
    name = f"psam_p{STATES[state]}" if year >= BY_NUMBER else f"ss{year % 100}p{state.lower()}"
    return f"{year}/1-Year/{name}.csv"


def _survey(file: str) -> Survey | Odd | None:
    """The year and state of a file of persons; None for other files and other states."""
    *folders, name = PurePosixPath(file).parts
    if (one := FILE.fullmatch(name)) is None:
        return None
    by_number = {number: state for state, number in STATES.items()}
    state = by_number.get(one["number"], "") if one["number"] else one["state"].upper()
    if state not in STATES:
        return None
    if any(FIVE_YEARS.fullmatch(folder) for folder in folders):
        return Odd(file=file, why="of five years together, and the recipe is of single years")
    if one["year"]:
        return 2000 + int(one["year"]), state
    years = [int(folder) for folder in folders if YEAR.fullmatch(folder)]
    if not years:
        why = "its year is not known: put it into a folder of its year, such as 2017/1-Year"
        return Odd(file=file, why=why)
    return years[-1], state
