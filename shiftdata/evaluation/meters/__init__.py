"""Shift meters: how far two domains differ in their examples and in their labelling (NICO++, section 4.3).

    covariate_shift              the discrepancy of two half-spaces on frozen features -> CovariateShift
    concept_shift_on_features    the disagreement of logistic regressions, minimum and maximum -> ConceptShift
    bounds                       both bounds of the target error that these give -> Bounds

Every figure is measured on rows that were not fitted on, with a 95 % interval. Compare only values of the
same measure, features and settings.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
