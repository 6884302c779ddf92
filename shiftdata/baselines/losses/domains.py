"""Penalties that compare the domains of a batch, and weights that make features independent.

`domain` is an integer tensor with one entry a row. A domain that is too small for a formula is left out, and
the penalty of fewer domains than it compares is 0, never NaN. Mixed precision does not change moments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import one_hot

from shiftdata.baselines.losses.reduce import (
    State,
    check_1d,
    cross_entropy,
    exactly,
    mean,
    precise,
    rows_of_each,
)
from shiftdata.errors import InputError

__all__ = ["Fishr", "StableNet", "coral", "eqrm", "irm", "mldg", "mmd", "rsc_mask", "sd", "vrex"]

GAMMAS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
ADAM_EPS = 1e-8
Head = Callable[[Tensor], Tensor]
MOMENTUM = 0.9
TINY = 1e-12


def coral(z: Tensor, domain: Tensor, means: bool = True) -> Tensor:
    """Return how far the means and covariances of features differ between domains.

        mean (mu_i - mu_j)^2 + mean (C_i - C_j)^2     over entries and pairs of domains i, j

    C divides by n - 1: the form of DomainBed, Transfer-Learning-Library and WILDS. `means=False`, the variant
    `paper` (Sun and Saenko, ECCV workshops 2016): |C_i - C_j|_F^2 / (4 d^2), a quarter of the second term.
    """
    with exactly(z):
        sets = [precise(z[rows]) for rows in rows_of_each(domain).values()]
        spread = _covariance_gap(sets)
        if not means:
            return spread / 4
        if len(sets) < 2:
            return spread
        # The mean over pairs of squared differences is twice the variance.
        return 2 * torch.stack([rows.mean(0) for rows in sets]).var(0).mean() + spread


def _covariance_gap(sets: Sequence[Tensor]) -> Tensor:
    """Return the mean over pairs of the mean squared difference of covariances.

    From inner products of centred rows, as a batch has fewer rows than a network has features:
    <C_i, C_j> = |Z_i Z_j'|^2, and |C_i - C_j|^2 = <C_i, C_i> + <C_j, C_j> - 2 <C_i, C_j>.
    """
    features, zero = sets[0].shape[1], sets[0].new_zeros(())
    centred = [z - z.mean(0) for z in sets if len(z) > 1]
    n = len(centred)
    if n < 2:
        return zero
    # In float64, as the sum below is a small difference of large inner products. Over pairs i < j of domains,
    # the sum of K_ii + K_jj - 2 K_ij is n tr K - sum K, here and in `mmd`; there are n (n - 1) / 2 pairs.
    fine = torch.float32 if zero.device.type == "mps" else torch.float64  # mps lacks float64
    rows = torch.cat([z.to(fine) / (len(z) - 1) ** 0.5 for z in centred])
    sizes = torch.tensor([len(z) for z in centred], device=rows.device)
    member = one_hot(torch.arange(n, device=rows.device).repeat_interleave(sizes), n).to(rows)
    inner = member.T @ (rows @ rows.T).square() @ member
    return (2 * (n * inner.trace() - inner.sum()) / (n * (n - 1) * features**2)).to(zero)


def mmd(z: Tensor, domain: Tensor, gammas: Sequence[float] = GAMMAS) -> Tensor:
    """Return the squared discrepancy of the domains' features under Gaussian kernels.

        mean (Kxx + Kyy - 2 Kxy)     over pairs of domains; K the mean over pairs of their rows of
        k(x, y) = sum of exp(-g |x - y|^2), g = .001, .01, .1, 1, 10, 100, 1000

    Source: Li et al., CVPR 2018, in DomainBed's form: the kernel of a row with itself counts (biased, never
    below 0), and distances are not divided by the number of features.
    """
    each = rows_of_each(domain)
    n = len(each)
    if n < 2:
        return z.new_zeros(())
    with exactly(z):
        # Distances from x - y: the rounding error of |x|^2 + |y|^2 - 2 xy, times 1000, would part a row from
        # itself.
        wide = precise(z)
        distances = torch.cdist(wide, wide, compute_mode="donot_use_mm_for_euclid_dist") ** 2
        kernel = torch.stack([torch.exp(-gamma * distances) for gamma in gammas]).sum(0)
        member = kernel.new_zeros(len(z), n)
        for number, rows in enumerate(each.values()):
            member[rows, number] = 1 / len(rows)
        between = member.T @ kernel @ member  # mean kernels, n x n
        gap: Tensor = 2 * (n * between.trace() - between.sum()) / (n * (n - 1))
        return gap


def irm(logits: Tensor, y: Tensor, domain: Tensor, halves: bool = True) -> Tensor:
    """Return the penalty of invariant risk minimisation (Arjovsky et al., 2019).

        mean over domains of g1 g2     g = d l(s f) / ds at s = 1, of a domain's even and of its odd rows

    With logits f and probabilities p, g is the mean over rows of (p - y) . f: no second backward pass. Two
    halves, as in DomainBed, estimate the square without bias, so it may be negative. `halves=False`, the
    variant `paper`: the square of g over all rows, biased by its variance.
    """
    logits = precise(logits)
    p = torch.softmax(logits, 1)
    gradients = (p * logits).sum(1) - logits.gather(1, y[:, None])[:, 0]
    # At least two rows for halves, one otherwise.
    each = [gradients[rows] for rows in rows_of_each(domain).values() if len(rows) > halves]
    penalties = [g[::2].mean() * g[1::2].mean() if halves else g.mean() ** 2 for g in each]
    return torch.stack(penalties).mean() if penalties else gradients.new_zeros(())


def domain_means(losses: Tensor, domain: Tensor) -> Tensor:
    """Return the mean loss of each domain of the batch: its risk."""
    return torch.stack([mean(losses[rows]) for rows in rows_of_each(domain).values()])


def vrex(losses: Tensor, domain: Tensor) -> Tensor:
    """Return the variance of the domains' risks (V-REx; Krueger et al., ICML 2021).

        mean over domains of (L_e - mean L)^2     L_e the mean loss of a domain's rows

    `losses` has one loss a row.
    """
    risks = domain_means(losses, domain)
    return (risks - risks.mean()).square().mean()


def sd(logits: Tensor) -> Tensor:
    """Return the mean squared logit: spectral decoupling (Pezeshki et al., NeurIPS 2021).

        mean over rows and classes of f^2

    The paper's penalty is lambda / 2 |f|^2; this is DomainBed's scale.
    """
    return precise(logits).square().mean(1).mean()


def eqrm(losses: Tensor, domain: Tensor, quantile: float, *, implicit: bool = True) -> Tensor:
    """Return a quantile of the domains' risks, smoothed by Gaussian kernels (Eastwood et al., NeurIPS 2022).

        q with mean over domains of Phi((q - L_e) / h) = quantile     h = 1.06 s E^(-1/5)

    L_e is the mean loss of a domain's rows, s the deviation of the E risks. q is found by bisection; its
    gradient is that of the implicit function. `implicit=False`, the variant `code` (DomainBed): the gradient
    of the bisection, in which q is a fixed share of the way between the least and the largest risk, which
    alone get a gradient (besides s).
    """
    if not 0 < quantile < 1:
        raise InputError(f"eqrm with a quantile of {quantile:g}: give one between 0 and 1")
    risks = precise(domain_means(losses, domain))
    if len(risks) < 2:
        return risks[0]
    # TINY keeps the square root differentiable where all risks are equal.
    h = (risks.var() + TINY).sqrt() * (1.06 * math.pow(len(risks), -0.2))
    fixed, away = risks.detach(), h * NormalDist().inv_cdf(quantile)
    # The quantile of kernels at equal risks is risk + h Phi^-1(quantile): q lies between those of the
    # extremes.
    low, high = first, last = fixed.min() + away.detach(), fixed.max() + away.detach()
    for _ in range(32):
        middle = (low + high) / 2
        above = torch.special.ndtr((middle - fixed) / h.detach()).mean() > quantile
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    q = (low + high) / 2
    if not implicit:
        share = (q - first) / (last - first).clamp(min=TINY)
        return torch.lerp(risks.min(), risks.max(), share) + away
    # With F(q, L) = mean Phi((q - L_e) / h) - quantile = 0, dq/dL = -F_L / F_q. One Newton step from the
    # root, q - F / F_q with a constant F_q, has the value q (F = 0) and exactly this derivative.
    excess: Tensor = torch.special.ndtr((q - risks) / h).mean() - quantile
    density = torch.exp(-((q - fixed) / h.detach()).square() / 2).mean() / math.sqrt(2 * math.pi)
    return q - excess * h.detach() / density


def gradient_variance(z: Tensor, logits: Tensor, y: Tensor) -> Tensor:
    """Return the variance over rows of the gradients of a linear head: classes x features, and the bias.

    A row's gradient is (p - y) times its features, hence with A = p - y, Z the features and a column of 1

        var = (A * A)' (Z * Z) / n - (A' Z / n)^2

    entry by entry: as much memory as the head, no gradient of single rows.
    """
    with exactly(z):
        z, logits = precise(z), precise(logits)
        away = torch.softmax(logits, 1) - one_hot(y, logits.shape[1])
        inputs = torch.cat([z, z.new_ones(len(z), 1)], 1)
        return (away**2).T @ inputs**2 / len(z) - (away.T @ inputs / len(z)) ** 2


class Fishr(State):
    """Gradients of a linear head that vary equally in all domains (Rame et al., ICML 2022).

        mean over domains and entries of (v_e - vbar)^2     vbar the mean of v_e over domains
        v_e <- (gamma sg(v_e) + (1 - gamma) var_e) / (1 - gamma)

    var_e is `gradient_variance` of a domain's rows, two or more. The moving average starts from 0 and is
    divided by 1 - gamma, as in DomainBed, so that the penalty is 1 / (1 - gamma)^2 times as large, 400 at
    .95: ranges of its weight count on it.
    """

    def __init__(self, classes: int, features: int, domains: int, gamma: float = 0.95) -> None:
        super().__init__(averages=torch.zeros(domains, classes, features + 1))
        self.gamma = gamma

    def update(self, z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
        """Return the penalty of the averages after they have taken a batch in."""
        each = []
        for number, rows in rows_of_each(domain).items():
            if len(rows) > 1:
                variance = gradient_variance(z[rows], logits[rows], y[rows])
                average = self.gamma * self.averages[number].clone() + (1 - self.gamma) * variance
                self.averages[number] = average.detach()
                each.append(average / (1 - self.gamma))
        if not each:
            return z.new_zeros(())
        variances = torch.stack(each)
        return ((variances - variances.mean(0)) ** 2).mean()


def rsc_mask(
    head: Head, z: Tensor, y: Tensor, features: float = 1 / 3, rows: float = 1 / 3, strict: bool = True
) -> Tensor:
    """Return which features to mute: those that an answer rests on most (RSC; Huang et al., ECCV 2020).

        g = d f_y / dz; a row's features whose g is above the quantile 1 - `features` of its g are muted
        .. in rows whose p_y falls by more than the quantile 1 - `rows` of the falls

    The loss is that of head(z * ~mask): DomainBed's form, not the authors' on feature maps. `strict=False`,
    the variant `code` (DomainBed), mutes features that equal the quantile too.
    """
    with torch.enable_grad():
        leaf = z.detach().requires_grad_()
        (gradients,) = torch.autograd.grad(head(leaf).gather(1, y[:, None]).sum(), leaf)
    mask = top_share(gradients, features, strict)
    with torch.no_grad():
        before, after = (
            torch.softmax(precise(head(inputs)), 1).gather(1, y[:, None])[:, 0] for inputs in (z, z * ~mask)
        )
    return mask & top_share(before - after, rows, strict)[:, None]


def top_share(values: Tensor, share: float, strict: bool = True) -> Tensor:
    """Mask the top share along the last dimension: above the quantile 1 - share, or at it if not strict."""
    if strict and share <= 0:
        return torch.zeros_like(values, dtype=torch.bool)
    ordered, last = values.sort(-1).values, values.shape[-1] - 1  # torch.quantile is limited to 16 M values
    at = (1 - share) * last  # the quantile lies between two order statistics: interpolate linearly
    low = min(int(at), last)
    least = torch.lerp(ordered[..., low], ordered[..., min(low + 1, last)], at - low)[..., None]
    return values > least if strict else values >= least


def mldg(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    domain: Tensor,
    rate: float | Mapping[str, float],
    beta: float = 1.0,
    *,
    meta_test: int = 0,
    released: bool = False,
    share: Callable[[Iterable[Tensor]], None] = lambda gradients: None,
) -> Tensor:
    """Return a loss whose gradient is MLDG's (Li et al., AAAI 2018), to first order as in DomainBed.

        1/E sum over pairs (i, j) of G_i + beta G_j'     G_j' the gradient of l_j at theta - rate G_i

    The domains of a batch form a circle in a random order: each is i once and j once. `rate` is a number
    or one for each name of a parameter; `share` averages gradients over processes. Passes at theta, one a
    domain, move the running statistics of batch norm; those at theta - rate G_i do not. `released`, the
    variant `code` (DomainBed): the inner step is a fresh Adam's, rate sign(G_i), and neither pass moves
    statistics. With `meta_test`, as there, that many domains are j in turn and all others i, once each.
    """
    rows = list(rows_of_each(domain).values())
    moved = {name: p for name, p in network.named_parameters() if p.requires_grad}
    rates = rate if isinstance(rate, Mapping) else dict.fromkeys(moved, rate)

    def copied() -> dict[str, Tensor]:
        return {name: buffer.clone() for name, buffer in network.named_buffers()}

    def risk(number: int, state: dict[str, Tensor]) -> Tensor:
        part = rows[number]
        return cross_entropy(functional_call(network, state, (x[part],)), y[part])

    parts = [next(network.parameters()).new_zeros(())]
    for i, j in domain_pairs(torch.randperm(len(rows)).tolist(), meta_test):
        own = risk(i, copied() if released else {})
        # None where the risk does not depend on a weight, which its type does not say.
        inner: Any = torch.autograd.grad(own, list(moved.values()), retain_graph=True, allow_unused=True)
        gradients = {name: g for name, g in zip(moved, inner, strict=True) if g is not None}
        share(gradients.values())
        # G_i is a constant here: the gradient of risk(j) reaches theta as G_j', without second derivatives.
        # A fresh Adam's first step is G / (|G| + eps), since its corrected moments are G and G^2.
        clone = {
            name: moved[name] - rates[name] * (g / (g.abs() + ADAM_EPS) if released else g)
            for name, g in gradients.items()
        }
        parts.append(own + beta * risk(j, copied() | clone))
    return torch.stack(parts).sum() / len(rows)


def domain_pairs(order: Sequence[int], meta_test: int = 0) -> list[tuple[int, int]]:
    """Pair domains of inner steps with those of outer losses: a circle, or DomainBed's split."""
    if not meta_test:
        return list(zip(order, [*order[1:], *order[:1]], strict=True)) if len(order) > 1 else []
    return list(zip(order[: max(0, len(order) - meta_test)], cycle(order[-meta_test:]), strict=False))


