"""Mixtures of rows, of pictures and of the style of feature maps, across domains; puzzles of tiles."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from shiftdata.baselines.losses.reduce import cross_entropies, exactly, precise, rows_of_each
from shiftdata.errors import InputError

__all__ = ["amplitude_mix", "content_swapped", "distillation", "mixstyle", "mixup", "mixup_losses"]
__all__ += ["partners", "style_mixed", "uniform_cross_entropies"]

STYLE_EPS = 1e-6
FEATURE_EPS = 1e-5


def partners(domain: Tensor) -> Tensor:
    """Draw a partner of another domain for each row, the same one about equally often.

    Domains form a circle in a random order; a row's partner is a random one of the next domain, each is
    partner once where the numbers are equal. With one domain it is any row.
    """
    domains = list(rows_of_each(domain).values())
    order = torch.randperm(len(domains)).tolist()
    partner = torch.empty_like(domain)
    for this, following in zip(order, [*order[1:], *order[:1]], strict=True):
        rows, others = domains[this], domains[following]
        shuffled = others[torch.randperm(len(others)).to(others.device)]
        partner[rows] = shuffled[torch.arange(len(rows), device=others.device) % len(others)]
    return partner


def blend(x: Tensor, others: Tensor, lam: Tensor) -> Tensor:
    """Return lam x + (1 - lam) others, with one lam a row."""
    lam = lam.view(-1, *[1] * (x.ndim - 1))
    return lam * x + (1 - lam) * others


def mixup(x: Tensor, domain: Tensor, alpha: float = 0.2) -> tuple[Tensor, Tensor, Tensor]:
    """Mix each row with one of another domain; return the rows, the partners, and lam (Xu et al., AAAI 2020).

        x' = lam x_i + (1 - lam) x_j     lam ~ Beta(alpha, alpha), one for each domain; 1 with alpha = 0

    The loss is the mean of `mixup_losses`. Partners are random, as in DomainBed-v2.
    """
    if not x.is_floating_point():
        raise InputError("mixup mixes pixels or numbers, and this backbone reads neither: take another")
    partner = partners(domain)
    each = rows_of_each(domain).values()
    shares = torch.distributions.Beta(alpha, alpha).sample((len(each),)) if alpha else torch.ones(len(each))
    lam = x.new_empty(len(x))
    for rows, share in zip(each, shares.tolist(), strict=True):
        lam[rows] = share
    return blend(x, x[partner], lam), partner, lam


def mixup_losses(logits: Tensor, y: Tensor, partner: Tensor, lam: Tensor) -> Tensor:
    """Return lam l(x', y_i) + (1 - lam) l(x', y_j) of each row, for `mixup`."""
    return lam * cross_entropies(logits, y) + (1 - lam) * cross_entropies(logits, y[partner])


def style(maps: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the deviation (n - 1) of each channel of each row's map, without a gradient."""
    variance, mean = torch.var_mean(maps.detach(), dim=(2, 3), keepdim=True)
    return mean, (variance + STYLE_EPS).sqrt()


def mixstyle(maps: Tensor, partner: Tensor, lam: Tensor) -> Tensor:
    """Return feature maps with a style between those of two rows (Zhou et al., ICLR 2021).

        (x - mu_i) / sigma_i * (lam sigma_i + (1 - lam) sigma_j) + lam mu_i + (1 - lam) mu_j

    mu and sigma are `style`, constants for the gradient; lam ~ Beta(alpha, alpha), one a row. `partners`
    draws the rows j, for any number of rows and domains; the authors swap two halves of a batch.
    """
    mean, deviation = style(maps)
    content = (maps - mean) / deviation
    return content * blend(deviation, deviation[partner], lam) + blend(mean, mean[partner], lam)


def amplitude_mix(x: Tensor, others: Tensor, lam: Tensor) -> Tensor:
    """Return pictures with `lam` of others' amplitudes and their own phases (FACT; Xu et al., CVPR 2021).

        F^-1(((1 - lam) |F x_i| + lam |F x_j|) exp(i arg F x_i))     lam ~ U(0, strength), one a row

    F is the Fourier transform of each channel from black, 0, to white, 1, where the mean's phase is 0. The
    result may leave that range: cut it.
    """
    spectrum, spectrum_others = torch.fft.rfft2(x), torch.fft.rfft2(others)
    amplitude = torch.lerp(spectrum.abs(), spectrum_others.abs(), lam.view(-1, 1, 1, 1).to(x))
    mixed: Tensor = torch.fft.irfft2(torch.polar(amplitude, spectrum.angle()), s=x.shape[2:])
    return mixed


