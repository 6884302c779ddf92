"""`shiftdata report`: tables, comparisons and charts of sweeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from shiftdata.bench.records import Records
from shiftdata.bench.reporting import Report, report
from shiftdata.bench.saved import SavedRuns, is_saved
from shiftdata.bench.selection import RULES
from shiftdata.cli.verbs import verb
from shiftdata.errors import InputError
from shiftdata.files import write_text

FORMATS: dict[str, Callable[[Report], str]] = {
    "text": str,
    "markdown": Report.to_markdown,
    "csv": Report.to_csv,
    "html": Report.to_html,
}
ENDINGS = {".txt": "text", ".md": "markdown", ".csv": "csv", ".html": "html"}


@verb("""
    examples:
      shiftdata report runs/fairness                           tables, comparisons, ranks, failures
      shiftdata report runs/fairness --out report.html         one page with charts
      shiftdata report runs/a runs/b --rule iid --rule oracle  two sweeps as one, selected by two rules
      shiftdata report runs/fairness --format csv > numbers.csv
      shiftdata report runs/erm runs/coral runs/clip --line validation test --picture line.svg
      shiftdata report runs/nico --as "nico++ 2"               a paper's table, next to its numbers
      shiftdata report small=runs/a wide=runs/b wider=runs/c --line test@0 test@2.5

    Folders are of sweeps, or of saved runs and predictions of one task (train --folder, predict --folder).
    Effective robustness, with --line, is the height above the line of shifted against clean accuracy.
""")
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    metavar="[NAME=]FOLDER...",
    help="Folders of sweeps; or of saved runs, each with a name for the tables.",
)
@click.option("--rule", "rules", multiple=True, type=click.Choice(list(RULES)), help="[default: the sweeps']")
@click.option(
    "--as", "tables", multiple=True, metavar="TABLE", help="A table of a paper, such as 'nico++ 2'."
)
@click.option("--baseline", default="erm", metavar="METHOD", help="Compare the others with this method.")
@click.option(
    "--line",
    nargs=2,
    metavar="CLEAN SHIFTED",
    help="Set models on a line: two sets or roles (select, test); @SEVERITY takes a set's rows there.",
)
@click.option("--axes", type=click.Choice(["probit", "logit", "linear"]), default="probit", help="Its axes.")
@click.option("--picture", type=Path, metavar="FILE", help="Draw the first line: .svg, .png or .pdf.")
@click.option("--dataset", metavar="NAME", help="The dataset of saved runs. [default: as they say]")
@click.option("--format", "form", type=click.Choice(list(FORMATS)), help="[default: as --out ends, or text]")
@click.option("--out", type=Path, metavar="FILE", help="Write there instead of printing.")
def command(
    folders: tuple[str, ...],
    rules: tuple[str, ...],
    tables: tuple[str, ...],
    baseline: str,
    line: tuple[str, str] | None,
    axes: str,
    picture: Path | None,
    dataset: str | None,
    form: str | None,
    out: Path | None,
) -> None:
    """Report on sweeps or saved runs: tables like the papers', every number with n, seeds, rule, dataset.

    Nothing is trained: a report reads records, or the predictions of saved runs.
    """
    form = form or (ENDINGS.get(out.suffix, "text") if out else "text")
    if picture and not line:
        raise InputError("--picture draws a line: give --line CLEAN SHIFTED too")
    saved = [is_saved(folder) for folder in folders]
    if any(saved) and not all(saved):
        raise InputError(f"{folders[saved.index(False)]} is no saved run, as others are: give either kind")
    if any(saved) and rules:
        raise InputError("saved runs leave no choice to a rule: leave --rule out")
    records = SavedRuns.read(*folders, dataset=dataset) if any(saved) else Records.read(*folders)
    rules = ("last",) if any(saved) else rules
    result = report(records, rules, baseline=baseline, line=line or (), axes=axes, tables=tables)
    if picture:
        figures = (table.figure for section in result.sections for table in section.tables if table.figure)
        next(figures)().savefig(picture)
    if out is not None:
        write_text(out, FORMATS[form](result))
        print(f"{out}: {form}, {len(result.sections):,} sections")
    else:
        print(FORMATS[form](result), end="")
