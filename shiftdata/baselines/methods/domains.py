"""Methods that compare the domains of a batch.

CORAL: features with one mean and covariance in all domains (Sun and Saenko, ECCV workshops 2016).
IRM: a representation on which one head is the best in every domain (Arjovsky et al., 2019).
V-REx: domains whose mean losses are equal (Krueger et al., ICML 2021).
Fishr: gradients of the head that vary equally in all domains (Rame et al., ICML 2022).
Mixup across domains: rows and labels mixed with those of another domain (Xu et al., AAAI 2020).
"""

import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Data, Hyper, Method
from shiftdata.baselines.networks import Network


class AcrossDomains(Method):
    """A method that needs several domains, and batches with equally many rows of each."""

    needs = frozenset({"domains"})
    sampler = "per-domain"

    def annealed(self, progress: float) -> bool:
        """Return True if the share `anneal` of the steps is done (in DomainBed, of 5,000 steps)."""
        return progress >= self.hyper.get("anneal", 0)

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        if batch.step and self.annealed(batch.progress):
            steps = round(batch.step / batch.progress)
            if not self.annealed((batch.step - 1) / steps):
                trainer.restart_optimizer()  # the loss has changed: old moments would mislead
        return super().step(batch, trainer)


class Penalised(AcrossDomains):
    """ERM plus a penalty, with the weight `trade_off`, or `early` before the share `anneal` of the steps."""

    early: float = 0.0

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        logits = self.network.head(z)
        weight = self.hyper["trade_off"] if self.annealed(batch.progress) else self.early
        with torch.set_grad_enabled(torch.is_grad_enabled() and weight != 0):
            penalty = self.penalty(z, logits, batch)
        return losses.cross_entropy(logits, batch.y) + weight * penalty

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        """Return the penalty of features and logits."""
        raise NotImplementedError


class CORAL(Penalised):
    """ERM plus `losses.coral`; `paper` leaves the means out."""

    variants = ("fixed", "paper")
    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="DomainBed")

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return losses.coral(z, batch.domain, means=self.variant == "fixed")


class IRM(Penalised):
    """ERM plus `losses.irm`, with a weight of 1 before `anneal`; `paper` squares the gradient of all rows."""

    variants = ("fixed", "paper")
    early = 1.0
    trade_off = Hyper(100.0, low=0.1, high=1e5, log=True, source="DomainBed; v2 searches 1e-5 to .1")
    anneal = Hyper(0.1, low=2e-4, high=1.0, log=True, source="DomainBed: 500 of 5,000 steps; 1 to 10,000")

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return losses.irm(logits, batch.y, batch.domain, halves=self.variant == "fixed")


class VREx(Penalised):
    """ERM plus `losses.vrex`, with a weight of 1 before `anneal`."""

    early = 1.0
    trade_off = Hyper(10.0, low=0.1, high=1e5, log=True, source="DomainBed: vrex_lambda")
    anneal = Hyper(0.1, low=2e-4, high=1.0, log=True, source="DomainBed: 500 of 5,000 steps; 1 to 10,000")

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return losses.vrex(losses.cross_entropies(logits, batch.y), batch.domain)


class Fishr(Penalised):
    """ERM plus `losses.Fishr`, whose averages also follow the batches before `anneal`."""

    trade_off = Hyper(1000.0, low=10.0, high=1e4, log=True, source="DomainBed")
    anneal = Hyper(0.3, low=0.0, high=1.0, source="DomainBed: 1,500 of 5,000 steps; 0 to 5,000")
    gamma = Hyper(0.95, low=0.9, high=0.99, source="DomainBed: ema")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.fishr = losses.Fishr(data.classes, network.n_features, int(data.domain.max()) + 1, self.gamma)

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return self.fishr.update(z, logits, batch.y, batch.domain)


class Mixup(AcrossDomains):
    """ERM on rows of `losses.mixup`; one forward pass has the batch-norm statistics of all rows."""

    alpha = Hyper(0.2, low=0.1, high=10.0, log=True, source="DomainBed; v2's 10^U(-1, -1) is always .1")

    def loss(self, batch: Batch) -> Tensor:
        x, partner, lam = losses.mixup(batch.x, batch.domain, self.alpha)
        return losses.mixup_losses(self.network(x), batch.y, partner, lam).mean()
