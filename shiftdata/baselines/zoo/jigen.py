"""JiGen: which of 30 orders the tiles of a picture have, as a second task (Carlucci et al., CVPR 2019).

    l + trade_off CE(order)     a second head with 31 outputs: in order, or one of 30 orders of 3 x 3 tiles

A row is in order with probability `whole`; each tile is grey with probability `grey`. Of sides that 3 does
not divide the middle is read, in training and prediction.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shiftdata.baselines import losses
from shiftdata.baselines.losses.pictures import crop_to_tiles, join_tiles, split_tiles, tile_orders
from shiftdata.baselines.method import Batch, Hyper, Setup
from shiftdata.baselines.networks import Network
from shiftdata.baselines.zoo.pictures import OfPictures

#: Luma of RGB.
GREY = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)


class JiGen(OfPictures):
    """ERM on pictures of which some are shuffled, and a second head that says how.

    `code`: the order of the other rows is drawn from all 31, so that some of them are in order.
    """

    variants = ("fixed", "code")
    trade_off = Hyper(0.7, low=0.1, high=1.0, source="Carlucci et al.: .7; AlexNet: .9")
    whole = Hyper(0.9, low=0.5, high=1.0, source="Carlucci et al.: .9 for ResNet-18")
    grey = Hyper(0.1, low=0.0, high=0.5, source="the authors' code")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.register_buffer("orders", tile_orders())
        self.order_head = nn.Linear(sizes.features, len(tile_orders()))

    def loss(self, batch: Batch) -> Tensor:
        x, order = self.shuffled(crop_to_tiles(batch.x))
        z = self.network.features(x)
        fitted = losses.cross_entropies(self.network.head(z), batch.y)
        ordered = losses.cross_entropies(self.order_head(z), order)
        return losses.mean(fitted + self.trade_off * ordered, batch.weight)

    def predict(self, x: Tensor) -> Tensor:
        return super().predict(crop_to_tiles(x))

    def shuffled(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return pictures, some with grey or shuffled tiles, and the number of each one's order."""
        order, tiles = torch.zeros(len(x), dtype=torch.int64, device=x.device), split_tiles(x)
        orders = self.get_buffer("orders")
        if self.whole < 1:  # no draw without need: dropout draws from the same generator
            drawn = torch.randint(int(self.variant == "fixed"), len(orders), (len(x),))
            order = torch.where(torch.rand(len(x)) < self.whole, 0, drawn).to(x.device)
        if self.grey > 0:
            grey = torch.rand(tiles.shape[:2]).to(x.device) < self.grey
            tiles = torch.where(grey[:, :, None, None, None], split_tiles(self._greyed(x)), tiles)
        return join_tiles(tiles, orders[order]), order

    def _greyed(self, x: Tensor) -> Tensor:
        return self.read((self.pictures(x) * GREY.to(x)).sum(1, keepdim=True).expand_as(x))
