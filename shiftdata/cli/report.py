"""`shiftdata report`: tables, comparisons and charts of sweeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from shiftdata.bench.records import Records
from shiftdata.bench.reporting import Report, report
from shiftdata.bench.reporting.making import CAPTIONS
from shiftdata.bench.selection import RULES
from shiftdata.cli.verbs import progress, verb
from shiftdata.evaluation.charts import WIDTHS
from shiftdata.files import write_text

FORMATS: dict[str, Callable[[Report], str]] = {
    "text": str,
    "markdown": Report.to_markdown,
    "latex": Report.to_latex,
    "csv": Report.to_csv,
    "html": Report.to_html,
}
ENDINGS = {".txt": "text", ".md": "markdown", ".tex": "latex", ".csv": "csv", ".html": "html"}


@verb("""
    examples:
      shiftdata report runs/fairness                           tables, comparisons, ranks, failures
      shiftdata report runs/fairness --out report.html         one page with charts
      shiftdata report runs/a runs/b --rule iid --rule oracle  two sweeps as one, selected by two rules
      shiftdata report runs/fairness --format csv > numbers.csv
      shiftdata report runs/fairness --figures figures         each chart for a paper: SVG, PDF and captions
""")
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", help="Folders of sweeps.")
@click.option(
    "--rule",
    "rules",
    multiple=True,
    type=click.Choice(list(RULES)),
    help="Select by this rule; repeatable. [default: those of the sweeps]",
)
@click.option("--baseline", default="erm", metavar="METHOD", help="Compare the others with this method.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    help="How to print. [default: as --out ends, else text]",
)
@click.option("--out", type=Path, metavar="FILE", help="Write there instead of printing.")
@click.option("--figures", type=Path, metavar="FOLDER", help="Write each chart there as SVG and PDF.")
@click.option(
    "--width",
    type=click.Choice([f"{width}" for width in WIDTHS]),
    default=f"{WIDTHS[0]}",
    show_default=True,
    help="Of figures, in inches: one column or two.",
)
def command(
    folders: tuple[str, ...],
    rules: tuple[str, ...],
    baseline: str,
    form: str | None,
    out: Path | None,
    figures: Path | None,
    width: str,
) -> None:
    """Report on sweeps: tables like the papers', every number with its n, seeds, rule, dataset and commit.

    Nothing is trained: a report reads records.
    """
    form = form or (ENDINGS.get(out.suffix, "text") if out else "text")
    result = report(Records.read(*folders), rules, baseline=baseline)
    if figures is not None:
        with progress("figures", len(result.charts), "chart") as bar:
            names = result.write_figures(figures, float(width), bar.update)
        print(f"{figures}: {len(names):,} figures as SVG and PDF, {CAPTIONS}")
    if out is not None:
        write_text(out, FORMATS[form](result))
        print(f"{out}: {form}, {len(result.sections):,} sections")
    elif figures is None:
        print(FORMATS[form](result), end="")
