"""Covariate shift by the paper's procedure: two networks trained jointly from scratch (NICO++, section 4.3).

Each objective trains its own pair: to disagree on the source and agree on the target, and its negation
(equation 8). The loss is the total variation distance |p - q|_1 / 2 of class probabilities. The shift is
measured with the 0-1 loss on the half of each side that no network has seen.

A value of 0 in one direction may be a training that has not started: give more epochs or another seed. The
larger of two noisy directions is a little above 0 without a shift: report the mean over several seeds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.evaluation.meters.covariate import CovariateShift
from shiftdata.evaluation.meters.sides import Mask, Origins, sides_of
from shiftdata.extras import require
from shiftdata.stable import hash64, rng

#: n x height x width x channels.
Images: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a pair is trained; the paper's settings. A batch is half of the source, half of the target."""

    epochs: int = 20
    batch: int = 64
    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 4 or self.learning_rate <= 0:
            raise InputError(
                f"{self}: give at least 1 epoch, batches of at least 4, and a learning rate above 0"
            )


PAPER = Training()


def covariate_shift_by_training(
    source: Iterable[Any],
    target: Iterable[Any],
    *,
    network: Callable[[], Any] | None = None,
    n_classes: int = 2,
    training: Training = PAPER,
    origins: Origins | None = None,
    seed: int = 0,
) -> CovariateShift:
    """The discrepancy of two sets of pictures under pairs of networks trained for it. Needs torch.

    Args:
        source: Pictures of one size, each as 8-bit numbers height x width x channels, or an array of them.
        target: Pictures of the other set, of the same size.
        network: Makes a torch module from pixels (n x channels x height x width, -1 to 1) to class scores;
            called twice for a pair. Default: `shallow_cnn`.
        n_classes: Outputs of `shallow_cnn`: the classes of the dataset in the paper; with 2, a pair is a
            classifier of domains as in its appendix A.2.
        training: Epochs, batch and learning rate.
        origins: As for `covariate_shift`.
        seed: Keys the halves, the weights, the batches and the interval.

    """
    torch = _torch()
    first, second = _images("source", source), _images("target", target)
    if first.shape[1:] != second.shape[1:]:
        raise InputError(
            f"source has pictures of {first.shape[1:]} and target of {second.shape[1:]}: resize one of them"
        )
    if network is None:
        network = partial(shallow_cnn, first.shape[1:], n_classes)
    sides = sides_of(len(first), len(second), origins)
    images = np.concatenate([first, second])
    fit = sides.half(seed)
    held_out = ~fit
    unseen, found = sides.where(held_out), []
    for name, sign in (("source", 1), ("target", -1)):
        # Weights and dropout draw from torch's own generator: seeded inside, left outside as it was.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(hash64(seed, "meters", "training", name))
            pair = (network(), network())
            batches = _batches(sides.target, fit, training, (seed, name))
            _train(pair, images, sides.target, batches, sign, training.learning_rate)
        differ = _disagree(pair, images[held_out], training.batch).astype(np.float64)
        signed = operator.sub if sign > 0 else lambda at_source, at_target: at_target - at_source
        found.append(unseen.interval(differ, signed, seed))
    return CovariateShift(
        interval=max(found, key=lambda interval: interval.estimate),
        directions=(found[0].estimate, found[1].estimate),
        n_source=unseen.n_source,
        n_target=unseen.n_target,
        hypotheses=f"pairs of trained networks, 0-1 loss, {training}",
    )


def shallow_cnn(shape: tuple[int, ...], n_classes: int) -> Any:
    """The network of the paper's table 12 for pictures of any height x width x channels from 19 pixels on.

    The paper gives it for 28 pixels and names no padding: there is none.
    """
    nn, (height, width, channels) = _torch().nn, shape
    layers, last = [], channels
    for kernel, stride, out in ((7, 1, 32), (5, 2, 32), (3, 1, 64), (3, 2, 64)):
        layers += [nn.Conv2d(last, out, kernel, stride), nn.BatchNorm2d(out), nn.ReLU()]
        height, width, last = (height - kernel) // stride + 1, (width - kernel) // stride + 1, out
        if stride == 2:
            layers.append(nn.Dropout(0.4))
    if min(height, width) < 1:
        raise InputError(f"pictures of {shape[0]} x {shape[1]} pixels are too small: give at least 19 x 19")
    head = [nn.Flatten(), nn.Linear(last * height * width, 16), nn.ReLU(), nn.Linear(16, n_classes)]
    return nn.Sequential(*layers, *head)


def _train(
    pair: tuple[Any, Any], images: Images, target: Mask, batches: Iterator[Any], sign: int, rate: float
) -> None:
    """Gradient ascent on sign x (disagreement on the source - disagreement on the target)."""
    torch = _torch()
    optimizer = torch.optim.SGD([weight for net in pair for weight in net.parameters()], lr=rate)
    for net in pair:
        net.train()
    for rows in batches:
        pixels, of_target = _pixels(images[rows]), torch.from_numpy(target[rows])
        p, q = (net(pixels).softmax(dim=1) for net in pair)
        distance = (p - q).abs().sum(dim=1) / 2
        gain = sign * (distance[~of_target].mean() - distance[of_target].mean())
        optimizer.zero_grad()
        (-gain).backward()
        optimizer.step()


def _batches(target: Mask, fit: Mask, training: Training, names: tuple[int, str]) -> Iterator[Any]:
    """Rows of each step: as many of either side. In an epoch each row of the larger side comes once."""
    sides, half = [np.flatnonzero(fit & side) for side in (~target, target)], training.batch // 2
    steps = -(-max(map(len, sides)) // half)
    seed, direction = names
    for epoch in range(training.epochs):
        generator = rng(seed, "meters", "batches", direction, epoch)
        orders = [np.resize(generator.permutation(rows), (steps, half)) for rows in sides]
        yield from np.concatenate(orders, axis=1)


def _disagree(pair: tuple[Any, Any], images: Images, batch: int) -> Mask:
    """Whether the two networks give a picture different classes."""
    torch, found = _torch(), []
    for net in pair:
        net.eval()
    with torch.inference_mode():
        for at in range(0, len(images), batch):
            first, second = (net(_pixels(images[at : at + batch])).argmax(dim=1) for net in pair)
            found.append((first != second).numpy())
    return np.concatenate(found)


def _pixels(images: Images) -> Any:
    """Networks read n x channels x height x width from -1 to 1."""
    return _torch().from_numpy(images.transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1)


def _images(name: str, given: Iterable[Any]) -> Images:
    pictures = [np.asarray(picture) for picture in given]
    shapes = sorted({picture.shape for picture in pictures})
    if len(shapes) != 1 or len(shapes[0]) != 3 or any(picture.dtype != np.uint8 for picture in pictures):
        kinds = sorted({str(picture.dtype) for picture in pictures})
        raise InputError(
            f"{name}: {len(pictures)} pictures of shapes {shapes[:3]} and types {kinds}; "
            "give pictures of one size, height x width x channels, as 8-bit numbers (uint8)"
        )
    return np.stack(pictures)


def _torch() -> Any:
    return require("torch", "training networks")
