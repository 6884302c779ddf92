"""Methods that align source and target: by two heads, by transport, by whitening; with class weights.

MCD: features on which two heads agree about the target, by `losses.mcd` (Saito et al., CVPR 2018).
DeepJDOT: `losses.jdot` between the source and the target of a batch (Damodaran et al., ECCV 2018).
DARE: a head on features that `losses.whitening` whitens, each domain's alone (Rosenfeld et al., 2022).
IW-DANN, IW-CDAN: source rows weighed by `losses.ClassWeights` (Tachet des Combes et al., NeurIPS 2020).
"""

import copy
import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.losses.reduce import precise
from shiftdata.baselines.method import Batch, Data, Hyper, Method, Stage
from shiftdata.baselines.methods.adversarial import CDAN, DANN, Importance, both_features
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network, evaluating
from shiftdata.errors import InputError


class MCD(Method):
    """Maximum classifier discrepancy: heads differ on the target, the encoder learns not to let them."""

    needs = frozenset({"target"})
    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="authors: 1; Transfer-Learning-Library: 10")
    moves = Hyper(4, choices=(1, 2, 3, 4), source="Saito et al.: 2 to 4 of digits, 4 of VisDA")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.other = copy.deepcopy(network.head)
        for module in self.other.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()  # equal heads would never disagree

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        # Without a gradient the optimiser leaves parameters alone, momenta and weight decay notwithstanding.
        heads = nn.ModuleList([self.network.head, self.other])
        fitted = trainer.descend(self.fitted(self.network.features(batch.x), batch))
        with torch.no_grad():
            z, z_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
        trainer.descend(self.fitted(z, batch) - self.apart(z_target))
        heads.requires_grad_(False)
        for _ in range(int(self.moves)):
            trainer.descend(self.apart(self.network.features(batch.unlabelled)))
        heads.requires_grad_(True)
        return fitted

    def fitted(self, z: Tensor, batch: Batch) -> Tensor:
        """Return both heads' loss on the source."""
        heads = (self.network.head, self.other)
        first, second = (losses.cross_entropy(head(z), batch.y) for head in heads)
        return first + second

    def apart(self, z_target: Tensor) -> Tensor:
        """Return how far the heads lie apart on the target."""
        return self.trade_off * losses.mcd(self.network.head(z_target), self.other(z_target))

    def predict(self, x: Tensor) -> Tensor:
        z = self.network.features(x)
        logits: Tensor = self.network.head(z) + self.other(z)
        return logits


class DeepJDOT(Method):
    """Joint distribution optimal transport: target rows get the labels of the source rows they couple to."""

    needs = frozenset({"target"})
    sampler = "rwy"  # as the authors' code
    variants = ("fixed", "paper", "code")
    distance = Hyper(0.01, low=1e-3, high=1.0, log=True, source="authors' code", variants={"code": 0.56})
    label = Hyper(1.0, low=0.1, high=10.0, log=True, source="authors' code", variants={"code": 0.19})
    source = Hyper(1.0, low=0.1, high=10.0, log=True, source="authors' paper", variants={"code": 4.88})

    def loss(self, batch: Batch) -> Tensor:
        plan = self.plan(batch)
        z, z_target = both_features(self, batch)
        moved = losses.jdot(
            self.cost(batch, z, z_target, "code" if self.variant == "code" else "paper"), plan
        )
        return self.source * losses.cross_entropy(self.network.head(z), batch.y) + moved

    @torch.no_grad()
    def plan(self, batch: Batch) -> Tensor:
        """Return the cheapest plan, with the network as it is."""
        with evaluating(self):
            z, z_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
            return losses.exact_transport(self.cost(batch, z, z_target, self.variant))

    def cost(self, batch: Batch, z: Tensor, z_target: Tensor, variant: str) -> Tensor:
        """Return the cost of each source row with each target row."""
        logits = self.network.head(z_target)
        return losses.jdot_cost(batch.y, z, z_target, logits, self.distance, self.label, variant)


