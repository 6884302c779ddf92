"""Submissions ranked on each test set of each task."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from shiftdata.bench.leaderboard.judging import HEADLINES, Entry, Score
from shiftdata.evaluation.metrics import ranks

#: Figures that are better when lower.
LESS = ("drop@", "mean_drop", "failures", "marginal_error", "std_domain")


@dataclass(frozen=True)
class Refused:
    """A file that is not on the board, and the reason."""

    file: str
    method: str
    reason: str


@dataclass(frozen=True)
class Ranked:
    """An entry with its rank."""

    rank: float
    entry: Entry


@dataclass(frozen=True)
class Table:
    """The entries of one set of one task, the best first; oracles have a table of their own."""

    oracle: bool
    headline: str
    lines: tuple[Ranked, ...]

    @property
    def entry(self) -> Entry:
        """The first; dataset, task and set are the same for all."""
        return self.lines[0].entry

    @property
    def protocol(self) -> str:
        return self.entry.card.tasks[self.entry.task_id].protocol

    @property
    def title(self) -> str:
        apart = " (oracle: selection saw the test)" if self.oracle else ""
        return f"{self.entry.card.dataset}, {self.protocol or 'canonical'}, {self.entry.set}{apart}"

    @property
    def about(self) -> str:
        """The task, the data and the meaning of the numbers."""
        entry, card = self.entry, self.entry.card
        leaks = (
            " Origins are in two of its sets, as in its paper: results are too good." if entry.leaky else ""
        )
        return (
            f"{entry.task}, {entry.rows:,} rows, base {card.base or 'default'}, content_id "
            f"{card.content_id[:16]}, task {entry.task_id[:16]}. Ranked by {self.headline}, the mean over "
            f"seeds; in brackets 95 % intervals over origins, the ends averaged over seeds.{leaks}"
        )

    @property
    def figures(self) -> tuple[str, ...]:
        """The official figures, the headline first, without the points of curves."""
        others = (name for name in self.entry.scores if "@" not in name and name != self.headline)
        return (self.headline, *others)

    @property
    def header(self) -> list[str]:
        return ["method", "rank", *self.figures, "seeds", "selection"]

    def row(self, line: Ranked) -> list[str]:
        """The cells of a line, in the order of `header`."""
        entry = line.entry
        figures = (cell(entry.scores[name]) for name in self.figures)
        selection = f"{entry.card.rule}: {entry.badge}"
        return [entry.card.method, f"{line.rank:g}", *figures, f"{len(entry.seeds)}", selection]

    def score(self, line: Ranked) -> Score:
        """The headline figure of a line."""
        return line.entry.scores[self.headline]


def tables_of(entries: Sequence[Entry]) -> tuple[Table, ...]:
    """A table for each set of each task, oracles apart, the main set of a task first."""
    groups: dict[tuple[str, str, str, bool, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[entry.card.dataset, entry.task, entry.task_id, not entry.main, entry.set].append(entry)
    return tuple(
        _table(same, oracle)
        for _, of in sorted(groups.items())
        for oracle in (False, True)
        if (same := [entry for entry in of if entry.card.oracle == oracle])
    )


def _table(entries: Sequence[Entry], oracle: bool) -> Table:
    first = entries[0].scores
    defined = [name for name, score in first.items() if not math.isnan(score.value)] or list(first)
    headline = next((name for name in HEADLINES if name in defined), defined[0])
    less = headline.startswith(LESS)
    values = [entry.scores[headline].value for entry in entries]
    worst = 1e9 if less else -1e9
    places = ranks([worst if math.isnan(value) else value for value in values], lower_is_better=less)
    lines = [Ranked(float(place), entry) for place, entry in zip(places, entries, strict=True)]
    lines.sort(key=lambda line: (line.rank, line.entry.card.method, line.entry.file))
    return Table(oracle, headline, tuple(lines))


def cell(score: Score) -> str:
    """Format a figure: the value, and its interval if it has one."""
    if math.isnan(score.value):
        return "-"
    interval = "" if math.isnan(score.low) else f" [{score.low:.4f}, {score.high:.4f}]"
    return f"{score.value:.4f}{interval}"
