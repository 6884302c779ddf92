"""Runs of linear heads that are stepped together: what one is, their rows, and a step of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftdata.baselines.models import Floats
from shiftdata.errors import InputError, not_found
from shiftdata.metrics.arrays import IntArray
from shiftdata.stable import hash64

#: A run whose weights overflow is noticed after so many steps.
LOOK = 50
#: How rows weigh: for good, by their group's loss, or by the errors of a first stage.
Kind: TypeAlias = Literal["fixed", "groups", "errors"]
Start: TypeAlias = Literal["uniform", "zeros"]


@dataclass(frozen=True)
class HeadMethod:
    """A method as data: the rule that keeps or weighs its rows, and what changes weights later."""

    sampler: str
    kind: Kind = "fixed"
    needs_groups: bool = False
    #: Its hyper-parameters and their defaults, as the method of that name has them.
    hyper: Mapping[str, float] = field(default_factory=dict)


#: The methods that can be trained so.
HEAD_METHODS: Mapping[str, HeadMethod] = MappingProxyType(
    {
        "erm": HeadMethod("shuffle"),
        "suby": HeadMethod("suby"),
        "subg": HeadMethod("subg", needs_groups=True),
        "rwy": HeadMethod("rwy"),
        "rwg": HeadMethod("rwg", needs_groups=True),
        "group-dro": HeadMethod("shuffle", "groups", True, {"eta": 0.1, "adjustment": 0.0}),
        "jtt": HeadMethod("shuffle", "errors", hyper={"first": 0.15, "up": 20.0}),
    }
)


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """One run: a method, its numbers, the optimiser's, and a seed of the rows kept and of the first weights.

    "uniform" starts as `torch.nn.Linear` does, "zeros" as the backbone "linear".
    """

    method: str = "erm"
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    momentum: float = 0.9
    seed: int = 0
    start: Start = "uniform"
    hyper: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in HEAD_METHODS:
            raise not_found("method of linear heads", self.method, HEAD_METHODS)
        if self.start not in ("uniform", "zeros"):
            raise not_found("start", self.start, ("uniform", "zeros"))
        if not all(one >= 0 for one in (self.learning_rate, self.weight_decay, self.momentum)):
            raise InputError(f"{self}: give no negative number")
        defaults = HEAD_METHODS[self.method].hyper
        for name in self.hyper:
            if name not in defaults:
                raise not_found(f"hyper-parameter of {self.method}", name, defaults)
        object.__setattr__(self, "hyper", {**defaults, **self.hyper})


@dataclass(frozen=True, eq=False)
class HeadResults:
    """What `specs` led to, in their order.

    `weights` are runs x classes x (numbers + 1), the last the bias. `predicted` has an array for each
    set that was evaluated: runs x `steps` x rows, class numbers, -1 where a run has `failed`.
    """

    specs: Sequence[HeadSpec]
    weights: Floats
    steps: tuple[int, ...]
    predicted: list[NDArray[np.int16]]
    failed: dict[int, str]

    def scores(self, run: int, x: Floats) -> Floats:
        """A run's scores of some rows, a column a class."""
        scores: Floats = x @ self.weights[run, :, :-1].T + self.weights[run, :, -1]
        return scores


def first_stage(spec: HeadSpec, steps: int) -> int:
    """The steps of a first model that is thrown away: JTT's, whose errors weigh in the second."""
    return round(spec.hyper["first"] * steps) if HEAD_METHODS[spec.method].kind == "errors" else 0


class Rows:
    """Rows to fit, and what their scores are made of: G, or the features themselves."""

    def __init__(self, x: Floats, y: IntArray, group: IntArray, classes: int) -> None:
        if x.ndim != 2 or not len(x) == len(y) == len(group) > 0 or classes < 2:
            raise InputError(
                f"{x.shape} features, {len(y):,} labels of {classes} classes, {len(group):,} groups: give "
                "one line, label and group a row, and two classes or more"
            )
        if not np.isfinite(x).all():
            raise InputError("some features are not finite: make them so, as `Standardised` does")
        self.x, self.classes = with_bias(x), classes
        self.y, self.group = (torch.from_numpy(np.asarray(one, np.int64)) for one in (y, group))
        self.dual = is_dual(*self.x.shape)
        self.products = self.x @ self.x.T if self.dual else None

    def check(self, specs: Sequence[HeadSpec]) -> None:
        groups = len(torch.unique(self.group))
        for spec in specs:
            if HEAD_METHODS[spec.method].needs_groups and groups < 2:
                raise InputError(f"{spec.method} needs rows of several groups, and these have {groups}")

    def among(self, kept: Tensor) -> Rows:
        """Some of the rows, with what is computed already."""
        made = object.__new__(Rows)
        made.x, made.y, made.group, made.classes = self.x[kept], self.y[kept], self.group[kept], self.classes
        made.dual = is_dual(*made.x.shape)
        made.products = None
        if made.dual:
            known = self.products
            made.products = made.x @ made.x.T if known is None else known[kept][:, kept].contiguous()
        return made

    @property
    def width(self) -> int:
        """How many numbers a run steps for each class."""
        return len(self.x) if self.dual else self.x.shape[1]


