"""`shiftdata leaderboard`: submissions judged from their predictions, as a page, a table or a check."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from shiftdata.cli.verbs import verb
from shiftdata.data.places.search import NAMESPACE
from shiftdata.files import write_text


@verb("""
    examples:
      shiftdata leaderboard submissions                                on the datasets of this machine
      shiftdata leaderboard submissions --data build/shift --out page.html
      shiftdata leaderboard submissions > board.md
      shiftdata leaderboard submissions --data public --labels birds.labels.parquet      hidden labels
      shiftdata leaderboard submissions --croissant results.jsonld     its figures as Croissant Tasks
      shiftdata leaderboard mine.parquet --check                       exit status 1 if it is refused
      shiftdata leaderboard submissions --eval-results models          for model repos on the Hub
      shiftdata leaderboard submissions --data /srv/shift --served /srv/shift

    Every number is computed again from predictions.
""")
@click.argument(
    "places", nargs=-1, required=True, metavar="PLACE...", help="Files of submissions, or folders."
)
@click.option("--data", type=Path, metavar="FOLDER", help="Where the datasets are, by name.")
@click.option("--labels", type=Path, multiple=True, metavar="FILE", help="Labels that a dataset hides.")
@click.option("--out", type=Path, metavar="FILE", help="Write there instead of printing; .html is a page.")
@click.option(
    "--eval-results", type=Path, metavar="FOLDER", help="Write MODEL/.eval_results/DATASET.yaml there."
)
@click.option("--owner", default=NAMESPACE, show_default=True, help="Of the datasets in --eval-results.")
@click.option(
    "--served", type=Path, metavar="FOLDER", help="Write DATASET.leaderboard.json for `serve` there."
)
@click.option("--croissant", type=Path, metavar="FILE", help="Write the figures there as Croissant Tasks.")
@click.option("--check", is_flag=True, help="Exit with 1 if a submission is refused.")
def command(
    places: tuple[str, ...],
    data: Path | None,
    labels: tuple[Path, ...],
    out: Path | None,
    eval_results: Path | None,
    owner: str,
    served: Path | None,
    croissant: Path | None,
    check: bool,
) -> int:
    """Rank submissions on each task by their predictions, and list the refused ones."""
    from shiftdata.bench.leaderboard import hub, leaderboard
    from shiftdata.bench.leaderboard.tasks import render_tasks

    board = leaderboard(*places, data=data, labels=labels)
    files: dict[Path, str] = {}
    if eval_results:
        files |= {eval_results / name: text for name, text in hub.eval_results(board, owner).items()}
    if served:
        files |= {served / name: text for name, text in hub.served_leaderboards(board).items()}
    if croissant:
        files[croissant] = render_tasks(board)
    for path, text in files.items():
        write_text(path, text)
        print(path)
    if out:
        write_text(out, board.to_html() if out.suffix == ".html" else board.to_markdown())
        accepted = {entry.file for table in board.tables for entry in table.entries}
        print(f"{out}: {len(accepted):,} submissions, {len(board.refused):,} refused")
    elif not files:
        print(board.to_markdown(), end="")
    if board.refused and (check or out or files):
        for refused in board.refused:
            print(f"refused: {refused.file}: {refused.reason}", file=sys.stderr)
    return int(check and bool(board.refused))
