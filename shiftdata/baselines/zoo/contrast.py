"""Contrastive training against what a first model relies on."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Data, Hyper, Stage
from shiftdata.baselines.methods.groups import TwoTrainings
from shiftdata.baselines.networks import Network
from shiftdata.data.arrays import BoolArray, IntArray
from shiftdata.errors import InputError


class CNC(TwoTrainings):
    """ERM, then features that agree across its predictions: Correct-N-Contrast (Zhang et al., ICML 2022).

        identify   ERM for a share `first` of the steps; its predictions of the training set pair rows
        contrast   from the first weights: (1 - weight) CE + weight `losses.cnc` of the features

    Pairs are those of each batch, to which the rows of a class that the first model got right and wrong come
    equally often, as the anchors, positives and negatives that the authors draw. `code` (the authors): pairs
    of a right and a wrong row alone, both sides added, the encoder in eval mode. (Theirs also lets the
    gradients of the classifier add up over an epoch.) Needs no groups; without an error it is ERM.
    """

    variants = ("fixed", "code")
    second: ClassVar[str] = "contrast"

    weight = Hyper(0.75, choices=(0.25, 0.5, 0.75), source="authors: .75 in every command")
    temperature = Hyper(0.1, choices=(0.05, 0.1), source="authors: .1 on Waterbirds, .05 on CelebA")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        if not 0 <= self.weight <= 1 or self.first < 0:
            raise InputError(f"cnc with weight={self.weight:g}, first={self.first:g}: give shares, 0 to 1")
        self.register_buffer("predicted", torch.from_numpy(data.y).clone())

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if not any(parameter.requires_grad for parameter in self.network.encoder.parameters()):
            raise InputError(
                "cnc contrasts features, and this encoder does not train: take another backbone (mlp on "
                "features that are frozen), or an encoder_rate above 0"
            )
        super().begin(stage, trainer)

    def counts(self, predicted: IntArray, wrong: BoolArray) -> IntArray | None:
        """Balance right and wrong rows of each class: the fewer come as often as the others, rounded."""
        self.get_buffer("predicted").copy_(torch.from_numpy(predicted))
        cell = 2 * self.data.y + wrong
        n = np.bincount(cell, minlength=2 * self.data.classes).reshape(-1, 2)
        times = np.where(n > 0, np.rint(n.max(axis=1, keepdims=True) / np.maximum(n, 1)), 1)
        return np.asarray(times.ravel()[cell], np.int64)

    def loss(self, batch: Batch) -> Tensor:
        if batch.stage != self.second:
            return super().loss(batch)
        if self.variant == "code":
            self.network.encoder.eval()
        z = self.network.features(batch.x)
        entropy = losses.cross_entropy(self.network.head(z), batch.y)
        predicted = self.get_buffer("predicted")[batch.row]
        contrast = losses.cnc(z, batch.y, predicted, self.temperature, opposed=self.variant == "code")
        return (1 - self.weight) * entropy + self.weight * contrast
