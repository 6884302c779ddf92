"""Temporary."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shift:
    pixels: int = 3
    flip: bool = False

    def __call__(self, x, generator):
        h, w = x.shape[:2]
        d, r = generator.integers(-self.pixels, self.pixels + 1, 2)
        rows = np.clip(np.arange(h) + d, 0, h - 1)
        cols = np.clip(np.arange(w) + r, 0, w - 1)
        return x[rows][:, cols]


@dataclass(frozen=True)
class Strong:
    weak: object

    def __call__(self, x, g):
        return 255 - self.weak(x, g)


@dataclass(frozen=True)
class DomainBed:
    size: int

    def __call__(self, x, g):
        return x


class Views:
    def __init__(self, weak, *strong):
        self.all = (weak, *strong)

    def __call__(self, x, g):
        return np.stack([v(x, g) for v in self.all])
