"""Methods that make domains of clusters: k-means on principal axes."""

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.losses.pictures import style
from shiftdata.baselines.losses.reduce import precise
from shiftdata.baselines.method import Batch, Data, Hyper, Method
from shiftdata.baselines.methods.adversarial import discriminator
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network, hooked
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.stable import hash64


def clusters_of(
    method: str, x: Any, number: int, axes: int, seed: int, left_out: int = 0, unit: bool = False
) -> tuple[Any, Any, Any]:
    """Return the mean of the lines of x, the principal axes but the first `left_out`, and k-means on these.

    `unit` brings lines to length 1 on the axes. There are at most as many clusters as lines.
    """
    if not np.isfinite(x).all():
        raise InputError(f"{method} cannot cluster features that are not finite: lower learning_rate")
    decomposition, cluster = (require(f"sklearn.{part}", method) for part in ("decomposition", "cluster"))
    # In one thread: several add up in any order, and a run that goes on would end in other bits.
    with require("threadpoolctl", method).threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that are alike: no variance, fewer clusters
        principal = decomposition.PCA(left_out + axes, random_state=seed).fit(x)
        chosen = principal.components_[left_out:]
        placed = (x - principal.mean_) @ chosen.T
        if unit:
            placed = placed / np.linalg.norm(placed, axis=1, keepdims=True).clip(1e-12)
        fitted = cluster.KMeans(min(number, len(x)), n_init=1, random_state=seed).fit(placed)
    return principal.mean_, chosen, fitted


AXES = 512  # of AdaClust's principal ones


