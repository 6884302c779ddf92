"""Adapters by statistics and entropy: BN-adapt, TENT, EATA, SAR and MEMO.

All of them leave dropout and the like in eval mode, where the published code has it in train mode.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from shiftdata.baselines import losses
from shiftdata.baselines.method import Hyper
from shiftdata.baselines.networks import batch_norms, norms
from shiftdata.baselines.test_time.adapter import (
    Adapter,
    BlendedNorm,
    Need,
    affine,
    by_batch,
    replace_batch_norms,
)  # fmt: skip
from shiftdata.errors import InputError


class BNAdapt(Adapter):
    """Batch norm with the statistics of each batch (Nado 2020), mixed with the source's (Schneider 2020)."""

    needs: ClassVar[frozenset[Need]] = frozenset({"batch-norm"})
    prior = Hyper(0, low=1, high=512, log=True, source="Nado et al.; Schneider et al.: 16 for small batches")

    def setup(self) -> Sequence[nn.Parameter]:
        if self.prior:
            replace_batch_norms(self.network, lambda layer: BlendedNorm(layer, self.prior))
        return []

    def predict(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return by_batch(self.network, x)


class TENT(Adapter):
    """A step on the entropy of each batch, by the scale and shift of batch norm (Wang et al., ICLR 2021).

    Of a network without batch norm the layers that normalise each row are moved. The logits are those from
    before the step.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"norm"})
    rate = Hyper(1e-3, low=1e-5, high=1e-1, log=True, source="Wang et al., CIFAR-10; ImageNet: 2.5e-4, SGD")

    def setup(self) -> Sequence[nn.Parameter]:
        return affine(batch_norms(self.network) or norms(self.network))

    def predict(self, x: Tensor) -> Tensor:
        logits = by_batch(self.network, x)
        self.descend(losses.tent(logits))
        return logits.detach()


class EATA(TENT):
    """TENT on rows that are sure and unlike the mean, weights held near the source's (Niu et al., ICML 2022).

    A row counts if its entropy is below margin log K and its prediction's cosine with the running mean of the
    predictions is below `similarity`; its weight is exp(margin log K - H). `anchor` is the weight of
    sum F (w - w_source)^2, F the mean square of the gradient of the source's pseudo-labels. `reset` forgets
    the running mean too, which the published code keeps.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"norm", "source"})
    rate = Hyper(2.5e-4, low=1e-5, high=1e-1, log=True, source="Niu et al., ImageNet; CIFAR-10: 0.005")
    margin = Hyper(0.4, low=0.2, high=0.6, source="Niu et al., a share of log K")
    similarity = Hyper(0.05, low=0.05, high=0.5, source="Niu et al., ImageNet; CIFAR-10: 0.4")
    sgd_momentum = 0.9
    anchor = Hyper(2000, low=1, high=5000, log=True, source="Niu et al., ImageNet; CIFAR-10: 1")

    fisher: Sequence[Tensor] = ()

    def restart(self) -> None:
        super().restart()
        self.mean: Tensor | None = None

    def remember(self, batches: Iterable[Tensor]) -> None:
        total, count = [torch.zeros_like(weight) for weight in self.trained], 0
        for x in batches:
            logits = by_batch(self.network, x)
            loss = cross_entropy(logits, logits.detach().argmax(1))
            gradients = torch.autograd.grad(loss, self.trained)
            total = [old + gradient.square() for old, gradient in zip(total, gradients, strict=True)]
            count += 1
        if not count and self.anchor:
            raise InputError(
                "EATA holds weights near those of the source by its rows, and the task has no validation or "
                "training set: take a task with one, or anchor=0, which its authors call ETA"
            )
        self.fisher = [square / max(1, count) for square in total]
        self.network.load_state_dict(self._first)  # the running statistics have moved
        self.source = [weight.detach().clone() for weight in self.trained]

    def predict(self, x: Tensor) -> Tensor:
        logits = by_batch(self.network, x)
        entropies, p = losses.entropy(logits), logits.detach().softmax(1)
        limit = self.margin * math.log(logits.shape[1])
        mask = entropies.detach() < limit
        if self.mean is not None:
            mask &= cosine_similarity(self.mean[None], p).abs() < self.similarity
        if mask.any():
            new = p[mask].mean(0)
            self.mean = new if self.mean is None else 0.9 * self.mean + 0.1 * new
            chosen = entropies[mask]
            self.descend(((limit - chosen.detach()).exp() * chosen).mean() + self._forgotten())
        return logits.detach()

    def _forgotten(self) -> Tensor:
        parts = zip(self.fisher, self.trained, self.source, strict=True)
        moved = [(fisher * (weight - source).square()).sum() for fisher, weight, source in parts]
        return self.anchor * torch.stack(moved).sum()


