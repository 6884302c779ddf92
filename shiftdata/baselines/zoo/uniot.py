"""UniOT: target rows are coupled to classes, or left over where that costs more (Chang et al., NeurIPS 2022).

    z = unit(M(features)), M of two layers; scores z . c_k / temperature, c_k of length 1
    l_s + trade_off (PCD + CCD)
    CCD   P = unbalanced transport between a queue of target rows with the batch and the classes, of masses
          beta and similarities z . c_k; of sum 1. A row is confident if max_k P_ik > 1 / rows, and its class
          k is common if sum_i P_ik >= 1 / K: cross-entropy of the batch's rows with such classes. Then
          beta <- momentum beta + (1 - momentum) sum_i P_i
    PCD   a row and its nearest neighbour predict each other's shares of `clusters` prototypes, which a
          balanced transport of the batch, the neighbours and a sample of the queue gives

Before the transport as many rows are made similar to a class (above `similar`) as are not: by confident ones
that come again, or by points halfway to the farthest class. A row that is not confident is unknown.

The authors predict by one transport over all rows together (`paper`). Here it is one over the unlabelled
rows, after training: its price of each class decides about every row by itself. Rows of that set get the
answer of the authors, and one row's does not depend on its neighbours.

`code` (SMA): no PCD, no delay, a queue of 32 rows, and a transport over the rows predicted together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax, normalize

from shiftdata.baselines.method import Batch, Hyper, Method, Setup, Stage, mean
from shiftdata.baselines.methods.domains import exactly
from shiftdata.baselines.zoo.ovanet import with_unknown
from shiftdata.baselines.zoo.transport import TINY, Unbalanced, balanced
from shiftdata.metrics.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from shiftdata.baselines.engine import Trainer

HIDDEN, WIDTH = 2048, 256
TRANSPORT = Unbalanced()


@dataclass(frozen=True, eq=False)
class Coupling:
    """A transport between some rows, and others that even them out, and classes.

    A row's part of it follows from its similarities alone: from `v`, the plan's sum and number of rows.
    """

    v: FloatArray
    total: float
    rows: int
    #: What each class gets of all, 1 together.
    columns: FloatArray

    def shares(self, similarity: FloatArray) -> FloatArray:
        """What each row gives to each class, of all that is given."""
        return TRANSPORT.plan(similarity, self.v, self.rows) / self.total

    def common(self, similarity: FloatArray) -> IntArray:
        """The class of each row, -1 if it is not confident or its class gets less than its part."""
        shares = self.shares(similarity)
        label = shares.argmax(axis=1)
        sure = shares.max(axis=1) > 1 / self.rows
        return np.where(sure & (self.columns[label] >= 1 / len(self.columns)), label, -1)


def coupling(similarity: FloatArray, mass: FloatArray) -> Coupling:
    """The transport of rows, each of equal mass, and classes."""
    v = TRANSPORT.columns(similarity, mass)
    plan = TRANSPORT.plan(similarity, v, len(similarity))
    total = float(plan.sum())
    return Coupling(v, total, len(similarity), plan.sum(axis=0) / total)


def similarities(z: Tensor, classes: Tensor) -> FloatArray:
    """The cosine of each row's angle with each class."""
    made: FloatArray = (z.detach() @ classes.detach().T).double().cpu().numpy()
    return made


def evened(
    z: Tensor, classes: Tensor, mass: FloatArray, similar: float, generator: torch.Generator | None = None
) -> FloatArray:
    """The similarities of some rows, after those of others: half of all are then similar to a class."""
    own = similarities(z, classes)
    lacking = len(z) - 2 * int((own.max(axis=1) > similar).sum())
    if lacking > 0:
        again = np.flatnonzero(coupling(own, mass).common(own) >= 0)
        if not len(again):
            return own
        return np.concatenate([own[again[_drawn(len(again), lacking, generator)]], own])
    halfway = normalize(
        z.detach() + classes.detach()[torch.from_numpy(own.argmin(axis=1)).to(z.device)], dim=1
    )
    return np.concatenate([similarities(halfway, classes)[_drawn(len(z), -lacking, generator)], own])


