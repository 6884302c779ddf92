"""`shiftdata leaderboard`: submissions judged from their predictions, as a page, a table or a check."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from shiftdata.cli.verbs import verb
from shiftdata.files import write_text


@verb("""
    examples:
      shiftdata leaderboard submissions                                on the datasets of this machine
      shiftdata leaderboard submissions --data build/shift --out page.html
      shiftdata leaderboard submissions > board.md
      shiftdata leaderboard submissions --croissant results.jsonld     its figures as Croissant Tasks
      shiftdata leaderboard mine.parquet --check                       exit status 1 if it is refused

    Every number is computed again from predictions.
""")
@click.argument(
    "places", nargs=-1, required=True, metavar="PLACE...", help="Files of submissions, or folders."
)
@click.option("--data", type=Path, metavar="FOLDER", help="Where the datasets are, by name.")
@click.option("--out", type=Path, metavar="FILE", help="Write there instead of printing; .html is a page.")
@click.option("--croissant", type=Path, metavar="FILE", help="Also write the figures as Croissant Tasks.")
@click.option("--check", is_flag=True, help="Exit with 1 if a submission is refused.")
def command(
    places: tuple[str, ...], data: Path | None, out: Path | None, croissant: Path | None, check: bool
) -> int:
    """Rank submissions on each task by their predictions, and list the refused ones."""
    from shiftdata.bench.leaderboard import leaderboard

    board = leaderboard(*places, data=data)
    if out is None:
        print(board.to_markdown(), end="")
    else:
        write_text(out, board.to_html() if out.suffix == ".html" else board.to_markdown())
        accepted = {entry.file for table in board.tables for entry in table.entries}
        print(f"{out}: {len(accepted):,} submissions, {len(board.refused):,} refused")
    if croissant is not None:
        from shiftdata.bench.leaderboard.tasks import render_tasks

        write_text(croissant, render_tasks(board))
    if board.refused and (check or out):
        for refused in board.refused:
            print(f"refused: {refused.file}: {refused.reason}", file=sys.stderr)
    return int(check and bool(board.refused))