class StableNet(State):
    """Weights of rows under which features are independent (Zhang et al., CVPR 2021).

        softmax(w), w after `steps` of SGD from 1     sum over i != j of C_ij^2 / penalty + sum softmax(w)^2

    C is the covariance E[ab] - E[a] E[b], as in the authors' code, of random Fourier features (`fourier`, new
    ones at every step) over the batch and a memory under softmax(w, memory's w). SGD has momentum .9 and a
    tenth of its rate in the second half. The memory is a moving average of the first rows of the batches and
    of their w, slot by slot: the mean at first, then `decay` of the old. `released`: the variant `code`.
    """

    def __init__(
        self,
        features: int,
        steps: int = 20,
        rate: float = 1.0,
        penalty: float = 70.0,
        memory: int = 128,
        decay: float = 0.9,
        released: bool = False,
    ) -> None:
        counts = torch.zeros(memory, dtype=torch.int64)  # rows that a slot averages
        super().__init__(z=torch.zeros(memory, features), w=torch.zeros(memory), counts=counts)
        self.steps, self.rate, self.penalty, self.decay = steps, rate, penalty, decay
        self.draw = fourier_released if released else fourier

    def update(self, z: Tensor) -> Tensor:
        """Return the weight of each row of a batch, which the memory takes in; they sum to 1."""
        with exactly(z):
            z, filled = precise(z.detach()), self.counts > 0
            w = self.solve(torch.cat([z, self.z[filled]]), self.w[filled])
        slots = min(len(z), len(self.counts))
        old = (self.counts[:slots] / (self.counts[:slots] + 1)).clamp(max=self.decay)
        self.z[:slots] = old[:, None] * self.z[:slots] + (1 - old[:, None]) * z[:slots]
        self.w[:slots] = old * self.w[:slots] + (1 - old) * w[:slots]
        self.counts[:slots] += 1
        return torch.softmax(w, 0)

    def solve(self, z: Tensor, memory_w: Tensor) -> Tensor:
        """Return the w of the batch's rows; those of the memory follow them in `z`."""
        size = len(z) - len(memory_w)
        w, velocity = z.new_ones(size), z.new_zeros(size)
        for step in range(self.steps):
            with torch.enable_grad():
                w.requires_grad_()
                share = torch.softmax(torch.cat([w, memory_w]), 0)
                loss = dependence(self.draw(z), share) / self.penalty + torch.softmax(w, 0).square().sum()
                velocity = MOMENTUM * velocity + torch.autograd.grad(loss, w)[0]
            w = w.detach() - self.rate * (1.0 if 2 * step < self.steps else 0.1) * velocity
        return w


