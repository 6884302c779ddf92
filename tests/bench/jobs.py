"""Methods that go wrong in one way each, and a sweep of them: in a module that other processes can import."""

from __future__ import annotations

import os
import signal
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import Method, method

SWEEP: dict[str, Any] = {
    "name": "small",
    "methods": ["erm", "rwg"],
    "tasks": [{"protocol": "group-fairness", "k": [2, 4], "mu": 0.2}],
    "training": {"steps": 6, "batch": 8, "evaluate_every": 3},
    "search": {"kind": "random", "trials": 2, "space": {"learning_rate": [0.01, 0.003]}},
    "rules": ["iid-worst", "oracle"],
}


class _Plain(Method):
    """Cross-entropy."""

    def loss(self, batch):
        return cross_entropy(self.network(batch.x), batch.y)


@method("nan-of-a-test")
class Nan(_Plain):
    """A loss that is not a number."""

    def loss(self, batch):
        return super().loss(batch) * torch.nan


@method("memory-of-a-test")
class Memory(_Plain):
    """More memory than there is."""

    def loss(self, batch):
        torch.empty(1 << 50)
        return super().loss(batch)


@method("bug-of-a-test")
class Bug(_Plain):
    """A mistake in its code."""

    def loss(self, batch):
        raise ZeroDivisionError("a mistake")


@method("killed-of-a-test")
class Killed(_Plain):
    """A process that the system kills."""

    def loss(self, batch):
        os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(batch)
