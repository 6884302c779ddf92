"""Batched heads: full-batch training of hundreds of linear heads on the same features.

A step is one of `torch.optim.SGD` with all rows in one batch. The gradient of a head W (classes x features)
is P X, with X the features of all rows (and a column of ones for the bias) and P (classes x rows) the
gradient by the logits. SGD with momentum and weight decay is linear in the gradients, so W stays in the span
of W0 and X. The dual form stores coefficients instead of W:

    W = a W0 + A X        A: classes x rows, a weighted sum of the P; a: a scalar, the decay of W0
    F = a F0 + A G        F: the logits of all rows;  F0 = W0 X',  G = X X' (rows x rows)

G is computed once and shared by all runs; a step is one matrix product of (classes x runs) x rows with G: n^2
products a class instead of 2 n d for n rows and d features. With n >= 2 d the same code steps W itself.
`Chunk` has the steps.

Arrays are classes x runs x rows, so that a softmax over classes reads long contiguous lines. Runs are cut
into chunks that fit the processor's cache, and each thread trains chunks of its own, without waiting for
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from shiftdata.baselines.losses.groups import group_dro_log_q, jtt_weights
from shiftdata.baselines.method import Method
from shiftdata.baselines.methods import make_method
from shiftdata.baselines.methods.groups import JTT, GroupDRO
from shiftdata.baselines.models import PREPARES, Floats
from shiftdata.baselines.pretrained.model import FeatureEncoder
from shiftdata.baselines.sets import TaskSets
from shiftdata.baselines.training import TRAINING
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.sources import Source
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.sampling import Reweighted, make_sampler
from shiftdata.evaluation.tasks import Task
from shiftdata.stable import hash64
from shiftdata.threads import torch_threads

#: Bytes of the arrays of a chunk of runs.
WORKING_SET = 8 << 20
#: Makes the sampler of a rule and a `seed`.
Samplers: TypeAlias = Callable[..., Any]
#: Steps between two checks for weights that overflow.
CHECK_EVERY = 50
#: The methods of batched heads: all of them weigh rows. Samplers, needs and defaults are those of their
#: classes.
HEAD_METHODS = ("erm", "suby", "subg", "rwy", "rwg", "group-dro", "jtt")


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """A run: a method and its hyper-parameters, the optimiser's, and a seed of draws and first weights."""

    method: str = "erm"
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    momentum: float = 0.9
    seed: int = 0
    hyper: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in HEAD_METHODS:
            raise not_found("method of linear heads", self.method, HEAD_METHODS)
        if not all(number >= 0 for number in (self.learning_rate, self.weight_decay, self.momentum)):
            raise InputError(f"{self}: give no negative number")
        object.__setattr__(self, "hyper", self.instance.hyper)  # with the defaults

    @cached_property
    def instance(self) -> Method:
        """The method, of which heads use the formulas; JTT with the steps that its first stage leaves."""
        hyper: dict[str, Any] = dict(self.hyper)
        return make_method(self.method, variant="code" if self.method == "jtt" else "fixed", **hyper)

    @property
    def sampler(self) -> str:
        """The rule that keeps or weighs rows; weights that change in training begin equal."""
        return "shuffle" if isinstance(self.instance, GroupDRO | JTT) else self.instance.sampler


@dataclass(frozen=True, eq=False)
class HeadResults:
    """The trained heads of `specs`, in their order.

    `weights` are runs x classes x (features + 1), the last the bias. `predicted` has an array for each
    set that was evaluated: runs x `steps` x rows, class numbers, -1 where a run has `failed`.
    """

    specs: Sequence[HeadSpec]
    weights: Floats
    steps: tuple[int, ...]
    predicted: Mapping[str, NDArray[np.int16]]
    failed: dict[int, str]


def first_stage(spec: HeadSpec, steps: int) -> int:
    """Return the steps of a first model that is thrown away: JTT's, whose errors weigh more in the second."""
    return round(spec.instance.first * steps) if isinstance(spec.instance, JTT) else 0


class Rows:
    """The training rows: X with a column of ones, labels, groups, and in the dual form G = X X'."""

    def __init__(self, x: Tensor, y: Tensor, group: Tensor, classes: int, products: Tensor | None = None):
        self.x, self.y, self.group, self.classes = x, y, group, classes
        self.dual = is_dual(*x.shape)
        self.products = (x @ x.T if products is None else products) if self.dual else None

    def among(self, rows: Tensor) -> Rows:
        """Return some of the rows, with their part of the products."""
        products = None if self.products is None else self.products[rows][:, rows].contiguous()
        return Rows(self.x[rows], self.y[rows], self.group[rows], self.classes, products)


