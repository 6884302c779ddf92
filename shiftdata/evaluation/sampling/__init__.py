"""Samplers that change which groups and labels a model sees: subsets, weights, batches, label shift.

`make_sampler("subg", labels=..., groups=..., seed=0)` makes any of them; `SAMPLERS` lists them. Peers and
their exact rules: BalancingGroups (SUBY, SUBG, RWY, RWG), WILDS (groups), DomainBed (per domain), RLSbench
(Dirichlet, RS).
"""

from shiftdata.evaluation.sampling.batches import Batches, CellBatches, DomainBatches, GroupBatches
from shiftdata.evaluation.sampling.cells import cells_of, group_adjustment, row_weights
from shiftdata.evaluation.sampling.ranks import Ranks
from shiftdata.evaluation.sampling.registry import SAMPLERS, Sampler, make_sampler
from shiftdata.evaluation.sampling.samplers import (
    EpochSampler,
    FixedRows,
    InOrder,
    PseudoBalanced,
    Reweighted,
    RowSampler,
)
from shiftdata.evaluation.sampling.subsets import DirichletTarget, Subsampled, dirichlet_marginal

__all__ = [
    "SAMPLERS",
    "Batches",
    "CellBatches",
    "DirichletTarget",
    "DomainBatches",
    "EpochSampler",
    "FixedRows",
    "GroupBatches",
    "InOrder",
    "PseudoBalanced",
    "Ranks",
    "Reweighted",
    "RowSampler",
    "Sampler",
    "Subsampled",
    "cells_of",
    "dirichlet_marginal",
    "group_adjustment",
    "make_sampler",
    "row_weights",
]
