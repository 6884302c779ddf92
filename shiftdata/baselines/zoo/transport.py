"""Optimal transport with an entropy: of fixed masses, in a few rounds, and of masses that may change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from shiftdata.metrics.arrays import FloatArray

ROUNDS = 1000  # at most
TOLERANCE = 1e-6  # of log v
TINY = 1e-300


def balanced(scores: Tensor, regularisation: float = 0.05, rounds: int = 3) -> Tensor:
    """Shares of the columns for each row, about as much of each column in all (Sinkhorn's algorithm)."""
    logs = scores.float() / regularisation
    for _ in range(rounds):
        logs = logs - logs.logsumexp(0, keepdim=True)
        logs = logs - logs.logsumexp(1, keepdim=True)
    return logs.exp()


@dataclass(frozen=True)
class Unbalanced:
    """The P with the least sum P (r log P - r - s) + m KL(P 1 | a) + m KL(P' 1 | b), for similarities s.

    The solution has entries u_i exp(s_ij / r) v_j. As u_i follows from v and row i of s, rows that were not
    there can be coupled as well.
    """

    regularisation: float = 0.01
    penalty: float = 0.5

    def columns(self, similarity: FloatArray, mass: FloatArray) -> FloatArray:
        """v, for rows of equal mass, 1 together, and columns of the masses given."""
        kernel = np.exp(similarity.astype(np.float64) / self.regularisation)
        v = np.full(kernel.shape[1], 1 / kernel.shape[1])
        for _ in range(ROUNDS):
            reached = kernel.T @ self._rows(kernel @ v, len(kernel))
            before, v = v, self._power(mass / np.maximum(reached, TINY))
            if np.abs(np.log(np.maximum(v, TINY) / np.maximum(before, TINY))).max() < TOLERANCE:
                break
        return v

    def plan(self, similarity: FloatArray, v: FloatArray, rows: int) -> FloatArray:
        """What each row, one of so many, gives to each column."""
        weighted = np.exp(similarity.astype(np.float64) / self.regularisation) * v
        made: FloatArray = self._rows(weighted.sum(axis=1), rows)[:, None] * weighted
        return made

    def _rows(self, reached: FloatArray, rows: int) -> FloatArray:
        return self._power(1 / rows / np.maximum(reached, TINY))

    def _power(self, ratio: FloatArray) -> FloatArray:
        made: FloatArray = ratio ** (self.penalty / (self.penalty + self.regularisation))
        return made