class SAR(TENT):
    """A sharpness-aware step on the entropy of sure rows, back to the source on collapse (Niu, ICLR 2023).

    Rows count if their entropy is below margin log K, at the weights and at the worst ones within `radius`.
    Where the running mean of their entropy falls below `collapse`, the network begins again; the published
    code then keeps that mean and the momentum. Layers of the network's last stage stay as they are.
    """

    rate = Hyper(2.5e-4, low=1e-5, high=1e-1, log=True, source="Niu et al., ResNet; ViT: 0.001")
    margin = Hyper(0.4, low=0.2, high=0.6, source="Niu et al., a share of log K")
    radius = Hyper(0.05, low=0.01, high=0.2, log=True, source="Niu et al.")
    sgd_momentum = 0.9
    collapse = Hyper(0.2, low=0.05, high=0.4, source="Niu et al., of 1,000 classes")

    def setup(self) -> Sequence[nn.Parameter]:
        maps: Sequence[nn.Module] = getattr(self.network, "maps", ())
        top = set(maps[-1].modules()) if len(maps) > 1 else set()
        layers = norms(self.network)
        return affine([layer for layer in layers if layer not in top] or layers)

    def restart(self) -> None:
        super().restart()
        self.mean: float | None = None

    def predict(self, x: Tensor) -> Tensor:
        logits = by_batch(self.network, x)
        limit = self.margin * math.log(logits.shape[1])
        entropies = losses.entropy(logits)
        sure = entropies.detach() < limit
        before = [weight.detach().clone() for weight in self.trained]
        gradients = torch.autograd.grad(_mean_of(entropies, sure), self.trained)
        length = torch.stack([gradient.norm() for gradient in gradients]).norm()
        with torch.no_grad():
            for weight, gradient in zip(self.trained, gradients, strict=True):
                weight.add_(self.radius / (length + 1e-12) * gradient)
        worst = losses.entropy(by_batch(self.network, x))
        sure &= worst.detach() < limit
        loss = _mean_of(worst, sure)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        with torch.no_grad():
            for weight, old in zip(self.trained, before, strict=True):
                weight.copy_(old)
        self.optimizer.step()  # of no sure row too, as the momentum goes on
        if sure.any():
            new = float(loss.detach())
            self.mean = new if self.mean is None else 0.9 * self.mean + 0.1 * new
        if self.mean is not None and self.mean < self.collapse:
            self.reset()
        return logits.detach()


def _mean_of(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the masked values; 0, with a gradient of 0, if there are none."""
    return torch.where(mask, values, 0).sum() / mask.sum().clamp(min=1)


def marginal_entropy(logits: Tensor) -> Tensor:
    """Return H((1 / V) sum_v softmax(f_v)) of the views of a picture (Zhang et al., NeurIPS 2022)."""
    logs = torch.logsumexp(logits.log_softmax(1), 0, keepdim=True) - math.log(len(logits))
    return losses.entropy(logs)[0]


class MEMO(Adapter):
    """A step on the entropy of the mean prediction over views; each picture starts from the source weights.

    Batch norm's statistics are N / (N + 1) the source's, as in the code for ImageNet.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"pixels"})
    rate = Hyper(2.5e-4, low=1e-5, high=1e-2, log=True, source="Zhang et al., ImageNet; CIFAR-10: 0.005")
    sgd_momentum = 0.0
    views = Hyper(32, low=8, high=64, source="Zhang et al., CIFAR-10; ImageNet: 64")
    prior = Hyper(16, low=1, high=256, log=True, source="Zhang et al.")

    def setup(self) -> Sequence[nn.Parameter]:
        replace_batch_norms(self.network, lambda layer: BlendedNorm(layer, self.prior, count=1))
        return list(self.network.parameters())

    def predict(self, x: Tensor) -> Tensor:
        return torch.cat([self._predicted(picture) for picture in torch.split(x, 1)])

    def _predicted(self, picture: Tensor) -> Tensor:
        self.network.load_state_dict(self._first)
        views = self.view(picture.expand(int(self.views), *picture.shape[1:]))
        self.descend(marginal_entropy(self.network(views)))
        with torch.no_grad():
            logits: Tensor = self.network(picture)
        return logits
