"""AdaClust: clusters of features as domains, whose centroids the head reads (Thomas et al., 2021).

    scores  W [z, c] + b     c the centroid, in z, of the cluster that z is of

Clusters are those of k-means, k = `multiple` K, on the features of the rows to fit: centred, on their
principal axes but the first `offset`, up to 512 of them, at length 1. They are made anew when epoch 0, 1, 2,
4, 8, .. begins, in eval mode. No label has a say, nor a domain. A row is of the cluster whose centre is
nearest, in training as in prediction, and centroids are means over the rows to fit: an answer does not depend
on the rows beside it. c carries no gradient. With one cluster c is a constant; with `multiple` = 0 it is ERM.

At most half of the axes are left out; k is at most the number of rows.

`paper` and `code`: a prediction reads the means of the clusters of the rows that are predicted with it, so
that it changes with them. (The authors' take all rows of evaluation; here it is those that `predict` is given
at a time. Theirs are clustered 10 times and keep the best; a row to fit keeps its cluster until the next.)
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from shiftdata.baselines.method import Batch, Hyper, Method, Setup, mean
from shiftdata.baselines.methods.domains import exactly
from shiftdata.baselines.networks import evaluating
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.stable import hash64

if TYPE_CHECKING:
    from shiftdata.baselines.engine import Trainer

AXES = 512


def begins_epoch(step: int, size: int, rows: int) -> bool:
    """Whether epoch 0, 1, 2, 4, 8, .. has begun since the step before."""
    if not step:
        return True
    before, now = (step - 1) * size // rows, step * size // rows
    return now.bit_length() > before.bit_length()  # a power of two lies between


def cluster_means(z: Tensor, cluster: Tensor, number: int) -> Tensor:
    """The mean of the rows of each cluster; of one without a row, the mean of all."""
    sums = z.new_zeros(number, z.shape[1]).index_add_(0, cluster, z)
    counts = torch.bincount(cluster, minlength=number)[:, None]
    return torch.where(counts > 0, sums / counts.clamp(min=1), z.mean(0))


class AdaClust(Method):
    """ERM whose head also reads the centroid of each row's cluster, made anew ever more rarely."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "paper", "code")
    multiple = Hyper(5, choices=(1, 3, 5), source="the authors: num_clusters, times the number of classes")
    offset = Hyper(8, choices=(8, 64, 512), source="the authors: offset")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        if min(self.multiple, self.offset) < 0:
            raise InputError(f"adaclust with {self.hyper}: give numbers from 0 on")
        self.number = min(known.rows, round(self.multiple * known.classes))
        self.context = nn.Linear(known.features, known.classes, bias=False)
        axes = min(known.rows, known.features)
        self.left_out = min(int(self.offset), axes // 2)
        axes = min(AXES, axes - self.left_out)
        for name, shape in {
            "origin": (known.features,),
            "axes": (axes, known.features),
            "centres": (self.number, axes),
            "centroids": (self.number, known.features),
        }.items():
            self.register_buffer(name, torch.zeros(shape))

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        size = trainer.training.batch or self.known.rows
        if self.number and begins_epoch(batch.step, size, self.known.rows):
            with evaluating(self):
                z = trainer.features(trainer.data.rows)
            self.cluster(z, hash64(trainer.seed, "adaclust", batch.step) % 2**32)
        return super().step(batch, trainer)

    def cluster(self, features: Any, seed: int) -> None:
        """Take clusters of some rows' features."""
        decomposition, cluster = (
            require(f"sklearn.{one}", "adaclust") for one in ("decomposition", "cluster")
        )
        if not np.isfinite(features).all():
            raise InputError("adaclust cannot cluster features that are not finite: lower learning_rate")
        # In one thread: several add up in any order, and a run that goes on would end in other bits.
        with require("threadpoolctl", "adaclust").threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows that are alike: no variance, fewer clusters
            wanted = self.left_out + len(self.get_buffer("axes"))
            principal = decomposition.PCA(wanted, random_state=seed).fit(features)
            z = torch.from_numpy(features).to(self.get_buffer("axes"))
            self.get_buffer("origin").copy_(torch.from_numpy(principal.mean_))
            self.get_buffer("axes").copy_(torch.from_numpy(principal.components_[self.left_out :]))
            made = cluster.KMeans(self.number, n_init=1, random_state=seed).fit(self.placed(z).cpu().numpy())
        self.get_buffer("centres").copy_(torch.from_numpy(made.cluster_centers_))
        self.get_buffer("centroids").copy_(cluster_means(z, self.cluster_of(z), self.number))

    def placed(self, z: Tensor) -> Tensor:
        """Where the clusters are made: on the chosen axes, at length 1."""
        return normalize((z - self.get_buffer("origin")) @ self.get_buffer("axes").T, dim=1)

    def cluster_of(self, z: Tensor) -> Tensor:
        """The number of the nearest centre."""
        return torch.cdist(self.placed(z), self.get_buffer("centres")).argmin(dim=1)

    def scores(self, z: Tensor, together: bool = False) -> Tensor:
        """The head's scores of features and centroids: those of the rows to fit, or of the rows given."""
        scores: Tensor = self.network.head(z)
        if not self.number:
            return scores
        with exactly(z):
            plain = z.float()
            cluster = self.cluster_of(plain)
            of = cluster_means(plain, cluster, self.number) if together else self.get_buffer("centroids")
        added: Tensor = self.context(of[cluster])
        return scores + added

    def loss(self, batch: Batch) -> Tensor:
        scores = self.scores(self.network.features(batch.x))
        return mean(cross_entropy(scores, batch.y, reduction="none"), batch.weight)

    def predict(self, x: Tensor) -> Tensor:
        return self.scores(self.network.features(x), together=self.variant != "fixed")