def logistic_regression(z: Tensor, y: Tensor, classes: int, strength: float) -> Tensor:
    """Return weights and, last, the bias that minimise the mean loss + |weights|^2 / (2 strength N)."""
    head = torch.zeros(classes, z.shape[1] + 1, dtype=z.dtype, requires_grad=True)
    solver = torch.optim.LBFGS([head], max_iter=500, tolerance_change=1e-10, line_search_fn="strong_wolfe")

    def evaluated() -> Tensor:
        solver.zero_grad()
        loss = losses.cross_entropy(z @ head[:, :-1].T + head[:, -1], y)
        loss = loss + head[:, :-1].square().sum() / (2 * strength * len(z))
        torch.autograd.backward(loss)
        return loss

    solver.step(evaluated)  # type: ignore[no-untyped-call]
    return head.detach()


class DARE(ERM):
    """ERM, then a new head on features that are whitened, the source's and the target's each by its own."""

    needs = frozenset({"target"})
    variants = ("fixed", "code")
    code_version: ClassVar[int] = 2  # 2: evaluations predict with the new head, source rows as the source's
    strength = Hyper(1.0, low=1e-3, high=1e3, log=True, source="scikit-learn's C of logistic regression")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.register_buffer("refitted", torch.tensor(False))
        # The heads of target and source: whitening is a part of them, the bias the last column.
        self.register_buffer("heads", torch.zeros(2, data.classes, network.n_features + 1))

    def reads_target(self, stage: Stage) -> bool:
        return False  # but all of it at the end

    def finish(self, trainer: Trainer) -> None:
        data, drawn, centred = trainer.data, trainer.drawn(0), self.variant == "fixed"
        z, z_target = (
            torch.from_numpy(trainer.features(rows)).double() for rows in (data.rows[drawn], data.target)
        )
        if not (torch.isfinite(z).all() and torch.isfinite(z_target).all()):
            raise InputError("dare cannot whiten features that are not finite: lower learning_rate")
        mu, whitener = losses.whitening(z, centred)
        y = torch.from_numpy(np.asarray(data.y[drawn]))
        fitted = logistic_regression((z - mu) @ whitener, y, data.classes, self.strength)
        for head, rows in zip(self.get_buffer("heads"), (z_target, z), strict=True):
            mu, whitener = losses.whitening(rows, centred)
            weight = fitted[:, :-1] @ whitener
            head.copy_(torch.cat([weight, fitted[:, -1:] - weight @ mu[:, None]], 1))
        self.get_buffer("refitted").fill_(True)

    def predict(self, x: Tensor) -> Tensor:
        return self._predict(x, 0)

    def predict_source(self, x: Tensor) -> Tensor:
        return self._predict(x, 1)

    def _predict(self, x: Tensor, side: int) -> Tensor:
        if not self.get_buffer("refitted"):
            return super().predict(x)
        head = self.get_buffer("heads")[side]
        return precise(self.network.features(x)) @ head[:, :-1].T + head[:, -1]


class IWDANN(DANN):
    """DANN with source rows weighed by the ratio of label shares that predictions point to."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "paper", "code")
    sma = ()
    momentum = Hyper(0.5, low=0.0, high=1.0, source="Tachet des Combes et al.; RLSbench")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.weights = losses.ClassWeights(data.classes, self.momentum)

    def importance(self, batch: Batch, logits: Tensor, logits_target: Tensor) -> Importance:
        self.weights.update(logits, batch.y, logits_target)
        weight = self.weights(batch.y)
        weight = weight.mean().expand_as(weight) if self.variant == "code" else weight
        return torch.ones_like(weight) if self.variant == "paper" else weight, weight

    def after_step(self, batch: Batch) -> None:
        if (batch.step + 1) % math.ceil(len(self.data.rows) / len(batch.x)) == 0:
            self.weights.renew()


class IWCDAN(IWDANN, CDAN):
    """CDAN with source rows weighed by the ratio of label shares that predictions point to."""
