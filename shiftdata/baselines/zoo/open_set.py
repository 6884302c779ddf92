"""Methods for targets with classes of their own.

OSBP: l_s + trade_off `losses.osbp` of a head with one output more (Saito et al., ECCV 2018).
OVANet: ERM + `losses.ovanet` + entropy `losses.entropy` (Saito and Saenko, ICCV 2021).
UAN: DANN of rows weighed by `losses.uan_weights`, from a second discriminator (You et al., CVPR 2019).
UniOT: l_s + trade_off (`private` + `common` of `losses.UniOT`), by cosines (Chang et al., NeurIPS 2022). One
coupling over the unlabelled rows, after training, decides about every row by itself.
"""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Data, Hyper, Method, Stage
from shiftdata.baselines.methods.adversarial import DANN, discriminator
from shiftdata.baselines.networks import Network
from shiftdata.data.arrays import IntArray


class OSBP(Method):
    """Open-set adaptation by back-propagation: one output more, for rows of no class that is known."""

    needs = frozenset({"target", "unknown"})
    trade_off = Hyper(1.0, low=0.01, high=10.0, log=True, source="Saito et al.: 1")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.head = nn.Linear(network.n_features, data.classes + 1)

    def loss(self, batch: Batch) -> Tensor:
        fitted = losses.cross_entropy(self.predict(batch.x), batch.y)
        hidden = losses.reverse_gradient(self.network.features(batch.unlabelled))
        return fitted + self.trade_off * losses.osbp(self.head(hidden))

    def predict(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.network.features(x))
        return logits


