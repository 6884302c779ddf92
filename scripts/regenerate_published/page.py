"""Render `docs/published.md`: what reproduces, what does not, and what each finding would change.

    python scripts/regenerate_published/page.py           # write the page
    python scripts/regenerate_published/page.py --check   # exit 1 if it is not what the numbers give

Counts, lists and effects are computed from the shipped numbers; the text around them is in `page.md.jinja`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2

sys.path.insert(0, str(Path(__file__).parent.parent))

from check_published import VERDICTS, Finding, check

from shiftdata.bench.papers import PAPERS, citation, published, published_tables

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "published.md"


def render() -> str:
    """The page."""
    report = check(published().rows)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.md.jinja").render(
        papers={paper: citation(paper) for paper in PAPERS},
        tables=published_tables(),
        verdicts=VERDICTS,
        report=report,
        by_paper={paper: [one for one in report.inconsistent if one.paper == paper] for paper in PAPERS},
        overall=_overall(report.findings),
        numbers=len(published()),
        left_out=sum(len(one.left_out) for one in published_tables()),
    )


def _overall(findings: tuple[Finding, ...]) -> str:
    """How many overall accuracies of NICO++ fit the domain sizes of table 10."""
    verdicts = [one.verdict for one in findings if "weighted by their images" in one.check]
    return f"{sum(verdict != 'depends' for verdict in verdicts)} of {len(verdicts)}"


def main() -> int:
    page = render()
    if "--check" in sys.argv[1:]:
        same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page
        print("up to date" if same else f"{PAGE.name} is not what the numbers give: render it again")
        return 0 if same else 1
    PAGE.write_text(page, encoding="utf-8")
    print(PAGE.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
