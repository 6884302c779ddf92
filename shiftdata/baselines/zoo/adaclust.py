"""AdaClust: clusters of features as domains, whose centroids the head reads (Thomas et al., 2021).

    logits  W [z, c] + b     c the centroid, in z, of the cluster that z is of

Clusters are those of k-means, k = `multiple` K, on the features of the training set, on their principal axes
but the first `offset`, at length 1; they are new when epoch 0, 1, 2, 4, 8, .. begins. c carries no gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from shiftdata.baselines import losses
from shiftdata.baselines.losses.reduce import precise
from shiftdata.baselines.method import Batch, Hyper, Method, Setup, TrainerAPI
from shiftdata.baselines.networks import Network, evaluating
from shiftdata.baselines.zoo.clusters import clusters_of
from shiftdata.errors import InputError
from shiftdata.stable import hash64

AXES = 512


def begins_epoch(step: int, size: int, rows: int) -> bool:
    """Return whether epoch 0, 1, 2, 4, 8, .. has begun since the step before."""
    if not step:
        return True
    before, now = (step - 1) * size // rows, step * size // rows
    return now.bit_length() > before.bit_length()  # a power of two lies between


def cluster_means(z: Tensor, cluster: Tensor, number: int) -> Tensor:
    """Return the mean of the rows of each cluster; of one without a row, the mean of all."""
    sums = z.new_zeros(number, z.shape[1]).index_add_(0, cluster, z)
    counts = torch.bincount(cluster, minlength=number)[:, None]
    return torch.where(counts > 0, sums / counts.clamp(min=1), z.mean(0))


class AdaClust(Method):
    """ERM whose head also reads the centroid of each row's cluster: a mean over the training set.

    (The authors' reads the means over the rows that are predicted together: an answer then depends on these.)
    """

    multiple = Hyper(5, choices=(1, 3, 5), source="the authors: num_clusters, times the number of classes")
    offset = Hyper(8, choices=(8, 64, 512), source="the authors: offset")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        if min(self.multiple, self.offset) < 0:
            raise InputError(f"adaclust with {self.hyper}: give numbers from 0 on")
        self.number = min(sizes.rows, round(self.multiple * sizes.classes))
        self.context = nn.Linear(sizes.features, sizes.classes, bias=False)
        axes = min(sizes.rows, sizes.features)
        self.left_out = min(int(self.offset), axes // 2)
        axes = min(AXES, axes - self.left_out)
        self.register_buffer("origin", torch.zeros(sizes.features))
        self.register_buffer("axes", torch.zeros(axes, sizes.features))
        self.register_buffer("centres", torch.zeros(self.number, axes))
        self.register_buffer("centroids", torch.zeros(self.number, sizes.features))

    def step(self, batch: Batch, trainer: TrainerAPI) -> Tensor:
        size = trainer.training.batch or self.sizes.rows
        if self.number and begins_epoch(batch.step, size, self.sizes.rows):
            with evaluating(self):
                z = trainer.features(trainer.data.rows)
            self.cluster(z, hash64(trainer.seed, "adaclust", batch.step) % 2**32)
        return super().step(batch, trainer)

    def cluster(self, features: Any, seed: int) -> None:
        """Take clusters of the training set's features."""
        axes = len(self.get_buffer("axes"))
        origin, chosen, fitted = clusters_of(
            "adaclust", features, self.number, axes, seed, self.left_out, unit=True
        )
        for name, value in (("origin", origin), ("axes", chosen), ("centres", fitted.cluster_centers_)):
            self.get_buffer(name).copy_(torch.from_numpy(value))
        z = torch.from_numpy(features).to(self.get_buffer("axes"))
        self.get_buffer("centroids").copy_(cluster_means(z, self.cluster_of(z), self.number))

    def cluster_of(self, z: Tensor) -> Tensor:
        """Return the number of the nearest centre, on the chosen axes, at length 1."""
        placed = normalize((z - self.get_buffer("origin")) @ self.get_buffer("axes").T, dim=1)
        return torch.cdist(placed, self.get_buffer("centres")).argmin(dim=1)

    def scores(self, z: Tensor) -> Tensor:
        """Return logits of features and of the centroids of their clusters."""
        logits: Tensor = self.network.head(z)
        if not self.number:
            return logits
        with losses.exactly(z):
            cluster = self.cluster_of(precise(z))
        added: Tensor = self.context(self.get_buffer("centroids")[cluster])
        return logits + added

    def loss(self, batch: Batch) -> Tensor:
        return losses.cross_entropy(self.scores(self.network.features(batch.x)), batch.y, batch.weight)

    def predict(self, x: Tensor) -> Tensor:
        return self.scores(self.network.features(x))