class OVANet(Method):
    """One-versus-all networks: each class has a boundary of its own, beyond which rows are unknown."""

    needs = frozenset({"target", "unknown"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    entropy = Hyper(0.1, low=0.01, high=1.0, log=True, source="OVANet: .1; SMA: 1", variants={"code": 1.0})

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        rows = nn.Linear(network.n_features, 2 * data.classes, bias=False)
        self.open = nn.Sequential(rows, nn.Unflatten(1, (2, data.classes)))

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
        fitted = losses.cross_entropy(self.network.head(z), batch.y)
        fitted = fitted + losses.ovanet(self.open(z), batch.y)
        return fitted + self.entropy * losses.entropy(self.open(z_target)).mean()

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        if self.variant == "fixed":
            weight = self.open.get_parameter("0.weight")  # its rows measure an angle
            weight.copy_(normalize(weight, dim=1))

    def predict(self, x: Tensor) -> Tensor:
        """Return the first head's logits, and one of unknown."""
        z = self.network.features(x)
        logits: Tensor = self.network.head(z)
        return losses.with_unknown(logits, losses.ovanet_unknown(logits, self.open(z)))


class UAN(DANN):
    """Universal adaptation: a discriminator weighs rows by how likely both domains share their class."""

    needs = frozenset({"target", "unknown"})
    trade_off = Hyper(1.0, low=0.01, high=10.0, log=True, source="You et al.: 1")
    threshold = Hyper(-0.5, low=-1.0, high=0.5, source="authors' code: w_0; SMA: .5", variants={"code": 0.5})
    temperature = Hyper(10.0, low=1.0, high=20.0, source="authors' code: of the source's classes")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.observer = discriminator(network.n_features, int(self.width), self.dropout)

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
        logits, logits_target = self.network.head(z), self.network.head(z_target)
        both, sizes = torch.cat([z, z_target]), [len(z), len(z_target)]
        seen = both if self.variant == "code" else both.detach()
        observed, observed_target = self.observer(seen).split(sizes)
        weights = losses.uan_weights(logits, observed, logits_target, observed_target, self.temperature)
        if self.variant == "code":  # the mean of (B,) times (B, 1)
            weights = weights[0].mean().expand_as(observed), weights[1].mean().expand_as(observed_target)
        coefficient = losses.reversal_schedule(batch.progress, self.slope)
        judged, judged_target = self.discriminator(losses.reverse_gradient(both, coefficient)).split(sizes)
        hidden = self.trade_off * losses.dann(judged, judged_target, *weights)
        observing = losses.dann(observed, observed_target)
        return losses.cross_entropy(logits, batch.y) + 2 * (hidden + observing)

    def predict(self, x: Tensor) -> Tensor:
        """Return the head's logits, and one of unknown."""
        z = self.network.features(x)
        logits: Tensor = self.network.head(z)
        scores = losses.uan_scores(logits, self.observer(z))
        scores = losses.open_set.unit_range(scores) if self.variant == "code" else scores
        return losses.with_unknown(logits, scores < self.threshold)


HIDDEN, WIDTH = 2048, 256  # of UniOT's projection


class UniOT(Method):
    """Unified optimal transport: common classes by an unbalanced transport, private ones by clusters."""

    needs = frozenset({"target", "unknown"})
    sampler = "rwy"
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    code_version: ClassVar[int] = 3  # 2: evaluations couple the whole target; 3: the queue is in order
    trade_off = Hyper(0.1, low=0.01, high=1.0, log=True, source="authors' code")
    temperature = Hyper(0.1, low=0.05, high=0.5, log=True, source="authors' code")
    similar = Hyper(0.7, low=0.5, high=0.9, source="authors' code: gamma")
    momentum = Hyper(0.7, low=0.5, high=1.0, source="authors' code: mu of Office-31 and VisDA; SMA")
    clusters = Hyper(50, choices=(12, 50, 150), source="authors' code: Office-31 50, Office-Home 150; SMA 12")
    queue = Hyper(2000, choices=(32, 500, 2000), source="authors' code: Office-31", variants={"code": 32})
    delay = Hyper(0.01, low=0.0, high=0.1, source="authors' code: 100 of 10,000 steps", variants={"code": 0})

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.project = nn.Sequential(
            nn.Linear(network.n_features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH)
        )
        self.classes, self.centres = (
            nn.Parameter(normalize(torch.randn(number, WIDTH), dim=1))
            for number in (data.classes, int(self.clusters))
        )
        size = max(1, min(int(self.queue), len(data.target)))
        self.state = losses.UniOT(data.classes, WIDTH, size, self.momentum, self.similar, self.temperature)

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        first = torch.randperm(len(self.data.target))[: len(self.state.queue)]
        z = self.target(trainer, first.numpy())
        self.state.update(z, first.to(z.device))
        self.state.couple(z, self.classes)

    def loss(self, batch: Batch) -> Tensor:
        features, of_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
        assert batch.target_row is not None
        with losses.exactly(features):
            z, z_target = self.unit(features), self.unit(of_target)
            loss = losses.cross_entropy(z @ self.classes.T / self.temperature, batch.y)
            if batch.progress >= self.delay:
                loss = loss + self.trade_off * self.state.common(z_target, self.classes)
            if self.variant != "code":
                loss = loss + self.trade_off * self.state.private(z_target, batch.target_row, self.centres)
            self.state.update(z_target.detach(), batch.target_row)
        return loss

    def unit(self, features: Tensor) -> Tensor:
        """Return the projection of each row's features, of length 1."""
        return normalize(self.project(features.to(self.classes)), dim=1)

    @torch.no_grad()
    def target(self, trainer: Trainer, rows: IntArray) -> Tensor:
        """Return the projection of rows of the target."""
        features = trainer.features(trainer.data.target[rows])
        return self.unit(torch.from_numpy(features).to(self.classes.device))

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        for prototypes in (self.classes, self.centres):
            prototypes.copy_(normalize(prototypes, dim=1))

    def finish(self, trainer: Trainer) -> None:
        self.state.couple(self.target(trainer, np.arange(len(self.data.target))), self.classes)

    def predict(self, x: Tensor) -> Tensor:
        return self.state.predict(self.unit(self.network.features(x)), self.classes)
