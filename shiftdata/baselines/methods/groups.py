"""Methods for groups: their worst loss, copies of errors, a last layer on balanced rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.losses import jtt_weights
from shiftdata.baselines.losses.groups import GRID
from shiftdata.baselines.method import Batch, Data, Hyper, Method, Stage
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network
from shiftdata.data.arrays import BoolArray, IntArray
from shiftdata.errors import InputError


class GroupDRO(Method):
    """`losses.GroupDRO` of groups; `code` (group_DRO) draws rows as they are, and absent groups grow too.

    Sagawa et al., ICLR 2020. Rows are drawn so that each group comes equally often, as in the paper's
    algorithm; L_g is a mean, so this changes how often a group is seen, not its weight.
    """

    needs = frozenset({"groups"})
    sampler = "rwg"
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    cells = "group"
    eta = Hyper(0.1, low=1e-3, high=1.0, log=True, source="SMA; group_DRO: 0.01", variants={"code": 0.01})
    adjustment = Hyper(0.0, choices=(0, 1, 2, 3, 4, 5), source="group_DRO: C of C / sqrt(n_g)")

    def __init__(self, *, variant: str = "fixed", **given: float) -> None:
        super().__init__(variant=variant, **given)
        if variant == "code":
            self.sampler = "shuffle"

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        counts = torch.from_numpy(np.bincount(getattr(data, self.cells)))
        self.dro = losses.GroupDRO(len(counts), self.eta, self.bonus(counts), self.variant == "code")

    def loss(self, batch: Batch) -> Tensor:
        each = losses.cross_entropies(self.network(batch.x), batch.y)
        return self.dro.update(each, getattr(batch, self.cells))

    def bonus(self, counts: Tensor) -> Tensor:
        """Return C / sqrt(n_g): smaller groups, whose loss generalises worse, weigh more."""
        return self.adjustment / counts.clamp(min=1).float().sqrt()


class GroupDRODomains(GroupDRO):
    """GroupDRO with domains for groups and as many rows of each in a batch, as in DomainBed."""

    needs = frozenset({"domains"})
    sampler = "per-domain"
    variants = ("fixed",)
    cells = "domain"
    eta = Hyper(0.01, low=1e-3, high=0.1, log=True, source="DomainBed")


class TwoTrainings(ERM):
    """ERM for a share `first` of the steps, whose predictions of the training set a second training uses."""

    first = Hyper(0.15, choices=(0.05, 0.15, 0.25), source="SMA: 1, 3 or 5 of 20 epochs")
    second: ClassVar[str] = "retrain"

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.register_buffer("wrong", torch.zeros(len(data.rows), dtype=torch.bool))

    def stages(self) -> Sequence[Stage]:
        return [Stage("identify", self.first), Stage("mark", 0.0), Stage(self.second, fresh=True)]

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if stage.name == "identify" and trainer.method.sampler != "shuffle":
            name = type(self).__name__.lower()
            raise InputError(f"{name} chooses how often a row comes: leave {trainer.method.sampler!r} out")
        if stage.name != "mark":
            return
        predicted = trainer.scores(trainer.data.rows).argmax(axis=1).astype(np.int64)
        wrong = predicted != trainer.data.y
        self.get_buffer("wrong").copy_(torch.from_numpy(wrong))
        trainer.counts = self.counts(predicted, wrong) if wrong.any() else None

    def counts(self, predicted: IntArray, wrong: BoolArray) -> IntArray | None:
        """Return how often the second training draws each row; None: once."""
        raise NotImplementedError

    def report(self) -> dict[str, Any]:
        return {"error_set": int(self.get_buffer("wrong").sum())}


class JTT(TwoTrainings):
    """ERM, then ERM with copies of the rows that the first model got wrong (Liu et al., ICML 2021).

        identify   ERM for a share `first` of the steps; the error set is what it then predicts wrongly
        retrain    from the first weights, each row as often as `losses.jtt_weights` says

    `paper` (and the authors' code): 1 + up copies. `code` (BalancingGroups, SMA): the second training has the
    steps that the first leaves. (Theirs marks errors in train mode, which moves batch norm.)
    """

    variants = ("fixed", "paper", "code")
    code_version = 3  # 3: `code` marks errors in eval mode too

    up = Hyper(20, choices=(4, 20, 50, 100), source="SMA")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        if min(self.up, self.first) < 0 or self.up % 1 or self.total_copies < 1:
            raise InputError(f"jtt with first={self.first:g}, up={self.up:g}: give a share, and whole copies")

    @property
    def total_copies(self) -> int:
        """Return how often a row of the error set comes."""
        return int(self.up) + (self.variant == "paper")

    def stages(self) -> Sequence[Stage]:
        *before, again = super().stages()
        return (
            [*before, replace(again, share=max(0.0, 1 - self.first))]
            if self.variant == "code"
            else [*before, again]
        )

    def counts(self, predicted: IntArray, wrong: BoolArray) -> IntArray | None:
        if self.total_copies == 1:
            return None
        return jtt_weights(torch.from_numpy(wrong), self.total_copies).numpy()


class DFR(ERM):
    """ERM, then the last layer of `losses.dfr` on the validation set; `code` is the authors' solver.

    Deep feature re-weighting (Kirichenko et al., ICLR 2023): group-balanced rows. Its score on the validation
    set must not choose between runs (`trains_on_select` in the record).
    """

    needs = frozenset({"select"})
    variants = ("fixed", "code")
    trains_on_select = True
    code_version = 3  # 2: `code` has liblinear's penalised bias; 3: evaluations refit the head

    c = Hyper(0, choices=(0, *GRID), source="Kirichenko et al.: chosen by the worst group, here 0")
    fits = Hyper(20, low=1, high=50, source="Kirichenko et al.")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.register_buffer("chosen", torch.zeros(()))

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if len(np.unique(trainer.data.select_y)) < 2:
            raise InputError("dfr fits the last layer on the validation set: give rows of two classes")

    def finish(self, trainer: Trainer) -> None:
        data, head = trainer.data, self.network.head
        columns = trainer.features(data.select), data.select_y, data.select_group
        scale_by = torch.from_numpy(trainer.features(data.rows)) if self.variant == "code" else None
        z, y, group = (torch.from_numpy(column) for column in columns)
        numbers = self.data.classes, self.c, int(self.fits), trainer.seed
        weight, bias, c = losses.dfr(z, y, group, *numbers, scale_by=scale_by)
        with torch.no_grad():
            head.weight.copy_(weight)
            head.bias.copy_(bias)
        self.get_buffer("chosen").fill_(c)

    def report(self) -> dict[str, Any]:
        return {"c": round(float(self.get_buffer("chosen")), 6)}