def is_dual(rows: int, width: int) -> bool:
    """Compare the operations of a step: rows x rows in the dual form, 2 x rows x width in the primal one."""
    return rows < 2 * width


def with_bias(x: Floats) -> Tensor:
    """Append a column of ones: the bias is a weight like the others, and decays as in `torch.optim.SGD`."""
    return torch.from_numpy(np.concatenate([x, np.ones((len(x), 1))], axis=1).astype(np.float32))


def first_weights(spec: HeadSpec, features: int, classes: int) -> Tensor:
    """Return a run's first weights, classes x (features + 1), drawn as `torch.nn.Linear` draws."""
    generator = torch.Generator().manual_seed(hash64(spec.seed, "baselines", "weights"))
    bound, sizes = features**-0.5, ((classes, features), (classes, 1))
    return torch.cat([torch.empty(size).uniform_(-bound, bound, generator=generator) for size in sizes], 1)


@dataclass(eq=False)
class Chunk:
    """Runs on the same rows that are stepped together. A step of fixed weights allocates nothing.

    Logits, their gradients and A are classes x runs x rows, W is classes x runs x (features + 1). `weight`
    has a row's weight in the loss at the start; its sum is 1.
    """

    rows: Rows
    runs: list[int]
    weight: Tensor
    steps: int
    evaluate: Mapping[str, Tensor]
    results: HeadResults

    def run(self) -> None:
        """Train, and write heads and predictions into the results."""
        # Probabilities near 0 become denormal numbers, a hundred times as slow: flush them, in this thread.
        torch.set_flush_denormal(True)
        with torch.inference_mode():
            self._begin()
            for step in range(self.steps):
                for at, last in enumerate(self._first_stages):
                    if last == step:
                        self._begin_second_stage(at)
                self._step()
                if step + 1 in self.results.steps:
                    self._record(step + 1)
                elif (step + 1) % CHECK_EVERY == 0:
                    self._check(step + 1)

    def _begin(self) -> None:
        rows, specs = self.rows, [self.results.specs[run] for run in self.runs]
        self.specs, kind = specs, specs[0].instance
        self.grouped = isinstance(kind, GroupDRO)
        size, classes, count = len(rows.x), rows.classes, len(specs)
        self.truth = one_hot(rows.y, classes).T.float().unsqueeze(1)
        settings = [[(spec.learning_rate, spec.weight_decay, spec.momentum)] for spec in specs]
        self._exact = torch.tensor(settings, dtype=torch.float64).unbind(2)  # each runs x 1
        self._settings = [setting.float() for setting in self._exact]
        seeds = {spec.seed: spec for spec in specs}
        first = {seed: first_weights(spec, rows.x.shape[1] - 1, classes) for seed, spec in seeds.items()}
        self.first = torch.stack([first[spec.seed] for spec in specs], dim=1)
        # W in the primal form, A in the dual one, which starts at 0.
        self.parameters = torch.zeros(classes, count, size) if rows.dual else self.first.clone()
        self.momentum_buffer = torch.zeros_like(self.parameters)
        # a and its momentum in float64: a is a product over all steps, and each product would round.
        self.share, self.share_buffer = torch.ones(count, 1).double(), torch.zeros(count, 1).double()
        self.first_logits = self.first @ rows.x.T if rows.dual else None
        self.logits, self.gradients = (torch.empty(classes, count, size) for _ in range(2))
        self.top = torch.empty(count, size)
        self.change = self.gradients if rows.dual else torch.empty_like(self.parameters)  # P, or P X
        # Runs of fixed weights share one line: `expand` copies nothing, and reads stay in the cache.
        self.weights = self.weight.expand(count, size)
        if isinstance(kind, GroupDRO | JTT):
            self.weights = self.weights.clone()
        if self.grouped:
            self._begin_groups()
        two_stages = isinstance(kind, JTT)
        self._first_stages = [first_stage(spec, self.steps) if two_stages else -1 for spec in specs]

    def _step(self) -> None:
        """Take a step of `torch.optim.SGD`: g = P X + decay W;  V <- momentum V + g;  W <- W - rate V.

        In the dual form W = a W0 + A X and V = b W0 + B X. Substitute both: V and W stay in this form, and
        the coefficients of X and of W0 follow the same recursion, with P for g and with 0:

            B <- momentum B + P + decay A      b <- momentum b + decay a
            A <- A - rate B                    a <- a - rate b
        """
        self._score()
        self._derive()
        if not self.rows.dual:
            torch.mm(self.gradients.flatten(0, 1), self.rows.x, out=self.change.flatten(0, 1))
        _sgd(self.parameters, self.momentum_buffer, self.change, self._settings)
        if self.first_logits is not None:
            _sgd(self.share, self.share_buffer, None, self._exact)

    def _score(self) -> None:
        """Compute the logits F = W X' of all rows, in the dual form a F0 + A G with F0 = W0 X'."""
        products = self.rows.products if self.rows.products is not None else self.rows.x.T
        torch.mm(self.parameters.flatten(0, 1), products, out=self.logits.flatten(0, 1))
        if self.first_logits is not None:
            self.logits.addcmul_(self.first_logits, self.share.float())

    def _derive(self) -> None:
        """Compute P = w (softmax(F) - Y), the gradient of sum w cross-entropy(F, Y) by F.

        Each operation overwrites `gradients` (classes x runs x rows): it is the largest array, a step is
        bound by memory traffic, and a temporary of its size would double it. The softmax reduces the first
        axis, so that each pass over classes reads runs x rows numbers in a row.
        """
        p, top = self.gradients, self.top
        torch.amax(self.logits, 0, out=top)
        torch.sub(self.logits, top, out=p)  # exp of at most 0: no overflow
        own = (p * self.truth).sum(0) if self.grouped else None
        torch.sum(p.exp_(), 0, out=top)
        if own is not None:  # cross-entropy = log sum exp(F) - F_y; the maximum cancels
            self._weigh(top.log() - own)
        p.div_(top).sub_(self.truth).mul_(self.weights)

    def _begin_groups(self) -> None:
        groups, self.group = torch.unique(self.rows.group, return_inverse=True)
        members = one_hot(self.group, len(groups)).float()
        counts = members.sum(0)
        self.each = 1 / counts
        self.means = members * self.each  # rows x groups: losses @ means are the groups' mean losses
        self.log_q = torch.full((len(self.runs), len(groups)), 1 / len(groups)).log()
        methods = [spec.instance for spec in self.specs if isinstance(spec.instance, GroupDRO)]
        self.eta = torch.tensor([[method.eta] for method in methods])
        self.bonus = torch.stack([method.bonus(counts) for method in methods])

    def _weigh(self, losses: Tensor) -> None:
        """GroupDRO: the loss is sum_g q_g L_g, L_g the mean over n_g rows, so that a row weighs q_g / n_g.

        log q is stored, as products of exp(eta L) over many steps overflow float32. All L are one matrix
        product for all runs, where `index_add` goes row by row.
        """
        self.log_q = group_dro_log_q(self.log_q, losses @ self.means, self.eta, self.bonus)
        torch.index_select(self.log_q.exp() * self.each, 1, self.group, out=self.weights)

    def _begin_second_stage(self, at: int) -> None:
        """JTT: start a run again, with more weight on the rows that its first model gets wrong."""
        self._score()
        wrong = self.logits[:, at].argmax(0) != self.rows.y
        method = self.specs[at].instance
        assert isinstance(method, JTT)
        counts = jtt_weights(wrong, method.total_copies).float()
        self.weights[at] = counts / counts.sum()
        self.parameters[:, at] = 0 if self.rows.dual else self.first[:, at]
        self.momentum_buffer[:, at] = 0
        self.share[at], self.share_buffer[at] = 1, 0

    def _record(self, done: int) -> None:
        """Write the heads W after a step, and their predictions."""
        self._check(done)
        heads, results = self.parameters, self.results
        if self.rows.dual:  # elsewhere A and the logits are enough
            heads = (heads @ self.rows.x).addcmul_(self.first, self.share.float())
        at, fine = results.steps.index(done), [run not in results.failed for run in self.runs]
        if done == self.steps:
            results.weights[self.runs] = heads.transpose(0, 1).numpy()
        for name, x in self.evaluate.items():
            best = (heads @ x.T).max(0).indices.numpy()  # `argmax` takes five times as long
            results.predicted[name][np.array(self.runs)[fine], at] = best[fine]

    def _check(self, done: int) -> None:
        """Note the runs that diverged; the others go on, as runs share no numbers."""
        finite = torch.isfinite(self.parameters.sum((0, 2))).tolist()
        for run, spec, good in zip(self.runs, self.specs, finite, strict=True):
            if not good and run not in self.results.failed:
                self.results.failed[run] = (
                    f"the weights are not finite after step {done}, or up to {CHECK_EVERY} before: lower "
                    f"learning_rate, now {spec.learning_rate:g}"
                )


