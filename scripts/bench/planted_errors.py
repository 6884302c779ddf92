"""How often the checker notices a wrong number: errors planted one by one, in every table of the five papers.

    python scripts/bench/planted_errors.py [--each 40] [--seed 0]

A planted error moves one number by 5 % or by three units of its last digit, whichever is more. Counted twice:
by arithmetic and statements alone, and by the whole check, which also knows each table's hash.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from shiftdata.tables import aligned

sys.path.insert(0, str(Path(__file__).parent.parent))

from check_published import Report, check

from shiftdata.bench.papers import published, published_tables


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--each", type=int, default=40, help="errors a table, at most (default: 40)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    lines, total = [], [0, 0, 0]
    for one in published_tables():
        rows = published(one.paper).rows
        known = noticed(check(rows))
        tried = by_arithmetic = by_all = 0
        for damaged in planted(rows, one.table, options.each, draw):
            report = check(damaged)
            tried += 1
            by_arithmetic += bool(noticed(report) - known)
            by_all += bool(report.problems)
        lines.append(
            [f"{one.paper} {one.table}", str(tried), share(by_arithmetic, tried), share(by_all, tried)]
        )
        total = [sum(pair) for pair in zip(total, (tried, by_arithmetic, by_all), strict=True)]
    lines.append(["all", str(total[0]), share(total[1], total[0]), share(total[2], total[0])])
    print(aligned(["table", "errors", "arithmetic", "with hashes"], lines))


def planted(rows: pa.Table, name: str, most: int, draw: random.Random) -> Iterator[pa.Table]:
    """The rows of a paper with one number of a table changed, again and again."""
    listed = rows.to_pylist()
    places = [number for number, row in enumerate(listed) if row["table"] == name]
    for place in draw.sample(places, min(most, len(places))):
        row = listed[place]
        digits = len(row["printed"].partition("±")[0].partition(".")[2])
        wrong = row["value"] + draw.choice((-1, 1)) * max(abs(row["value"]) * 0.05, 3 * 10**-digits)
        text = f"{wrong:.{digits}f}" + row["printed"][row["printed"].find("±") :] * ("±" in row["printed"])
        changed = row | {"printed": text, "value": float(text.partition("±")[0])}
        yield pa.Table.from_pylist([*listed[:place], changed, *listed[place + 1 :]], rows.schema)


def noticed(report: Report) -> set[tuple[str, str, str]]:
    """Where and by which check a number does not fit, or only if an assumption is wrong."""
    doubtful = ("inconsistent", "depends")
    return {(one.place, one.check, one.verdict) for one in report.findings if one.verdict in doubtful}


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


if __name__ == "__main__":
    main()