def fourier(z: Tensor) -> Tensor:
    """Draw sqrt(2) cos(omega_j z_j + phi_j), omega normal, phi from 0 to 2 pi, one of each a feature."""
    omega, phi = torch.randn(z.shape[1]), 2 * math.pi * torch.rand(z.shape[1])
    return math.sqrt(2) * torch.cos(z * omega.to(z) + phi.to(z))


def fourier_released(z: Tensor) -> Tensor:
    """Draw sqrt(2) (cos + sin) with one omega, and phases stretched to 0 .. pi/2 within each row."""
    omega, phi = torch.randn(()), 2 * math.pi * torch.rand(z.shape[1])
    phase = z * omega.to(z) + phi.to(z)
    phase = phase - phase.amin(1, keepdim=True)
    phase = phase / phase.amax(1, keepdim=True).clamp(min=TINY) * (math.pi / 2)
    return math.sqrt(2) * (torch.cos(phase) + torch.sin(phase))


def dependence(features: Tensor, share: Tensor) -> Tensor:
    """Return the sum of the squared covariances of different columns, rows weighed by `share`, of sum 1.

    Of fewer rows than columns from inner products of rows: |C|^2 = sum over rows a, b of s_a s_b <a, b>^2.
    """
    check_1d(share=share)
    centred = features - share @ features
    variances = share @ centred.square()
    if len(features) < features.shape[1]:
        whole = share @ (centred @ centred.T).square() @ share
    else:
        whole = ((share[:, None] * centred).T @ centred).square().sum()
    return whole - variances.square().sum()
