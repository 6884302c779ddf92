"""MMLD: clusters of styles as domains, hidden from the features (Matsuura and Harada, AAAI 2020).

    l + trade_off mean w_d CE(D(GRL_c(z)), d) + entropy c mean H(p)      c = 2 / (1 + exp(-slope t / T)) - 1

d is the cluster of a row's style: k-means on `losses.pictures.style` of the first two feature maps; w_d makes
clusters weigh alike. Clusters are new when an epoch begins, and renamed so that most rows keep theirs.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from shiftdata.baselines import losses
from shiftdata.baselines.losses.pictures import style
from shiftdata.baselines.losses.reduce import precise
from shiftdata.baselines.method import Batch, Hyper, Setup, TrainerAPI
from shiftdata.baselines.methods.dann import discriminator
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network, evaluating
from shiftdata.baselines.zoo.clusters import clusters_of
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.stable import hash64

AXES = 256
MAPS = 2  # of the first ones


def renamed(new: IntArray, old: IntArray, number: int) -> IntArray:
    """Return new clusters by the names of old ones, so that as many rows as can keep theirs."""
    shared = np.zeros((number, number), np.int64)
    np.add.at(shared, (new, old), 1)
    _, name = require("scipy.optimize", "mmld").linear_sum_assignment(-shared)
    chosen: IntArray = name[new]
    return chosen


class MMLD(ERM):
    """ERM on features in which a discriminator cannot see the cluster that a row's style is of."""

    needs = frozenset({"maps"})
    clusters = Hyper(3, choices=(2, 3, 4, 5), source="authors: 3, one for each source domain")
    trade_off = Hyper(1.0, low=0.01, high=10.0, log=True, source="authors: 1, no range")
    entropy = Hyper(1.0, low=0.01, high=10.0, log=True, source="authors: 1, no range")
    slope = Hyper(10.0, source="authors, as Ganin et al.")
    width = Hyper(256, low=64, high=1024, log=True, source="as dann; authors: 1024")
    dropout = Hyper(0.5, choices=(0.0, 0.1, 0.5), source="authors: .5")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        if self.clusters < 1 or self.clusters != round(self.clusters):
            raise InputError(f"mmld with clusters={self.clusters:g}: give a whole number from 1 on")
        hidden = discriminator(sizes.features, int(self.width), self.dropout)[:-2]
        self.adversary = nn.Sequential(hidden, nn.Linear(int(self.width), int(self.clusters)))
        self.register_buffer("cluster", torch.full((sizes.rows,), -1))

    def step(self, batch: Batch, trainer: TrainerAPI) -> Tensor:
        size, rows = trainer.training.batch or self.sizes.rows, self.sizes.rows
        if self.trade_off and (not batch.step or batch.step * size // rows > (batch.step - 1) * size // rows):
            with evaluating(self):
                self.recluster(trainer, hash64(trainer.seed, "mmld", batch.step) % 2**32)
        return super().step(batch, trainer)

    def recluster(self, trainer: TrainerAPI, seed: int) -> None:
        """Cluster the training set by the styles that its maps have now."""
        buffer, number = self.get_buffer("cluster"), int(self.clusters)
        styles = trainer.applied(self.styles, trainer.data.rows)
        *_, fitted = clusters_of("mmld", styles, number, min(AXES, *styles.shape), seed)
        new, old = fitted.labels_.astype(np.int64), buffer.cpu().numpy()
        buffer.copy_(torch.from_numpy(new if old.min() < 0 else renamed(new, old, number)))

    def styles(self, x: Tensor) -> Tensor:
        """Return means and deviations of the channels of the first maps, a line a row."""
        seen: list[Tensor] = []
        hooks = [
            stage.register_forward_hook(lambda _, __, maps: seen.extend(style(maps)))
            for stage in self.network.maps[:MAPS]
        ]
        try:
            self.network.features(x)
        finally:
            for hook in hooks:
                hook.remove()
        return torch.cat([part.flatten(1) for part in seen], 1)

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        logits = self.network.head(z)
        each = losses.cross_entropies(logits, batch.y)
        risen = losses.reversal_schedule(batch.progress, self.slope)
        if self.entropy:
            each = each + self.entropy * risen * losses.entropy(precise(logits))
        if self.trade_off:
            judged = self.adversary(losses.reverse_gradient(z, risen))
            each = each + self.trade_off * self.domain_losses(judged, batch.row)
        return losses.mean(each, batch.weight)

    def domain_losses(self, judged: Tensor, rows: Tensor) -> Tensor:
        """Return the discriminator's loss on each row, each cluster with the same weight."""
        cluster = self.get_buffer("cluster")
        counts = torch.bincount(cluster, minlength=judged.shape[1]).clamp(min=1)
        weight = len(cluster) / (len(counts) * counts)
        return weight[cluster[rows]] * losses.cross_entropies(judged, cluster[rows])