def _drawn(below: int, number: int, generator: torch.Generator | None) -> IntArray:
    drawn: IntArray = torch.randint(below, (number,), generator=generator).numpy()
    return drawn


def swapped(own: Tensor, neighbours: Tensor, further: Tensor, temperature: float) -> Tensor:
    """PCD: rows and their neighbours as targets of each other, and rows of themselves.

    All are cosines with the prototypes; `further` rows only take part in the transport.
    """
    with torch.no_grad():
        shares = balanced(torch.cat([own, neighbours, further]))
    mine, theirs = shares[: len(own)], shares[len(own) : 2 * len(own)]
    logs, logs_theirs = (log_softmax(one / temperature, 1) for one in (own, neighbours))
    local = -(theirs * logs + mine * logs_theirs).sum(1).mean() / 2
    return (local - (mine * logs).sum(1).mean()) / 2


class UniOT(Method):
    """Unified optimal transport: common classes by an unbalanced transport, private ones by clusters."""

    needs = frozenset({"target", "unknown"})
    sampler = "rwy"
    variants: ClassVar[tuple[str, ...]] = ("fixed", "paper", "code")
    code_version: ClassVar[int] = 2  # 2: evaluations couple the whole target
    trade_off = Hyper(0.1, low=0.01, high=1.0, log=True, source="authors' code")
    temperature = Hyper(0.1, low=0.05, high=0.5, log=True, source="authors' code")
    similar = Hyper(0.7, low=0.5, high=0.9, source="authors' code: gamma")
    momentum = Hyper(0.7, low=0.5, high=1.0, source="authors' code: mu of Office-31 and VisDA; SMA")
    clusters = Hyper(50, choices=(12, 50, 150), source="authors' code: Office-31 50, Office-Home 150; SMA 12")
    queue = Hyper(2000, choices=(32, 500, 2000), source="authors' code: Office-31", variants={"code": 32})
    delay = Hyper(0.01, low=0.0, high=0.1, source="authors' code: 100 of 10,000 steps", variants={"code": 0})

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.project = nn.Sequential(nn.Linear(known.features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))
        self.classes, self.centres = (
            nn.Parameter(normalize(torch.randn(number, WIDTH), dim=1))
            for number in (known.classes, int(self.clusters))
        )
        size = max(1, min(int(self.queue), known.target_rows))
        self.register_buffer("memory", torch.zeros(size, WIDTH))
        self.register_buffer("memory_row", torch.full((size,), -1))
        self.register_buffer("next", torch.tensor(0))
        self.register_buffer("mass", torch.full((known.classes,), 1 / known.classes))
        # The coupling that decides about rows: log v, and of its sum; its rows, 0 as long as there is none.
        self.register_buffer("price", torch.zeros(known.classes + 1))
        self.register_buffer("priced", torch.tensor(0))

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        memory = self.get_buffer("memory")
        assert trainer.data.target is not None  # the method needs one
        first = torch.randperm(len(trainer.data.target))[: len(memory)]
        memory.copy_(self._units(trainer, trainer.data.target[first.numpy()]))
        self.get_buffer("memory_row").copy_(first)

    def loss(self, batch: Batch) -> Tensor:
        features, of_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
        with exactly(features):
            z, z_target = self.unit(features), self.unit(of_target)
            losses = cross_entropy(z @ self.classes.T / self.temperature, batch.y, reduction="none")
            loss = mean(losses, batch.weight)
            if batch.progress >= self.delay:
                loss = loss + self.trade_off * self.common(z_target)
            if self.variant != "code":
                loss = loss + self.trade_off * self.private(z_target, batch)
            self._remember(z_target.detach(), batch)
        return loss

    def unit(self, features: Tensor) -> Tensor:
        """The projection of each row's features, of length 1."""
        return normalize(self.project(features.float()), dim=1)

    def common(self, z: Tensor) -> Tensor:
        """CCD: the cross-entropy of rows with the common class that they have; renews masses and price."""
        memory, mass = self.get_buffer("memory"), self.get_buffer("mass")
        drawn = torch.randint(len(memory), (len(memory),)).to(memory.device)
        made = self._couple(torch.cat([memory[drawn], z.detach()]))
        mass.copy_(self.momentum * mass + (1 - self.momentum) * torch.from_numpy(made.columns).to(mass))
        label = torch.from_numpy(made.common(similarities(z, self.classes))).to(z.device)
        sure = label >= 0
        if not sure.any():
            return z.new_zeros(())
        return cross_entropy(z[sure] @ self.classes.T / self.temperature, label[sure])

    def private(self, z: Tensor, batch: Batch) -> Tensor:
        """PCD, with the nearest neighbour of each row in the queue and the batch; a row is not its own."""
        memory, rows = self.get_buffer("memory"), batch.target_row
        assert rows is not None  # the target's rows have numbers
        others, numbers = torch.cat([memory, z]), torch.cat([self.get_buffer("memory_row"), rows])
        alike = (z @ others.T).detach().masked_fill(numbers == rows[:, None], -1)
        drawn = torch.randint(len(memory), (len(self.centres),)).to(z.device)
        cosines = [one @ self.centres.T for one in (z, others[alike.argmax(1)], memory[drawn])]
        return swapped(cosines[0], cosines[1], cosines[2], self.temperature)

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        for one in (self.classes, self.centres):
            one.copy_(normalize(one, dim=1))

    def finish(self, trainer: Trainer) -> None:
        assert trainer.data.target is not None
        self._couple(self._units(trainer, trainer.data.target))

    def predict(self, x: Tensor) -> Tensor:
        """What each row gives to each class, and how much it must give to one to be known; as logarithms."""
        z = self.unit(self.network.features(x))
        own = similarities(z, self.classes)
        rows, price = int(self.get_buffer("priced")), self.get_buffer("price").double().cpu().numpy()
        if self.variant != "fixed":
            made = coupling(self._evened(z, torch.Generator().manual_seed(0)), self._mass())
        elif rows:
            made = Coupling(np.exp(price[:-1]), float(np.exp(price[-1])), rows, price[:-1])
        else:
            return with_unknown(
                torch.from_numpy(own).to(z), torch.zeros(len(z), dtype=torch.bool).to(z.device)
            )
        shares = np.log(np.maximum(made.shares(own), TINY))
        return torch.from_numpy(np.pad(shares, ((0, 0), (0, 1)), constant_values=-np.log(made.rows))).to(z)

    def _couple(self, z: Tensor) -> Coupling:
        """A transport of some rows, which from now on decides about every row."""
        made = coupling(self._evened(z), self._mass())
        logs = np.log(np.maximum([*made.v, made.total], TINY))
        self.get_buffer("price").copy_(torch.from_numpy(logs))
        self.get_buffer("priced").fill_(made.rows)
        return made

    def _evened(self, z: Tensor, generator: torch.Generator | None = None) -> FloatArray:
        return evened(z, self.classes, self._mass(), self.similar, generator)

    def _mass(self) -> FloatArray:
        mass: FloatArray = self.get_buffer("mass").double().cpu().numpy()
        return mass

    @torch.no_grad()
    def _units(self, trainer: Trainer, rows: IntArray) -> Tensor:
        weight = self.classes
        return self.unit(torch.from_numpy(trainer.features(rows)).to(weight.device))

    def _remember(self, z: Tensor, batch: Batch) -> None:
        """Put the batch's rows of the target in the place of the oldest in the queue."""
        memory, following = self.get_buffer("memory"), self.get_buffer("next")
        assert batch.target_row is not None
        z, rows = z[-len(memory) :], batch.target_row[-len(memory) :]
        places = (following + torch.arange(len(z), device=z.device)) % len(memory)
        memory[places], self.get_buffer("memory_row")[places] = z, rows
        following.copy_((following + len(z)) % len(memory))
