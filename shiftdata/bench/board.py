"""The leaderboard: submissions judged again from their predictions, and ranked on each task."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shiftdata.bench.judging import Judge
from shiftdata.bench.scoring import HEADLINES, Entry, Score
from shiftdata.bench.submission import Submission
from shiftdata.errors import InputError
from shiftdata.format.names import shown
from shiftdata.metrics import ranks

#: Figures of which less is better.
LESS = ("drop@", "mean_drop", "failures", "marginal_error", "std_domain")


@dataclass(frozen=True)
class Refused:
    """A file that is not on the board, and why."""

    file: str
    method: str
    reason: str


@dataclass(frozen=True)
class Ranked:
    """An entry with its rank, and what a reader should know of it."""

    rank: float
    entry: Entry
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """The entries of one set of one task, the best first; those whose selection saw the test are apart."""

    dataset: str
    base: str
    content_id: str
    protocol: str
    task: str
    task_id: str
    set: str
    rows: int
    leaky: bool
    oracle: bool
    headline: str
    lines: tuple[Ranked, ...]

    @property
    def figures(self) -> tuple[str, ...]:
        """The official figures, the one that ranks first; of curves only what sums them up."""
        every = [name for name in self.lines[0].entry.scores if "@" not in name]
        return (self.headline, *(name for name in every if name != self.headline))

    def score(self, line: Ranked) -> Score:
        """The figure of a line that ranks."""
        return line.entry.scores[self.headline]


@dataclass(frozen=True)
class Board:
    """Tables of what was accepted, and what was refused."""

    tables: tuple[Table, ...]
    refused: tuple[Refused, ...]

    def to_markdown(self) -> str:
        from shiftdata.bench.board_text import markdown_of

        return markdown_of(self)

    def to_csv(self) -> str:
        from shiftdata.bench.board_text import csv_of

        return csv_of(self)

    def to_html(self) -> str:
        from shiftdata.bench.board_page import page_of

        return page_of(self)

    __str__ = to_markdown


def leaderboard(*places: str | Path, data: str | Path | None = None) -> Board:
    """Judge every submission in some folders or files, and rank them on each task.

    Every number comes from predictions; what a card claims is only compared. `data` is the folder of the
    datasets; by default they are looked for by name.

    Args:
        places: files of `shiftdata submit`, or folders of them.
        data: a folder with datasets by name, such as build/shift.

    """
    files = _files(places)
    judge = Judge(None if data is None else Path(data))
    entries: list[Entry] = []
    refused = []
    for name, path in files.items():
        method = ""
        try:
            submission = Submission.read(path)
            method = submission.card.method
            entries += judge.judge(submission, name)
        except InputError as error:
            refused.append(Refused(name, method, shown(str(error))))
    return Board(tuple(_tables(entries)), tuple(refused))


def _files(places: Sequence[str | Path]) -> dict[str, Path]:
    """Every file by the name that the board shows."""
    files: dict[str, Path] = {}
    for place in map(Path, places):
        if place.is_dir():
            below = sorted(path for path in place.rglob("*.parquet") if path.is_file())
            before = f"{place.name}/" if len(places) > 1 else ""
            files |= {shown(before + path.relative_to(place).as_posix()): path for path in below}
        elif place.is_file():
            files[shown(place.as_posix())] = place
        else:
            raise InputError(f"{place} is not there: give files of `shiftdata submit`, or a folder of them")
    if not files:
        raise InputError(
            f"{', '.join(map(str, places))}: no file ends in .parquet; `shiftdata submit` writes one"
        )
    return files


def _tables(entries: Sequence[Entry]) -> list[Table]:
    groups: dict[tuple[str, str, str, bool, str], list[Entry]] = defaultdict(list)
    for one in entries:
        groups[one.card.dataset, one.task, one.task_id, not one.main, one.set].append(one)
    return [
        _table(mine, oracle, _same_predictions(of))
        for _, of in sorted(groups.items())
        for oracle in (False, True)
        if (mine := [one for one in of if one.card.oracle == oracle])
    ]


def _table(entries: Sequence[Entry], oracle: bool, flags: Mapping[str, tuple[str, ...]]) -> Table:
    first = entries[0]
    defined = [name for name, one in first.scores.items() if not math.isnan(one.value)] or list(first.scores)
    headline = next((name for name in HEADLINES if name in defined), defined[0])
    values = [one.scores[headline].value for one in entries]
    less = headline.startswith(LESS)
    last = 1e9 if less else -1e9
    places = ranks([last if math.isnan(one) else one for one in values], lower_is_better=less)
    lines = [
        Ranked(float(place), one, flags.get(one.file, ())) for place, one in zip(places, entries, strict=True)
    ]
    lines.sort(key=lambda one: (one.rank, one.entry.card.method, one.entry.file))
    card = first.card
    return Table(
        card.dataset,
        card.base,
        card.content_id,
        card.tasks[first.task_id].protocol,
        first.task,
        first.task_id,
        first.set,
        first.rows,
        first.leaky,
        oracle,
        headline,
        tuple(lines),
    )


def _same_predictions(entries: Sequence[Entry]) -> Mapping[str, tuple[str, ...]]:
    """Which entries of different methods predict the same, seed for seed or in some seed."""
    flags: dict[str, tuple[str, ...]] = {}
    for one in entries:
        same = [
            other.file
            for other in entries
            if other.card.method != one.card.method and set(one.prints) & set(other.prints)
        ]
        flags[one.file] = tuple(f"same predictions as {name}" for name in same)
    return flags


def cell(score: Score) -> str:
    """A figure as boards show it: the value, and its interval where it has one."""
    if math.isnan(score.value):
        return "-"
    if math.isnan(score.low):
        return f"{score.value:.4f}"
    return f"{score.value:.4f} [{score.low:.4f}, {score.high:.4f}]"
