"""MMLD: clusters of styles as domains, hidden from the features (Matsuura and Harada, AAAI 2020).

    l + trade_off mean w_d CE(D(GRL_c(z)), d) + entropy c mean H(p)      c = 2 / (1 + exp(-slope t / T)) - 1

d is the cluster of a row: k-means of `clusters` on the mean and the deviation of each channel of the first
two feature maps, on their principal axes, 256 at most; w_d is the number of rows over `clusters` times those
of d. Clusters are made anew when an epoch begins, in eval mode, and renamed so that as many rows as can be
keep theirs (Hungarian matching). Labels of domains are not read. With trade_off and entropy 0 it is ERM, bit
for bit. The prediction is the network's.

The authors give new layers ten times the rate; here all have the training's.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, Setup, mean
from shiftdata.baselines.methods.batch_norm import entropies
from shiftdata.baselines.methods.dann import discriminator, reversed_gradient, warm_up
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import evaluating
from shiftdata.baselines.zoo.mixstyle import style
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.metrics.arrays import IntArray
from shiftdata.stable import hash64

if TYPE_CHECKING:
    from shiftdata.baselines.engine import Trainer

AXES = 256
MAPS = 2  # of the first ones


def clusters_of(styles: Any, number: int, seed: int) -> IntArray:
    """The cluster of each row, on the principal axes of their styles."""
    decomposition, cluster = (require(f"sklearn.{one}", "mmld") for one in ("decomposition", "cluster"))
    if not np.isfinite(styles).all():
        raise InputError("mmld cannot cluster feature maps that are not finite: lower learning_rate")
    # In one thread: several add up in any order, and a run that goes on would end in other bits.
    with require("threadpoolctl", "mmld").threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that are alike: no variance, fewer clusters
        placed = decomposition.PCA(min(AXES, *styles.shape), random_state=seed).fit_transform(styles)
        made = cluster.KMeans(min(number, len(placed)), n_init=1, random_state=seed).fit(placed)
    labels: IntArray = made.labels_.astype(np.int64)
    return labels


def renamed(new: IntArray, old: IntArray, number: int) -> IntArray:
    """New clusters by the names of old ones, so that as many rows as can be keep theirs."""
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

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        if self.clusters < 1 or self.clusters != round(self.clusters):
            raise InputError(f"mmld with clusters={self.clusters:g}: give a whole number from 1 on")
        hidden = discriminator(known.features, int(self.width), self.dropout)[:-2]
        self.adversary = nn.Sequential(hidden, nn.Linear(int(self.width), int(self.clusters)))
        self.register_buffer("cluster", torch.full((known.rows,), -1))

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        size, rows = trainer.training.batch or self.known.rows, self.known.rows
        if self.trade_off and (not batch.step or batch.step * size // rows > (batch.step - 1) * size // rows):
            with evaluating(self):
                self.recluster(trainer, hash64(trainer.seed, "mmld", batch.step) % 2**32)
        return super().step(batch, trainer)

    def recluster(self, trainer: Trainer, seed: int) -> None:
        """Cluster the rows to fit by the styles that their maps have now."""
        kept, number = self.get_buffer("cluster"), int(self.clusters)
        made = clusters_of(trainer.applied(self.styles, trainer.data.rows), number, seed)
        old = kept.cpu().numpy()
        kept.copy_(torch.from_numpy(made if old.min() < 0 else renamed(made, old, number)))

    def styles(self, x: Tensor) -> Tensor:
        """Means and deviations of the channels of the first maps, a line a row."""
        seen: list[Tensor] = []
        hooks = [
            one.register_forward_hook(lambda _, __, made: seen.extend(style(made)))
            for one in self.network.maps[:MAPS]
        ]
        try:
            self.network.features(x)
        finally:
            for hook in hooks:
                hook.remove()
        return torch.cat([one.flatten(1) for one in seen], 1)

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        scores = self.network.head(z)
        losses = cross_entropy(scores, batch.y, reduction="none")
        risen = warm_up(batch.progress, self.slope)
        if self.entropy:
            losses = losses + self.entropy * risen * entropies(scores.float())
        if self.trade_off:
            judged = self.adversary(reversed_gradient(z, risen))
            losses = losses + self.trade_off * self.domain_losses(judged, batch.row)
        return mean(losses, batch.weight)

    def domain_losses(self, judged: Tensor, rows: Tensor) -> Tensor:
        """The discriminator's loss on each row, each cluster of the rows to fit with the same weight."""
        cluster = self.get_buffer("cluster")
        counts = torch.bincount(cluster, minlength=judged.shape[1]).clamp(min=1)
        weight = len(cluster) / (len(counts) * counts)
        each: Tensor = weight[cluster[rows]] * cross_entropy(judged, cluster[rows], reduction="none")
        return each
