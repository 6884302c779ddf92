"""Render docs/published.md: what reproduces, what does not, and what each finding would change.

Counts and effects are computed from the shipped numbers; the text around them is in `page.md.jinja`.
"""

from __future__ import annotations

from pathlib import Path

import jinja2

from check_published.checker import Report
from check_published.judging import VERDICTS
from shiftdata.bench.papers import PAPERS, published_tables

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "published.md"


def render(report: Report) -> str:
    """Return the page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.md.jinja").render(
        papers=PAPERS,
        tables=published_tables(),
        verdicts=VERDICTS,
        report=report,
        overall=_overall(report),
        numbers=sum(table.numbers for table in published_tables()),
        left_out=sum(len(table.left_out) for table in published_tables()),
    )


def _overall(report: Report) -> str:
    """Count the overall accuracies of NICO++ that fit the domain sizes of table 10."""
    verdicts = [finding.verdict for finding in report.findings if "weighted by their images" in finding.check]
    return f"{sum(verdict != 'depends' for verdict in verdicts)} of {len(verdicts)}"
