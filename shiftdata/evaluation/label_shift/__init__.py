"""Label shift: estimate the label marginal of unlabelled target data, and adapt to it.

`estimate_marginal("rlls", source, labels, target)` estimates it, with intervals, from a classifier's
predictions on a source hold-out and on the target; `reweight` adapts predictions, `importance_weights` and
`label_weights` a loss.
"""

from shiftdata.evaluation.label_shift.calibration import Calibrator, fit_calibrator
from shiftdata.evaluation.label_shift.estimate import MarginalEstimate
from shiftdata.evaluation.label_shift.estimators import (
    ESTIMATORS,
    estimate_marginal,
    importance_weights,
    label_weights,
    reweight,
    rlls_rho,
)
from shiftdata.evaluation.label_shift.evidence import (
    AbsentClassError,
    EstimationError,
    LabelShiftWarning,
    NotConvergedError,
    SingularMatrixError,
)

__all__ = [
    "ESTIMATORS",
    "AbsentClassError",
    "Calibrator",
    "EstimationError",
    "LabelShiftWarning",
    "MarginalEstimate",
    "NotConvergedError",
    "SingularMatrixError",
    "estimate_marginal",
    "fit_calibrator",
    "importance_weights",
    "label_weights",
    "reweight",
    "rlls_rho",
]
