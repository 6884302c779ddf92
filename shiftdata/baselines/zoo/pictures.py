"""What methods share that change pictures: the scale on which a network reads them."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftdata.baselines.method import Setup, Stage, TrainerAPI
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network


class OfPictures(ERM):
    """ERM on pictures that a method changes on the scale from black, 0, to white, 1."""

    needs = frozenset({"pixels"})

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.register_buffer("ends", torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).repeat(1, 3, 1, 1))

    def begin(self, stage: Stage, trainer: TrainerAPI) -> None:
        black_white = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).repeat(1, 3, 1, 1)
        self.get_buffer("ends").copy_(trainer.prepared(black_white))

    def pictures(self, x: Tensor) -> Tensor:
        """Return pictures from 0 to 1."""
        black, white = self.get_buffer("ends")
        pictures: Tensor = (x - black) / (white - black)
        return pictures

    def read(self, pictures: Tensor) -> Tensor:
        """Return pictures from 0 to 1 as the network reads them."""
        black, white = self.get_buffer("ends")
        x: Tensor = black + pictures * (white - black)
        return x
