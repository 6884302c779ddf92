"""Losses of shift and generalisation as functions of tensors, for a training loop of your own.

Each is documented with its formula and source, and with an example, in docs/losses.md.
"""

from shiftdata.losses.averages import EMA, SWAD, WeightAverage, ema_, ema_decay
from shiftdata.losses.domains import Fishr, StableNet, coral, eqrm, irm, mldg, mmd, rsc_mask, sd, vrex
from shiftdata.losses.groups import GroupDRO, dfr, group_means, jtt_weights
from shiftdata.losses.pictures import (
    amplitude_mix,
    content_swapped,
    distillation,
    mixstyle,
    mixup,
    mixup_losses,
    partners,
    style_mixed,
    uniform_cross_entropies,
)
from shiftdata.losses.reduce import check_1d, cross_entropies, cross_entropy, exactly, mean, rows_of_each

__all__ = ["EMA", "SWAD", "Fishr", "GroupDRO", "StableNet", "WeightAverage", "amplitude_mix", "check_1d"]
__all__ += ["content_swapped", "coral", "cross_entropies", "cross_entropy", "dfr", "distillation", "ema_"]
__all__ += ["ema_decay", "eqrm", "exactly", "group_means", "irm", "jtt_weights", "mean", "mixstyle", "mixup"]
__all__ += ["mixup_losses", "mldg", "mmd", "partners", "rows_of_each", "rsc_mask", "sd", "style_mixed"]
__all__ += ["uniform_cross_entropies", "vrex"]
