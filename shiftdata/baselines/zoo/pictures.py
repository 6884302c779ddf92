"""Methods that change pictures, on a scale from black, 0, to white, 1.

ERM-adv: ERM on examples moved by `losses.adversarial_step` (Madry et al., ICLR 2018), as in RLSbench.
"""

import copy
import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.losses.pictures import crop_to_tiles, join_tiles, split_tiles, tile_orders
from shiftdata.baselines.losses.reduce import precise
from shiftdata.baselines.method import Batch, Data, Hyper, Stage
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network, evaluating


class OfPictures(ERM):
    """ERM on pictures that a method changes on the scale from black, 0, to white, 1."""

    needs = frozenset({"pixels"})

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.register_buffer("ends", torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).repeat(1, 3, 1, 1))

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        black_white = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).repeat(1, 3, 1, 1)
        self.get_buffer("ends").copy_(trainer.prepared(black_white))

    def pictures(self, x: Tensor) -> Tensor:
        """Return pictures from 0 to 1."""
        black, white = self.get_buffer("ends").unbind()
        return (x - black) / (white - black)

    def read(self, pictures: Tensor) -> Tensor:
        """Return pictures from 0 to 1 as the network reads them."""
        black, white = self.get_buffer("ends").unbind()
        return black + pictures * (white - black)


class ERMAdv(OfPictures):
    """ERM on adversarial examples, reached by a few steps up each row's loss."""

    radius = Hyper(0.5, low=0.01, high=2.0, log=True, source="RLSbench: eps")
    length = Hyper(1 / 3, low=0.01, high=1.0, log=True, source="RLSbench: step_size")
    moves = Hyper(3, choices=(1, 3, 10), source="RLSbench: iterations")
    plain = Hyper(0.1, low=0.0, high=1.0, source="RLSbench: the last tenth of the epochs")

    def loss(self, batch: Batch) -> Tensor:
        if self.radius and batch.progress < 1 - self.plain:
            batch = replace(batch, x=self.attacked(batch.x, batch.y))
        return super().loss(batch)

    def attacked(self, x: Tensor, y: Tensor) -> Tensor:
        """Return pictures near by, at which the network as it is has a larger loss."""
        moved = origin = self.pictures(x)
        with evaluating(self):
            for _ in range(int(self.moves)):
                moved = moved.detach().requires_grad_()
                loss = cross_entropy(self.network(self.read(moved)), y, reduction="sum")
                (gradient,) = torch.autograd.grad(loss, moved)
                moved = losses.adversarial_step(moved, origin, gradient, self.length, self.radius).clamp(0, 1)
        return self.read(moved).detach()


class FACT(OfPictures):
    """ERM on pictures and mixtures of amplitudes, each near a teacher's prediction of the other.

    Xu et al., CVPR 2021, with t, s the softmax of teacher's and student's logits / temperature:

        l(x) / 2 + l(x') / 2 + c (KL(t(x) || s(x')) + KL(t(x') || s(x)))
        c = trade_off exp(-5 (1 - e)^2)              e rises to 1 in a share `ramp` of the steps

    x' is `losses.amplitude_mix` with a row of `losses.partners`. Both read x and x' in one pass each. The
    teacher predicts in train mode, as the authors': only its parameters are averaged. `code`: the logarithm
    of a softmax, -inf where logits are far apart; x' cut off to whole bytes.
    """

    variants = ("fixed", "code")
    strength = Hyper(1.0, low=0.0, high=1.0, source="Xu et al.: 1; OfficeHome: .2")
    trade_off = Hyper(2.0, low=0.1, high=200.0, log=True, source="Xu et al.: 2; OfficeHome: 200")
    ramp = Hyper(0.1, low=0.0, high=1.0, source="Xu et al.: 5 of 50 epochs")
    temperature = Hyper(10.0, low=1.0, high=20.0, log=True, source="Xu et al.")
    decay = Hyper(0.9995, low=0.9, high=0.9999, source="Xu et al.")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.teacher = copy.deepcopy(network).requires_grad_(False)

    def loss(self, batch: Batch) -> Tensor:
        if not (self.strength or self.trade_off):
            return super().loss(batch)
        both = torch.cat([batch.x, self._changed(batch)])
        own, changed = precise(self.network(both)).chunk(2)
        fitted = losses.cross_entropies(own, batch.y) / 2 + losses.cross_entropies(changed, batch.y) / 2
        of_own, of_changed = self._taught(both).chunk(2)
        settings = self.temperature, self.variant == "fixed"
        apart = losses.distillation(changed, of_own, *settings)
        apart = apart + losses.distillation(own, of_changed, *settings)
        return (fitted + self.weight(batch.progress) * apart).mean()

    def weight(self, progress: float) -> float:
        """Return the weight of the teacher's answers."""
        risen = min(1.0, progress / self.ramp) if self.ramp else 1.0
        return self.trade_off * math.exp(-5 * (1 - risen) ** 2)

    def after_step(self, batch: Batch) -> None:
        losses.ema_(self.teacher.parameters(), self.network.parameters(), self.decay, batch.step + 1)

    def _changed(self, batch: Batch) -> Tensor:
        """Return each row with amplitudes mixed with a partner's."""
        partner = losses.partners(batch.domain)
        lam = self.strength * torch.rand(len(batch.x)).to(batch.x.device)
        with losses.exactly(batch.x):
            x = self.pictures(batch.x)
            mixed = losses.amplitude_mix(x, x[partner], lam).clamp(0, 1)
            return self.read(mixed if self.variant == "fixed" else (mixed * 255).floor() / 255)

    @torch.no_grad()
    def _taught(self, x: Tensor) -> Tensor:
        """Return the teacher's logits, each part of it in the mode of the student's."""
        for mine, theirs in zip(self.teacher.modules(), self.network.modules(), strict=True):
            mine.training = theirs.training
        logits: Tensor = self.teacher(x)
        return precise(logits)


#: Luma of RGB.
GREY = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)


class JiGen(OfPictures):
    """ERM on pictures, some of shuffled tiles, and a second head for their order (Carlucci et al., 2019).

        l + trade_off CE(order)     31 outputs: in order, or one of 30 orders of 3 x 3 tiles

    A row is in order with probability `whole`; each tile is grey with probability `grey`. Pictures are cut to
    sides that 3 divides, in training and prediction. `code`: the order of the other rows is drawn from all
    31, so that some of them are in order.
    """

    variants = ("fixed", "code")
    trade_off = Hyper(0.7, low=0.1, high=1.0, source="Carlucci et al.: .7; AlexNet: .9")
    whole = Hyper(0.9, low=0.5, high=1.0, source="Carlucci et al.: .9 for ResNet-18")
    grey = Hyper(0.1, low=0.0, high=0.5, source="the authors' code")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.register_buffer("orders", tile_orders())
        self.order_head = nn.Linear(network.n_features, len(tile_orders()))

    def loss(self, batch: Batch) -> Tensor:
        x, order = self.shuffled(crop_to_tiles(batch.x))
        z = self.network.features(x)
        fitted = losses.cross_entropies(self.network.head(z), batch.y)
        ordered = losses.cross_entropies(self.order_head(z), order)
        return (fitted + self.trade_off * ordered).mean()

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
