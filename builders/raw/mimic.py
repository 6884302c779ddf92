"""MIMIC-IV: hospital stays as texts of codes, readmitted within 15 days or not, by year."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.raw.album import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.records import by_name
from builders.raw.tables import file_named, numbers, table_in
from builders.raw.tree import Tree
from builders.sample import BadItem
from shiftdata.data.metadata.listing import ORDER
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, rng

PATIENTS = ("subject_id", "anchor_age", "anchor_year", "anchor_year_group")
STAYS = ("subject_id", "hadm_id", "admittime")
CODES = ("hadm_id", "seq_num", "icd_code", "icd_version")
#: Each file, its columns, and what it says.
FILES = {
    "patients": (PATIENTS, "the age and years of each patient"),
    "admissions": (STAYS, "when each stay began"),
    "diagnoses_icd": (CODES, "the diagnoses of each stay"),
    "procedures_icd": (CODES, "the procedures of each stay"),
}
YEARS = tuple(str(year) for year in range(2008, 2020))
#: A stay is readmitted if the next one of its patient begins at most so many whole days after it began.
DAYS = 15
AGES = range(18, 90)
DIGITS = 20
#: Diagnoses and procedures use the same codes for other things: a text has the former, and then the latter.
BETWEEN = "; "
#: A year that is known by a group of three, such as "2008 - 2010".
GROUP_YEARS = 3

#: Of a stay: its row among the admissions, patient, number, beginning in microseconds, and year in the files.
Stay: TypeAlias = tuple[int, str, str, int, int]


@dataclass(frozen=True, kw_only=True)
class MimicReadmission:
    """The four tables of a user's own copy, as .csv or .csv.gz, in `hosp/`, `core/` or anywhere.

    `labels` are those of stays without and with a readmission. The year of a stay is that of its admission in
    the files, moved by the patient's offset: their anchor year is one of three, which of them is drawn by
    name. Neither keys nor origins nor parameters have a number of the files: they are hashes whose salt is a
    hash of all stays.
    """

    code_version: ClassVar[int] = 1

    labels: tuple[str, str]

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every stay of an adult that has diagnoses and procedures; the others, by their row, and why."""
        file, patients, stays = self._stays(tree)
        texts = tree.keep("texts", file, lambda: _texts(tree, stays))
        salt = content_hash(*(f"{subject} {stay} {begin}" for _, subject, stay, begin, _ in stays))
        after = _next(stays)
        for number, (row, subject, stay, begin, year) in enumerate(stays):
            age, anchor, first = patients.get(subject, (-1, 0, 0))
            moved = year - anchor + first + int(rng(0, "mimic", "year", subject).integers(GROUP_YEARS))
            if why := _fault(subject in patients, age + year - anchor, str(moved), texts.get(row, "")):
                yield Odd(file=f"{file}, row {row}", why=why)
                continue
            again = stay in after and (after[stay] - begin) // (86_400 * 10**6) <= DAYS
            yield Row(
                file=file,
                part=row,
                label=self.labels[again],
                nuisance=str(moved),
                origin=content_hash(salt, "patient", subject)[:DIGITS],
                across=True,
                stem=content_hash(salt, "stay", stay)[:DIGITS],
                more={LISTS: {ORDER: number}},
            )

    def example(self, tree: Tree, file: str, part: int) -> str:
        """The codes of a stay."""
        text = tree.keep("texts", file, lambda: _texts(tree, self._stays(tree)[2])).get(part, "")
        if not text:
            raise BadItem("it has lost its codes")
        return text

    def _stays(self, tree: Tree) -> tuple[str, dict[str, tuple[int, int, int]], list[Stay]]:
        """The file of stays; of each patient age, year and first real year; stays by patient and time."""
        file, stays = _table(tree, "admissions")
        where, people = _table(tree, "patients")
        ages, anchors = (numbers(tree, where, people, one, whole=True).to_pylist() for one in PATIENTS[1:3])
        groups = [str(one)[:4] for one in people["anchor_year_group"].to_pylist()]
        if not all(map(str.isdigit, groups)):
            raise InputError(f"{where} in {tree.place} has an anchor_year_group that begins with no year")
        patients = {
            subject: (age if age is not None else -1, anchor or 0, int(first))
            for subject, age, anchor, first in zip(
                people["subject_id"].to_pylist(), ages, anchors, groups, strict=True
            )
        }
        try:
            begins = pc.strptime(stays["admittime"], "%Y-%m-%d %H:%M:%S", "us")
        except pa.ArrowInvalid as error:
            raise InputError(
                f"{file} in {tree.place} has an admittime that is not a time: {error}"
            ) from error
        years = pc.year(begins).to_pylist()
        times = begins.cast(pa.int64()).to_pylist()
        subjects, ids = (stays[name].to_pylist() for name in STAYS[:2])
        rows = zip(range(len(ids)), subjects, ids, times, years, strict=True)
        return file, patients, sorted(rows, key=lambda stay: (stay[1], stay[3], stay[2]))


def _texts(tree: Tree, stays: Sequence[Stay]) -> dict[int, str]:
    """The codes of each stay that has diagnoses and procedures, by its row."""
    diagnoses, procedures = (_codes(tree, name) for name in ("diagnoses_icd", "procedures_icd"))
    return {
        row: f"{diagnoses[stay]}{BETWEEN}{procedures[stay]}"
        for row, _, stay, *_ in stays
        if stay in diagnoses and stay in procedures
    }


def _table(tree: Tree, name: str) -> tuple[str, pa.Table]:
    """One of the four files, and its columns."""
    columns, says = FILES[name]
    files = by_name(tree)
    plain = f"{name}.csv"
    file = files.get(f"{plain}.gz") if plain not in files else None
    file = file or file_named(tree, files, plain, f"{says} (or {plain}.gz)")
    return file, table_in(tree, file, columns)


def _codes(tree: Tree, name: str) -> dict[str, str]:
    """Of each stay its codes of three digits, in the order of their numbers."""
    file, table = _table(tree, name)
    order = numbers(tree, file, table, "seq_num", whole=True)
    table = table.append_column("order", order).sort_by([("hadm_id", "ascending"), ("order", "ascending")])
    code = pc.utf8_slice_codeunits(pc.utf8_trim_whitespace(table["icd_code"]), 0, 3)
    version = pc.utf8_trim_whitespace(table["icd_version"])
    texts = [f"ICD{of}_{one}" for of, one in zip(version.to_pylist(), code.to_pylist(), strict=True)]
    stays = table["hadm_id"].to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.append(True, stays[1:] != stays[:-1])) if len(stays) else np.empty(0, np.int64)
    ends = np.append(starts[1:], len(stays))
    return {
        stays[start]: " ".join(texts[start:end])
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    }


def _next(stays: Sequence[Stay]) -> dict[str, int]:
    """When the next stay of the same patient begins, by stay."""
    return {one[2]: other[3] for one, other in pairwise(stays) if one[1] == other[1]}


def _fault(known: bool, age: int, year: str, text: str) -> str:
    """Why a stay is left out."""
    if not known:
        return "its patient is not among the patients"
    if age not in AGES:
        return f"its patient is not {AGES[0]} to {AGES[-1]} years old"
    if year not in YEARS:
        return f"not in {YEARS[0]} to {YEARS[-1]}"
    return "" if text else "without diagnoses or without procedures"
