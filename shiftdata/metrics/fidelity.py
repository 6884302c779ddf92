"""Whether stylised images still show what they showed, and how far two sets of images lie apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import FloatArray, as_floats, check_lengths
from shiftdata.metrics.records import Record, number
from shiftdata.metrics.spread import mean_sem


@dataclass(frozen=True, eq=False)
class Fidelity(Record):
    """The ratio of stylised to original accuracy in each trial; SMA keeps styles above 0.8."""

    ratios: FloatArray

    derived: ClassVar[tuple[str, ...]] = ("mean", "sem")

    @property
    def mean(self) -> float:
        """The fidelity: the mean ratio over trials."""
        return float(self.ratios.mean())

    @property
    def sem(self) -> float:
        """The standard error of the mean ratio."""
        return mean_sem(self.ratios).sem

    def __str__(self) -> str:
        return f"fidelity {mean_sem(self.ratios)}"


@dataclass(frozen=True)
class FrechetDistance(Record):
    """The squared Fréchet distance of two normal distributions: of their means, and of their covariances.

    It is biased upwards for few rows: compare distances only at equal `n_a` and `n_b`.
    """

    means: float
    covariances: float
    n_a: int
    n_b: int
    dimension: int

    derived: ClassVar[tuple[str, ...]] = ("distance",)

    @property
    def distance(self) -> float:
        """What is called FID when the features are those of Inception."""
        return self.means + self.covariances

    def __str__(self) -> str:
        return (
            f"Fréchet distance {number(self.distance)} "
            f"(n={self.n_a:,} and {self.n_b:,}, {self.dimension:,} features)"
        )


def stylization_fidelity(stylized: Any, original: Any) -> Fidelity:
    """The fidelity of a style (SMA, section 2.2 and appendix D) from the accuracies of its trials.

    It is a mean of ratios, not a ratio of means: each trial has classes of its own.

    >>> print(stylization_fidelity([0.72, 0.90], [0.90, 0.90]))
    fidelity 0.9000 ± 0.1000 (n=2)
    """
    above, below = as_floats("stylized", stylized), as_floats("original", original)
    check_lengths(stylized=above, original=below)
    if (above < 0).any() or (below <= 0).any():
        raise InputError(
            "accuracies: stylised ones are not negative, original ones are above 0; drop failed trials"
        )
    return Fidelity(above / below)


def frechet_distance(a: Any, b: Any) -> FrechetDistance:
    """The Fréchet distance (FID) of two sets of features, one row an example.

    The rethought DG protocol measures with it how close test domains lie to ImageNet (DomainBed-v2, table 2).
    Only eigenvalues of symmetric matrices are taken, and what is below their rounding counts as 0: fewer
    rows than features, or constant features, do no harm.

    >>> print(frechet_distance([[0.0, 0.0], [2.0, 0.0]], [[0.0, 1.0], [2.0, 1.0]]))
    Fréchet distance 1.0000 (n=2 and 2, 2 features)
    """
    first, second = as_floats("a", a, ndim=2), as_floats("b", b, ndim=2)
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"features: {first.shape[1]} and {second.shape[1]} columns; use one network for both"
        )
    if min(len(first), len(second)) < 2:
        raise InputError(f"features: {len(first)} and {len(second)} rows; a covariance needs at least 2")
    means = float(np.square(first.mean(axis=0) - second.mean(axis=0)).sum())
    spread_a, spread_b = _centered(first), _centered(second)
    traces = float(np.square(spread_a).sum() + np.square(spread_b).sum())
    # Never negative but for rounding.
    covariances = max(0.0, traces - 2 * _trace_of_root(spread_a, spread_b))
    return FrechetDistance(means, covariances, len(first), len(second), first.shape[1])


def _centered(features: FloatArray) -> FloatArray:
    """X with X^T X = covariance of the features."""
    centered: FloatArray = (features - features.mean(axis=0)) / np.sqrt(len(features) - 1)
    return centered


def _trace_of_root(a: FloatArray, b: FloatArray) -> float:
    """The trace of (A B)^(1/2) for A = a^T a and B = b^T b.

    With A = R^T R for any R, A B has the eigenvalues of R B R^T and zeros; so R may be `a` itself where it
    has few rows.
    """
    few, many = sorted((a, b), key=len)
    root = few if len(few) <= few.shape[1] else _root(few.T @ few)
    if len(many) <= many.shape[1]:
        product = root @ many.T
        inner = product @ product.T
    else:
        inner = root @ (many.T @ many) @ root.T
    return float(np.sqrt(_without_noise(np.linalg.eigvalsh(inner))).sum())


def _root(matrix: FloatArray) -> FloatArray:
    """R with R^T R = matrix, which is symmetric and has no negative eigenvalue but for rounding."""
    values, vectors = np.linalg.eigh(matrix)
    root: FloatArray = np.sqrt(_without_noise(values))[:, None] * vectors.T
    return root


def _without_noise(values: FloatArray) -> FloatArray:
    """Eigenvalues with those set to 0 that rounding alone may have made."""
    floor = values.max() * len(values) * np.finfo(np.float64).eps
    return np.where(values > floor, values, 0.0)
