"""`shiftdata leaderboard`: submissions judged again from their predictions, as a page, a table or a check."""

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
      shiftdata leaderboard mine.parquet --check                       exit status 1 if it is refused

    Every number is computed again from predictions; what a card claims is only compared.
""")
@click.argument(
    "places",
    nargs=-1,
    required=True,
    metavar="PLACE...",
    help="Files of `shiftdata submit`, or folders of them.",
)
@click.option("--data", type=Path, metavar="FOLDER", help="Where the datasets are, by name.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "html"]),
    help="[default: markdown, or what --out ends in]",
)
@click.option("--out", type=Path, metavar="FILE", help="Write there instead of printing.")
@click.option("--check", is_flag=True, help="Exit with 1 if a submission is refused.")
def command(
    places: tuple[str, ...], data: Path | None, form: str | None, out: Path | None, check: bool
) -> int:
    """Rank submissions on each task, by what their predictions are worth, and say which are refused."""
    from shiftdata.bench.leaderboard import leaderboard

    board = leaderboard(*places, data=data)
    ending = "html" if out and out.suffix == ".html" else "markdown"
    write = board.to_html if (form or ending) == "html" else board.to_markdown
    if out is None:
        print(write(), end="")
    else:
        write_text(out, write())
        accepted = {line.entry.file for table in board.tables for line in table.lines}
        print(f"{out}: {len(accepted):,} submissions, {len(board.refused):,} refused")
    if board.refused and (check or out):
        for one in board.refused:
            print(f"refused: {one.file}: {one.reason}", file=sys.stderr)
    return int(check and bool(board.refused))
