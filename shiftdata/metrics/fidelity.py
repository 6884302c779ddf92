"""Whether stylised images still show what they showed, and how far apart two sets of images are."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import FloatArray, as_floats, check_lengths
from shiftdata.metrics.statistics import MeanSEM, mean_sem


def stylization_fidelity(stylized: Any, original: Any) -> MeanSEM:
    """The fidelity of a style (SMA, section 2.2, appendix D) from the accuracies of its trials.

    It is a mean of ratios, not a ratio of means: each trial has its own classes. SMA keeps styles above 0.8.

    >>> print(stylization_fidelity([0.72, 0.90], [0.90, 0.90]))
    0.9000 ± 0.1000 (n=2)
    """
    above, below = as_floats("stylized", stylized), as_floats("original", original)
    check_lengths(stylized=above, original=below)
    if (above < 0).any() or (below <= 0).any():
        raise InputError(
            "accuracies: stylised ones are not negative, original ones are above 0; drop failed trials"
        )
    return mean_sem(above / below)


def frechet_distance(a: Any, b: Any) -> float:
    """The squared Fréchet distance of two sets of features, a row an example: FID on Inception's features.

    DomainBed-v2 measures with it how close test domains are to ImageNet (table 2). Fewer rows than features
    and constant features do no harm. It is biased upwards for few rows: compare it only at equal numbers.

    >>> round(frechet_distance([[0.0, 0.0], [2.0, 0.0]], [[0.0, 1.0], [2.0, 1.0]]), 6)
    1.0
    """
    first, second = as_floats("a", a, ndim=2), as_floats("b", b, ndim=2)
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"features: {first.shape[1]} and {second.shape[1]} columns; use one network for both"
        )
    if min(len(first), len(second)) < 2:
        raise InputError(f"features: {len(first)} and {len(second)} rows; a covariance needs at least 2")
    means = float(np.square(first.mean(axis=0) - second.mean(axis=0)).sum())
    root_a, root_b = _root(first), _root(second)
    traces = float(np.square(root_a).sum() + np.square(root_b).sum())
    # The trace of (A B)^(1/2), for A = R^T R and B = S^T S, is the sum of the singular values of R S^T.
    covariances = max(0.0, traces - 2 * float(np.linalg.norm(root_a @ root_b.T, "nuc")))
    return means + covariances


def _root(features: FloatArray) -> FloatArray:
    """R with R^T R = covariance of the features, and no more rows than columns."""
    centered = (features - features.mean(axis=0)) / np.sqrt(len(features) - 1)
    root: Any = np.linalg.qr(centered, mode="r") if len(features) > features.shape[1] else centered
    return np.asarray(root)