def _sgd(
    parameters: Tensor, momentum_buffer: Tensor, gradients: Tensor | None, settings: Sequence[Tensor]
) -> None:
    """V <- momentum V + g + decay W;  W <- W - rate V, in place; each run has settings of its own."""
    rate, decay, momentum = settings
    momentum_buffer.mul_(momentum)
    if gradients is not None:
        momentum_buffer.add_(gradients)
    momentum_buffer.addcmul_(parameters, decay)
    parameters.addcmul_(momentum_buffer, rate, value=-1)


def train_heads(
    x: Floats,
    y: IntArray,
    group: IntArray,
    specs: Sequence[HeadSpec],
    *,
    steps: int,
    classes: int | None = None,
    evaluate: Mapping[str, Floats] | None = None,
    every: int = 0,
    samplers: Samplers | None = None,
    workers: int = 1,
) -> HeadResults:
    """Train a linear head for each spec, all of them on the same rows.

    `x` has a line of standardised features for each row; `y` and `group` are numbers from 0, `classes` by
    default those in `y`. A run takes `steps`, all stages together. The rows of each set of `evaluate` are
    predicted after every `every` steps and after the last. `samplers` makes the sampler of a rule and a
    `seed`, by default on these rows. `workers` are threads.
    """
    if steps < 1 or every < 0:
        raise InputError(f"steps={steps}, every={every}: give at least 1 step, and no negative number")
    labels, groups = (torch.from_numpy(np.asarray(column, np.int64)) for column in (y, group))
    rows = Rows(with_bias(x), labels, groups, classes or int(y.max()) + 1)
    for name in {spec.method for spec in specs}:
        if "groups" in make_method(name).needs and len(np.unique(group)) < 2:
            raise InputError(f"{name} needs rows of several groups, and these have one")
    recorded = (*range(every, steps, every), steps) if every else (steps,)
    weights = np.full((len(specs), rows.classes, rows.x.shape[1]), np.nan, np.float32)
    inputs = {name: with_bias(lines) for name, lines in (evaluate or {}).items()}
    shape = len(specs), len(recorded)
    predicted = {name: np.full((*shape, len(lines)), -1, np.int16) for name, lines in inputs.items()}
    results = HeadResults(specs, weights, recorded, predicted, {})
    draw = samplers or partial(make_sampler, labels=y, groups=group, on_empty="drop")
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


