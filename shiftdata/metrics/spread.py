"""Standard deviations and standard errors, in the conventions of the papers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import FloatArray, as_floats
from shiftdata.metrics.records import Record, number

Convention: TypeAlias = Literal["domainbed", "nico++", "nico++-tables", "sma"]

#: What a sum of squares is divided by: n - ddof, by who does so.
#: `domainbed`: DomainBed's `collect_results.py`.
#: `nico++`: equation 9 of NICO++; `nico++-tables`: what its tables 2 and 5 hold instead.
#: `sma`: section 3.2.2 of SMA (sample standard deviation), and what its tables of 25 scenarios hold.
CONVENTIONS: Mapping[str, int] = MappingProxyType({"domainbed": 0, "nico++": 1, "nico++-tables": 0, "sma": 1})


@dataclass(frozen=True)
class MeanSEM(Record):
    """A mean over scenarios or seeds with its standard error, as SMA and DomainBed print them."""

    mean: float
    sem: float
    n: int

    def __str__(self) -> str:
        return f"{number(self.mean)} ± {number(self.sem)} (n={self.n})"


def std(values: Any, convention: Convention = "nico++") -> float:
    """The standard deviation over domains, seeds or epochs; nan where the convention leaves none.

    >>> std([1.0, 3.0, 5.0]), round(std([1.0, 3.0, 5.0], "domainbed"), 3), std([1.0])
    (2.0, 1.633, nan)
    """
    return spread(as_floats("values", values), convention)


def sem(values: Any, convention: Convention = "sma") -> float:
    """The standard error of the mean: the standard deviation over the square root of n."""
    return mean_sem(values, convention).sem


def mean_sem(values: Any, convention: Convention = "sma") -> MeanSEM:
    """Mean and standard error over scenarios (SMA, section 3.2.2) or trials (DomainBed).

    >>> print(mean_sem([0.81, 0.84, 0.87]))
    0.8400 ± 0.0173 (n=3)
    """
    array = as_floats("values", values)
    return MeanSEM(float(array.mean()), spread(array, convention) / math.sqrt(len(array)), len(array))


def spread(array: FloatArray, convention: Convention) -> float:
    """`std` of an array that is known to be good; nan entries make it nan."""
    if convention not in CONVENTIONS:
        raise InputError(f"unknown convention {convention!r}; known: {', '.join(CONVENTIONS)}")
    ddof = CONVENTIONS[convention]
    return float(array.std(ddof=ddof)) if len(array) > ddof else math.nan
