"""Losses of domains and pictures against plain loops.

The loops follow the papers' formulas and know nothing of our code: a pass over rows, classes or domains, a
second backward pass, a copy of the model, numpy. A loss with a state is compared over several steps. MMD of
other packages differs: pytorch-adapt's leaves out the kernel of a row with itself, skada's reads |x - y|
where the square belongs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from scripts.compare_losses.comparing import Comparison, Draw, value
from shiftdata.baselines import losses
from shiftdata.baselines.losses.domains import GAMMAS

CLASSES, DOMAINS = 3, 3


def batch(rows: int = 17, features: int = 5) -> Draw:
    """Draw features, logits, classes and domains of a batch."""

    def draw(generator: torch.Generator) -> Sequence[Tensor]:
        domain = torch.randint(DOMAINS, (rows,), generator=generator)
        domain[:6] = torch.arange(3).repeat(2)  # two rows of each at least
        y = torch.randint(CLASSES, (rows,), generator=generator)
        z = torch.randn(rows, features, generator=generator) * (1 + domain[:, None])
        return z, 2 * torch.randn(rows, CLASSES, generator=generator), y, domain

    return draw


def pictures(generator: torch.Generator) -> Sequence[Tensor]:
    """Draw pictures (or feature maps) of other statistics in each row, partners and shares."""
    x = torch.rand(6, 3, 8, 8, generator=generator) * torch.arange(1, 7).view(-1, 1, 1, 1) / 6
    return x, torch.randperm(6, generator=generator), torch.rand(6, generator=generator)


def each_domain(domain: Tensor) -> list[list[int]]:
    """Return the rows of each domain."""
    return [[row for row, d in enumerate(domain.tolist()) if d == number] for number in range(DOMAINS)]


def average(values: Iterable[Tensor]) -> Tensor:
    """Return the mean of tensors."""
    return torch.stack(list(values)).mean(0)


def risks(logits: Tensor, y: Tensor, domain: Tensor) -> list[Tensor]:
    """Return the mean cross-entropy of each domain, row by row."""
    log = [logits[row] - torch.log(torch.exp(logits[row]).sum()) for row in range(len(y))]
    return [average(-log[row][y[row]] for row in rows) for rows in each_domain(domain)]


# Domains.


def coral_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor, means: bool = True) -> Tensor:
    moments = []
    for rows in each_domain(domain):
        mu = average(z[row] for row in rows)
        outer = torch.stack([torch.outer(z[row] - mu, z[row] - mu) for row in rows])
        moments.append((mu, outer.sum(0) / (len(rows) - 1)))
    pairs = list(combinations(moments, 2))
    spread = average(((a[1] - b[1]) ** 2).sum() / z.shape[1] ** 2 for a, b in pairs)
    if not means:
        return spread / 4
    return spread + average(((a[0] - b[0]) ** 2).sum() / z.shape[1] for a, b in pairs)


def mmd_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    def kernel(rows: list[int], others: list[int]) -> Tensor:
        squares = [((z[a] - z[b]) ** 2).sum() for a in rows for b in others]
        return average(torch.stack([torch.exp(-g * square) for g in GAMMAS]).sum() for square in squares)

    pairs = combinations(each_domain(domain), 2)
    return average(kernel(a, a) + kernel(b, b) - 2 * kernel(a, b) for a, b in pairs)


def irm_loop(halves: bool) -> Callable[..., Tensor]:
    """The gradient by a dummy scale, with a second backward pass."""

    def loss(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
        scale = torch.ones((), requires_grad=True)

        def slope(rows: list[int]) -> Tensor:
            risk = cross_entropy(scale * logits[rows], y[rows])
            return torch.autograd.grad(risk, scale, create_graph=True)[0]

        each = each_domain(domain)
        if halves:
            return average(slope(rows[::2]) * slope(rows[1::2]) for rows in each)
        return average(slope(rows) ** 2 for rows in each)

    return loss


def vrex_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    each = risks(logits, y, domain)
    return average((risk - average(each)) ** 2 for risk in each)


def sd_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    return average(logits[row][label] ** 2 for row in range(len(y)) for label in range(CLASSES))


def eqrm_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    """Newton's method from the mean, its steps differentiated: they converge to the implicit gradient."""
    each = torch.stack(risks(logits, y, domain)).double()
    h = 1.06 * each.std() * len(each) ** -0.2
    q = each.mean()
    for _ in range(200):
        share = (0.5 * (1 + torch.erf((q - each) / h / math.sqrt(2)))).mean()
        density = (torch.exp(-(((q - each) / h) ** 2) / 2) / h / math.sqrt(2 * math.pi)).mean()
        q = q - (0.5 * (share - 0.75) / density).clamp(-1, 1)
    return q.float()