def train_grid(
    task: Task,
    specs: Sequence[HeadSpec],
    *,
    steps: int,
    every: int = 0,
    features: Floats | None = None,
    encoder: FeatureEncoder | None = None,
    workers: int = 1,
) -> HeadResults:
    """Train heads on a task's training set, and predict its validation and test sets: places in `label_ids`.

    `features` is an array with a line for each row of the base; by default frozen features, of `encoder` if
    given, cached on this machine. `steps`, `every` and `workers` are those of `train_heads`.
    """
    sets = TaskSets.of(task, make_method("erm"), None)
    judged = [name for name, rows in task.sets.items() if rows.role in ("select", "test")]
    source = sets.source("linear", encoder=encoder) if features is None else Source(features)
    data = sets.data(source, TRAINING, 0)
    x, *evaluate = (source.lines(rows) for rows in (data.rows, *map(task.rows, judged)))
    assert x is not None  # "linear" reads lines
    prepare = PREPARES[source.lines_are](x)
    # SGD, unlike Adam, moves less where lines are short: those of TF-IDF have length 1.
    scale = 20 if source.lines_are == "counts" else 1
    return train_heads(
        scale * prepare(x).numpy(),
        data.y,
        data.group,
        specs,
        steps=steps,
        classes=data.classes,
        evaluate={
            name: scale * prepare(lines).numpy()
            for name, lines in zip(judged, evaluate, strict=True)
            if lines is not None
        },
        every=every,
        samplers=partial(task.sampler, name=sets.fit),
        workers=workers,
    )


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
        # A step of the dual form touches five float32 arrays a run: A, its momentum, F0, F and P. The primal
        # form touches no more.
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
