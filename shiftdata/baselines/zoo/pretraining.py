"""Methods that pretrain an encoder without labels, for `pretrain`: they have no classifier.

SimCLR: `losses.ntxent` of two views (Chen et al., ICML 2020). MoCo: `losses.info_nce` of a query and the key
of a slowly following encoder (He et al., CVPR 2020), with the projection of its second version (Chen et al.,
arXiv 2020).
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Data, Hyper, Method
from shiftdata.baselines.networks import Network
from shiftdata.errors import InputError

#: Numbers of a projected row.
PROJECTED = 128


def projection(features: int, norm: bool) -> nn.Sequential:
    """Return a hidden layer and a linear one: the losses read their output, a later task the input."""
    first = [nn.Linear(features, features, bias=not norm), *([nn.BatchNorm1d(features)] if norm else [])]
    return nn.Sequential(*first, nn.ReLU(), nn.Linear(features, PROJECTED))


class Contrastive(Method):
    """Trains the encoder on two views of each picture."""

    needs = frozenset({"pixels"})
    strong_views = 2

    def predict(self, x: Tensor) -> Tensor:
        then = "use pretrain(..., folder=F), then train(task, backbone='run:F')"
        raise InputError(f"{type(self).__name__} has no classifier: {then}")


class SimCLR(Contrastive):
    """Two views of a picture are alike, those of the batch's other pictures are not."""

    temperature = Hyper(0.5, low=0.05, high=1.0, log=True, source="Chen et al., CIFAR-10; ImageNet: .1")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.projection = projection(network.n_features, norm=True)

    def loss(self, batch: Batch) -> Tensor:
        z = self.projection(self.network.features(torch.cat(batch.strong)))
        first, second = z.chunk(2)
        return losses.ntxent(first, second, self.temperature)


class MoCo(Contrastive):
    """A view of a picture is like the key of its other view, and unlike the keys of earlier pictures.

    The authors shuffle keys among devices, so that the statistics of batch norm do not tell which key is a
    query's own. Here keys are shuffled and encoded in `parts`, each with statistics of its own.
    """

    temperature = Hyper(0.2, low=0.05, high=1.0, log=True, source="Chen et al.: .2; He et al.: .07")
    momentum = Hyper(0.99, low=0.9, high=0.999, source="He et al.: .999, in their CIFAR-10 example .99")
    queue = Hyper(4096, choices=(1024, 4096, 65536), source="He et al.: 65,536, in that example 4,096")
    parts = Hyper(4, choices=(1, 2, 4, 8), source="He et al.: 8, one a device")

    key_network: Network
    key_projection: nn.Module

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.projection = projection(network.n_features, norm=False)
        self.key_network = copy.deepcopy(network).requires_grad_(False)
        self.key_projection = copy.deepcopy(self.projection).requires_grad_(False)
        self.memory = losses.KeyQueue(int(self.queue), PROJECTED)

    def loss(self, batch: Batch) -> Tensor:
        first, second = batch.strong
        query = self.projection(self.network.features(first))
        key = self._keys(second)
        loss = losses.info_nce(query, key, self.memory.keys.clone(), self.temperature)
        self.memory.update(key)
        return loss

    def after_step(self, batch: Batch) -> None:
        losses.ema_(self.key_network.encoder.parameters(), self.network.encoder.parameters(), self.momentum)
        losses.ema_(self.key_projection.parameters(), self.projection.parameters(), self.momentum)

    @torch.no_grad()
    def _keys(self, x: Tensor) -> Tensor:
        """Encode keys in parts of a random order; batch norm needs two rows in each."""
        order = torch.randperm(len(x)).to(x.device)
        self.key_network.call = self.network.call  # each process encodes its share of the rows
        parts = order.chunk(max(1, min(int(self.parts), len(x) // 2)))
        z = torch.cat([self.key_projection(self.key_network.features(x[part])) for part in parts])
        return z[order.argsort()]


#: The methods of `pretrain` by name.
PRETRAINING: dict[str, type[Contrastive]] = {"simclr": SimCLR, "moco": MoCo}
