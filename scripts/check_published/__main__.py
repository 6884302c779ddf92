"""Compute again whatever the five papers print twice, or their own numbers decide.

    python scripts/check_published            # counts, and numbers that do not fit
    python scripts/check_published --write    # render docs/published.md

A number that does not fit is `inconsistent` where printed numbers exclude it. Where an assumption is needed
to exclude it, it `depends`, and the assumption is named. Exits with 1 if the stored numbers are damaged, or
the page is not what they give.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from check_published import check
from check_published.page import PAGE, render
from shiftdata.bench.papers import published


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="check_published", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="render docs/published.md")
    options = parser.parse_args(arguments)
    report = check(published().rows)
    page = render(report)
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    print(report.text(), end="")
    problems = [f"damaged: {problem}" for problem in report.problems]
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page:
        problems.append(f"{PAGE.name} is not what the numbers give: render it by --write")
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
