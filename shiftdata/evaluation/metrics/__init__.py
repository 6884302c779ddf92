"""Metrics of distribution shift: numpy in, frozen records out.

    by group or domain    group_accuracy -> GroupAccuracy (worst, mean, worst_of, overall, std)
    how sure              std, sem, mean_sem -> MeanSEM; bootstrap_groups, bootstrap_rows -> Interval;
                          compare -> PairedComparison; paired_test; all over origins, where these are given
    is it only chance     worst_by_chance -> WorstByChance
    along a severity      severity_accuracy -> SeverityAccuracy; failure_points -> FailurePoints
    domain adaptation     h_score -> HScore; label_marginal, label_marginal_l1
    leaderboards          ranks, spearman; rank_agreement -> RankAgreement
    leaks                 selection_leakage -> SelectionLeakage; probe_gap
    images                stylization_fidelity -> MeanSEM; frechet_distance
    from keys to rows     align

Every function takes lists, arrays, Arrow columns or tensors, and says what is wrong with them. Ids start at
0. A cell without rows is nan with n = 0, and so is every figure that needs it. Records have `to_dict()`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