def distillation(student: Tensor, teacher: Tensor, temperature: float, stable: bool = True) -> Tensor:
    """Return KL(teacher || student) of softmax(logits / temperature), one a row.

    `stable=False`, the variant `code` of FACT: the logarithm of a softmax, -inf where logits are far apart.
    """
    student = student / temperature
    logs = student.log_softmax(1) if stable else student.softmax(1).log()
    return kl_div(logs, (teacher / temperature).softmax(1), reduction="none").sum(1)


@cache
def tile_orders(side: int = 3, orders: int = 30) -> Tensor:
    """Return orders of side x side tiles, one a row, that are far apart; the first is the right one.

    They are chosen one by one: the one whose least distance (tiles in different places) to those chosen is
    largest, of several the one with the largest sum. JiGen's authors choose by the sum alone.
    """
    every = np.array(list(permutations(range(side**2))), np.int8)
    chosen = [0]
    least, total = np.full(len(every), side**2), np.zeros(len(every), np.int64)
    for _ in range(orders):
        distance = (every != every[chosen[-1]]).sum(axis=1)
        least, total = np.minimum(least, distance), total + distance
        # By least, then by total: an integer whose high digit is least. Chosen ones have least 0.
        chosen.append(int(np.argmax(least * (total.max() + 1) + total)))
    return torch.from_numpy(every[chosen].astype(np.int64))


def crop_to_tiles(x: Tensor, side: int = 3) -> Tensor:
    """Return the middle of pictures, with sides that the number of tiles divides."""
    height, width = (length - length % side for length in x.shape[2:])
    if not (height and width):
        raise InputError(f"pictures are cut into {side} x {side} tiles, and these are {tuple(x.shape[2:])}")
    top, left = (length % side // 2 for length in x.shape[2:])
    return x[:, :, top : top + height, left : left + width]


def split_tiles(x: Tensor, side: int = 3) -> Tensor:
    """Return the tiles of pictures, row by row: n x side^2 x channels x height x width."""
    rows, channels, height, width = x.shape
    parts = x.reshape(rows, channels, side, height // side, side, width // side)
    return parts.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)


def join_tiles(tiles: Tensor, order: Tensor | None = None) -> Tensor:
    """Return pictures of their tiles, put into an order (n x side^2) that JiGen's second head must say."""
    rows, number, channels, height, width = tiles.shape
    side = round(number**0.5)
    if order is not None:
        tiles = tiles[torch.arange(rows, device=tiles.device)[:, None], order]
    parts = tiles.reshape(rows, side, side, channels, height, width)
    return parts.permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)


def _feature_style(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean and the variance of each row's features, and the features without either."""
    mu, var = z.mean(1, keepdim=True), z.var(1, keepdim=True)
    return mu, var, (z - mu) / (var + FEATURE_EPS).sqrt()


def style_mixed(z: Tensor, alpha: Tensor, order: Tensor) -> Tensor:
    """Return features in a style of which `alpha` is their own (SagNet; Nam et al., CVPR 2021).

    DomainBed's form, on pooled features: a row's style are the mean and the variance (d - 1) of its features,
    its content is the rest; alpha ~ U(0, 1), one a row. The rest of the style is the row's in `order`.
    """
    with exactly(z):
        mu, var, content = _feature_style(precise(z))
        mu, var = blend(mu, mu[order], alpha), blend(var, var[order], alpha)
        return content * (var + FEATURE_EPS).sqrt() + mu


def content_swapped(z: Tensor, order: Tensor) -> Tensor:
    """Return the content of the row in `order`, without a gradient, in the style of each row (SagNet)."""
    with exactly(z):
        mu, var, content = _feature_style(precise(z))
        return content[order].detach() * (var + FEATURE_EPS).sqrt() + mu


def uniform_cross_entropies(logits: Tensor) -> Tensor:
    """Return each row's mean over the classes of -log p, at least log K: SagNet's adversary."""
    return -log_softmax(logits, dim=1).mean(dim=1)
