"""MIMIC-IV: hospital stays as texts of codes, readmitted within 15 days or not, by year."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from builders.raw.found import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.tables import file_at, not_there, table_in
from builders.raw.tree import Tree
from builders.sample import BadItem
from shiftdata.data.metadata.listing import ORDER
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, rng

TEXT, NUMBER, TIME = pa.string(), pa.int64(), pa.timestamp("us")
CODES = {"hadm_id": TEXT, "seq_num": NUMBER, "icd_version": TEXT, "icd_code": TEXT}
#: Each table, its columns and their types.
TABLES = {
    "patients": {"subject_id": TEXT, "anchor_age": NUMBER, "anchor_year": NUMBER, "anchor_year_group": TEXT},
    "admissions": {"subject_id": TEXT, "admittime": TIME, "hadm_id": TEXT},
    "diagnoses_icd": CODES,
    "procedures_icd": CODES,
}
#: A stay is readmitted if the next one of its patient begins at most so many whole days after it began.
DAYS = 15
AGES = range(18, 90)
DIGITS = 20
EPOCH, MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
#: Diagnoses and procedures use the same codes for other things: a text has the former, and then the latter.
BETWEEN = "; "
#: A year that is known by a group of three, such as "2008 - 2010".
GROUP_YEARS = 3


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
        _, table = _table(tree, "patients")
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        patients = {subject: facts for subject, *facts in rows}
        texts = _texts(tree)
        salt = content_hash(*(f"{s.subject} {s.number} {(s.begin - EPOCH) // MICROSECOND}" for s in stays))
        after = {stay: then.begin for stay, then in pairwise(stays) if stay.subject == then.subject}
        for place, stay in enumerate(stays):
            age, anchor, group = patients.get(stay.subject, (0, 0, ""))
            later = stay.begin.year - anchor
            draw = int(rng(0, "mimic", "year", stay.subject).integers(GROUP_YEARS))
            year = str(int(group[:4]) + draw + later) if group[:4].isdecimal() else group
            age += later
            faults = {
                "its patient is not among the patients": stay.subject not in patients,
                f"its patient is not {AGES[0]} to {AGES[-1]} years old": age not in AGES,
                f"not in {self.domains[0]} to {self.domains[-1]}": year not in self.domains,
                "without diagnoses or without procedures": stay.row not in texts,
            }
            if why := next((fault for fault, holds in faults.items() if holds), ""):
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


def _table(tree: Tree, name: str) -> tuple[str, pa.Table]:
    """The file of a table, and its columns; all four tables must be there."""
    files = {name: file_at(tree, f"{name}.csv") for name in TABLES}
    if lacking := [f"{name}.csv" for name in TABLES if not files[name]]:
        raise InputError(not_there(tree, lacking, "patients, stays or their codes (.csv.gz will do)"))
    file, schema = files[name], pa.schema(TABLES[name])
    try:
        return file, table_in(tree, file, schema.names).select(schema.names).cast(schema)
    except pa.ArrowInvalid as error:
        raise InputError(f"{file} in {tree.place} has a number or time that is none: {error}") from error


def _stays(tree: Tree) -> tuple[str, list[Stay]]:
    """The file of stays; stays by patient and time."""
    file, table = _table(tree, "admissions")
    return file, sorted(map(Stay, *(column.to_pylist() for column in table.columns), range(len(table))))


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
    _, table = _table(tree, name)
    version, code = (pc.utf8_trim_whitespace(table[column]) for column in ("icd_version", "icd_code"))
    named = pc.binary_join_element_wise("ICD", version, "_", pc.utf8_slice_codeunits(code, 0, 3), "")
    table = table.append_column("codes", named)
    table = table.sort_by([(column, "ascending") for column in ("hadm_id", "seq_num", "codes")])
    stays = table.group_by("hadm_id", use_threads=False).aggregate([("codes", "list")])
    texts = pc.binary_join(stays["codes_list"], " ")
    return dict(zip(stays["hadm_id"].to_pylist(), texts.to_pylist(), strict=True))