class AdaClust(Method):
    """ERM whose head also reads the centroid of each row's cluster (Thomas et al., 2021).

        logits  W [z, c] + b     c the centroid, in z, of the cluster of z; it carries no gradient

    k-means, k = `multiple` K, on the features of the training set, on their principal axes but the first
    `offset`, at length 1; computed again when epoch 0, 1, 2, 4, 8, .. begins. The authors' code reads means
    over the rows that are predicted together, on which an answer then depends.
    """

    multiple = Hyper(5, choices=(1, 3, 5), source="the authors: num_clusters, times the number of classes")
    offset = Hyper(8, choices=(8, 64, 512), source="the authors: offset")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.number = min(len(data.rows), round(self.multiple * data.classes))
        self.context = nn.Linear(network.n_features, data.classes, bias=False)
        axes = min(len(data.rows), network.n_features)
        self.left_out = min(int(self.offset), axes // 2)
        axes = min(AXES, axes - self.left_out)
        self.register_buffer("origin", torch.zeros(network.n_features))
        self.register_buffer("axes", torch.zeros(axes, network.n_features))
        self.register_buffer("centres", torch.zeros(self.number, axes))
        self.register_buffer("centroids", torch.zeros(self.number, network.n_features))

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        size, rows = trainer.training.batch, len(self.data.rows)
        before, now = (max(0, step) * size // rows for step in (batch.step - 1, batch.step))
        # From epoch to epoch a power of two is passed where the bits become more.
        if self.number and (not batch.step or now.bit_length() > before.bit_length()):
            self.cluster(trainer, hash64(trainer.seed, "adaclust", batch.step) % 2**32)
        return super().step(batch, trainer)

    def cluster(self, trainer: Trainer, seed: int) -> None:
        """Take clusters of the training set's features."""
        features, axes = trainer.features(trainer.data.rows), len(self.get_buffer("axes"))
        origin, chosen, fitted = clusters_of(
            "adaclust", features, self.number, axes, seed, self.left_out, unit=True
        )
        for name, value in (("origin", origin), ("axes", chosen), ("centres", fitted.cluster_centers_)):
            self.get_buffer(name).copy_(torch.from_numpy(value))
        z = torch.from_numpy(features).to(self.get_buffer("axes"))
        cluster, centroids = self.cluster_of(z), self.get_buffer("centroids")
        sums, counts = (
            torch.zeros_like(centroids).index_add_(0, cluster, z),
            cluster.bincount(minlength=self.number),
        )
        # A cluster without a row has the mean of all.
        centroids.copy_(torch.where(counts[:, None] > 0, sums / counts[:, None].clamp(min=1), z.mean(0)))

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
        return losses.cross_entropy(self.scores(self.network.features(batch.x)), batch.y)

    def predict(self, x: Tensor) -> Tensor:
        return self.scores(self.network.features(x))


STYLE_AXES = 256  # of MMLD's principal ones
MAPS = 2  # of the first ones


def renamed(new: IntArray, old: IntArray, number: int) -> IntArray:
    """Return new clusters, numbered so that as many rows as possible keep their old number."""
    shared = np.zeros((number, number), np.int64)
    np.add.at(shared, (new, old), 1)
    _, numbers = require("scipy.optimize", "mmld").linear_sum_assignment(-shared)
    chosen: IntArray = numbers[new]
    return chosen


class MMLD(ERM):
    """ERM on features that hide the cluster of a row's style (Matsuura and Harada, AAAI 2020).

        l + trade_off mean w_d CE(D(GRL_c(z)), d) + entropy c mean H(p)

    c is `losses.reversal_schedule`; d is the cluster of a row's style: k-means on `losses.pictures.style` of
    the first two feature maps; w_d gives clusters equal weight. Clusters are computed again each
    epoch, and numbered so that most rows keep theirs.
    """

    needs = frozenset({"maps"})
    clusters = Hyper(3, choices=(2, 3, 4, 5), source="authors: 3, one for each source domain")
    trade_off = Hyper(1.0, low=0.01, high=10.0, log=True, source="authors: 1, no range")
    entropy = Hyper(1.0, low=0.01, high=10.0, log=True, source="authors: 1, no range")
    slope = Hyper(10.0, source="authors, as Ganin et al.")
    width = Hyper(256, low=64, high=1024, log=True, source="as dann; authors: 1024")
    dropout = Hyper(0.5, choices=(0.0, 0.1, 0.5), source="authors: .5")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        hidden = discriminator(network.n_features, int(self.width), self.dropout)[:-2]
        self.adversary = nn.Sequential(hidden, nn.Linear(int(self.width), int(self.clusters)))
        self.register_buffer("cluster", torch.full((len(data.rows),), -1))

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        size, rows = trainer.training.batch, len(self.data.rows)
        if self.trade_off and batch.step * size // rows > (batch.step - 1) * size // rows:
            self.recluster(trainer, hash64(trainer.seed, "mmld", batch.step) % 2**32)
        return super().step(batch, trainer)

    def recluster(self, trainer: Trainer, seed: int) -> None:
        """Cluster the training set by the styles that its maps have now."""
        buffer, number = self.get_buffer("cluster"), int(self.clusters)
        styles = trainer.applied(self.styles, trainer.data.rows)
        *_, fitted = clusters_of("mmld", styles, number, min(STYLE_AXES, *styles.shape), seed)
        new, old = fitted.labels_.astype(np.int64), buffer.cpu().numpy()
        buffer.copy_(torch.from_numpy(new if old.min() < 0 else renamed(new, old, number)))

    def styles(self, x: Tensor) -> Tensor:
        """Return means and deviations of the channels of the first maps, a line a row."""
        seen: list[Tensor] = []
        with hooked(self.network.maps[:MAPS], lambda _, __, maps: seen.extend(style(maps))):
            self.network.features(x)
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
        return each.mean()

    def domain_losses(self, judged: Tensor, rows: Tensor) -> Tensor:
        """Return the discriminator's loss on each row, each cluster with the same weight."""
        cluster = self.get_buffer("cluster")
        counts = torch.bincount(cluster, minlength=judged.shape[1]).clamp(min=1)
        weight = len(cluster) / (len(counts) * counts)
        return weight[cluster[rows]] * losses.cross_entropies(judged, cluster[rows])
