"""Label shift: estimate the label marginal of unlabelled target data, and adapt to it.

`estimate_marginal("rlls", source, labels, target)` estimates from a classifier's predictions on a source
hold-out and on the target; `reweight` adapts predictions, `importance_weights` a loss.
"""

from __future__ import annotations

from shiftdata.label_shift.calibration import CalibrationKind, Calibrator, fit_calibrator
from shiftdata.label_shift.estimators import ESTIMATORS, Variant, estimate_marginal, rlls_rho
from shiftdata.label_shift.evidence import (
    AbsentClassError,
    EstimationError,
    MarginalEstimate,
    NotConvergedError,
    SingularMatrixError,
)
from shiftdata.label_shift.reweighting import TrainedOn, importance_weights, reweight

__all__ = [
    "ESTIMATORS",
    "AbsentClassError",
    "CalibrationKind",
    "Calibrator",
    "EstimationError",
    "MarginalEstimate",
    "NotConvergedError",
    "SingularMatrixError",
    "TrainedOn",
    "Variant",
    "estimate_marginal",
    "fit_calibrator",
    "importance_weights",
    "reweight",
    "rlls_rho",
]
