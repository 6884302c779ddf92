"""Batched heads: full-batch training of hundreds of linear heads on the same features.

A step is one of `torch.optim.SGD` with all rows in one batch. The gradient of a head W (classes x features)
is P X, with X the features of all rows (and a column of ones for the bias) and P (classes x rows) the
gradient by the logits. SGD with momentum and weight decay is linear in the gradients, so W stays in the span
of W0 and X. The dual form stores coefficients instead of W:

    W = a W0 + A X        A: classes x rows, a weighted sum of the P; a: a scalar, the decay of W0
    F = a F0 + A G        F: the logits of all rows;  F0 = W0 X',  G = X X' (rows x rows)

G is computed once and shared by all runs; a step is one matrix product of (classes x runs) x rows with G: n^2
products a class instead of 2 n d for n rows and d features. With n >= 2 d the same code steps W itself.
`head_runs.Chunk` has the steps.

Arrays are classes x runs x rows, so that a softmax over classes reads long contiguous lines. Runs are cut
into chunks that fit the processor's cache, and each thread trains chunks of its own, without waiting for
others.
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

from shiftdata.baselines.head_runs import HEAD_METHODS as HEAD_METHODS
from shiftdata.baselines.head_runs import Chunk, HeadResults, Rows, with_bias
from shiftdata.baselines.head_runs import HeadSpec as HeadSpec
from shiftdata.baselines.head_runs import first_weights as first_weights
from shiftdata.baselines.methods import make_method
from shiftdata.baselines.models import Floats, Standardised
from shiftdata.baselines.sets import TaskSets
from shiftdata.baselines.training import TRAINING
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.sources import Source
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import Reweighted, make_sampler
from shiftdata.evaluation.tasks import Task
from shiftdata.threads import torch_threads

#: Bytes of the arrays of a chunk of runs.
WORKING_SET = 8 << 20
#: Makes the sampler of a rule and a `seed`.
Samplers: TypeAlias = Callable[..., Any]


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
) -> HeadResults:
    """Train a linear head for each spec, all of them on the same rows.

    `x` has a line of standardised features for each row; `y` and `group` are numbers from 0, `classes` by
    default those in `y`. A run takes `steps`, all stages together. The rows of each array of `evaluate` are
    predicted after every `every` steps and after the last. `samplers` makes the sampler of a rule and a
    `seed`, by default on these rows. `workers` are threads.
    """
    if steps < 1 or every < 0:
        raise InputError(f"steps={steps}, every={every}: give at least 1 step, and no negative number")
    rows = Rows.of(x, y, group, classes or int(y.max(initial=-1)) + 1)
    for name in {spec.method for spec in specs}:
        if "groups" in make_method(name).needs and len(np.unique(group)) < 2:
            raise InputError(f"{name} needs rows of several groups, and these have one")
    recorded = (*range(every, steps, every), steps) if every else (steps,)
    weights = np.full((len(specs), rows.classes, rows.x.shape[1]), np.nan, np.float32)
    predicted = [np.full((len(specs), len(recorded), len(lines)), -1, np.int16) for lines in evaluate]
    results = HeadResults(specs, weights, recorded, predicted, {})
    draw = samplers or partial(make_sampler, labels=y, groups=group, on_empty="drop")
    inputs = [with_bias(lines) for lines in evaluate]
    with torch_threads(), ThreadPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(Chunk(part, runs, weight, steps, inputs, results).run)
            for part, runs, weight in _chunks(rows, specs, draw, workers)
        ]
        try:
            for job in jobs:
                job.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return results


@dataclass(frozen=True, eq=False)
class GridResults:
    """Heads that were trained on a task: `results`, and the predicted sets in the same order.

    `rows` are rows of the base, `outputs` the label number of each class.
    """

    task: Task
    results: HeadResults
    sets: tuple[str, ...]
    rows: tuple[IntArray, ...]
    outputs: IntArray

    def predicted(self, run: int, name: str, step: int = -1) -> IntArray:
        """Return the predicted label's number for each row of a set, after `results.steps[step]` steps."""
        if run in self.results.failed:
            raise InputError(f"run {run} has failed: {self.results.failed[run]}")
        labels: IntArray = self.outputs[self.results.predicted[self.sets.index(name)][run, step]]
        return labels


def train_grid(
    task: Task,
    specs: Sequence[HeadSpec],
    *,
    steps: int,
    every: int = 0,
    features: Floats | None = None,
    workers: int = 1,
) -> GridResults:
    """Train heads on a task's training set, and predict its validation and test sets.

    `features` is an array with a line for each row of the base; by default frozen features, cached on this
    machine. `steps`, `every` and `workers` are those of `train_heads`.
    """
    sets = TaskSets.of(task, make_method("erm"), None)
    judged = {name: task.rows(name) for name, rows in task.sets.items() if rows.role in ("select", "test")}
    source = sets.source("linear") if features is None else Source(features)
    data = sets.data(source, TRAINING, 0)
    x, *evaluate = (source.lines(rows) for rows in (data.rows, *judged.values()))
    assert x is not None  # "linear" reads lines
    prepare = Standardised(x)
    results = train_heads(
        prepare(x).numpy(),
        data.y,
        data.group,
        specs,
        steps=steps,
        classes=data.classes,
        evaluate=[prepare(lines).numpy() for lines in evaluate if lines is not None],
        every=every,
        samplers=partial(task.sampler, name=sets.fit),
        workers=workers,
    )
    return GridResults(task, results, tuple(judged), tuple(judged.values()), task.label_ids)


def _chunks(
    rows: Rows, specs: Sequence[HeadSpec], draw: Samplers, workers: int
) -> Iterator[tuple[Rows, list[int], Tensor]]:
    """Yield runs that are trained together, their rows, and the weights of these, of sum 1."""

    def rule(run: int) -> tuple[str, str, int]:
        """Only a subset depends on the seed; the weights of a reweighted draw do not."""
        spec = specs[run]
        weighing = spec.method if spec.method in ("group-dro", "jtt") else ""
        return weighing, spec.sampler, spec.seed if spec.sampler in ("subg", "suby") else 0

    for (_, name, seed), same in groupby(sorted(range(len(specs)), key=rule), key=rule):
        part, weight = _sampled(rows, draw(name, seed=seed), name)
        # Runs whose first stages have equal lengths go into one chunk.
        runs = sorted(same, key=lambda run: specs[run].hyper.get("first", 0.0))
        width = max(len(part.x), 0 if part.dual else part.x.shape[1])
        size = max(1, min(WORKING_SET // (5 * 4 * rows.classes * width), -(-len(runs) // workers)))
        for at in range(0, len(runs), size):
            yield part, runs[at : at + size], weight


def _sampled(rows: Rows, sampler: Any, name: str) -> tuple[Rows, Tensor]:
    """Return the rows that a rule keeps, and the weights by which it draws them."""
    if isinstance(sampler, Reweighted):
        return rows, torch.from_numpy(sampler.weights / sampler.weights.sum()).float()
    if name != "shuffle":
        rows = rows.among(torch.from_numpy(np.sort(sampler.rows_of(0))))
    return rows, torch.full((len(rows.x),), 1 / len(rows.x))
