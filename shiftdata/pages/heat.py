"""Heat maps for pages: a number for each group, in steps of colour that the style sheet knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: The steps of colour: classes `s0` to `s20` of the style sheet.
STEPS = 20


class Square(NamedTuple):
    """One square: its text, how dark it is, what a pointer over it shows and where it leads."""

    text: str
    step: int = 0
    about: str = ""
    link: str = ""


@dataclass(frozen=True)
class Heat:
    """A heat map: the names of its columns, and each row's name with its squares."""

    columns: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Square]]]


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    shares: NDArray[np.float64],
    text: Callable[[int, int], str],
    *,
    about: Callable[[int, int], str] = lambda row, column: "",
    link: Callable[[int, int], str] = lambda row, column: "",
) -> Heat:
    """A heat map of shares from 0 to 1; where one is nan its square is empty."""

    def square(row: int, column: int) -> Square:
        share = shares[row, column]
        if np.isnan(share):
            return Square("")
        step = round(STEPS * min(max(float(share), 0.0), 1.0))
        return Square(text(row, column), step, about(row, column), link(row, column))

    return Heat(
        columns,
        [(name, [square(row, column) for column in range(len(columns))]) for row, name in enumerate(rows)],
    )
