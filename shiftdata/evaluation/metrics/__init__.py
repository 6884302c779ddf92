"""Metrics of distribution shift: numpy in, frozen records out.

    by group or domain    group_accuracy -> GroupAccuracy (worst, mean, worst_of, overall, std)
    gaps between groups   class_rates -> ClassRates (equal_opportunity, equalized_odds)
    how sure              intervals of GroupAccuracy; bootstrap_rows -> Interval; paired_test of two methods;
                          all over origins, where these are given
    is it only chance     worst_by_chance
    along a severity      failure_points -> FailurePoints
    over many models      accuracy_line -> Line (effective robustness), agreement_line -> Agreement
    trust in a model      measure_calibration -> Calibration, risk_coverage -> RiskCoverage
    benchmarks            ranks, spearman, rank_agreement; selection_leakage
    from keys to rows     align

Every function takes lists, arrays, Arrow columns or tensors, and says what is wrong with them. Ids start at
0. A cell without rows is nan with n = 0, and so is every figure that needs it. Records have `to_dict()`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
