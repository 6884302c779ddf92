"""Linear heads that are stepped together: methods, runs, training rows, and the steps of a chunk of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from shiftdata.baselines.losses.groups import group_dro_log_q, jtt_weights
from shiftdata.baselines.methods import method_class
from shiftdata.baselines.models import Floats
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError, not_found
from shiftdata.stable import hash64

#: Steps between two looks for weights that overflow.
LOOK = 50
#: How rows weigh: as at the start, by their group's loss, or by the errors of a first stage.
Kind: TypeAlias = Literal["fixed", "groups", "errors"]
#: The methods that can be trained so. Their samplers, needs and defaults are those of their classes.
HEAD_METHODS: Mapping[str, Kind] = MappingProxyType(
    {**dict.fromkeys(("erm", "suby", "subg", "rwy", "rwg"), "fixed"), "group-dro": "groups", "jtt": "errors"}
)


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """A run: a method, its numbers, the optimiser's, and a seed of the rows drawn and of the first weights.

    "uniform" starts as `torch.nn.Linear` does, "zeros" as the backbone "linear".
    """

    method: str = "erm"
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    momentum: float = 0.9
    seed: int = 0
    start: Literal["uniform", "zeros"] = "uniform"
    hyper: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in HEAD_METHODS:
            raise not_found("method of linear heads", self.method, HEAD_METHODS)
        if self.start not in ("uniform", "zeros"):
            raise not_found("start", self.start, ("uniform", "zeros"))
        if not all(number >= 0 for number in (self.learning_rate, self.weight_decay, self.momentum)):
            raise InputError(f"{self}: give no negative number")
        given: dict[str, Any] = dict(self.hyper)
        object.__setattr__(self, "hyper", method_class(self.method)(**given).hyper)  # with the defaults

    @property
    def sampler(self) -> str:
        """The rule that keeps or weighs its rows; weights that change begin equal, all rows in a batch."""
        return method_class(self.method).sampler if HEAD_METHODS[self.method] == "fixed" else "shuffle"


@dataclass(frozen=True, eq=False)
class HeadResults:
    """The trained heads of `specs`, in their order.

    `weights` are runs x classes x (features + 1), the last the bias. `predicted` has an array for each
    set that was evaluated: runs x `steps` x rows, class numbers, -1 where a run has `failed`.
    """

    specs: Sequence[HeadSpec]
    weights: Floats
    steps: tuple[int, ...]
    predicted: list[NDArray[np.int16]]
    failed: dict[int, str]

    def scores(self, run: int, x: Floats) -> Floats:
        """Return a run's logits, a column a class."""
        logits: Floats = x @ self.weights[run, :, :-1].T + self.weights[run, :, -1]
        return logits


def first_stage(spec: HeadSpec, steps: int) -> int:
    """Return the steps of a first model that is thrown away: JTT's, whose errors weigh in the second."""
    return round(spec.hyper["first"] * steps) if HEAD_METHODS[spec.method] == "errors" else 0


class Rows:
    """The training rows: X with a column of ones, labels, groups, and in the dual form G = X X'."""

    def __init__(self, x: Tensor, y: Tensor, group: Tensor, classes: int, products: Tensor | None = None):
        self.x, self.y, self.group, self.classes = x, y, group, classes
        self.dual = is_dual(*x.shape)
        self.products = (x @ x.T if products is None else products) if self.dual else None

    @classmethod
    def of(cls, x: Floats, y: IntArray, group: IntArray, classes: int) -> Rows:
        """Take checked arrays."""
        if x.ndim != 2 or not len(x) == len(y) == len(group) > 0 or classes < 2:
            raise InputError(
                f"{x.shape} features, {len(y):,} labels of {classes} classes, {len(group):,} groups: give "
                "one line, label and group a row, and two classes or more"
            )
        if not np.isfinite(x).all():
            raise InputError("some features are not finite: make them so, as `Standardised` does")
        labels, groups = (torch.from_numpy(np.asarray(column, np.int64)) for column in (y, group))
        return cls(with_bias(x), labels, groups, classes)

    def among(self, rows: Tensor) -> Rows:
        """Return some of the rows; their products are a part of those that are there."""
        products = None if self.products is None else self.products[rows][:, rows].contiguous()
        return Rows(self.x[rows], self.y[rows], self.group[rows], self.classes, products)