def eqrm_bisected(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    """As released: bisection between two ends that have a gradient."""
    each = torch.stack(risks(logits, y, domain)).double()
    h = 1.06 * each.std() * len(each) ** -0.2
    normal = torch.distributions.Normal
    share = torch.tensor(0.75).double()
    low, high = (normal(end, h).icdf(share) for end in (each.min(), each.max()))  # type: ignore[no-untyped-call]
    for _ in range(60):
        middle = (low + high) / 2
        if normal(each, h).cdf(middle).mean() > share:  # type: ignore[no-untyped-call]
            high = middle
        else:
            low = middle
    q: Tensor = (low + high) / 2
    return q.float()


def fishr_ours(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    state, head = losses.Fishr(CLASSES, z.shape[1], DOMAINS, gamma=0.9), linear(z.shape[1])
    penalties = [state.update(step * z, head(step * z), y, domain) for step in (1.0, 0.5, 2.0)]
    return torch.stack(penalties)


def fishr_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    """The gradient of each row by autograd; its variance; averages over three steps."""
    head = linear(z.shape[1])
    weights = [head.weight, head.bias]
    averages: list[Tensor] = [torch.zeros(CLASSES, z.shape[1] + 1)] * DOMAINS
    penalties = []
    for step in (1.0, 0.5, 2.0):
        for number, rows in enumerate(each_domain(domain)):
            gradients = []
            for row in rows:
                risk = cross_entropy(head(step * z[[row]]), y[[row]])
                by_weight, by_bias = torch.autograd.grad(risk, weights, create_graph=True)
                gradients.append(torch.cat([by_weight, by_bias[:, None]], 1))
            variance = average((g - average(gradients)) ** 2 for g in gradients)
            averages[number] = 0.9 * averages[number].detach() + 0.1 * variance
        scaled = [value / 0.1 for value in averages]
        penalties.append(average(((v - average(scaled)) ** 2).mean() for v in scaled))
    return torch.stack(penalties)


def linear(features: int) -> nn.Linear:
    """Make a head with fixed weights."""
    head = nn.Linear(features, CLASSES)
    generator = torch.Generator().manual_seed(1)
    for parameter in head.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    return head


def rsc_ours(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    return z * losses.rsc_mask(linear(z.shape[1]), z, y)


def rsc_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    head = linear(z.shape[1])
    muted, falls = np.zeros(z.shape, bool), []
    for row in range(len(z)):
        weight = head.weight[y[row]].detach().numpy()
        muted[row] = weight > np.percentile(weight, 200 / 3)
        left = torch.from_numpy(~muted[row])
        falls.append(float((head(z[row]).softmax(0) - head(z[row] * left).softmax(0))[y[row]].detach()))
    muted[np.array(falls) <= np.percentile(falls, 200 / 3)] = False
    return z * torch.from_numpy(muted)


def network(features: int) -> nn.Sequential:
    """Make a network with fixed weights and batch norm."""
    layers = nn.Sequential(nn.Linear(features, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, CLASSES))
    generator = torch.Generator().manual_seed(2)
    for parameter in layers.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    return layers


def mldg_ours(released: bool) -> Callable[..., Tensor]:
    def gradient(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
        model = network(z.shape[1])
        settings = {"meta_test": 2 * released, "released": released}
        loss = losses.mldg(model, z.detach(), y, domain, 0.1, 0.7, **settings)  # type: ignore[arg-type]
        return flat(torch.autograd.grad(loss, list(model.parameters())))

    return gradient


def mldg_loop(released: bool) -> Callable[..., Tensor]:
    """A copy of the network takes a step on a domain; its gradient on another one is added."""

    def gradient(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
        z, model, each = z.detach(), network(z.shape[1]), each_domain(domain)
        order = torch.randperm(DOMAINS).tolist()
        pairs = [(order[at], order[(at + 1) % DOMAINS]) for at in range(DOMAINS)]
        pairs = [(order[0], order[1])] if released else pairs  # of three, the last two test in turn
        total = torch.zeros(())
        for i, j in pairs:
            clone = copy.deepcopy(model)
            optimizer = (torch.optim.Adam if released else torch.optim.SGD)(clone.parameters(), lr=0.1)
            torch.autograd.backward(cross_entropy(clone(z[each[i]]), y[each[i]]))
            first = flat(
                [parameter.grad.clone() for parameter in clone.parameters() if parameter.grad is not None]
            )
            optimizer.step()
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(clone(z[each[j]]), y[each[j]]))
            second = flat([parameter.grad for parameter in clone.parameters() if parameter.grad is not None])
            total = total + (first + 0.7 * second) / DOMAINS
        return total

    return gradient


def flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def stablenet_ours(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    state = losses.StableNet(z.shape[1], steps=6, rate=2.0, penalty=1.5, memory=4, decay=0.3)
    return torch.cat([state.update(z), state.update(1 + z), state.update(z)])


def stablenet_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    """Torch's SGD on weighted covariances by loops, with a memory of four rows."""
    memory, memory_w, weights = torch.zeros(0, z.shape[1]), torch.zeros(0), []
    for call, rows in enumerate((z.detach(), 1 + z.detach(), z.detach())):
        w = torch.ones(len(rows), requires_grad=True)
        solver = torch.optim.SGD([w], lr=2.0, momentum=0.9)
        for step in range(6):
            solver.param_groups[0]["lr"] = 2.0 if step < 3 else 0.2
            omega, phi = torch.randn(z.shape[1]), 2 * math.pi * torch.rand(z.shape[1])
            features = math.sqrt(2) * torch.cos(torch.cat([rows, memory]) * omega + phi)
            share = torch.cat([w, memory_w]).softmax(0)
            penalty = torch.zeros(())
            for a in range(z.shape[1]):
                for b in range(z.shape[1]):
                    f, g = features[:, a], features[:, b]
                    covariance = (share * f * g).sum() - (share * f).sum() * (share * g).sum()
                    penalty = penalty + (a != b) * covariance**2
            (w.grad,) = torch.autograd.grad(penalty / 1.5 + (w.softmax(0) ** 2).sum(), w)
            solver.step()
        old = min(0.3, call / (call + 1))
        w = w.detach()
        memory = rows[:4] if not call else old * memory + (1 - old) * rows[:4]
        memory_w = w[:4] if not call else old * memory_w + (1 - old) * w[:4]
        weights.append(w.softmax(0))
    return torch.cat(weights)


# Pictures.


def mixup_ours(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    mixed, partner, lam = losses.mixup(z, domain, alpha=0.5)
    return losses.mixup_losses(linear(z.shape[1])(mixed), y, partner, lam)


def mixup_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    """Soft labels: the cross-entropy with lam of one class and the rest of the other."""
    partner = losses.partners(domain)  # the draw is ours
    shares = torch.distributions.Beta(0.5, 0.5).sample((DOMAINS,))
    rows = []
    for row, other in enumerate(partner.tolist()):
        lam, target = shares[domain[row]], torch.zeros(CLASSES)
        target[y[row]] += lam
        target[y[other]] += 1 - lam
        answer = linear(z.shape[1])(lam * z[row] + (1 - lam) * z[other])
        rows.append(-(target * torch.log_softmax(answer, 0)).sum())
    return torch.stack(rows)


def mixstyle_loop(x: Tensor, partner: Tensor, lam: Tensor) -> Tensor:
    styles = []
    for row in x.detach():
        spreads = [((c - c.mean()) ** 2).sum() / (c.numel() - 1) for c in row]
        styles.append([(c.mean(), (spread + 1e-6).sqrt()) for c, spread in zip(row, spreads, strict=True)])
    mixed_maps = torch.empty_like(x)
    for row in range(len(x)):
        for c in range(x.shape[1]):
            (mu, sigma), (other_mu, other_sigma) = styles[row][c], styles[partner[row]][c]
            mixed = lam[row] * sigma + (1 - lam[row]) * other_sigma
            mu_mixed = lam[row] * mu + (1 - lam[row]) * other_mu
            mixed_maps[row, c] = (x[row, c] - mu) / sigma * mixed + mu_mixed
    return mixed_maps


def amplitudes_numpy(x: Tensor, partner: Tensor, lam: Tensor) -> Tensor:
    pixels, mixed = x.double().numpy(), np.empty(x.shape)
    for row, other in enumerate(partner.tolist()):
        for c in range(x.shape[1]):
            mine, theirs = np.fft.fft2(pixels[row, c]), np.fft.fft2(pixels[other, c])
            amplitude = (1 - float(lam[row])) * abs(mine) + float(lam[row]) * abs(theirs)
            mixed[row, c] = np.fft.ifft2(amplitude * np.exp(1j * np.angle(mine))).real
    return torch.from_numpy(mixed).float()


def distillation_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    divergences = []
    for row in range(len(z)):
        p, q = (torch.exp(part[row, :CLASSES] / 10) for part in (z, logits))
        p, q = p / p.sum(), q / q.sum()
        divergences.append((p * (p / q).log()).sum())
    return torch.stack(divergences)


def sagnet_ours(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    order, alpha = torch.randperm(len(z)), torch.rand(len(z))
    parts = losses.style_mixed(z, alpha, order), losses.content_swapped(z, order)
    return torch.cat([*parts, losses.uniform_cross_entropies(logits)[:, None]], 1)


def sagnet_loop(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
    order, alpha, rows = torch.randperm(len(z)), torch.rand(len(z)), []
    mu = [z[row].sum() / z.shape[1] for row in range(len(z))]
    var = [((z[row] - mu[row]) ** 2).sum() / (z.shape[1] - 1) for row in range(len(z))]
    content = [(z[row] - mu[row]) / (var[row] + 1e-5) ** 0.5 for row in range(len(z))]
    for row, other in enumerate(order.tolist()):
        a = alpha[row]
        mixed = content[row] * (a * var[row] + (1 - a) * var[other] + 1e-5) ** 0.5
        mixed = mixed + a * mu[row] + (1 - a) * mu[other]
        swapped = content[other].detach() * (var[row] + 1e-5) ** 0.5 + mu[row]
        uniform = -torch.log_softmax(logits[row], 0).sum() / CLASSES
        rows.append(torch.cat([mixed, swapped, uniform[None]]))
    return torch.stack(rows)


def of(loss: str, *arguments: str, **options: object) -> Callable[..., Tensor]:
    """Call a loss with the parts of a batch that it takes."""

    def ours(z: Tensor, logits: Tensor, y: Tensor, domain: Tensor) -> Tensor:
        each = losses.cross_entropies(logits, y)
        parts = {"z": z, "logits": logits, "y": y, "domain": domain, "losses": each}
        result: Tensor = getattr(losses, loss)(*(parts[name] for name in arguments), **options)
        return result

    return ours


BATCH = batch()
CORAL_PAPER = of("coral", "z", "domain", means=False)
COMPARISONS = (
    Comparison("CORAL, loop", of("coral", "z", "domain"), coral_loop, BATCH),
    Comparison("CORAL of wide features, loop", of("coral", "z", "domain"), coral_loop, batch(12, 40)),
    Comparison("CORAL of the paper, loop", CORAL_PAPER, partial(coral_loop, means=False), BATCH),
    Comparison("MMD, loop", of("mmd", "z", "domain"), mmd_loop, BATCH),
    Comparison("IRM, dummy scale", of("irm", "logits", "y", "domain"), irm_loop(True), BATCH),
    Comparison("IRM of the paper, dummy scale", of("irm", "logits", "y", "domain", halves=False),
               irm_loop(False), BATCH),
    Comparison("V-REx, loop", of("vrex", "losses", "domain"), vrex_loop, BATCH),
    Comparison("SD, loop", of("sd", "logits"), sd_loop, BATCH),
    Comparison("EQRM, Newton", of("eqrm", "losses", "domain", quantile=0.75), eqrm_loop, BATCH),
    Comparison("EQRM as released, bisection",
               of("eqrm", "losses", "domain", quantile=0.75, implicit=False), eqrm_bisected, BATCH),
    Comparison("Fishr over three steps, row by row", fishr_ours, fishr_loop, BATCH),
    Comparison("RSC, percentiles of numpy", rsc_ours, rsc_loop, BATCH),
    Comparison("MLDG, copies and SGD", mldg_ours(False), mldg_loop(False), BATCH),
    Comparison("MLDG as released, copies and Adam", mldg_ours(True), mldg_loop(True), BATCH),
    Comparison("StableNet with a memory, SGD", stablenet_ours, stablenet_loop, BATCH),
    Comparison("Mixup, soft labels", mixup_ours, mixup_loop, BATCH),
    Comparison("MixStyle, loop", losses.mixstyle, mixstyle_loop, pictures),
    value("FACT's amplitudes, numpy", lambda x, partner, lam: losses.amplitude_mix(x, x[partner], lam),
          amplitudes_numpy, pictures),
    Comparison("FACT's divergence, loop",
               lambda z, logits, y, domain: losses.distillation(logits, z[:, :CLASSES], 10.0),
               distillation_loop, BATCH),
    Comparison("SagNet, loop", sagnet_ours, sagnet_loop, BATCH),
)  # fmt: skip
