"""Hundreds of linear heads at once: full-batch training of many runs on the same features.

Gradient descent with momentum and weight decay is linear in what it adds up, so that a head is, at any step,

    W = a W0 + A X        A: classes x rows, the sum of the loss's derivatives by the scores
    F = a F0 + A G        F: the scores of all rows;  F0 = W0 X',  G = X X'

with the bias as a column of ones. G is computed once, and a step of all runs is one matrix product of
(runs x classes) by rows with rows by rows. With more rows than twice the features the same code steps the
weights themselves. A step is one of `torch.optim.SGD` with all rows in one batch.

Arrays are classes x runs x rows: what a softmax adds up lies apart, and each of its passes is a plain one.
Runs are cut into chunks that fit the processor's cache, and each thread has chunks of its own: on a busy
machine threads that share each operation wait for one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines.head_runs import (
    HEAD_METHODS,
    Chunk,
    HeadResults,
    HeadSpec,
    Kind,
    Rows,
    first_weights,
    with_bias,
)
from shiftdata.baselines.methods import make_method
from shiftdata.baselines.models import Floats, Standardised, threads
from shiftdata.baselines.sets import TaskSets
from shiftdata.baselines.sources import Source
from shiftdata.baselines.training import Training
from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray
from shiftdata.sampling import Reweighted, RowSampler, make_sampler
from shiftdata.tasks import Task

__all__ = [
    "HEAD_METHODS",
    "GridResults",
    "HeadResults",
    "HeadSpec",
    "first_weights",
    "train_grid",
    "train_heads",
]

#: Bytes of the arrays of a chunk of runs.
WORKING_SET = 8 << 20
#: Makes the sampler of a rule for a seed.
Samplers: TypeAlias = Callable[[str, int], Any]


def train_heads(
    x: Floats,
    y: IntArray,
    group: IntArray,
    specs: Sequence[HeadSpec],
    *,
    steps: int,
    classes: int | None = None,
    evaluate: Sequence[Floats] = (),
    every: int = 0,
    samplers: Samplers | None = None,
    workers: int = 1,
    working_set: int = WORKING_SET,
    on_runs: Callable[[int], object] = int,
) -> HeadResults:
    """Train a linear head for each spec, all of them on the same rows.

    Args:
        x: features, a row each, as the heads read them: standardise them before.
        y: class numbers from 0.
        group: group numbers from 0.
        specs: the runs.
        steps: steps of each, all stages together.
        classes: how many there are; default: those in `y`.
        evaluate: features of other rows, to be predicted.
        every: after so many steps each, besides the last.
        samplers: makes the sampler of a rule and a seed, if it is not `make_sampler` on these rows.
        workers: threads.
        working_set: bytes of what a thread works on at a time.
        on_runs: gets how many runs have ended since its last call.

    """
    if steps < 1 or every < 0:
        raise InputError(f"steps={steps}, every={every}: give at least 1 step, and no negative number")
    rows = Rows(x, y, group, classes or int(y.max(initial=-1)) + 1)
    rows.check(specs)
    asked = sorted({*range(every, steps, every), steps} if every else {steps})
    others = [with_bias(one) for one in evaluate]
    weights = np.full((len(specs), rows.classes, rows.x.shape[1]), np.nan, np.float32)
    predicted = [np.full((len(specs), len(asked), len(one)), -1, np.int16) for one in others]
    results = HeadResults(specs, weights, tuple(asked), predicted, {})
    draw = samplers or partial(_sampler, y, group)
    with threads(1), ThreadPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(Chunk(some, chosen, weight, specs, steps, others, results).run)
            for some, chosen, weight in _chunks(rows, specs, draw, working_set, workers)
        ]
        try:
            for job in jobs:
                on_runs(job.result())
        finally:
            pool.shutdown(cancel_futures=True)
    return results


@dataclass(frozen=True, eq=False)
class GridResults:
    """Heads that were trained on a task: `results`, and the sets that they predicted, in the same order.

    `rows` are rows of the base, `outputs` the numbers of the labels that the classes stand for.
    """

    task: Task
    results: HeadResults
    sets: tuple[str, ...]
    rows: tuple[IntArray, ...]
    outputs: IntArray

    def predicted(self, run: int, name: str, step: int = -1) -> IntArray:
        """The number of the predicted label for each row of a set, after `results.steps[step]` steps."""
        if run in self.results.failed:
            raise InputError(f"run {run} has failed: {self.results.failed[run]}")
        classes = self.results.predicted[self.sets.index(name)][run, step]
        labels: IntArray = self.outputs[classes]
        return labels


def train_grid(
    task: Task,
    specs: Sequence[HeadSpec],
    *,
    steps: int,
    every: int = 0,
    features: Floats | None = None,
    name: str | None = None,
    workers: int = 1,
    on_runs: Callable[[int], object] = int,
) -> GridResults:
    """Train heads on a task's rows to fit, and predict the sets to select by and to test on.

    Args:
        task: from `sd.task`.
        specs: the runs.
        steps: steps of each.
        every: predict after so many steps each, besides the last.
        features: an array with a line for each row of the base; default: frozen ones, kept on this machine.
        name: the set to train on; default: the first with the role "fit".
        workers: threads.
        on_runs: gets how many runs have ended since its last call.

    """
    sets = TaskSets.of(task, make_method("erm"), name)
    judged = tuple(one for one, rows in task.sets.items() if rows.role in ("select", "test"))
    rows = tuple(task.rows(one) for one in judged)
    source = sets.source("linear") if features is None else Source(features)
    data = sets.data(source, Training(batch=0), 0)
    fit = source.lines(data.rows)
    prepare = Standardised(fit)
    results = train_heads(
        prepare(fit).numpy(),
        data.y,
        data.group,
        specs,
        steps=steps,
        classes=data.classes,
        evaluate=[prepare(source.lines(one)).numpy() for one in rows],
        every=every,
        samplers=lambda rule, seed: task.sampler(rule, sets.fit, seed=seed),
        workers=workers,
        on_runs=on_runs,
    )
    return GridResults(task, results, judged, rows, task.label_ids)


def _sampler(y: IntArray, group: IntArray, rule: str, seed: int) -> Any:
    return make_sampler(rule, labels=y, groups=group, seed=seed, on_empty="drop")


def _chunks(
    rows: Rows, specs: Sequence[HeadSpec], draw: Samplers, working_set: int, workers: int
) -> Iterator[tuple[Rows, list[int], Tensor]]:
    """Runs that are trained together, with their rows and those rows' weights, which add up to 1."""

    def rule(run: int) -> tuple[Kind, str, int]:
        about = HEAD_METHODS[specs[run].method]
        return about.kind, about.sampler, specs[run].seed if about.sampler in ("subg", "suby") else 0

    for (_, name, seed), same in groupby(sorted(range(len(specs)), key=rule), key=rule):
        some, weight = _sampled(rows, draw(name, seed), name)
        runs = sorted(same, key=lambda run: _boundary(specs[run]))
        each = 5 * 4 * rows.classes * max(len(some.x), some.width)
        size = max(1, min(working_set // each, -(-len(runs) // workers)))
        for at in range(0, len(runs), size):
            yield some, runs[at : at + size], weight


def _boundary(spec: HeadSpec) -> float:
    """Runs that change stage together go together."""
    return spec.hyper.get("first", 0.0)


def _sampled(rows: Rows, sampler: RowSampler, name: str) -> tuple[Rows, Tensor]:
    """The rows that a rule keeps, and the weights that it draws them by."""
    if name == "shuffle":
        return rows, torch.full((len(rows.x),), 1 / len(rows.x))
    if isinstance(sampler, Reweighted):
        weights = torch.from_numpy(sampler.weights / sampler.weights.sum())
        return rows, weights.float()
    kept = torch.from_numpy(np.sort(sampler.rows_of(0)))
    return rows.among(kept), torch.full((len(kept),), 1 / len(kept))
