"""Losses of shift and generalisation as functions of tensors, for a training loop of your own.

Each is documented with its formula and source, and with an example, in docs/losses.md.
"""

from shiftdata.losses.adversarial import (
    adversarial_step,
    cdan_map,
    cdan_weights,
    dann,
    reversal_schedule,
    reverse_gradient,
)
from shiftdata.losses.averages import EMA, SWAD, WeightAverage, ema_, ema_decay
from shiftdata.losses.domains import Fishr, StableNet, coral, eqrm, irm, mldg, mmd, rsc_mask, sd, vrex
from shiftdata.losses.groups import GroupDRO, dfr, group_means, jtt_weights
from shiftdata.losses.label_shift import ClassWeights, class_weights
from shiftdata.losses.open_set import (
    UniOT,
    osbp,
    ovanet,
    ovanet_entropy,
    ovanet_unknown,
    uan_scores,
    uan_weights,
    with_unknown,
)
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
from shiftdata.losses.target import (
    RecentShares,
    entropy,
    fixmatch,
    mcd,
    pseudo_label,
    sentry,
    sentry_balance,
    tent,
    whitening,
)
from shiftdata.losses.transport import (
    balanced_transport,
    exact_transport,
    jdot,
    jdot_cost,
    unbalanced_plan,
    unbalanced_scaling,
)

__all__ = ["EMA", "SWAD", "ClassWeights", "Fishr", "GroupDRO", "RecentShares", "StableNet", "UniOT"]
__all__ += ["WeightAverage", "adversarial_step", "amplitude_mix", "balanced_transport", "cdan_map"]
__all__ += ["cdan_weights", "check_1d", "class_weights", "content_swapped", "coral", "cross_entropies"]
__all__ += ["cross_entropy", "dann", "dfr", "distillation", "ema_", "ema_decay", "entropy", "eqrm"]
__all__ += ["exact_transport", "exactly", "fixmatch", "group_means", "irm", "jdot", "jdot_cost"]
__all__ += ["jtt_weights", "mcd", "mean", "mixstyle", "mixup", "mixup_losses", "mldg", "mmd", "osbp"]
__all__ += ["ovanet", "ovanet_entropy", "ovanet_unknown", "partners", "pseudo_label", "reversal_schedule"]
__all__ += ["reverse_gradient", "rows_of_each", "rsc_mask", "sd", "sentry", "sentry_balance", "style_mixed"]
__all__ += ["tent", "uan_scores", "uan_weights", "unbalanced_plan", "unbalanced_scaling"]
__all__ += ["uniform_cross_entropies", "vrex", "whitening", "with_unknown"]
