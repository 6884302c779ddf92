"""Averages of weights: a moving one, a running one, and that of a valley of the validation loss.

Each is a torch module whose buffers have the weights as one vector: as a submodule it is saved and moved with
a model. `update(parameters)` comes after a step of the optimiser, `copy_to(parameters)` puts the average in
place for good, `with average.applied(parameters)` for a while. The tensors are the same ones every time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor

from shiftdata.baselines.losses.reduce import State
from shiftdata.errors import InputError

__all__ = ["EMA", "SWAD", "WeightAverage", "ema_"]


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """Concatenate tensors into one vector."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


@torch.no_grad()
def write(values: Tensor, tensors: Iterable[Tensor]) -> None:
    """Copy a vector made by `flat` back into the tensors."""
    tensors = list(tensors)
    parts = torch.split(values, [tensor.numel() for tensor in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.copy_(part.view(tensor.shape))


@contextmanager
def in_place(values: Tensor, tensors: Iterable[Tensor]) -> Iterator[None]:
    """Put a vector's values into tensors for a while, then restore their own."""
    tensors = list(tensors)
    own = flat(tensors)
    write(values, tensors)
    try:
        yield
    finally:
        write(own, tensors)


class Average(State):
    """An average of weights: `value()`, None before the first one."""

    def value(self) -> Tensor | None:
        """Return the average as one vector."""
        raise NotImplementedError

    def update(self, parameters: Iterable[Tensor]) -> None:
        """Take the weights after a step into account."""
        raise NotImplementedError

    def restart(self) -> None:
        """Forget the steps so far."""
        raise NotImplementedError

    def copy_to(self, parameters: Iterable[Tensor]) -> bool:
        """Write the average into parameters; without one, leave them and return False."""
        value = self.value()
        if value is not None:
            write(value, parameters)
        return value is not None

    @contextmanager
    def applied(self, parameters: Iterable[Tensor]) -> Iterator[None]:
        """Put the average into the parameters for a while, then restore the weights of training."""
        value = self.value()
        with nullcontext() if value is None else in_place(value, parameters):
            yield


@torch.no_grad()
def ema_(
    averages: Iterable[Tensor], parameters: Iterable[Tensor], decay: float, step: int | None = None
) -> None:
    """Move averages, in place: m <- d m + (1 - d) theta, d = decay, or min(1 - 1 / (step + 1), decay).

    With `step` = 1, 2, .. the first updates are a plain mean (mean teacher; Tarvainen and Valpola, 2017).
    """
    decay = decay if step is None else min(1 - 1 / (step + 1), decay)
    for average, parameter in zip(averages, parameters, strict=True):
        average.lerp_(parameter, 1 - decay)


class EMA(Average):
    """The exponential moving average m <- decay m + (1 - decay) theta, from the weights given on.

    With `warm_up` step t has the decay min(1 - 1 / (t + 1), decay).
    """

    def __init__(self, parameters: Iterable[Tensor], decay: float = 0.999, warm_up: bool = False) -> None:
        super().__init__(average=flat(parameters), steps=torch.tensor(0))
        self.decay, self.warm_up = decay, warm_up

    @torch.no_grad()
    def update(self, parameters: Iterable[Tensor]) -> None:
        """Take the weights after a step into account."""
        self.steps += 1
        rate = (1 / (self.steps + 1)).clamp(min=1 - self.decay) if self.warm_up else 1 - self.decay
        self.average += rate * (flat(parameters) - self.average)

    def value(self) -> Tensor | None:
        return self.average if self.steps else None

    def restart(self) -> None:
        """Start again from the current average."""
        self.steps.zero_()


class WeightAverage(Average):
    """The mean of the weights after steps start - 1, start, ..., t (EoA; Arpit et al., NeurIPS 2022).

    Steps count from 1. The authors average the statistics of batch norm as well: pass these buffers too.
    """

    def __init__(self, parameters: Iterable[Tensor], start: int = 100) -> None:
        super().__init__(average=torch.zeros_like(flat(parameters)), steps=torch.tensor(0))
        self.first = max(start - 1, 1)

    @torch.no_grad()
    def update(self, parameters: Iterable[Tensor]) -> None:
        """Take the weights after a step into account."""
        self.steps += 1
        count = self.steps - self.first + 1
        # No branch on `count`: it would wait for a GPU.
        self.average += (flat(parameters) - self.average) * (count > 0) / count.clamp(min=1)

    def value(self) -> Tensor | None:
        return self.average if self.steps >= self.first else None

    def restart(self) -> None:
        """Forget everything."""
        self.average.zero_()
        self.steps.zero_()


class SWAD(Average):
    """The mean of the weights in a valley of the validation loss (Cha et al., NeurIPS 2021).

    A segment is what lies between two evaluations; l_s is the loss at its end, of the weights as they are.

        converged at s    the first with l_s = min(l_s .. l_s+N_s-1)
        threshold         (1 + ratio) times the mean of these losses
        begins at b       the earliest segment with all of l_b .. l_s <= threshold
        ends before e     the first with min(l_e .. l_e+N_e-1) > threshold, or after the last l <= threshold
        average           the mean of the weights after every step of the segments b .. e - 1

    N_s is `converge`, N_e `tolerance`; b is not below s - (N_e - N_s), as max(N_s, N_e) segments are stored.
    Never converged: the last segment's mean. The authors' code counts segment s twice, or three times, and
    leaves the leftmost one out. Afterwards renew the statistics of batch norm.
    """

    def __init__(
        self, parameters: Iterable[Tensor], converge: int = 3, tolerance: int = 6, ratio: float = 0.3
    ) -> None:
        if min(converge, tolerance) < 1 or ratio < 0:
            raise InputError("swad: converge and tolerance are 1 or more, and ratio is not negative")
        self.converge, self.tolerance, self.ratio = converge, tolerance, ratio
        self.slots, weights = max(converge, tolerance), torch.zeros_like(flat(parameters))
        super().__init__(
            average=weights,  # of segments no longer stored
            segment=weights.clone(),
            segments=weights.repeat(self.slots, 1),
            losses=torch.zeros(self.slots),
            sizes=torch.zeros(self.slots),
            mass=torch.zeros(()),
            threshold=torch.zeros(()),
            at=torch.tensor([0, 0, -1, -1]),  # steps in the segment, segments, b and e (-1: not known)
        )

    @torch.no_grad()
    def update(self, parameters: Iterable[Tensor]) -> None:
        """Take the weights after a step into the segment."""
        self.at[0] += 1
        self.segment += (flat(parameters) - self.segment) / self.at[0]

    def evaluated(self, loss: float) -> None:
        """End a segment with the validation loss of the weights as they are."""
        size, count, begin, end = self.at.tolist()
        if not size:
            return
        slot, oldest = count % self.slots, count - self.slots
        # The slot is about to be overwritten: a segment of the valley moves into the running mean,
        # A <- A + (A_k - A) n_k / (mass + n_k), n_k its steps.
        if 0 <= begin <= oldest and (end < 0 or oldest < end):
            self.mass += self.sizes[slot]
            self.average += (self.segments[slot] - self.average) * (self.sizes[slot] / self.mass)
        self.segments[slot], self.losses[slot], self.sizes[slot] = self.segment, loss, size
        self.segment.zero_()
        self.at[0], self.at[1] = 0, count + 1
        recent = self._recent()
        if begin < 0:
            # The window starts at segment s: converged if no loss in it is below l_s.
            window = list(recent.values())[-self.converge :]
            if len(window) < self.converge or window[0] > min(window):
                return
            self.threshold.fill_((1 + self.ratio) * sum(window) / len(window))
            begin = count + 1 - self.converge
            while recent.get(begin - 1, math.inf) <= self.threshold:
                begin -= 1
            self.at[2] = begin
        # Complete windows of `tolerance` segments that are still stored; earlier ones have been checked.
        for start in range(max(begin, oldest + 1), count + 2 - self.tolerance) if end < 0 else ():
            if min(recent[segment] for segment in range(start, start + self.tolerance)) > self.threshold:
                self.at[3] = start
                return

    def value(self) -> Tensor | None:
        """Return the average as if training ended here; None before the first evaluation."""
        _, count, begin, end = self.at.tolist()
        if not count:
            return None
        if begin < 0:
            return self.segments[(count - 1) % self.slots]
        recent = self._recent()
        if end < 0:  # a stored loss is at most the threshold: otherwise `evaluated` would have set the end
            end = 1 + max(segment for segment, loss in recent.items() if loss <= self.threshold)
        stored = [segment % self.slots for segment in recent if begin <= segment < end]
        sizes = self.sizes[stored]
        total = self.mass + sizes.sum()
        return self.average * (self.mass / total) + sizes @ self.segments[stored] / total

    def restart(self) -> None:
        """Forget everything."""
        for buffer in (self.average, self.segment, self.mass):
            buffer.zero_()
        self.at.copy_(torch.tensor([0, 0, -1, -1]))

    def _recent(self) -> dict[int, float]:
        """Return the losses of the stored segments, in order."""
        count = int(self.at[1])
        return {k: float(self.losses[k % self.slots]) for k in range(max(0, count - self.slots), count)}
