"""Samplers that change which groups and labels a model sees: subsets, weights, batches, label shift.

`make_sampler("subg", labels=..., groups=..., seed=0)` makes any of them; `SAMPLERS` lists them. Peers and
their exact rules: BalancingGroups (SUBY, SUBG, RWY, RWG), WILDS (groups), RLSbench (Dirichlet, RS).
"""

from shiftdata.sampling.cells import cells_of
from shiftdata.sampling.registry import SAMPLERS, Sampler, make_sampler
from shiftdata.sampling.samplers import (
    Batches,
    EpochSampler,
    FixedRows,
    GroupBatches,
    PseudoBalanced,
    Reweighted,
)
from shiftdata.sampling.subsets import DirichletTarget, Subsampled, dirichlet_marginal

__all__ = [
    "SAMPLERS",
    "Batches",
    "DirichletTarget",
    "EpochSampler",
    "FixedRows",
    "GroupBatches",
    "PseudoBalanced",
    "Reweighted",
    "Sampler",
    "Subsampled",
    "cells_of",
    "dirichlet_marginal",
    "make_sampler",
]
