"""Shift meters: how far apart two sets of rows are, in what they show and in how they are labelled.

    on frozen features    covariate_shift -> CovariateShift: the discrepancy of two hypotheses, in seconds
                          domain_classifier -> DomainClassifier: how well the domains can be separated
                          concept_shift_on_features -> ConceptShift: minimum and maximum disagreement
    on pictures           covariate_shift_by_training -> CovariateShift: the paper's procedure, with torch;
                          Training its settings, shallow_cnn its network
    on your own models    concept_shift -> ConceptShift, from their predictions
    on rows of a table    features_of_rows makes features of them

The measures are those of NICO++ (definition 4.1, section 4.3, appendix A.2). Everything is measured on rows
that were not fitted on, with an interval. Compare only values of the same measure, features and settings.
"""

from shiftdata.meters.concept import ConceptShift, concept_shift, concept_shift_on_features
from shiftdata.meters.covariate import CovariateShift, DomainClassifier, covariate_shift, domain_classifier
from shiftdata.meters.fits import features_of_rows
from shiftdata.meters.training import Training, covariate_shift_by_training, shallow_cnn

__all__ = [
    "ConceptShift",
    "CovariateShift",
    "DomainClassifier",
    "Training",
    "concept_shift",
    "concept_shift_on_features",
    "covariate_shift",
    "covariate_shift_by_training",
    "domain_classifier",
    "features_of_rows",
    "shallow_cnn",
]
