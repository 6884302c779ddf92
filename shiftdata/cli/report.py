"""`shiftdata report`: tables, comparisons and charts of sweeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from shiftdata.bench.records import Records
from shiftdata.bench.reporting import Report, report
from shiftdata.bench.selection import RULES
from shiftdata.cli.verbs import verb
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
""")
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", help="Folders of sweeps.")
@click.option("--rule", "rules", multiple=True, type=click.Choice(list(RULES)), help="[default: the sweeps']")
@click.option("--baseline", default="erm", metavar="METHOD", help="Compare the others with this method.")
@click.option("--format", "form", type=click.Choice(list(FORMATS)), help="[default: as --out ends, or text]")
@click.option("--out", type=Path, metavar="FILE", help="Write there instead of printing.")
def command(
    folders: tuple[str, ...],
    rules: tuple[str, ...],
    baseline: str,
    form: str | None,
    out: Path | None,
) -> None:
    """Report on sweeps: tables like the papers', every number with its n, seeds, rule, dataset and commit.

    Nothing is trained: a report reads records.
    """
    form = form or (ENDINGS.get(out.suffix, "text") if out else "text")
    result = report(Records.read(*folders), rules, baseline=baseline)
    if out is not None:
        write_text(out, FORMATS[form](result))
        print(f"{out}: {form}, {len(result.sections):,} sections")
    else:
        print(FORMATS[form](result), end="")
