"""Samplers that change which groups and labels a model sees: subsets, weights, batches, label shift.

`make_sampler("subg", labels=..., groups=..., seed=0)` makes any of them; `SAMPLERS` lists them. Peers and
their exact rules: BalancingGroups (SUBY, SUBG, RWY, RWG), WILDS (groups), RLSbench (Dirichlet, RS).
"""

from __future__ import annotations

from shiftdata.sampling.cells import Cells, OnEmpty, cells_of
from shiftdata.sampling.group_batches import GroupBatches
from shiftdata.sampling.registry import SAMPLERS, Sampler, SamplerRule, make_sampler
from shiftdata.sampling.samplers import (
    Batches,
    EpochSampler,
    FixedRows,
    PseudoBalanced,
    Reweighted,
    RowSampler,
)
from shiftdata.sampling.subsets import DirichletTarget, DirichletVariant, Subsampled, dirichlet_marginal

__all__ = [
    "SAMPLERS",
    "Batches",
    "Cells",
    "DirichletTarget",
    "DirichletVariant",
    "EpochSampler",
    "FixedRows",
    "GroupBatches",
    "OnEmpty",
    "PseudoBalanced",
    "Reweighted",
    "RowSampler",
    "Sampler",
    "SamplerRule",
    "Subsampled",
    "cells_of",
    "dirichlet_marginal",
    "make_sampler",
]
