"""What a submission is worth: every number computed again from its predictions, or why it is refused."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.bench.card import Card
from shiftdata.bench.records import DONE, SCHEMA, STUDY, Records, evaluated
from shiftdata.bench.scoring import Entry, scores_of
from shiftdata.bench.selection import RULES, Selected, select
from shiftdata.bench.submission import FIT, Part, Submission, candidates_of, tests_of
from shiftdata.dataset import OpenDataset, open_dataset
from shiftdata.errors import InputError, not_found
from shiftdata.metadata import Metadata, read_metadata
from shiftdata.metrics.records import number, some
from shiftdata.protocols import parse_protocol
from shiftdata.protocols import task as make_task
from shiftdata.stable import content_hash
from shiftdata.tasks import Evaluation, LeakWarning, Task
from shiftdata.tasks.predictions import predicted_rows


class Judge:
    """Judges submissions on datasets of this machine; each dataset and task is read once."""

    def __init__(self, data: Path | None = None, *opened: OpenDataset) -> None:
        self.data = data
        self._datasets = {one.manifest.name: one for one in opened}
        self._metadata: dict[tuple[str, str], Metadata] = {}
        self._tasks: dict[tuple[str, str, str, str], Task] = {}

    def judge(self, submission: Submission, file: str) -> list[Entry]:
        """A result for each set that tests; what is not as it should be is an `InputError`."""
        card = submission.card
        metadata = self.metadata(card.dataset, card.base, card.content_id)
        given = {part.task_id for part in submission.parts}
        if strange := sorted(given - set(card.tasks)):
            raise InputError(
                f"it has predictions for the task {strange[0]!r:.80}, which its card does not name"
            )
        if missing := sorted(set(card.tasks) - given):
            raise InputError(f"its card names the task {missing[0]}, for which it has no predictions")
        entries = []
        for task_id in card.tasks:
            task = self._task(card, task_id, metadata)
            entries += _Judged(submission, task_id, task).entries(file)
        _check_claims(card, entries)
        return entries

    def metadata(self, name: str, base: str, content_id: str) -> Metadata:
        """The rows of a base of a dataset; another build than the one that is meant is refused."""
        if name not in self._datasets:
            self._datasets[name] = open_dataset(name if self.data is None else self.data / name)
        dataset = self._datasets[name]
        known = {one.name: one.content_id for one in dataset.manifest.bases}
        if base not in known:
            raise not_found("base", base, known, f"It was asked of {name}.")
        if known[base] != content_id:
            raise InputError(
                f"it is for another build of {name}, {base}: content_id {content_id[:16]}, and here it is "
                f"{known[base][:16]}: predict this build, or judge it where that one is"
            )
        if (name, base) not in self._metadata:
            self._metadata[name, base] = read_metadata(dataset, base)
        return self._metadata[name, base]

    def _task(self, card: Card, task_id: str, metadata: Metadata) -> Task:
        named = card.tasks[task_id]
        place = (card.content_id, metadata.base, named.protocol, named.unlabelled)
        if place not in self._tasks:
            self._tasks[place] = task_named(metadata, named.protocol, named.unlabelled)
        task = self._tasks[place]
        if (mine := task.content_id()) != task_id:
            raise InputError(
                f"{named.protocol} of this dataset is the task {mine[:16]}, and the submission has "
                f"{task_id[:16]}: the protocol has another version, or its rows were changed"
            )
        if is_leaky(task) and not card.leaks:
            raise InputError(
                f"{task.describe()} has origins on two sides, as its paper does: a card for it says leaks = "
                "true"
            )
        return task


def task_named(metadata: Metadata, protocol: str, unlabelled: str = "") -> Task:
    """The task that a card or a command line names: a canonical split or protocols, never a file."""
    splits = metadata.dataset.manifest.canonical_splits if metadata.dataset else ()
    canonical = protocol in [one.name for one in splits]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)  # a board says it in its own place
        task = make_task(metadata, protocol if canonical else parse_protocol(protocol), on_empty="report")
    return task.also(unlabelled, "unlabelled") if unlabelled else task


def is_leaky(task: Task) -> bool:
    """Whether an origin is on two sides; a task from a file of keys does not remember it."""
    return task.leaky or bool(task.leaks())


class _Judged:
    """The parts of a submission that belong to one task."""

    def __init__(self, submission: Submission, task_id: str, task: Task) -> None:
        self.submission, self.card, self.task_id, self.task = submission, submission.card, task_id, task
        self.tests: dict[str, dict[int, Part]] = {name: {} for name in tests_of(task)}
        self.fit: list[pa.Table] = []
        for part, table in submission.parts.items():
            if part.task_id == task_id:
                self._place(part, table)
        self._check_complete()

    def entries(self, file: str) -> list[Entry]:
        self._check_fit()
        repeated, trials = self._repeat()
        first = next(iter(self.tests))
        made = []
        for name, seeds in self.tests.items():
            judged = [self._evaluate(part) for _, part in sorted(seeds.items())]
            made.append(
                Entry(
                    file=file,
                    card=self.card,
                    task_id=self.task_id,
                    set=name,
                    task=self.task.describe(),
                    main=name == first,
                    leaky=is_leaky(self.task),
                    rows=len(self.task.sets[name]),
                    seeds=tuple(sorted(seeds)),
                    scores=scores_of([result for result, _ in judged], self.task),
                    repeated=repeated,
                    trials=trials,
                    prints=tuple(sorted(one for _, one in judged)),
                )
            )
        return made

    def _place(self, part: Part, table: pa.Table) -> None:
        name = part.set
        role = self.task.sets[name].role if name in self.task.sets else None
        if name == FIT and role is None:
            self.fit.append(table)
        elif name in self.tests:
            if (other := self.tests[name].setdefault(part.seed, part)) != part:
                raise InputError(
                    f"{name}, seed {part.seed}, has predictions of two models, trial {other.trial} step "
                    f"{other.step} and trial {part.trial} step {part.step}: give those of the chosen one"
                )
        elif role != "select":
            sets = [*self.tests, *(one for one, rows in self.task.sets.items() if rows.role == "select"), FIT]
            raise not_found("set of a submission", name[:100], sets, f"It is for {self.task.describe()}.")

    def _check_complete(self) -> None:
        every = {seed for seeds in self.tests.values() for seed in seeds}
        for name, seeds in self.tests.items():
            if lost := (every - set(seeds)) or (not every):
                what = f"seed {min(lost)} of {name}" if isinstance(lost, set) else name
                raise InputError(
                    f"{self.task.describe()} is tested on {', '.join(self.tests)}, and predictions for "
                    f"{what} are missing: give one for each key"
                )

    def _evaluate(self, part: Part) -> tuple[Evaluation, str]:
        """The evaluation of a part, and a hash of what it predicts."""
        table = self.submission.parts[part]
        where = f"{part.set}, seed {part.seed}"
        if part.trial is not None:
            where += f", trial {part.trial}, step {part.step}"
        self._check_names(table["prediction"], where)
        try:
            predicted = predicted_rows(self.task, part.set, table)[1]
            return self.task.evaluate(predicted, part.set), content_hash(part.set, predicted.tobytes())
        except InputError as error:
            raise InputError(f"{where}: {error}") from error

    def _check_names(self, names: pa.ChunkedArray, where: str) -> None:
        """Refuse a prediction that is not exactly the name of a label of the task."""
        labels, there = self.task.metadata.labels, self.task.remapped >= 0
        allowed = [name for name, known in zip(labels, there, strict=True) if known]
        allowed += ["unknown"] if "universal" in self.task.metrics else []
        for name in pc.unique(names).to_pylist():
            if name not in allowed:
                rows = pc.sum(pc.equal(names, name)).as_py() if name is not None else names.null_count
                raise InputError(
                    f"{where}: {rows:,} predictions are {name if name is None else name[:60]!a}, which is "
                    f"not a label of the task, sign by sign: it has {some(allowed, 20)}"
                )

    def _check_fit(self) -> None:
        """Refuse training on an origin of the test."""
        metadata = self.task.metadata
        for table in self.fit:
            keys = pc.unique(table["key"])
            rows = metadata.rows_of(keys)
            if strange := int((rows < 0).sum()):
                example = keys[int(np.argmax(rows < 0))].as_py()
                raise InputError(
                    f"{strange:,} keys of {FIT} are not in {metadata.name}, such as {example!a:.80}: list "
                    "those of this dataset, and say the others in trained_on"
                )
            trained = set(metadata.origin[rows].tolist())
            for name in self.tests:
                shared = trained & set(metadata.origin[self.task.sets[name].indices].tolist())
                if shared and not (self.card.leaks and is_leaky(self.task)):
                    example = metadata.origin_names[min(shared)].as_py()
                    raise InputError(
                        f"it was trained on {len(shared):,} origins of {name}, such as {example!a:.80}: "
                        "train without their rows, whatever their nuisance"
                    )

    def _repeat(self) -> tuple[int, int]:
        """Repeat the stated selection: among how many models and trials; none where it cannot be repeated."""
        rule = RULES.get(self.card.rule)
        parts = [part for part, _ in candidates_of(self.submission, self.task, self.task_id)]
        if rule is None or rule.role != "select" or rule.held_out or not parts:
            return 0, 0
        found = select(self._records(parts), self.card.rule, m=self.card.m, ties=self.card.ties)[0]
        if found.refused:
            raise InputError(f"{self.card.rule} cannot choose among its candidates: {found.refused}")
        models = {(part.trial, part.step, part.seed) for part in parts}
        trials = {trial for trial, _, _ in models}
        if len(trials) > self.card.trials:
            raise InputError(
                f"its card says {self.card.trials} trials, and it has candidates of {len(trials)}"
            )
        self._check_chosen(found)
        return len(models), len(trials)

    def _check_chosen(self, found: Selected) -> None:
        chosen = {one.seed: (found.trial, one.step) for one in found.runs}
        for name, seeds in self.tests.items():
            if set(seeds) != set(chosen):
                raise InputError(
                    f"{name} has the seeds {some(sorted(seeds), 9)}, and the trial that {self.card.rule} "
                    f"chooses ({found.trial}) has {some(sorted(chosen), 9)}: give the predictions of each"
                )
            for seed, part in seeds.items():
                if (part.trial, part.step) != chosen[seed]:
                    trial, step = chosen[seed]
                    raise InputError(
                        f"test-tuned: {self.card.rule}, repeated on its own candidates, chooses trial "
                        f"{trial} step {step} for seed {seed}, and {name} has predictions of trial "
                        f"{part.trial} step {part.step}"
                    )

    def _records(self, parts: Sequence[Part]) -> Records:
        """The candidates as records: what the bench selects from."""
        models: dict[tuple[int, int], dict[int, list[Evaluation]]] = {}
        sets: dict[str, Evaluation] = {}
        for part in parts:
            if part.trial is None or part.step is None:
                raise InputError(f"predictions of {part.set} lack trial or step: candidates have both")
            result, _ = self._evaluate(part)
            sets.setdefault(part.set, result)
            models.setdefault((part.trial, part.seed), {}).setdefault(part.step, []).append(result)
        same = dict.fromkeys(STUDY, "") | {"task_id": self.task_id, "task": self.task.describe()}
        same |= {
            "method": self.card.method,
            "study": "",
            "held_out": "",
            "status": DONE,
            "about": json.dumps({}),
        }
        runs = []
        for (trial, seed), steps in sorted(models.items()):
            of = [evaluated(step, one) for step, results in sorted(steps.items()) for one in results]
            runs.append(same | {"trial": trial, "seed": seed, "evaluations": of})
        return Records(pa.Table.from_pylist(runs, SCHEMA), {self.task_id: sets})


def _check_claims(card: Card, entries: Sequence[Entry]) -> None:
    """Refuse a card whose numbers are not those of its predictions, up to the digits that it gives."""
    names = {name for task_id, one in card.tasks.items() for name in (task_id, one.protocol)}
    for of, figures in card.claims.items():
        if of not in names:
            raise not_found("task of a claim", of[:100], [one.protocol for one in card.tasks.values()])
        entry = next(
            one for one in entries if one.main and of in (one.task_id, card.tasks[one.task_id].protocol)
        )
        for name, claimed in figures.items():
            if name not in entry.scores:
                raise not_found("figure of a claim", name[:60], entry.scores, f"It was made of {of}.")
            value = entry.scores[name].value
            exponent = Decimal(repr(claimed)).as_tuple().exponent
            half = 0.5 * 10.0 ** int(exponent) if isinstance(claimed, float) else 0.0
            if not abs(claimed - value) <= half + 1e-9:
                raise InputError(
                    f"its card claims {name} {claimed:g} on {of}, and its predictions give {number(value)} "
                    f"({entry.set}, mean over {len(entry.seeds)} seeds; shares, not percent)"
                )
