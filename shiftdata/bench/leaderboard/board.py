"""Submissions ranked on each test set of each task, as Markdown, and as one HTML page without a script.

Texts of submissions are never read as markup.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from shiftdata.bench.leaderboard.judging import HEADLINES, Entry, Lead, Score, judge, task_named
from shiftdata.bench.leaderboard.submission import Submission
from shiftdata.bench.reporting.comparisons import LEVEL, NBSP
from shiftdata.bench.reporting.scores import title_of, unit_of
from shiftdata.data.dataset import open_dataset
from shiftdata.data.format.hidden import read_labels
from shiftdata.data.format.names import shown
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import ranks
from shiftdata.evaluation.metrics.differences import holm, shown_p
from shiftdata.evaluation.pages.shell import render_alone
from shiftdata.tables import harmless, markdown

#: Figures that are better when lower.
LESS = (
    "drop@",
    "equal_opportunity",
    "equalized_odds",
    "mean_drop",
    "failures",
    "marginal_error",
    "std_domain",
)
#: The most methods to name from which no difference is shown.
MOST = 3
#: The beginning of figures that say what a headline could be by chance.
CHANCE = "worst_by_chance"
#: The beginning of figures that have no column: those, and gaps between rates.
APART = (CHANCE, "equal_opportunity", "equalized_odds")


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
            "Figures in %, means over seeds, with 95 % intervals over origins, the ends averaged over seeds. "
            "Behind the first, in points: p of the paired test over origins, with Holm's adjustment for all "
            f"methods. {entry.task}, {entry.rows:,} rows, base {entry.card.base}, content_id "
            f"{entry.card.content_id[:16]}, task {entry.task_id[:16]}.{leaks}"
        )

    @property
    def figures(self) -> tuple[str, ...]:
        """The official figures after the headline, without the points of curves and those of `APART`."""
        names = (name for name in self.entries[0].scores if name != self.headline)
        return tuple(name for name in names if "@" not in name and not name.startswith(APART))

    @property
    def header(self) -> list[str]:
        first, *names = map(_head, (self.headline, *self.figures))
        return ["method", "rank", first, "behind the first", *names, "selected by", "pretraining"]

    @property
    def body(self) -> list[list[tuple[str, str]]]:
        """The cells of each line, in the order of `header`: a value, and what belongs to it."""
        return [
            [
                (entry.card.method, ""),
                (f"{rank:g}", ""),
                cell(self.headline, entry.scores[self.headline]),
                self._behind(entry),
                *(cell(name, entry.scores[name]) for name in self.figures),
                (entry.card.rule, f"{len(entry.seeds)} seed{'s' * (len(entry.seeds) > 1)}"),
                (_weights(entry), f"has the dataset: {entry.contamination.flag}"),
            ]
            for rank, entry in self.lines
        ]

    @cached_property
    def leads(self) -> dict[str, Lead]:
        """The lead of the first method over each other file with a number; Holm adjusts p."""
        name = self.headline
        rated = {entry.file: entry.scores[name] for entry in self.entries}
        (_, best), *others = rated.items()
        others = [(file, score) for file, score in others if math.isfinite(score.value)]
        less = name.startswith(LESS)
        leads = [score.minus(best) if less else best.minus(score) for _, score in others]
        adjusted = holm([lead.p for lead in leads])
        return {file: replace(lead, p=p) for (file, _), lead, p in zip(others, leads, adjusted, strict=True)}

    def _behind(self, entry: Entry) -> tuple[str, str]:
        lead = self.leads.get(entry.file)
        return ("-", "") if lead is None else (printed(self.headline, lead.value), _p(lead))

    @property
    def ahead(self) -> str:
        """The first method, by how much, and what the paired tests say of the others."""
        name, first = self.headline, self.entries[0]
        value, _ = cell(name, first.scores[name])
        if value == "-":
            return f"No method has a number for {title_of(name)}."
        unit = f"{NBSP}%" * (unit_of(name) == "%")
        text = f"{first.card.method} is first by {title_of(name)}, {value}{unit}"
        leads = [(of.card.method, self.leads[of.file]) for of in self.entries if of.file in self.leads]
        if not leads:
            return f"{text}, and alone."
        method, lead = leads[0]
        over = f"over {lead.origins:,} origins"
        unclear = [f"{method} ({_p(lead)})" for method, lead in leads if not lead.p < LEVEL]
        if unclear:
            more = f" and {len(unclear) - MOST:,} more" * (len(unclear) > MOST)
            return f"{text}; no difference shown from {', '.join(unclear[:MOST])}{more}, paired tests {over}."
        by, low, high = (printed(name, of) for of in (lead.value, lead.low, lead.high))
        rest = " and of all others" * (len(leads) > 1)
        return (
            f"{text}, ahead of {method} by {by} points (95 % interval {low} to {high}; paired test {over}, "
            f"{_p(lead)}){rest}."
        )


@dataclass(frozen=True)
class Board:
    """Tables of accepted submissions, and the refused ones."""

    tables: tuple[Table, ...]
    refused: tuple[Refused, ...]

    def to_markdown(self) -> str:
        parts = []
        for table in self.tables:
            parts += [f"### {harmless(table.title)}", harmless(table.ahead)]
            lines = [list(map(bracketed, line)) for line in table.body]
            parts += [_markdown(table.header, lines), harmless(table.about)]
        if self.refused:
            lines = [[refused.file, refused.method or "-", refused.reason] for refused in self.refused]
            parts += ["### Refused", _markdown(["file", "method", "reason"], lines)]
        return "\n\n".join(parts) + "\n"

    def to_html(self) -> str:
        parts = [
            {
                "id": f"t{number}",
                "table": table,
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


def cell(name: str, score: Score) -> tuple[str, str]:
    """Format a figure: the value, and its interval if it has one."""
    if math.isnan(score.value):
        return "-", ""
    ends = "" if math.isnan(score.low) else f"{printed(name, score.low)} to {printed(name, score.high)}"
    return printed(name, score.value), ends


def bracketed(cell: tuple[str, str]) -> str:
    """Write a cell on one line."""
    return f"{cell[0]} [{cell[1]}]" if cell[1] else cell[0]


def printed(name: str, value: float) -> str:
    """Write a number of a figure as reports do: shares in per cent."""
    if unit_of(name) == "probability":
        return shown_p(value)
    return f"{100 * value:.1f}" if unit_of(name) == "%" else f"{value:.3f}"


def _head(name: str) -> str:
    return title_of(name) if unit_of(name) == "%" else f"{title_of(name)} ({unit_of(name)})"


def _p(lead: Lead) -> str:
    return "not tested" if math.isnan(lead.p) else f"p{NBSP}{shown_p(lead.p)}"


def _weights(entry: Entry) -> str:
    weights = entry.card.pretraining.pretraining
    return weights.weights or weights.sha256[:16] or str(weights)


def _markdown(header: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    return markdown([*map(harmless, header)], [[*map(harmless, row)] for row in body])


def _facts(entry: Entry) -> list[tuple[str, str]]:
    """The fields of the method card, the spread over seeds, and the rows of figures."""
    names = ("authors", "url", "code", "backbone", "trained_on", "trials")
    facts = [(name.replace("_", " "), str(getattr(entry.card, name)) or "-") for name in names]
    scores = [(title_of(name), name, of) for name, of in entry.scores.items() if not name.startswith(APART)]
    spread = ", ".join(
        f"{title} {printed(name, of.spread)}" for title, name, of in scores if math.isfinite(of.spread)
    )
    seeds = ", ".join(map(str, entry.seeds)) + (f"; standard deviation over them: {spread}" if spread else "")
    rows = ", ".join(f"{title} n={of.rows} ({of.of})" for title, _, of in scores)
    facts.append(("pretraining", str(entry.card.pretraining.pretraining)))
    facts.append(("has the dataset", f"{entry.contamination.flag}: {entry.contamination.reason}"))
    if CHANCE in entry.scores:
        expected, likely = (entry.scores[f"{CHANCE}{end}"].value for end in ("", "_p"))
        lower = f"{printed(CHANCE, expected)} if all groups were equally hard; one this low has p"
        facts.append(("worst group by chance", f"{lower} {shown_p(likely)}"))
    return [*facts, ("file", entry.file), ("seeds", seeds), ("rows", rows)]
