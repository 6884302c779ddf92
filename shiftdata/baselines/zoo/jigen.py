"""JiGen: which of 30 orders the tiles of a picture have, as a second task (Carlucci et al., CVPR 2019).

    l + trade_off CE(order)     a second head with 31 outputs: in order, or one of 30 orders of 3 x 3 tiles

A row is in order with probability `whole`, else in one of the 30, each alike; shuffled rows count for l
too, and share the forward pass with the others. Each tile is grey with probability `grey`, in rows that are
in order too. Of sides that 3 does not divide the middle is read, up to two pixels less, in training and
prediction: a network that reads one size alone (a transformer) needs a side divisible by 3. The
permutations are chosen one by one, in order being the first: the one whose least distance (tiles in
different places) to those chosen is largest, of several the one with the largest sum. The authors choose by
the sum alone, which after nine is the same for all, and keep the result in a file. trade_off = 0, whole =
1, grey = 0 on sides divisible by 3 is ERM, bit for bit.

`code`: the order of the other rows is drawn from all 31, so that whole + (1 - whole) / 31 of the rows are
in order.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, Setup, mean
from shiftdata.baselines.views import GREY
from shiftdata.baselines.zoo.pictures import OfPictures
from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray

SIDE = 3  # tiles
ORDERS = 30  # besides the right one


@cache
def tile_orders() -> IntArray:
    """The orders of tiles, one a row; the first is the right one."""
    every = np.array(list(permutations(range(SIDE**2))), np.int8)
    chosen = [0]
    least, total = np.full(len(every), SIDE**2), np.zeros(len(every), np.int64)
    for _ in range(ORDERS):
        distance = (every != every[chosen[-1]]).sum(axis=1)
        least, total = np.minimum(least, distance), total + distance
        chosen.append(int(np.argmax(least * (total.max() + 1) + total)))
    return every[chosen].astype(np.int64)


def cut(x: Tensor) -> Tensor:
    """The middle of pictures, with sides that the number of tiles divides."""
    height, width = (side - side % SIDE for side in x.shape[2:])
    if not (height and width):
        raise InputError(
            f"jigen cuts pictures into {SIDE} x {SIDE} tiles, and these are {tuple(x.shape[2:])}"
        )
    top, left = (side % SIDE // 2 for side in x.shape[2:])
    return x[:, :, top : top + height, left : left + width]


def tiles_of(x: Tensor) -> Tensor:
    """The tiles of pictures, row by row: n x 9 x channels x height x width."""
    rows, channels, height, width = x.shape
    parts = x.reshape(rows, channels, SIDE, height // SIDE, SIDE, width // SIDE)
    return parts.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)


def joined(tiles: Tensor) -> Tensor:
    """Pictures of their tiles."""
    rows, _, channels, height, width = tiles.shape
    parts = tiles.reshape(rows, SIDE, SIDE, channels, height, width)
    return parts.permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)


class JiGen(OfPictures):
    """ERM on pictures of which some are shuffled, and a second head that says how."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    trade_off = Hyper(0.7, low=0.1, high=1.0, source="Carlucci et al.: .7; AlexNet: .9")
    whole = Hyper(0.9, low=0.5, high=1.0, source="Carlucci et al.: .9 for ResNet-18")
    grey = Hyper(0.1, low=0.0, high=0.5, source="the authors' code")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.order_head = nn.Linear(known.features, ORDERS + 1)
        self.register_buffer("orders", torch.from_numpy(tile_orders()))

    def loss(self, batch: Batch) -> Tensor:
        x, order = self.shuffled(cut(batch.x))
        z = self.network.features(x)
        fitted = cross_entropy(self.network.head(z), batch.y, reduction="none")
        ordered = cross_entropy(self.order_head(z), order, reduction="none")
        return mean(fitted + self.trade_off * ordered, batch.weight)

    def predict(self, x: Tensor) -> Tensor:
        return super().predict(cut(x))

    def shuffled(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Pictures, some with grey or shuffled tiles, and the number of each one's order."""
        order, tiles = torch.zeros(len(x), dtype=torch.int64, device=x.device), tiles_of(x)
        if self.whole < 1:  # no draw without need: dropout draws from the same generator
            drawn = torch.randint(int(self.variant == "fixed"), ORDERS + 1, (len(x),))
            order = torch.where(torch.rand(len(x)) < self.whole, 0, drawn).to(x.device)
        if self.grey > 0:
            grey = torch.rand(tiles.shape[:2]).to(x.device) < self.grey
            tiles = torch.where(grey[:, :, None, None, None], tiles_of(self.greyed(x)), tiles)
        rows = torch.arange(len(x), device=x.device)
        return joined(tiles[rows[:, None], self.get_buffer("orders")[order]]), order

    def greyed(self, x: Tensor) -> Tensor:
        """The same pictures without colour."""
        return self.read((self.pictures(x) * GREY.to(x)).sum(1, keepdim=True).expand_as(x))
