"""Losses of shift and generalisation as functions of tensors, for a training loop of your own.

Each is documented with its formula and source, and with an example, in docs/losses.md.
"""

from shiftdata.losses.reduce import check_1d, exactly, mean

__all__ = [
    "check_1d",
    "exactly",
    "mean",
]
