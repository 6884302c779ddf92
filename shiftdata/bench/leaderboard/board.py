"""Submissions ranked on each test set of each task, as Markdown, and as one HTML page without a script.

Texts of submissions are never read as markup.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shiftdata.bench.leaderboard.judging import HEADLINES, Entry, Score, judge, task_named
from shiftdata.bench.leaderboard.submission import Submission
from shiftdata.data.dataset import open_dataset
from shiftdata.data.format.hidden import read_labels
from shiftdata.data.format.names import shown
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import ranks
from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.pages.shell import render_alone
from shiftdata.tables import harmless, markdown

#: Figures that are better when lower.
LESS = ("drop@", "mean_drop", "failures", "marginal_error", "std_domain")
#: The most methods to name as possibly the best.
MOST = 3


@dataclass(frozen=True)
class Refused:
    """A file that is not on the board, and the reason."""

    file: str
    method: str
    reason: str


@dataclass(frozen=True)
class Table:
    """The entries of one test set of one task with their ranks, the best first; oracles have their own."""

    oracle: bool
    headline: str
    lines: tuple[tuple[float, Entry], ...]

    @property
    def entries(self) -> list[Entry]:
        return [entry for _, entry in self.lines]

    @property
    def title(self) -> str:
        entry = self.entries[0]  # dataset, task and set are the same for all
        apart = " (oracle: selection saw the test)" if self.oracle else ""
        protocol = entry.card.tasks[entry.task_id].protocol or "canonical"
        return f"{entry.card.dataset}, {protocol}, {entry.set}{apart}"

    @property
    def about(self) -> str:
        """The task, the data and the meaning of the numbers."""
        entry = self.entries[0]
        leaks = " Origins are in two of its sets, as in its paper: results are too good." * entry.leaky
        return (
            f"{entry.task}, {entry.rows:,} rows, base {entry.card.base}, content_id "
            f"{entry.card.content_id[:16]}, task {entry.task_id[:16]}. Ranked by {self.headline}, the mean "
            f"over seeds; in brackets 95 % intervals over origins, the ends averaged over seeds.{leaks}"
        )

    @property
    def figures(self) -> tuple[str, ...]:
        """The official figures, the headline first, without the points of curves."""
        names = self.entries[0].scores
        return (self.headline, *(name for name in names if "@" not in name and name != self.headline))

    @property
    def header(self) -> list[str]:
        return ["method", "rank", *self.figures, "seeds", "selection", "pretraining"]

    @property
    def body(self) -> list[list[str]]:
        """The cells of each line, in the order of `header`."""
        return [
            [
                entry.card.method,
                f"{rank:g}",
                *(cell(entry.scores[name]) for name in self.figures),
                f"{len(entry.seeds)}",
                entry.card.rule,
                f"{entry.card.pretraining.pretraining}; has the dataset: {entry.contamination.flag}",
            ]
            for rank, entry in self.lines
        ]

    @property
    def ahead(self) -> str:
        """The first method, and the methods from which its difference, paired by origin, may be 0."""
        name = self.headline
        rated = [entry for entry in self.entries if math.isfinite(entry.scores[name].value)]
        if not rated:
            return f"No method has a {name}."
        first, *others = rated
        best = first.scores[name]

        def behind(entry: Entry) -> bool:
            low, high = best.minus(entry.scores[name])
            return high < 0 if name.startswith(LESS) else low > 0  # False for nan

        text = f"{first.card.method} is first by {name}, {number(best.value)}"
        if not others:
            return f"{text}, and alone."
        left = [entry.card.method for entry in others if not behind(entry)]
        if not left:
            return (
                f"{text}; the 95 % intervals of its differences from all others, paired by origin, exclude 0."
            )
        more = f" and {len(left) - MOST:,} more" if len(left) > MOST else ""
        return (
            f"{text}; the 95 % intervals of its differences from {', '.join(left[:MOST])}{more}, paired by "
            "origin, include 0: who is better is open."
        )


@dataclass(frozen=True)
class Board:
    """Tables of accepted submissions, and the refused ones."""

    tables: tuple[Table, ...]
    refused: tuple[Refused, ...]

    def to_markdown(self) -> str:
        parts = []
        for table in self.tables:
            parts += [f"### {harmless(table.title)}", harmless(table.about)]
            parts += [_markdown(table.header, table.body)]
        if self.refused:
            lines = [[refused.file, refused.method or "-", refused.reason] for refused in self.refused]
            parts += ["### Refused", _markdown(["file", "method", "reason"], lines)]
        return "\n\n".join(parts) + "\n"

    def to_html(self) -> str:
        parts = [
            {
                "id": f"t{number}",
                "table": table,
                "body": [[text.partition(" [") for text in line[:-2]] + line[-2:] for line in table.body],
                "cards": [(entry.card, _facts(entry)) for entry in table.entries],
            }
            for number, table in enumerate(self.tables)
        ]
        return render_alone("board.html", parts=parts, refused=self.refused)

    __str__ = to_markdown


def leaderboard(
    *places: str | Path, data: str | Path | None = None, labels: Sequence[str | Path] = ()
) -> Board:
    """Judge every submission in files of `shiftdata submit` or folders of them, and rank them on each task.

    `data` is a folder with datasets by name, such as build/shift; by default they are looked for by name.
    `labels` are the files of what datasets hide, which only their owners have.
    """
    hidden = {answers.dataset: answers for answers in map(read_labels, map(Path, labels))}

    @cache
    def metadata_of(name: str, base: str) -> Metadata:
        return read_metadata(open_dataset(name if data is None else Path(data) / name), base)

    entries: list[Entry] = []
    refused = []
    tasks = cache(task_named)  # each is made once for all submissions
    for name, path in _files(places).items():
        method = ""
        try:
            submission = Submission.read(path)
            method = submission.card.method
            metadata = metadata_of(submission.card.dataset, submission.card.base)
            answers = hidden.get(submission.card.dataset)
            judged = judge(submission, name, metadata, tasks, answers)
            if not all(entry.scores for entry in judged):
                raise InputError("its test labels are hidden: whoever has the file of them gives --labels")
            entries += judged
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


def tables_of(entries: Sequence[Entry]) -> tuple[Table, ...]:
    """A table for each set of each task, oracles apart, the main set of a task first."""
    groups: dict[tuple[str, str, str, bool, str, bool], list[Entry]] = defaultdict(list)
    for entry in entries:
        card = entry.card
        key = (card.dataset, entry.task, entry.task_id, not entry.main, entry.set, card.oracle)
        groups[key].append(entry)
    return tuple(_table(same, key[-1]) for key, same in sorted(groups.items(), key=lambda item: item[0]))


def _table(entries: Sequence[Entry], oracle: bool) -> Table:
    first = entries[0].scores
    defined = [name for name, score in first.items() if not math.isnan(score.value)] or list(first)
    headline = next((name for name in HEADLINES if name in defined), defined[0])
    less = headline.startswith(LESS)
    values = [entry.scores[headline].value for entry in entries]
    worst = 1e9 if less else -1e9
    places = ranks([worst if math.isnan(value) else value for value in values], lower_is_better=less)
    lines = zip(map(float, places), entries, strict=True)
    return Table(
        oracle, headline, tuple(sorted(lines, key=lambda line: (line[0], line[1].card.method, line[1].file)))
    )


def cell(score: Score) -> str:
    """Format a figure: the value, and its interval if it has one."""
    if math.isnan(score.value):
        return "-"
    interval = "" if math.isnan(score.low) else f" [{score.low:.4f}, {score.high:.4f}]"
    return f"{score.value:.4f}{interval}"


def _markdown(header: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    return markdown([*map(harmless, header)], [[*map(harmless, row)] for row in body])


def _facts(entry: Entry) -> list[tuple[str, str]]:
    """The fields of the method card, the spread over seeds, and the rows of figures."""
    names = ("authors", "url", "code", "backbone", "trained_on", "trials")
    facts = [(name.replace("_", " "), str(getattr(entry.card, name)) or "-") for name in names]
    scores = entry.scores.items()
    spread = ", ".join(
        f"{name} {number(score.spread)}" for name, score in scores if math.isfinite(score.spread)
    )
    seeds = ", ".join(map(str, entry.seeds)) + (f"; standard deviation over them: {spread}" if spread else "")
    rows = ", ".join(f"{name} n={score.rows} ({score.of})" for name, score in scores)
    facts.append(("has the dataset", f"{entry.contamination.flag}: {entry.contamination.reason}"))
    return [*facts, ("file", entry.file), ("seeds", seeds), ("rows", rows)]
