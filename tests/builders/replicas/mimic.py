"""MIMIC-IV in small, with invented numbers: two stays of each patient, and every reason to leave one out."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from shiftdata.stable import rng
from tests.builders.replicas.drawing import put

#: Invented, and unlike any count: they must be nowhere but in a build on the disk of who has them.
FIRST_SUBJECT, FIRST_STAY = 77_310_001, 88_420_001
DIAGNOSES = ("40391", "25000", "I2510", "Z87891")
PROCEDURES = ("3893", "0DJ08ZZ")
PATIENTS = 240
ANCHOR = 2150


def make(root: Path, version: float = 2.2) -> Mapping[str, int]:
    """Write the four tables; give the rows of each year."""
    patients, stays, diagnoses, procedures = _tables(version)
    early = version < 2
    for name, lines in {"patients": patients, "admissions": stays}.items():
        put(root, f"{'core' if early else 'hosp'}/{name}.csv", "\n".join(lines) + "\n")
    for name, lines in {"diagnoses_icd": diagnoses, "procedures_icd": procedures}.items():
        put(root, f"hosp/{name}.csv.gz", gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))
    put(root, "hosp/transfers.csv", "subject_id,hadm_id\n1,2\n")
    return Counter(str(2008 + patient % 12) for patient in range(PATIENTS) for _ in range(2))


def offset(subject: int) -> int:
    """Which of the three years of a patient's group is taken."""
    return int(rng(0, "mimic", "year", str(subject)).integers(3))


def _tables(version: float) -> tuple[list[str], ...]:
    people = ["subject_id,gender,anchor_age,anchor_year,anchor_year_group,dod"]
    race = "race" if version >= 2 else "ethnicity"
    stays = [f"subject_id,hadm_id,admittime,dischtime,{race},hospital_expire_flag"]
    codes = (
        ["subject_id,hadm_id,seq_num,icd_code,icd_version"],
        ["subject_id,hadm_id,seq_num,icd_code,icd_version"],
    )
    number = FIRST_STAY
    for patient in range(PATIENTS):
        subject, year = FIRST_SUBJECT + patient, 2008 + patient % 12
        # The group begins so that the drawn year is the wanted one.
        first = year - offset(subject)
        people.append(f"{subject},F,{40 + patient % 30},{ANCHOR},{first} - {first + 2},")
        begin = datetime(ANCHOR, 3, 1, 12, 30)
        for later in (0, (15, 16, 3, 200)[patient % 4]):
            _stay(stays, codes, subject, number, begin + timedelta(days=later), patient)
            number += 1
    odd = FIRST_SUBJECT + PATIENTS
    people += [f"{odd},M,91,{ANCHOR},2010 - 2012,", f"{odd + 1},M,17,{ANCHOR},2010 - 2012,"]
    people += [f"{odd + 2},M,50,{ANCHOR},2010 - 2012,", f"{odd + 3},M,50,{ANCHOR},2020 - 2022,"]
    for extra in range(5):  # too old, too young, without procedures, too late, and nobody's
        _stay(stays, codes, odd + extra, number + extra, datetime(ANCHOR, 5, 1), extra, cut=extra != 2)
    return people, stays, *codes


def _stay(
    stays: list[str],
    codes: tuple[list[str], list[str]],
    subject: int,
    number: int,
    begin: datetime,
    salt: int,
    cut: bool = True,
) -> None:
    stays.append(f"{subject},{number},{begin},{begin + timedelta(days=2)},WHITE,{int(salt % 7 == 0)}")
    # Written in the wrong order: the numbers say which comes first.
    for place in (2, 1):
        code = DIAGNOSES[(salt + place) % len(DIAGNOSES)]
        codes[0].append(f"{subject},{number},{place},{code},{10 if code[0].isalpha() else 9}")
    if cut:
        # Hardly two patients have the same codes, as in the real tables: equal texts would be one origin.
        code = PROCEDURES[salt % 2] if salt < 2 else f"{100 + salt}{('3', 'ZZ8ZZ')[salt % 2]}"
        codes[1].append(f"{subject},{number},1,{code},{10 if len(code) > 4 else 9}")