def is_dual(rows: int, width: int) -> bool:
    """Compare the operations of a step: rows x rows in the dual form, 2 x rows x width in the primal one."""
    return rows < 2 * width


def with_bias(x: Floats) -> Tensor:
    """Append a column of ones: the bias is a weight like the others, and decays as in `torch.optim.SGD`."""
    return torch.from_numpy(np.concatenate([x, np.ones((len(x), 1))], axis=1).astype(np.float32))


def first_weights(spec: HeadSpec, features: int, classes: int) -> Tensor:
    """Return a run's first weights, classes x (features + 1): zeros, or drawn as `torch.nn.Linear` draws."""
    weights = torch.zeros(classes, features + 1)
    if spec.start == "uniform":
        generator = torch.Generator().manual_seed(hash64(spec.seed, "baselines", "weights"))
        for part in (weights[:, :-1], weights[:, -1]):
            bound = features**-0.5
            part.copy_(torch.empty(part.shape).uniform_(-bound, bound, generator=generator))
    return weights


@dataclass(eq=False)
class Chunk:
    """Runs on the same rows that are stepped together. A step of fixed weights allocates nothing.

    Arrays are classes x runs x rows. `weight` has what each row weighs at the start; it adds up to 1.
    """

    rows: Rows
    runs: list[int]
    weight: Tensor
    steps: int
    evaluate: list[Tensor]
    results: HeadResults

    def run(self) -> int:
        """Train, put heads and predictions into the results, and return how many runs these were."""
        # Of this thread: probabilities near 0 become denormal numbers, which cost a hundred times as much.
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
                elif (step + 1) % LOOK == 0:
                    self._look(step + 1)
        return len(self.runs)

    def _begin(self) -> None:
        rows, specs = self.rows, [self.results.specs[run] for run in self.runs]
        self.specs, self.kind = specs, HEAD_METHODS[specs[0].method]
        size, classes, count = len(rows.x), rows.classes, len(specs)
        self.truth = one_hot(rows.y, classes).T.float().unsqueeze(1)
        settings = [[(spec.learning_rate, spec.weight_decay, spec.momentum)] for spec in specs]
        self._exact = torch.tensor(settings, dtype=torch.float64).unbind(2)  # each runs x 1
        self._settings = [setting.float() for setting in self._exact]
        drawn = {(spec.start, spec.seed): spec for spec in specs}
        first = {key: first_weights(spec, rows.x.shape[1] - 1, classes) for key, spec in drawn.items()}
        self.first = torch.stack([first[spec.start, spec.seed] for spec in specs], dim=1)
        # W in the primal form, A in the dual one, which starts at 0.
        self.parameters = torch.zeros(classes, count, size) if rows.dual else self.first.clone()
        self.momentum_buffer = torch.zeros_like(self.parameters)
        # a and its momentum in float64: a is a product over all steps, and each product would round.
        self.share, self.share_buffer = torch.ones(count, 1).double(), torch.zeros(count, 1).double()
        self.first_logits = self.first @ rows.x.T if rows.dual and self.first.any() else None
        self.logits, self.gradients = (torch.empty(classes, count, size) for _ in range(2))
        self.top = torch.empty(count, size)
        self.change = self.gradients if rows.dual else torch.empty_like(self.parameters)  # P, or P X
        # Of fixed weights one line for all runs: `expand` copies nothing, and reads stay in the cache.
        self.weights = self.weight.expand(count, size)
        if self.kind != "fixed":
            self.weights = self.weights.clone()
        if self.kind == "groups":
            self._begin_groups()
        errors = self.kind == "errors"
        self._first_stages = [first_stage(spec, self.steps) if errors else -1 for spec in specs]

    def _step(self) -> None:
        """Take a step of `torch.optim.SGD`: g = P X + decay W;  V <- momentum V + g;  W <- W - rate V.

        In the dual form W = a W0 + A X and V = b W0 + B X. Put in, what stands before X and before W0 is

            B <- momentum B + P + decay A      b <- momentum b + decay a
            A <- A - rate B                    a <- a - rate b

        since P X alone does not come from W or V: one recursion with P for g, and one of numbers.
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
        """Compute P = w (softmax(F) - Y), the gradients by the logits of the sum of w times cross-entropy.

        All in one array and without a copy: it is the largest there is, and a step is as fast as memory.
        """
        p, top = self.gradients, self.top
        torch.amax(self.logits, 0, out=top)
        torch.sub(self.logits, top, out=p)  # no exp overflows
        own = (p * self.truth).sum(0) if self.kind == "groups" else None
        torch.sum(p.exp_(), 0, out=top)
        if own is not None:  # the loss, log sum exp(F) - F_y: both without the maximum, and no second exp
            self._weigh(top.log() - own)
        p.div_(top).sub_(self.truth).mul_(self.weights)

    def _begin_groups(self) -> None:
        found, self.group = torch.unique(self.rows.group, return_inverse=True)
        members = one_hot(self.group, len(found)).float()
        self.each = 1 / members.sum(0)
        self.means = members * self.each
        self.log_q = torch.full((len(self.runs), len(found)), 1 / len(found)).log()
        self.eta, adjustment = (
            torch.tensor([[spec.hyper[name]] for spec in self.specs]) for name in ("eta", "adjustment")
        )
        self.bonus = adjustment * self.each.sqrt()

    def _weigh(self, losses: Tensor) -> None:
        """GroupDRO: the loss is the sum of q_g L_g, so that each row weighs q_g / n_g.

        q stays a logarithm until it is used: the product of exp(eta L) over many steps overflows float32.
        L is one product with the matrix of 1 / n_g: all runs at once, where `index_add` goes row by row.
        """
        self.log_q = group_dro_log_q(self.log_q, losses @ self.means, self.eta, self.bonus)
        torch.index_select(self.log_q.exp() * self.each, 1, self.group, out=self.weights)

    def _begin_second_stage(self, at: int) -> None:
        """JTT: start a run again, with more weight on the rows that it gets wrong now."""
        self._score()
        wrong = self.logits[:, at].argmax(0) != self.rows.y
        counts = jtt_weights(wrong, round(self.specs[at].hyper["up"])).float()
        self.weights[at] = counts / counts.sum()
        self.parameters[:, at] = 0 if self.rows.dual else self.first[:, at]
        self.momentum_buffer[:, at] = 0
        self.share[at], self.share_buffer[at] = 1, 0

    def _record(self, done: int) -> None:
        """Write the heads W after a step, and what they predict."""
        self._look(done)
        heads, results = self.parameters, self.results
        if self.rows.dual:  # the only place where a head is needed itself
            heads = (heads @ self.rows.x).addcmul_(self.first, self.share.float())
        at, fine = results.steps.index(done), [run not in results.failed for run in self.runs]
        if done == self.steps:
            results.weights[self.runs] = heads.transpose(0, 1).numpy()
        for x, predicted in zip(self.evaluate, results.predicted, strict=True):
            best = (heads @ x.T).max(0).indices.numpy()  # argmax takes five times as long
            predicted[np.array(self.runs)[fine], at] = best[fine]

    def _look(self, done: int) -> None:
        """Note the runs that are lost; a run's numbers never meet another's."""
        finite = torch.isfinite(self.parameters.sum((0, 2))).tolist()
        for run, spec, good in zip(self.runs, self.specs, finite, strict=True):
            if not good and run not in self.results.failed:
                self.results.failed[run] = (
                    f"the weights are not finite after step {done}, or up to {LOOK} before: lower "
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
