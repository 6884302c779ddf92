"""Shift meters: how far apart two sets of rows are, in what they show and in how they are labelled.

    on frozen features    covariate_shift -> CovariateShift: the discrepancy of two hypotheses, in seconds
                          concept_shift_on_features -> ConceptShift: minimum and maximum disagreement
                          bounds -> Bounds: theorems 4.2 and 4.3, what the two say of the target error
    on pictures           covariate_shift_by_training -> CovariateShift: the paper's procedure, with torch;
                          Training its settings, shallow_cnn its network
    on your own models    concept_shift -> ConceptShift, from their predictions

The measures are those of NICO++ (definition 4.1, section 4.3, appendix A.2). Everything is measured on rows
that were not fitted on, with an interval of 95 %. Covariate shift is a lower bound of
the total variation, which other hypotheses would come closer to. Compare only values of the same measure,
features and settings.
"""

from shiftdata.evaluation.meters.bounds import Bounds, bounds
from shiftdata.evaluation.meters.concept import ConceptShift, concept_shift, concept_shift_on_features
from shiftdata.evaluation.meters.covariate import CovariateShift, covariate_shift
from shiftdata.evaluation.meters.training import Training, covariate_shift_by_training, shallow_cnn

__all__ = [
    "Bounds",
    "ConceptShift",
    "CovariateShift",
    "Training",
    "bounds",
    "concept_shift",
    "concept_shift_on_features",
    "covariate_shift",
    "covariate_shift_by_training",
    "shallow_cnn",
]
