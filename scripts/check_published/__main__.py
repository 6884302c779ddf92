"""Compute again whatever the five papers print twice, or their own numbers decide.

    python scripts/check_published                                  # counts, and numbers that do not fit
    python scripts/check_published domainbed-v2 5                   # one paper, one table
    python scripts/check_published --format csv --output findings.csv
    python scripts/check_published --file mine.parquet              # your own copy of the numbers

A number that does not fit is `inconsistent` where printed numbers exclude it. Where an assumption is needed
to exclude it, it `depends`, and the assumption is named. Exits with 1 if the stored numbers are damaged; with
--strict, also if any number is inconsistent, but not for what depends on an assumption.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from check_published import check
from shiftdata.bench.papers import PAPERS, Results, published
from shiftdata.errors import ShiftdataError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="check_published", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paper", nargs="?", help=f"one of {', '.join(PAPERS)} (default: all)")
    parser.add_argument("table", nargs="?", help="a table's name, such as 5 or 'figure 12'")
    parser.add_argument("--file", metavar="FILE", help="check these results (Parquet), not the shipped ones")
    parser.add_argument("--format", choices=("text", "csv", "markdown"), default="text")
    parser.add_argument("--output", metavar="FILE", type=Path, help="write there instead of printing")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if any number is inconsistent (not if it depends)"
    )
    options = parser.parse_args(arguments)
    try:
        results = Results.read(options.file) if options.file else published()
        report = check(results.rows).of(options.paper, options.table)
    except ShiftdataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    formats = {"text": report.text, "csv": report.to_csv, "markdown": report.to_markdown}
    if options.output:
        options.output.write_text(formats[options.format](), encoding="utf-8")
    else:
        print(formats[options.format](), end="")
    for problem in report.problems:
        print(f"damaged: {problem}", file=sys.stderr)
    return 1 if report.problems or (options.strict and report.inconsistent) else 0


if __name__ == "__main__":
    sys.exit(main())
