"""SWAD: the mean of the weights in a valley of the validation loss (Cha et al., NeurIPS 2021).

A segment is what lies between two evaluations; l_s is the loss at its end, of the weights as they are.

    converged at s    the first with l_s = min(l_s .. l_s+N_s-1)
    threshold         (1 + ratio) times the mean of these losses
    begins at b       the earliest segment with all of l_b .. l_s <= threshold
    ends before e     the first with min(l_e .. l_e+N_e-1) > threshold, or after the last l <= threshold
    result            the mean of the weights after every step of the segments b .. e - 1

It goes around any method. N_s is `converge`, N_e `tolerance`; max(N_s, N_e) segments are kept, so that b is
not below s - (N_e - N_s). Afterwards batch norm's statistics are pooled (momentum None) over an epoch of rows
to fit, as they are predicted, unless norms are frozen. Never converged: the last segment's mean. It needs
`Training(evaluate_every=...)`. In a run's `history`, `select_loss` is of the weights as they are; predictions
are those of the mean that a training which ended at that step would leave.

`code` (the authors): segment s counts twice, three times if it is the first; the leftmost segment of the
valley is left out; segments weigh alike, whatever their steps.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Hyper, Method, Setup, Stage
from shiftdata.baselines.methods.averages import Averaged, renew_statistics
from shiftdata.baselines.networks import flat, write
from shiftdata.errors import InputError


class SWAD(Averaged):
    """Any method, its weights averaged over a valley of the validation loss."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    code_version: ClassVar[int] = 2  # 2: evaluations predict with the mean
    converge = Hyper(3, low=1, high=10, source="Cha et al.: N_s")
    tolerance = Hyper(6, low=1, high=20, source="Cha et al.: N_e")
    ratio = Hyper(0.3, low=0.0, high=1.0, source="Cha et al.: r")

    def __init__(self, inner: Method, *, variant: str = "fixed", **given: float) -> None:
        super().__init__(inner, variant=variant, **given)
        self.needs = inner.needs | {"select"}
        self.window, self.patience = int(self.converge), int(self.tolerance)
        self.kept = max(self.window, self.patience)
        if min(self.window, self.patience) < 1 or self.ratio < 0:
            raise InputError("swad: converge and tolerance are 1 or more, and ratio is not negative")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        weights = torch.zeros_like(flat(self.averaged()))
        self.register_buffer("segment", weights)
        self.register_buffer("ring", weights.repeat(self.kept, 1))
        self.register_buffer("mean", weights.clone())
        self.register_buffer("losses", torch.zeros(self.kept))
        self.register_buffer("sizes", torch.zeros(self.kept))
        self.register_buffer("mass", torch.zeros(()))
        self.register_buffer("threshold", torch.zeros(()))
        # Steps in this segment, segments, s and the next to join (-1: not converged), 1 after the valley.
        self.register_buffer("at", torch.tensor([0, 0, -1, -1, 0]))

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if not trainer.training.evaluate_every:
            raise InputError("swad looks at the loss on the rows to select by: set evaluate_every above 0")
        super().begin(stage, trainer)

    def add(self, weights: Tensor, step: int) -> None:
        at, segment = self.get_buffer("at"), self.get_buffer("segment")
        at[0] += 1
        segment += (weights - segment) / at[0]

    def evaluated(self, step: int, loss: float) -> None:
        super().evaluated(step, loss)
        at = self.get_buffer("at")
        if not (at[0] and self.get_buffer("active")):
            return
        slot = int(at[1]) % self.kept
        for name, value in (("ring", self.get_buffer("segment")), ("losses", loss), ("sizes", at[0])):
            self.get_buffer(name)[slot] = value
        at[0], at[1] = 0, at[1] + 1
        self.get_buffer("segment").zero_()
        if at[2] < 0 and (not self._converges() or self.own_variant == "code"):
            return
        if not at[4]:
            self._go_on(int(at[1]))

    def restart(self) -> None:
        for name in ("segment", "mean", "mass"):
            self.get_buffer(name).zero_()
        self.get_buffer("at").copy_(torch.tensor([0, 0, -1, -1, 0]))

    def place(self, trainer: Trainer) -> None:
        at = self.get_buffer("at")
        count = int(at[1])
        if not count:
            return
        converged = at[2] >= 0
        if converged and not at[4]:
            if self.own_variant == "code":
                at[3] = max(0, count - self.patience) + 1
            self._join_while_low(count, count)
        write(self.get_buffer("mean") if converged else self._kept("ring", count - 1), self.averaged())
        self.restart()
        renew_statistics(trainer)

    def _kept(self, name: str, segment: int) -> Tensor:
        return self.get_buffer(name)[segment % self.kept]

    def _losses(self, begin: int, end: int) -> list[float]:
        return [float(self._kept("losses", one)) for one in range(begin, end)]

    def _converges(self) -> bool:
        """Whether the valley begins N_s segments ago; then where, and its threshold."""
        at, count = self.get_buffer("at"), int(self.get_buffer("at")[1])
        start = count - self.window
        if start < 0 or not self._losses(start, start + 1)[0] <= min(self._losses(start, count)):
            return False
        threshold = self.get_buffer("threshold")
        threshold.fill_((1 + self.ratio) * float(np.mean(self._losses(start, count))))
        first = start
        while first > max(0, count - self.kept) and self._kept("losses", first - 1) <= threshold:
            first -= 1
        at[2], at[3] = start, first
        self.get_buffer("mean").copy_(self._kept("ring", start))  # until something has joined
        if self.own_variant == "code":
            low = max(0, count - self.patience)
            front = range(low, min(low + self.patience - self.window + 1, count))
            begin = max((one + 1 for one in front if self._kept("losses", one) > threshold), default=low)
            for one in range(begin + 1, front.stop):
                self._join(one)
            for one in range(start + 1, start + 1 + self.window - self.patience):
                self._join(one)
        return True

    def _go_on(self, count: int) -> None:
        at = self.get_buffer("at")
        if self.own_variant == "code":
            at[3] = max(0, count - self.patience)
            if at[3] < at[2]:
                return
            self._join_while_low(count, int(at[3]) + 1)
        else:
            self._join_while_low(count, count - self.patience + 1)

    def _join_while_low(self, count: int, end: int) -> None:
        """Segments join up to `end`, or until the losses of N_e from there on are all above the threshold."""
        at = self.get_buffer("at")
        while int(at[3]) < end:
            ahead = self._losses(int(at[3]), min(int(at[3]) + self.patience, count))
            if min(ahead) > self.get_buffer("threshold"):
                at[4] = 1
                return
            self._join(int(at[3]))
            at[3] += 1

    def _join(self, segment: int) -> None:
        mean, mass = self.get_buffer("mean"), self.get_buffer("mass")
        weight = self._kept("sizes", segment) if self.own_variant == "fixed" else torch.ones_like(mass)
        mass += weight
        mean += (self._kept("ring", segment) - mean) * (weight / mass)
