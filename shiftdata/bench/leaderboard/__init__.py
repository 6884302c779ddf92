"""The leaderboard: figures computed again from predictions, ranked on each task.

A submission is a file of predictions by key with a method card (`submission`, `card`), made of the records of
a sweep or of any predictions (`submitting`). It is judged (`judging`), ranked (`board`) and shown
(`rendering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shiftdata.bench.leaderboard.board import Refused, Table, tables_of
from shiftdata.bench.leaderboard.judging import Entry, Judge
from shiftdata.bench.leaderboard.rendering import markdown_of, page_of
from shiftdata.bench.leaderboard.submission import Submission as Submission
from shiftdata.data.format.names import shown
from shiftdata.errors import InputError


@dataclass(frozen=True)
class Board:
    """Tables of accepted submissions, and the refused ones."""

    tables: tuple[Table, ...]
    refused: tuple[Refused, ...]

    def to_markdown(self) -> str:
        return markdown_of(self.tables, self.refused)

    def to_html(self) -> str:
        return page_of(self.tables, self.refused)

    __str__ = to_markdown


def leaderboard(*places: str | Path, data: str | Path | None = None) -> Board:
    """Judge every submission in files or folders, and rank them on each task.

    Args:
        places: Files of `shiftdata submit`, or folders of them.
        data: A folder with datasets by name, such as build/shift; by default they are looked for by name.

    """
    judge = Judge(None if data is None else Path(data))
    entries: list[Entry] = []
    refused = []
    for name, path in _files(places).items():
        method = ""
        try:
            submission = Submission.read(path)
            method = submission.card.method
            entries += judge.judge(submission, name)
        except InputError as error:
            refused.append(Refused(name, method, shown(str(error))))
    return Board(tables_of(entries), tuple(refused))


def _files(places: Sequence[str | Path]) -> dict[str, Path]:
    """Every file by its name on the board."""
    files: dict[str, Path] = {}
    for place in map(Path, places):
        if place.is_dir():
            below = sorted(path for path in place.rglob("*.parquet") if path.is_file())
            prefix = f"{place.name}/" if len(places) > 1 else ""
            files |= {shown(prefix + path.relative_to(place).as_posix()): path for path in below}
        elif place.is_file():
            files[shown(place.as_posix())] = place
        else:
            raise InputError(f"{place} is not there: give files of `shiftdata submit`, or a folder of them")
    if not files:
        where = ", ".join(map(str, places))
        raise InputError(f"{where}: no file ends in .parquet; `shiftdata submit` writes one")
    return files
