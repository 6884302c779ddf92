"""Shift meters: the kinds of shift of a task, and how far two domains differ (NICO++, section 4.3).

    measure_shifts               every kind of shift between the sets of a task -> Shifts
    covariate_shift              the discrepancy of two half-spaces on frozen features -> CovariateShift
    concept_shift_on_features    the disagreement of logistic regressions, minimum and maximum -> ConceptShift
    bounds                       both bounds of the target error that these give -> Bounds

Every figure has a 95 % interval; those of features are measured on rows that were not fitted on. Compare only
values of the same measure, features and settings.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
