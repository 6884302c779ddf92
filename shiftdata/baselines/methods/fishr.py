"""Fishr: gradients of the head that vary equally in all domains (Rame et al., ICML 2022)."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Setup
from shiftdata.baselines.methods.domains import Penalised
from shiftdata.baselines.networks import Network
from shiftdata.errors import InputError


class Fishr(Penalised):
    """ERM plus `losses.Fishr`, whose averages are made, without a weight, before `anneal` too."""

    trade_off = Hyper(1000.0, low=10.0, high=1e4, log=True, source="DomainBed")
    anneal = Hyper(0.3, low=0.0, high=1.0, source="DomainBed: 1,500 of 5,000 steps; 0 to 5,000")
    gamma = Hyper(0.95, low=0.9, high=0.99, source="DomainBed: ema")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        if not isinstance(network.head, torch.nn.Linear):
            raise InputError(
                "fishr compares gradients of a linear head: end the network in a torch.nn.Linear"
            )
        bias = network.head.bias is not None
        self.fishr = losses.Fishr(sizes.classes, sizes.features, sizes.domains, self.gamma, bias)

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return self.fishr.update(z, logits, batch.y, batch.domain)
