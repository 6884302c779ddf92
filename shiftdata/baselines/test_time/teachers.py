"""Adapters with a mean teacher: CoTTA and RoTTA."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftdata.baselines.method import Hyper
from shiftdata.baselines.networks import batch_norms
from shiftdata.baselines.test_time.adapter import Adapter, Need, affine, by_batch, replace_batch_norms


def consistency(student: Tensor, teacher: Tensor) -> Tensor:
    """Return -sum_k q_k log p_k of each row, q the teacher's probabilities."""
    return -(teacher.detach().softmax(1) * student.log_softmax(1)).sum(1)


class Teaching(Adapter):
    """An adapter whose predictions are those of a running mean of the network's weights."""

    keep = Hyper(0.999, low=0.99, high=0.9999, source="Wang et al.; Yuan et al.: 1 - nu")

    def restart(self) -> None:
        super().restart()
        self.teacher = copy.deepcopy(self.network).requires_grad_(False)

    def average(self) -> None:
        """Move the teacher's weights towards the network's; its statistics are its own."""
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.network.parameters(), strict=True):
                slow.mul_(self.keep).add_((1 - self.keep) * fast)


class CoTTA(Teaching):
    """All weights follow a mean teacher of many views, and some return to the source's (Wang, CVPR 2022).

    Views are averaged where the source network's mean confidence is below `confidence`. After each step a
    share `restore` of the weights, drawn one by one, is the source's again.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"pixels"})
    rate = Hyper(1e-3, low=1e-5, high=1e-2, log=True, source="Wang et al., CIFAR-10; ImageNet: 0.01, SGD")
    restore = Hyper(0.01, low=1e-3, high=0.1, log=True, source="Wang et al., CIFAR-10; ImageNet: 0.001")
    confidence = Hyper(0.92, low=0.1, high=0.95, source="Wang et al., CIFAR-10; CIFAR-100: 0.72")
    views = Hyper(32, low=8, high=32, source="Wang et al.")

    def setup(self) -> Sequence[nn.Parameter]:
        self.anchor = copy.deepcopy(self.network)
        names = dict(self.network.named_parameters())
        return [weight for name, weight in names.items() if name.rpartition(".")[2] in ("weight", "bias")]

    def predict(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            sure = by_batch(self.anchor, x).softmax(1).amax(1).mean() >= self.confidence
            if sure:
                taught = by_batch(self.teacher, x)
            else:
                views = [by_batch(self.teacher, self.view(x)) for _ in range(int(self.views))]
                taught = torch.stack(views).mean(0)
        self.descend(consistency(by_batch(self.network, x), taught).mean())
        self.average()
        with torch.no_grad():
            for weight, source in zip(self.trained, self._source, strict=True):
                back = torch.rand(weight.shape).to(x.device) < self.restore
                weight.copy_(torch.where(back, source, weight))
        return taught

    def restart(self) -> None:
        super().restart()
        self._source = [weight.detach().clone() for weight in self.trained]


class RobustNorm(nn.Module):
    """Batch norm whose running statistics normalise while they are learnt (RoTTA, equations 3 and 4)."""

    def __init__(self, layer: _BatchNorm, momentum: float) -> None:
        super().__init__()
        self.layer, self.momentum = layer, momentum

    def forward(self, x: Tensor) -> Tensor:
        layer: Any = self.layer
        mean, var = layer.running_mean, layer.running_var
        if self.training:
            dims = [dim for dim in range(x.ndim) if dim != 1]
            batch_var, batch_mean = torch.var_mean(x, dims, unbiased=False)
            mean = (1 - self.momentum) * mean + self.momentum * batch_mean
            var = (1 - self.momentum) * var + self.momentum * batch_var
            layer.running_mean, layer.running_var = mean.detach().clone(), var.detach().clone()
        shape = [1, -1] + [1] * (x.ndim - 2)
        x = (x - mean.view(shape)) / torch.sqrt(var.view(shape) + layer.eps)
        return x if layer.weight is None else x * layer.weight.view(shape) + layer.bias.view(shape)


@dataclass
class Item:
    """A row in the memory: its picture, the entropy of its prediction, and how many rows came since."""

    x: Tensor
    entropy: float
    age: int = 0


class Memory:
    """Rows of all predicted classes alike, recent and sure (RoTTA, algorithm 1)."""

    def __init__(self, size: int, classes: int) -> None:
        self.size, self.items = size, [list[Item]() for _ in range(classes)]

    def add(self, x: Tensor, label: int, entropy: float) -> None:
        """Add a row if there is room for it, or if the worst row that it competes with is worse."""
        item, own = Item(x, entropy), self.items[label]
        competing: list[list[Item]] = []
        if len(own) >= self.size / len(self.items):
            competing = [own]
        elif sum(map(len, self.items)) >= self.size:
            most = max(map(len, self.items))
            competing = [items for items in self.items if len(items) == most]
        worst: tuple[float, list[Item], int] | None = None
        for items in competing:
            for place, each in enumerate(items):
                if worst is None or self._badness(each) >= worst[0]:
                    worst = self._badness(each), items, place
        if worst is None or worst[0] > self._badness(item):
            if worst is not None:
                worst[1].pop(worst[2])
            own.append(item)
        for each in self.rows():
            each.age += 1

    def rows(self) -> list[Item]:
        """Return the rows, class by class."""
        return [item for items in self.items for item in items]

    def _badness(self, item: Item) -> float:
        age = 1 / (1 + math.exp(-item.age / self.size))
        return age + item.entropy / math.log(len(self.items))


class RoTTA(Teaching):
    """Robust batch norm and a mean teacher, trained on a memory of balanced rows (Yuan et al., CVPR 2023)."""

    needs: ClassVar[frozenset[Need]] = frozenset({"batch-norm", "pixels"})
    rate = Hyper(1e-3, low=1e-5, high=1e-2, log=True, source="Yuan et al.")
    memory = Hyper(64, low=16, high=256, log=True, source="Yuan et al.")
    momentum = Hyper(0.05, low=0.005, high=0.2, log=True, source="Yuan et al.: alpha")

    def setup(self) -> Sequence[nn.Parameter]:
        replace_batch_norms(self.network, lambda layer: RobustNorm(layer, self.momentum))
        return affine(batch_norms(self.network))

    def restart(self) -> None:
        super().restart()
        self.bank: Memory | None = None
        self.count = 0

    def predict(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = self.teacher(x)
        p = logits.softmax(1)
        entropies = -(p * torch.log(p + 1e-6)).sum(1)
        self.bank = self.bank or Memory(int(self.memory), logits.shape[1])
        for row, label, entropy in zip(x, p.argmax(1).tolist(), entropies.tolist(), strict=True):
            self.bank.add(row, label, entropy)
            self.count += 1
            if self.count % self.bank.size == 0:
                self._learn(self.bank)
        return logits

    def _learn(self, bank: Memory) -> None:
        """Take a step on the rows of the memory, the recent ones first of all."""
        rows = bank.rows()
        x, ages = torch.stack([row.x for row in rows]), torch.tensor([row.age / bank.size for row in rows])
        weights = (torch.exp(-ages) / (1 + torch.exp(-ages))).to(x)
        norms = [part for network in (self.network, self.teacher) for part in network.modules()]
        norms = [part for part in norms if isinstance(part, RobustNorm)]
        for norm in norms:
            norm.training = True
        seen = self.view(x)
        with torch.no_grad():
            taught = self.teacher(x)
        self.descend((consistency(self.network(seen), taught) * weights).mean())
        self.average()
        for norm in norms:
            norm.training = False
