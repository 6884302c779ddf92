"""DFR: ERM's encoder, and a last layer fitted on group-balanced rows of validation (Kirichenko et al. 2023).

It trains on the validation set: its score there is not a validation score and must not choose between runs
(`trains_on_select` in the record). All groups need labels there, and only there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from shiftdata import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Hyper, Setup, Stage
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network
from shiftdata.errors import InputError
from shiftdata.losses.groups import GRID


class DFR(ERM):
    """ERM, then the last layer of `losses.dfr` on the validation set; `code` is the authors' solver."""

    needs = frozenset({"select"})
    variants = ("fixed", "code")
    trains_on_select = True
    code_version = 3  # 2: `code` has liblinear's penalised bias; 3: evaluations refit the head

    c = Hyper(0, choices=(0, *GRID), source="Kirichenko et al.: chosen by the worst group, here 0")
    fits = Hyper(20, low=1, high=50, source="Kirichenko et al.")

    def setup(self, network: Network, known: Setup) -> None:
        super().setup(network, known)
        self.register_buffer("chosen", torch.zeros(()))

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        data = trainer.data
        if data.select is None or data.select_y is None or len(np.unique(data.select_y)) < 2:
            raise InputError("dfr fits the last layer on the rows to select by: give some of two classes")
        head = self.network.head
        if not isinstance(head, nn.Linear) or head.bias is None:
            raise InputError(f"dfr replaces a linear head with a bias, and this is a {type(head).__name__}")

    def finish(self, trainer: Trainer) -> None:
        data, head = trainer.data, self.network.head
        assert data.select is not None
        assert data.select_y is not None
        assert isinstance(head, nn.Linear)
        z, y = torch.from_numpy(trainer.features(data.select)), torch.from_numpy(data.select_y)
        weight, bias, c = losses.dfr(
            z,
            y,
            y if data.select_group is None else torch.from_numpy(data.select_group),
            self.known.classes,
            c=self.c,
            fits=int(self.fits),
            seed=trainer.seed,
            scale_by=torch.from_numpy(trainer.features(data.rows)) if self.variant == "code" else None,
        )
        with torch.no_grad():
            head.weight.copy_(weight)
            head.bias.copy_(bias)
        self.get_buffer("chosen").fill_(c)

    def report(self) -> dict[str, Any]:
        return {"c": round(float(self.get_buffer("chosen")), 6)}
