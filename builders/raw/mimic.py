"""MIMIC-IV: hospital stays as texts of codes, readmitted within 15 days or not, by year."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from operator import itemgetter
from typing import ClassVar, NamedTuple

import pyarrow as pa

from builders.raw.album import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.tables import matching, not_there, table_in
from builders.raw.tree import Tree
from builders.sample import BadItem
from shiftdata.data.metadata.listing import ORDER
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, rng

CODES = ("hadm_id", "seq_num", "icd_code", "icd_version")
#: Each table and its columns.
TABLES = {
    "patients": ("subject_id", "anchor_age", "anchor_year", "anchor_year_group"),
    "admissions": ("subject_id", "hadm_id", "admittime"),
    "diagnoses_icd": CODES,
    "procedures_icd": CODES,
}
#: A stay is readmitted if the next one of its patient begins at most so many whole days after it began.
DAYS = 15
AGES = range(18, 90)
DIGITS = 20
EPOCH = datetime(1970, 1, 1)
#: Diagnoses and procedures use the same codes for other things: a text has the former, and then the latter.
BETWEEN = "; "
#: A year that is known by a group of three, such as "2008 - 2010".
GROUP_YEARS = 3


class Stay(NamedTuple):
    """A stay in hospital: patient, when it began, its number, and its row among the admissions."""

    subject: str
    begin: datetime
    stay: str
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
        patients, texts = _patients(tree), tree.keep("texts", file, lambda: _texts(tree))
        salt = content_hash(
            *(f"{s.subject} {s.stay} {(s.begin - EPOCH) // timedelta.resolution}" for s in stays)
        )
        after = {
            stay: following.begin for stay, following in pairwise(stays) if stay.subject == following.subject
        }
        for number, stay in enumerate(stays):
            age, anchor, first = patients.get(stay.subject, (-1, 0, 0))
            draw = int(rng(0, "mimic", "year", stay.subject).integers(GROUP_YEARS))
            year = str(stay.begin.year - anchor + first + draw)
            if why := self._fault(
                age + stay.begin.year - anchor, year, stay, stay.subject in patients, texts
            ):
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
                stem=content_hash(salt, "stay", stay.stay)[:DIGITS],
                more={LISTS: {ORDER: number}},
            )

    def example(self, tree: Tree, file: str, part: int) -> str:
        """The codes of a stay."""
        if text := tree.keep("texts", file, lambda: _texts(tree)).get(part):
            return text
        raise BadItem("it has lost its codes")

    def _fault(self, age: int, year: str, stay: Stay, known: bool, texts: dict[int, str]) -> str:
        """Why a stay is left out."""
        if not known:
            return "its patient is not among the patients"
        if age not in AGES:
            return f"its patient is not {AGES[0]} to {AGES[-1]} years old"
        if year not in self.domains:
            return f"not in {self.domains[0]} to {self.domains[-1]}"
        return "" if stay.row in texts else "without diagnoses or without procedures"


def _tables(tree: Tree, name: str) -> tuple[str, pa.Table]:
    """The file of a table, and its columns; all four must be there."""
    files = {name: matching(tree, f"{name}.csv") for name in TABLES}
    if lacking := [f"{name}.csv" for name in TABLES if not files[name]]:
        raise InputError(not_there(tree, lacking, "patients, stays or their codes (.csv.gz will do)"))
    return files[name][0], table_in(tree, files[name][0], TABLES[name])


def _stays(tree: Tree) -> tuple[str, list[Stay]]:
    """The file of stays; stays by patient and time."""
    file, table = _tables(tree, "admissions")
    columns = (table[name].to_pylist() for name in TABLES["admissions"])
    try:
        stays = [
            Stay(subject, datetime.fromisoformat(begin), stay, row)
            for row, (subject, stay, begin) in enumerate(zip(*columns, strict=True))
        ]
    except ValueError as error:
        raise InputError(f"{file} in {tree.place} has an admittime that is not a time: {error}") from error
    return file, sorted(stays)


def _patients(tree: Tree) -> dict[str, tuple[int, int, int]]:
    """Of each patient age, year, and the first real year that this may be."""
    file, table = _tables(tree, "patients")
    columns = (table[name].to_pylist() for name in TABLES["patients"])
    try:
        return {
            subject: (int(age or -1), int(year or 0), int(group[:4]))
            for subject, age, year, group in zip(*columns, strict=True)
        }
    except ValueError as error:
        raise InputError(f"{file} in {tree.place} has an age or a year that is no number: {error}") from error


def _texts(tree: Tree) -> dict[int, str]:
    """The codes of each stay that has diagnoses and procedures, by its row."""
    diagnoses, procedures = _codes(tree, "diagnoses_icd"), _codes(tree, "procedures_icd")
    stays = _tables(tree, "admissions")[1]["hadm_id"].to_pylist()
    return {
        row: f"{diagnoses[stay]}{BETWEEN}{procedures[stay]}"
        for row, stay in enumerate(stays)
        if stay in diagnoses and stay in procedures
    }


def _codes(tree: Tree, name: str) -> dict[str, str]:
    """Of each stay its codes of three digits, in the order of their numbers."""
    file, table = _tables(tree, name)
    rows = zip(*(table[column].to_pylist() for column in CODES), strict=True)
    try:
        codes = sorted(
            (stay, int(number), f"ICD{of.strip()}_{code.strip()[:3]}") for stay, number, code, of in rows
        )
    except ValueError as error:
        raise InputError(f"{file} in {tree.place} has a seq_num that is no number: {error}") from error
    return {stay: " ".join(code for *_, code in group) for stay, group in groupby(codes, itemgetter(0))}