def is_dual(rows: int, numbers: int) -> bool:
    """Whether rows x rows products are cheaper than two of rows x numbers."""
    return rows < 2 * numbers


def with_bias(x: Floats) -> Tensor:
    """With a column of ones."""
    return torch.from_numpy(np.concatenate([x, np.ones((len(x), 1))], axis=1).astype(np.float32))


def first_weights(spec: HeadSpec, numbers: int, classes: int) -> Tensor:
    """What a run starts with: classes x (numbers + 1), the last the bias; drawn as a linear layer's are."""
    weights = torch.zeros(classes, numbers + 1)
    if spec.start == "uniform":
        generator = torch.Generator().manual_seed(hash64(spec.seed, "baselines", "weights"))
        bound = numbers**-0.5
        weights[:, :-1] = torch.empty(classes, numbers).uniform_(-bound, bound, generator=generator)
        weights[:, -1] = torch.empty(classes).uniform_(-bound, bound, generator=generator)
    return weights


class Chunk:
    """Some runs on the same rows, stepped together. Nothing is allocated in a step of fixed weights."""

    def __init__(
        self,
        rows: Rows,
        runs: list[int],
        weight: Tensor,
        specs: Sequence[HeadSpec],
        steps: int,
        others: list[Tensor],
        results: HeadResults,
    ) -> None:
        self.rows, self.runs, self.weight, self.steps = rows, runs, weight, steps
        self.specs = [specs[run] for run in runs]
        self.kind = HEAD_METHODS[self.specs[0].method].kind
        self.others, self.results = others, results

    def run(self) -> int:
        """Train, and put into the results what came out; how many runs these were."""
        torch.set_flush_denormal(True)  # of this thread: probabilities near 0 cost a hundred times as much
        with torch.inference_mode():
            self._begin()
            for step in range(self.steps):
                for at in (at for at, first in enumerate(self._stage_ends) if first == step):
                    self._mark(at)
                self._step()
                done = step + 1
                if done in self.results.steps:
                    self._record(done)
                elif done % LOOK == 0:
                    self._look(done)
        return len(self.runs)

    def _begin(self) -> None:
        rows, count = self.rows, len(self.runs)
        size, classes = len(rows.x), rows.classes
        self.truth = torch.nn.functional.one_hot(rows.y, classes).T.float().unsqueeze(1)
        self.rate, self.decay, self.momentum = (
            torch.tensor([[[getattr(one, name)] for one in self.specs]], dtype=torch.float64)
            for name in ("learning_rate", "weight_decay", "momentum")
        )
        self._rates = [one.float() for one in (self.rate, self.decay, self.momentum)]
        self._first(rows.x.shape[1] - 1)
        self.sums = self._start()
        self.moved = torch.zeros_like(self.sums)
        self.scores, self.slopes = (torch.empty(classes, count, size) for _ in range(2))
        self.top = torch.empty(count, size)
        self.step_of = self.slopes if rows.dual else torch.empty_like(self.sums)
        self.kept = torch.ones(1, count, 1, dtype=torch.float64)  # how much of the first weights is left
        self.kept_moved = torch.zeros_like(self.kept)
        self.weights = self.weight.expand(count, size)
        if self.kind != "fixed":
            self.weights = self.weights.clone()
        if self.kind == "groups":
            self._begin_groups()
        self._stage_ends = [
            first_stage(one, self.steps) if self.kind == "errors" else -1 for one in self.specs
        ]

    def _first(self, numbers: int) -> None:
        """The first weights of each run, and in the dual form the scores they give."""
        classes = self.rows.classes
        made = {(one.start, one.seed): first_weights(one, numbers, classes) for one in self.specs}
        self.first = torch.stack([made[one.start, one.seed] for one in self.specs], dim=1)
        self.has_first = bool(self.first.any())
        self.first_scores = self.first @ self.rows.x.T if self.rows.dual and self.has_first else None

    def _start(self) -> Tensor:
        if not self.rows.dual:
            return self.first.clone()
        return torch.zeros(self.rows.classes, len(self.runs), self.rows.width)

    def _step(self) -> None:
        self._score()
        self._derive()
        if not self.rows.dual:
            torch.mm(self.slopes.flatten(0, 1), self.rows.x, out=self.step_of.flatten(0, 1))
        rate, decay, momentum = self._rates
        self.moved.mul_(momentum).add_(self.step_of).addcmul_(self.sums, decay)
        self.sums.addcmul_(self.moved, rate, value=-1)
        if self.first_scores is not None:
            self.kept_moved.mul_(self.momentum).addcmul_(self.kept, self.decay)
            self.kept.addcmul_(self.kept_moved, self.rate, value=-1)

    def _score(self) -> None:
        """The scores of all rows."""
        seen = self.rows.products if self.rows.products is not None else self.rows.x.T
        torch.mm(self.sums.flatten(0, 1), seen, out=self.scores.flatten(0, 1))
        if self.first_scores is not None:
            self.scores.addcmul_(self.first_scores, self.kept.float())

    def _derive(self) -> None:
        """The loss's derivatives by the scores."""
        slopes, top = self.slopes, self.top
        torch.amax(self.scores, 0, out=top)
        torch.sub(self.scores, top, out=slopes)
        if self.kind == "groups":
            correct = (slopes * self.truth).sum(0)
        slopes.exp_()
        torch.sum(slopes, 0, out=top)
        if self.kind == "groups":
            self._weigh(top.log() - correct)
        slopes.div_(top).sub_(self.truth).mul_(self.weights)

    def _begin_groups(self) -> None:
        found, self.group = torch.unique(self.rows.group, return_inverse=True)
        members = torch.nn.functional.one_hot(self.group, len(found)).float()
        self.means = members / members.sum(0)
        self.each = 1 / members.sum(0)
        self.log_q = torch.zeros(len(self.runs), len(found))
        self.eta = torch.tensor([[one.hyper["eta"]] for one in self.specs])
        adjustment = torch.tensor([[one.hyper["adjustment"]] for one in self.specs])
        self.bonus = adjustment * self.each.sqrt()

    def _weigh(self, losses: Tensor) -> None:
        """GroupDRO: log q grows with the groups' mean losses, and each row weighs q / rows of its group."""
        self.log_q.addcmul_(self.eta, losses @ self.means + self.bonus)
        self.log_q -= self.log_q.logsumexp(1, keepdim=True)
        torch.index_select(self.log_q.exp() * self.each, 1, self.group, out=self.weights)

    def _mark(self, at: int) -> None:
        """JTT: what a run's first stage got wrong weighs `up` times as much in the second, from the start."""
        self._score()
        wrong = self.scores[:, at].argmax(0) != self.rows.y
        counts = torch.where(wrong, float(round(self.specs[at].hyper["up"])), 1.0)
        self.weights[at] = counts / counts.sum()
        self.sums[:, at] = 0 if self.rows.dual else self.first[:, at]
        self.moved[:, at] = 0
        self.kept[:, at], self.kept_moved[:, at] = 1, 0

    def _heads(self) -> Tensor:
        """The weights as they are: classes x runs x (numbers + 1)."""
        if not self.rows.dual:
            return self.sums
        heads = self.sums @ self.rows.x
        return heads.addcmul_(self.first, self.kept.float()) if self.has_first else heads

    def _record(self, done: int) -> None:
        heads, results = self._heads(), self.results
        self._look(done)
        at, well = results.steps.index(done), [run not in results.failed for run in self.runs]
        runs = np.array(self.runs)[well]
        if done == self.steps:
            results.weights[self.runs] = heads.transpose(0, 1).numpy()
        for other, predicted in zip(self.others, results.predicted, strict=True):
            best = (heads @ other.T).max(0).indices.numpy()  # argmax takes five times as long
            predicted[runs, at] = best[well]

    def _look(self, done: int) -> None:
        """Say which runs are lost; a run's numbers never meet another's."""
        fine = torch.isfinite(self.sums.sum((0, 2)))
        for run, spec, good in zip(self.runs, self.specs, fine.tolist(), strict=True):
            if not good and run not in self.results.failed:
                self.results.failed[run] = (
                    f"the weights are not finite after step {done}, or up to {LOOK} before: lower "
                    f"learning_rate, now {spec.learning_rate:g}"
                )
