"""Metrics of distribution shift: numpy in, frozen records out.

    by group or domain    group_accuracy -> GroupAccuracy (worst, mean, worst_of, adjusted, overall, std);
                          worst_of, adjusted_average -> GroupStatistic, for intervals and comparisons
    how sure              std, sem, mean_sem -> MeanSEM; bootstrap_groups, bootstrap_rows -> Interval;
                          compare -> PairedComparison; paired_test; all over origins, where these are given
    is it only chance     worst_by_chance -> WorstByChance
    along a severity      severity_accuracy -> SeverityAccuracy; failure_points -> FailurePoints
    domain adaptation     h_score -> HScore; label_marginal, label_marginal_l1
    leaderboards          ranks, spearman; rank_agreement -> RankAgreement
    leaks and luck        selection_leakage -> SelectionLeakage; probe_gap; training_spread -> TrainingSpread
    images                stylization_fidelity -> MeanSEM; frechet_distance
    from keys to rows     align

Every function takes lists, arrays, Arrow columns or tensors, and says what is wrong with them. Ids start at
0. A cell without rows is nan with n = 0, and so is what needs it. Records have `to_dict()` for JSON.
"""

from shiftdata.evaluation.metrics.adaptation import HScore, h_score, label_marginal, label_marginal_l1
from shiftdata.evaluation.metrics.align import align
from shiftdata.evaluation.metrics.benchmarks import (
    RankAgreement,
    SelectionLeakage,
    TrainingSpread,
    frechet_distance,
    probe_gap,
    rank_agreement,
    ranks,
    selection_leakage,
    spearman,
    stylization_fidelity,
    training_spread,
)
from shiftdata.evaluation.metrics.bootstrap import Interval, Resampling, bootstrap_groups, bootstrap_rows
from shiftdata.evaluation.metrics.chance import WorstByChance, worst_by_chance
from shiftdata.evaluation.metrics.groups import GroupAccuracy, group_accuracy
from shiftdata.evaluation.metrics.paired import PairedComparison, compare, paired_test
from shiftdata.evaluation.metrics.severity import (
    FailurePoints,
    SeverityAccuracy,
    failure_points,
    severity_accuracy,
)
from shiftdata.evaluation.metrics.statistics import (
    CONVENTIONS,
    GroupStatistic,
    MeanSEM,
    adjusted_average,
    mean_sem,
    sem,
    std,
    worst_of,
)

__all__ = [
    "CONVENTIONS",
    "FailurePoints",
    "GroupAccuracy",
    "GroupStatistic",
    "HScore",
    "Interval",
    "MeanSEM",
    "PairedComparison",
    "RankAgreement",
    "Resampling",
    "SelectionLeakage",
    "SeverityAccuracy",
    "TrainingSpread",
    "WorstByChance",
    "adjusted_average",
    "align",
    "bootstrap_groups",
    "bootstrap_rows",
    "compare",
    "failure_points",
    "frechet_distance",
    "group_accuracy",
    "h_score",
    "label_marginal",
    "label_marginal_l1",
    "mean_sem",
    "paired_test",
    "probe_gap",
    "rank_agreement",
    "ranks",
    "selection_leakage",
    "sem",
    "severity_accuracy",
    "spearman",
    "std",
    "stylization_fidelity",
    "training_spread",
    "worst_by_chance",
    "worst_of",
]
