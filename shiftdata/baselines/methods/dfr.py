"""DFR: ERM's encoder, and a last layer fitted on group-balanced rows of validation (Kirichenko et al., 2023).

Its score on the validation set must not choose between runs (`trains_on_select` in the record).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from shiftdata.baselines import losses
from shiftdata.baselines.losses.groups import GRID
from shiftdata.baselines.method import Hyper, Setup, Stage, TrainerAPI
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network
from shiftdata.errors import InputError


class DFR(ERM):
    """ERM, then the last layer of `losses.dfr` on the validation set; `code` is the authors' solver."""

    needs = frozenset({"select"})
    variants = ("fixed", "code")
    trains_on_select = True
    code_version = 3  # 2: `code` has liblinear's penalised bias; 3: evaluations refit the head

    c = Hyper(0, choices=(0, *GRID), source="Kirichenko et al.: chosen by the worst group, here 0")
    fits = Hyper(20, low=1, high=50, source="Kirichenko et al.")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.register_buffer("chosen", torch.zeros(()))

    def begin(self, stage: Stage, trainer: TrainerAPI) -> None:
        data = trainer.data
        if data.select is None or data.select_y is None or len(np.unique(data.select_y)) < 2:
            raise InputError("dfr fits the last layer on the rows to select by: give some of two classes")
        head = self.network.head
        if not isinstance(head, nn.Linear) or head.bias is None:
            raise InputError(f"dfr replaces a linear head with a bias, and this is a {type(head).__name__}")

    def finish(self, trainer: TrainerAPI) -> None:
        data, head = trainer.data, self.network.head
        assert data.select is not None
        assert data.select_y is not None
        assert isinstance(head, nn.Linear)
        groups = data.select_y if data.select_group is None else data.select_group
        columns = trainer.features(data.select), data.select_y, groups
        scale_by = torch.from_numpy(trainer.features(data.rows)) if self.variant == "code" else None
        z, y, group = (torch.from_numpy(column) for column in columns)
        numbers = self.sizes.classes, self.c, int(self.fits), trainer.seed
        weight, bias, c = losses.dfr(z, y, group, *numbers, scale_by=scale_by)
        with torch.no_grad():
            head.weight.copy_(weight)
            head.bias.copy_(bias)
        self.get_buffer("chosen").fill_(c)

    def report(self) -> dict[str, Any]:
        return {"c": round(float(self.get_buffer("chosen")), 6)}
