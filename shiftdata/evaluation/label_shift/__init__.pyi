from .diagnosis import LabelShiftWarning as LabelShiftWarning
from .estimate import MarginalEstimate as MarginalEstimate
from .estimators import ESTIMATORS as ESTIMATORS
from .estimators import estimate_marginal as estimate_marginal
from .estimators import reweight as reweight
from .evidence import EstimationError as EstimationError
