"""MIMIC-IV: hospital stays as texts of codes, readmitted within 15 days or not, by year."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count, groupby, pairwise
from operator import itemgetter
from sys import intern
from typing import ClassVar, NamedTuple, TypeVar

from builders.raw.album import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.tables import matching, not_there, table_in
from builders.raw.tree import Tree
from builders.sample import BadItem
from shiftdata.data.metadata.listing import ORDER
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, rng

CODES = ("hadm_id", "seq_num", "icd_version", "icd_code")
#: Each table and its columns.
TABLES = {
    "patients": ("subject_id", "anchor_age", "anchor_year", "anchor_year_group"),
    "admissions": ("subject_id", "admittime", "hadm_id"),
    "diagnoses_icd": CODES,
    "procedures_icd": CODES,
}
#: A stay is readmitted if the next one of its patient begins at most so many whole days after it began.
DAYS = 15
AGES = range(18, 90)
DIGITS = 20
ROWS = 10_000  # that are Python objects at a time: there are millions of codes
EPOCH, MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
#: Diagnoses and procedures use the same codes for other things: a text has the former, and then the latter.
BETWEEN = "; "
#: A year that is known by a group of three, such as "2008 - 2010".
GROUP_YEARS = 3

T = TypeVar("T")


class Stay(NamedTuple):
    """A stay in hospital, and its row among the admissions."""

    subject: str
    begin: datetime
    number: str
    row: int


@dataclass(frozen=True, kw_only=True)
class MimicReadmission:
    """The four tables of a user's own copy, as .csv or .csv.gz, in `hosp/`, `core/` or anywhere.

    `labels` are those of stays without and with a readmission, `domains` years. The year of a stay is that
    of its admission in the files, moved by the patient's offset: their anchor year is one of three, which of
    them is drawn by name. Neither keys nor origins nor parameters have a number of the files: they are hashes
    whose salt is a hash of all stays.
    """

    code_version: ClassVar[int] = 1

    labels: Sequence[str]
    domains: Sequence[str]

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every stay of an adult that has diagnoses and procedures; the others, by their row, and why."""
        file, stays = _stays(tree)
        patients, texts = dict(_read(tree, "patients", _patient)[1]), _texts(tree)
        salt = content_hash(*(f"{s.subject} {s.number} {(s.begin - EPOCH) // MICROSECOND}" for s in stays))
        after = {stay: then.begin for stay, then in pairwise(stays) if stay.subject == then.subject}
        for place, stay in enumerate(stays):
            age, anchor, first = patients.get(stay.subject, (-1, 0, 0))
            draw = int(rng(0, "mimic", "year", stay.subject).integers(GROUP_YEARS))
            year = str(stay.begin.year - anchor + first + draw)
            age += stay.begin.year - anchor
            if why := self._fault(stay, year, age, stay.subject in patients, texts):
                yield Odd(file=f"{file}, row {stay.row}", why=why)
                continue
            again = stay in after and after[stay] - stay.begin < timedelta(days=DAYS + 1)
            yield Row(
                file=file,
                part=stay.row,
                label=self.labels[again],
                nuisance=year,
                origin=content_hash(salt, "patient", stay.subject)[:DIGITS],
                across=True,
                stem=content_hash(salt, "stay", stay.number)[:DIGITS],
                more={LISTS: {ORDER: place}},
            )

    def example(self, tree: Tree, file: str, part: int) -> str:
        """The codes of a stay."""
        if text := _texts(tree).get(part):
            return text
        raise BadItem("it has lost its codes")

    def _fault(self, stay: Stay, year: str, age: int, known: bool, texts: Mapping[int, str]) -> str:
        """Why a stay is left out."""
        if not known:
            return "its patient is not among the patients"
        if age not in AGES:
            return f"its patient is not {AGES[0]} to {AGES[-1]} years old"
        if year not in self.domains:
            return f"not in {self.domains[0]} to {self.domains[-1]}"
        return "" if stay.row in texts else "without diagnoses or without procedures"


def _read(tree: Tree, name: str, parse: Callable[..., T]) -> tuple[str, list[T]]:
    """The file of a table, and its rows; all four tables must be there."""
    files = {name: matching(tree, f"{name}.csv") for name in TABLES}
    if lacking := [f"{name}.csv" for name in TABLES if not files[name]]:
        raise InputError(not_there(tree, lacking, "patients, stays or their codes (.csv.gz will do)"))
    batches = table_in(tree, files[name][0], TABLES[name]).select(TABLES[name]).to_batches(ROWS)
    try:
        return files[name][0], [
            parse(*row)
            for batch in batches
            for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
        ]
    except ValueError as error:
        raise InputError(
            f"{files[name][0]} in {tree.place} has a number or time that is none: {error}"
        ) from error


def _patient(subject: str, age: str, year: str, group: str) -> tuple[str, tuple[int, int, int]]:
    """A patient with age, year, and the first real year that this may be."""
    return subject, (int(age or -1), int(year or 0), int(group[:4]))


def _stays(tree: Tree) -> tuple[str, list[Stay]]:
    """The file of stays; stays by patient and time."""
    rows = count()
    file, stays = _read(
        tree,
        "admissions",
        lambda who, begin, stay: Stay(who, datetime.fromisoformat(begin), stay, next(rows)),
    )
    return file, sorted(stays)


def _texts(tree: Tree) -> Mapping[int, str]:
    """The codes of each stay that has diagnoses and procedures, by its row."""

    def read() -> dict[int, str]:
        diagnoses, procedures = (_codes(tree, name) for name in ("diagnoses_icd", "procedures_icd"))
        return {
            stay.row: f"{diagnoses[stay.number]}{BETWEEN}{procedures[stay.number]}"
            for stay in _stays(tree)[1]
            if stay.number in diagnoses and stay.number in procedures
        }

    return tree.keep("texts", "", read)


def _codes(tree: Tree, name: str) -> dict[str, str]:
    """Of each stay its codes of three digits, in the order of their numbers."""
    _, codes = _read(
        tree,
        name,
        lambda stay, at, version, code: (stay, int(at), intern(f"ICD{version.strip()}_{code.strip()[:3]}")),
    )
    return {stay: " ".join(code for *_, code in of) for stay, of in groupby(sorted(codes), itemgetter(0))}
