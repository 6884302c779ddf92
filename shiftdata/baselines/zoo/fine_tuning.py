"""Fine-tuning a pretrained encoder: from a linear probe (LP-FT), and halfway back to it (WiSE-FT)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.losses.averages import Average, flat, write
from shiftdata.baselines.method import Data, Hyper, Method, Stage
from shiftdata.baselines.methods.averages import Averaged, statistics
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network
from shiftdata.baselines.pretrained.probe import GRID, LinearProbe, best_of

#: The stage without steps that puts a linear probe into the network's head.
PROBE = "probe"


def probe_head(trainer: Trainer, l2: float = 0.0) -> float:
    """Fit the head to the features of the training set, and return the strength of its penalty.

    0: the strength whose accuracy is highest on the validation set, or a default without one.
    """
    data, head = trainer.data, trainer.network.head
    select = torch.from_numpy(trainer.features(data.select)).double()

    def accuracy(weight: Tensor, bias: Tensor) -> float:
        return float(((select @ weight.T + bias).argmax(1).numpy() == data.select_y).mean())

    probe = LinearProbe(trainer.features(data.rows), data.y, data.classes)
    chooses = not l2 and len(data.select)
    weight, bias, l2 = best_of(probe, accuracy if chooses else None, [l2] if l2 else ())
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    return l2


class LPFT(ERM):
    """ERM from a linear probe of the pretrained encoder: LP-FT (Kumar et al., ICLR 2022).

    probe   the head is a `LinearProbe` of the training set's features, in eval mode without augmentation
    tune    ERM of the whole network for all steps
    """

    needs = frozenset({"pretrained"})
    l2 = Hyper(0, choices=(0, *GRID), source="Kumar et al.: chosen on the validation set, here 0")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.register_buffer("chosen", torch.zeros(()))

    def stages(self) -> Sequence[Stage]:
        return [Stage(PROBE, 0.0), Stage("tune")]

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if stage.name == PROBE:
            self.get_buffer("chosen").fill_(probe_head(trainer, self.l2))

    def report(self) -> dict[str, Any]:
        return {"l2": round(float(self.get_buffer("chosen")), 6)}


class Interpolation(Average):
    """(1 - alpha) theta_0 + alpha theta, theta_0 being the weights at the last `begin_at`."""

    def __init__(self, parameters: Iterable[Tensor], alpha: float) -> None:
        super().__init__(start=flat(parameters), steps=torch.tensor(0))
        self.alpha = alpha

    def begin_at(self, parameters: Iterable[Tensor]) -> None:
        self.start.copy_(flat(parameters))

    def update(self, parameters: Iterable[Tensor]) -> None:
        """Count a step: the weights are read when the interpolation is put in place."""
        self.steps += 1

    def copy_to(self, parameters: Iterable[Tensor]) -> bool:
        tensors = list(parameters)
        if self.steps:
            write(torch.lerp(self.start, flat(tensors), self.alpha), tensors)
        return bool(self.steps)

    def restart(self) -> None:
        self.steps.zero_()


class WiSE(Averaged):
    """Any method from a linear probe, then (1 - alpha) theta_0 + alpha theta of all weights: WiSE-FT.

    Wortsman et al., CVPR 2022. theta_0 is the pretrained encoder with a probe for its head, as in `lp-ft`;
    the authors' head is the zero-shot one. Statistics of batch norm are interpolated like weights, as in
    their code.
    """

    average: Interpolation
    alpha = Hyper(0.5, low=0.0, high=1.0, source="Wortsman et al.: 0.5 without a choice")

    def __init__(self, inner: Method, **given: float) -> None:
        super().__init__(inner, **given)
        self.needs = inner.needs | {"pretrained"}

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.average = Interpolation(self.averaged(), self.alpha)

    def averaged(self) -> list[Tensor]:
        return super().averaged() + statistics(self.network)

    def stages(self) -> Sequence[Stage]:
        stages = list(super().stages())
        return stages if stages[0].name == PROBE else [Stage(PROBE, 0.0), *stages]

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if stage.fresh:  # the network's first weights have no probe
            write(self.average.start, self.averaged())
        if stage.name == PROBE and super().stages()[0].name != PROBE:
            probe_head(trainer)
        else:
            super().begin(stage, trainer)
        if stage.name == PROBE:
            self.average.begin_at(self.averaged())
