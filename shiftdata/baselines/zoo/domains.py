"""Methods that compare the domains of a batch, or need none, in the form of DomainBed.

MMD: features with one distribution in all domains, as Gaussian kernels see them (Li et al., CVPR 2018).
SD: spectral decoupling, small logits so that no feature starves another (Pezeshki et al., 2021).
EQRM: a quantile of the domains' risks instead of their mean (Eastwood et al., NeurIPS 2022).
MLDG: a step on one domain must help on another (Li et al., AAAI 2018), to first order as in DomainBed.
StableNet: rows weighed so that features become independent (Zhang et al., CVPR 2021).
"""

import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.distributed import average
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Data, Hyper, Method
from shiftdata.baselines.methods.domains import AcrossDomains, Penalised
from shiftdata.baselines.networks import Network


class MMD(Penalised):
    """ERM plus `losses.mmd`."""

    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="DomainBed")

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return losses.mmd(z, batch.domain)


class SD(Penalised):
    """ERM plus `losses.sd`."""

    needs = frozenset()
    trade_off = Hyper(0.1, low=1e-5, high=0.1, log=True, source="DomainBed: sd_reg")

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return losses.sd(logits)


class EQRM(AcrossDomains):
    """ERM for a share `anneal` of the steps, then `losses.eqrm`; `code` has the gradient of a bisection.

    DomainBed goes on with a learning rate of its own, 1e-6; here the schedule of the training holds.
    """

    variants = ("fixed", "code")
    quantile = Hyper(0.75, low=0.5, high=0.99, source="DomainBed: eqrm_quantile")
    anneal = Hyper(0.5, low=0.06, high=0.64, log=True, source="DomainBed: 2,500 of 5,000; 10^2.5 to 10^3.5")

    def loss(self, batch: Batch) -> Tensor:
        each = losses.cross_entropies(self.network(batch.x), batch.y)
        if not self.annealed(batch.progress):
            return each.mean()
        implicit = self.variant == "fixed"
        return losses.eqrm(each, batch.domain, self.quantile, implicit=implicit)


class RSC(Method):
    """ERM on features without those of `losses.rsc_mask`; `code` mutes what equals a quantile too.

    RSC: without the features that an answer rests on most (Huang et al., ECCV 2020), as DomainBed has it.

    The authors' own code works on the last feature maps: another method, which is not here.
    """

    sampler = "per-domain"
    variants = ("fixed", "code")
    features_muted = Hyper(1 / 3, low=0.0, high=0.5, source="DomainBed: rsc_f_drop_factor")
    rows_muted = Hyper(1 / 3, low=0.0, high=0.5, source="DomainBed: rsc_b_drop_factor")

    def loss(self, batch: Batch) -> Tensor:
        z, head = self.network.features(batch.x), self.network.head
        shares = self.features_muted, self.rows_muted
        mask = losses.rsc_mask(head, z, batch.y, *shares, strict=self.variant == "fixed")
        return losses.cross_entropy(head(z * ~mask), batch.y)


class MLDG(AcrossDomains):
    """`losses.mldg` at the training's rate; ERM with beta = 0, or in a batch of too few domains.

    `code` (DomainBed): the inner step is Adam's, and a batch without a pair of domains trains nothing.
    """

    variants = ("fixed", "code")
    beta = Hyper(1.0, low=0.1, high=10.0, log=True, source="DomainBed: mldg_beta")
    meta_test = Hyper(
        0, choices=(0, 1, 2), source="0: a circle; DomainBed: n_meta_test 2; 1 or 2", variants={"code": 2}
    )

    def loss(self, batch: Batch) -> Tensor:
        """Return ERM's loss, of a step in which there is nothing to meta-learn."""
        return losses.cross_entropy(self.network(batch.x), batch.y)

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        meta_test, released = int(self.meta_test), self.variant == "code"
        if not released and (not self.beta or len(torch.unique(batch.domain)) <= max(1, meta_test)):
            return super().step(batch, trainer)
        rate_of = {id(p): group["lr"] for group in trainer.optimizer.param_groups for p in group["params"]}
        rates = {name: rate_of.get(id(p), 0.0) for name, p in self.network.named_parameters()}
        rows = batch.x, batch.y, batch.domain
        options = {"meta_test": meta_test, "released": released, "share": average}
        return trainer.descend(
            losses.mldg(self.network, *rows, rates, self.beta, **options)  # type: ignore[arg-type]
        )


class StableNet(Method):
    """ERM with the weights of `losses.StableNet`; `code` draws features as released."""

    variants = ("fixed", "code")
    weight_steps = Hyper(20, choices=(20,), source="the authors: epochb")
    rate = Hyper(1.0, low=0.1, high=10.0, log=True, source="the authors: lrbl 1, no range")
    penalty = Hyper(70.0, low=10.0, high=700.0, log=True, source="the authors: lambdap 70, no range")
    memory = Hyper(128, choices=(128,), source="the authors: n_feature, their batch")
    keep = Hyper(0.9, low=0.5, high=0.99, source="the authors: presave_ratio .9, no range")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        numbers = int(self.weight_steps), self.rate, self.penalty, int(self.memory), self.keep
        self.weights = losses.StableNet(network.n_features, *numbers, released=self.variant == "code")

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        weight = self.weights.update(z) if self.weight_steps else None
        return losses.cross_entropy(self.network.head(z), batch.y, weight)
