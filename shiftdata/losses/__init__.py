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
from shiftdata.losses.reduce import check_1d, erm, exactly, mean
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

__all__ = [
    "ClassWeights",
    "RecentShares",
    "UniOT",
    "adversarial_step",
    "balanced_transport",
    "cdan_map",
    "cdan_weights",
    "check_1d",
    "class_weights",
    "dann",
    "entropy",
    "erm",
    "exact_transport",
    "exactly",
    "fixmatch",
    "jdot",
    "jdot_cost",
    "mcd",
    "mean",
    "osbp",
    "ovanet",
    "ovanet_entropy",
    "ovanet_unknown",
    "pseudo_label",
    "reversal_schedule",
    "reverse_gradient",
    "sentry",
    "sentry_balance",
    "tent",
    "uan_scores",
    "uan_weights",
    "unbalanced_plan",
    "unbalanced_scaling",
    "whitening",
    "with_unknown",
]
