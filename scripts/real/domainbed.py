"""Compare DomainBed's test sweep, imported, with the tables that DomainBed prints of it, digit by digit.

    python scripts/real/domainbed.py DomainBed

A clone of the repository facebookresearch/DomainBed (MIT): `domainbed/misc/test_sweep_data` and
`test_sweep_results.txt`, which its own test expects of its collect_results.py.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from shiftdata.bench import Records
from shiftdata.bench.importing import import_records
from shiftdata.bench.reporting.scores import scores_of


def main(clone: Path) -> None:
    """Print both tables of each rule as we compute them, and fail where they differ from DomainBed's."""
    misc = clone / "domainbed/misc"
    with TemporaryDirectory() as folder:
        records = import_records("domainbed", misc / "test_sweep_data", Path(folder))
        found = [row for rule in records.sweeps[0]["rules"] for row in rows(records, rule)]
    text = (misc / "test_sweep_results.txt").read_text()
    printed = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.startswith("ERM")]
    print(*map("  ".join, found), sep="\n")
    if found != printed:
        raise SystemExit(f"DomainBed prints {printed}")
    print(f"{sum(map(len, found)) - len(found)} numbers in {len(found)} tables are as DomainBed prints them")


def rows(records: Records, rule: str) -> list[list[str]]:
    """Return the row of ERM in the table of domains and in that of datasets."""
    domains: dict[str, list[float]] = {}
    for score in scores_of(records, rule)[0]:
        for name, values in score.domains.items():
            domains.setdefault(name, []).extend(values.tolist())
    means = np.mean(list(domains.values()), axis=0)  # of each trial's seed
    average = f"{means.mean():.1f}"
    return [["ERM", *map(cell, domains.values()), average], ["ERM", cell(means), average]]


def cell(values) -> str:
    """Their error divides by n, and not by n - 1 as our reports do."""
    return f"{np.mean(values):.1f} +/- {np.std(values) / np.sqrt(len(values)):.1f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
