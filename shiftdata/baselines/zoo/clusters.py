"""k-means on principal axes, for methods that make domains of clusters."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from shiftdata.errors import InputError
from shiftdata.extras import require


def clusters_of(
    method: str, x: Any, number: int, axes: int, seed: int, left_out: int = 0, unit: bool = False
) -> tuple[Any, Any, Any]:
    """Return the mean of the lines of x, the principal axes but the first `left_out`, and k-means on these.

    `unit` brings lines to length 1 on the axes. There are at most as many clusters as lines.
    """
    if not np.isfinite(x).all():
        raise InputError(f"{method} cannot cluster features that are not finite: lower learning_rate")
    decomposition, cluster = (require(f"sklearn.{part}", method) for part in ("decomposition", "cluster"))
    # In one thread: several add up in any order, and a run that goes on would end in other bits.
    with require("threadpoolctl", method).threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that are alike: no variance, fewer clusters
        principal = decomposition.PCA(left_out + axes, random_state=seed).fit(x)
        chosen = principal.components_[left_out:]
        placed = (x - principal.mean_) @ chosen.T
        if unit:
            placed = placed / np.linalg.norm(placed, axis=1, keepdims=True).clip(1e-12)
        fitted = cluster.KMeans(min(number, len(x)), n_init=1, random_state=seed).fit(placed)
    return principal.mean_, chosen, fitted
