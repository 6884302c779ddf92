"""Persons of ACS PUMS in small: files of states and years, persons whom each filter leaves out."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.builders.replicas.drawing import put
from tests.builders.replicas.wilds import table

FEATURES = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P")
HEADER = ("RT", "SERIALNO", "ST", "PWGTP", *FEATURES, "PINCP", "NAICSP", "pwgtp1")
BORN = HEADER.index("POBP")
NUMBERS = {"MD": "24", "NJ": "34", "MA": "25", "SD": "46", "AR": "05", "PR": "72"}
#: Persons of each file whom one filter leaves out: column and value; a child is left out by three.
LEFT = (("AGEP", "16"), ("PINCP", "100"), ("WKHP", "  "), ("WKHP", "0"), ("PWGTP", "0"), ("PINCP", ""))
FILES = {
    **{str(year): [(year, state) for state in ("MD", "NJ", "MA")] for year in range(2014, 2019)},
    "sd_2014": [(2014, "SD")],
    "ar_2017": [(2017, "AR")],
    "pr_2014": [(2014, "PR")],
    "pr_2018": [(2018, "PR")],
}


def name_of(year: int, state: str) -> str:
    """The file of a year and state."""
    return f"psam_p{NUMBERS[state]}.csv" if year > 2016 else f"ss{year % 100}p{state.lower()}.csv"


def make(root: Path, each: int = 16, *, packed: bool = False) -> Mapping[str, int]:
    """`each` persons a file, every second above 50,000 dollars; one earns exactly that, one has no OCCP.

    The tree has a file of households, one of a state that nobody takes, and one of five years together.
    """
    counts: Counter[str] = Counter()
    for domain, files in FILES.items():
        for year, state in files:
            folder, name = f"{year}/1-Year", name_of(year, state)
            kept = persons(state, each)
            for row in kept:  # in no other file is a person with the same answers
                row[BORN] = f"{year % 10}{NUMBERS[state]}"
            text = table([HEADER, *kept, *left_out(state)])
            if packed:
                (root / folder).mkdir(parents=True, exist_ok=True)
                with zipfile.ZipFile(root / folder / f"csv_p{state.lower()}.zip", "w") as archive:
                    archive.writestr(name, text)
                    archive.writestr(f"ACS{year}_PUMS_README.pdf", f"of {state}")
            else:
                put(root, f"{folder}/{name}", text)
            counts[domain] += each
    put(root, "2014/1-Year/ss14hmd.csv", "RT,SERIALNO\nH,1\n")
    put(root, "2014/1-Year/ss14pak.csv", table([HEADER, *persons("AK", 3)]))
    put(root, "2017/5-Year/psam_p24.csv", table([HEADER, *persons("MD", 3)]))
    return counts


def persons(state: str, each: int) -> list[list[object]]:
    """Persons whom the filters keep; the first earns 50,000 dollars, the second 50,001."""
    rows = []
    for number in range(each):
        income = 50_000 + number % 2 if number < 2 else 200 + 60_000 * (number % 2) + number
        job = "" if number == 3 else f"{number:04}"
        features = (17 + number, 1, 21, 1, job, "006", 0, f" {40 + number}", 1 + number % 2, 2)
        rows.append(["P", f"{state}{number}", NUMBERS.get(state, "02"), 1, *features, income, "23 ", 5])
    return rows


def left_out(state: str) -> list[Sequence[object]]:
    """A person for each filter, and a child."""
    (plain,) = persons(state, 1)
    rows = [[*plain] for _ in LEFT]
    child = [
        "5" if name == "AGEP" else "" if name in ("PINCP", "WKHP", "OCCP") else cell
        for name, cell in zip(HEADER, plain, strict=True)
    ]
    for row, (column, value) in zip(rows, LEFT, strict=True):
        row[HEADER.index(column)] = value
    return [*rows, child]
