"""Intervals of label shares, the default calibration of mlls, and warnings of weak evidence."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.evaluation.label_shift import ESTIMATORS, LabelShiftWarning, estimate_marginal
from shiftdata.evaluation.label_shift.calibration import fit_calibrator
from shiftdata.evaluation.label_shift.diagnosis import chi_squared_tail
from shiftdata.evaluation.label_shift.estimate import interval, replicate
from shiftdata.evaluation.label_shift.evidence import evidence_of
from shiftdata.evaluation.metrics import Resampling
from tests.evaluation.test_label_shift import World, distorted

quiet = partial(estimate_marginal, warn=False)
FEW = Resampling(replicates=100)


def at(scale: float, world: World):
    return distorted(world.source, scale, 0), world.labels, distorted(world.target, scale, 0)


# --- against independent oracles ------------------------------------------------------------------


def test_mlls_calibrates_on_the_hold_out_by_default():
    source, labels, target = at(3, World(2, n=500, prior=[0.4, 0.3, 0.15, 0.1, 0.05]))
    fitted, estimate = (
        fit_calibrator(evidence_of(source, labels, target)),
        quiet("mlls", source, labels, target),
    )
    assert estimate.method == "mlls-paper+bcts"
    assert estimate.calibrator.temperature == fitted.temperature
    by_hand = quiet("mlls", fitted(source), labels, fitted(target), calibrate=False)
    assert estimate.marginal == pytest.approx(by_hand.marginal)
    raw = quiet("mlls", source, labels, target, calibrate=False)
    assert raw.marginal != pytest.approx(estimate.marginal, abs=0.02)


def test_the_shares_behind_the_intervals_solve_the_equation_and_scatter_as_samples_do():
    world = World(1, n=400, n_classes=3, radius=1.5)
    drawn = replicate(evidence_of(*world.given), Resampling(replicates=1000))
    generator = np.random.default_rng(0)

    def solved(source_rows, target_rows):
        source, labels = world.source[source_rows], world.labels[source_rows]
        means = np.stack([source[labels == k].mean(axis=0) for k in range(3)], axis=1)
        return np.linalg.solve(means, world.target[target_rows].mean(axis=0))

    everything = np.arange(400)
    solution = solved(everything, everything)
    resampled = np.array([solved(*generator.integers(400, size=(2, 400))) for _ in range(1000)])
    for share in (0.1, 0.9):
        ours, theirs = (np.quantile(sets, share, axis=0) - solution for sets in (drawn, resampled))
        assert ours == pytest.approx(theirs, rel=0.2)


def test_with_a_classifier_that_is_always_right_they_are_wilsons():
    from scipy import stats

    labels, target = np.arange(3000) % 3, np.repeat([0, 1], [198, 2])
    for level in (0.5, 0.95):
        low, high = quiet("bbse", labels, labels, target).bounds(Resampling(replicates=2000, level=level))
        for label, count in enumerate([198, 2, 0]):
            wilson = stats.binomtest(count, 200).proportion_ci(level, method="wilson")
            wald = count / 200 + np.array([-1, 1]) * stats.norm.ppf((1 + level) / 2) * np.sqrt(
                count / 200 * (1 - count / 200) / 200
            )
            assert low[label] == pytest.approx(max(0, min(wilson.low, wald[0])), abs=3e-3)
            assert high[label] == pytest.approx(min(1, max(wilson.high, wald[1])), abs=3e-3)


# --- coverage -------------------------------------------------------------------------------------


def coverage(method: str, seeds: range, scale: float, n: int, **options) -> float:
    """Return the share of intervals that hold the true share."""
    hits = []
    for seed in seeds:
        world = World(seed, n=n, n_classes=3 + seed % 3, alpha=[0.15, 0.5, 2][seed % 3], radius=2.5)
        low, high = quiet(method, *at(scale, world), **options).bounds(FEW)
        hits.append((low <= world.marginal) & (world.marginal <= high))
    return float(np.concatenate(hits).mean())


@pytest.mark.parametrize("method", ["bbse", "mlls"])
def test_intervals_hold_of_an_overconfident_classifier(method):
    assert coverage(method, range(60), 3, 500) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 5000])
@pytest.mark.parametrize("scale", [0.4, 1, 3])
@pytest.mark.parametrize(
    ("method", "options"),
    [*((method, {}) for method in ESTIMATORS), ("mlls", {"calibrate": False})],
)
def test_intervals_of_every_estimator_hold(method, options, scale, n):
    assert coverage(method, range(100 if n == 500 else 30), scale, n, **options) >= 0.9


def test_a_small_hold_out_without_an_error_is_not_taken_for_a_classifier_without_errors():
    """12 rows of a class are all right at an accuracy of .95 too (54 %): 5 % of class 0 look like class 1."""
    labels, target = np.arange(24) % 2, np.repeat([0, 1], [1900, 100])
    assert quiet("bbse", labels, labels, target).low[1] < 0.005
    many = np.arange(4000) % 2
    assert quiet("bbse", many, many, target).low[1] > 0.03


def test_an_end_solves_its_equation():
    """A share whose solution is about 0: its variance at the end t is s^2 + t (1 - t) / n."""
    from scipy import optimize

    drawn = np.random.default_rng(0).normal([0.001, 0.999], 0.01, size=(100_000, 2))
    low, high = interval(np.array([0.001, 0.999]), drawn, 200, 0.95)
    variance = 0.01**2 - 0.001 * 0.999 / 200
    end = optimize.brentq(lambda t: (t - 0.001) ** 2 - 1.96**2 * (variance + t * (1 - t) / 200), 0.001, 0.5)
    assert high[0] == pytest.approx(end, rel=0.02)
    assert low == pytest.approx([0, 1 - end], rel=0.02)


def test_rows_of_one_origin_are_one_row():
    world = World(4, n=900, n_classes=3)
    source, labels, target = world.given
    plain = quiet("bbse", source, labels, target)
    copies = np.repeat(np.arange(900), 4)
    given = source[copies], labels[copies], target[copies]
    by_origin = quiet("bbse", *given, origins=copies, source_origins=[f"row {row}" for row in copies])
    by_row = quiet("bbse", *given)
    widths = [(estimate.high - estimate.low).mean() for estimate in (plain, by_origin, by_row)]
    assert widths[1] == pytest.approx(widths[0], rel=0.1)
    assert widths[2] == pytest.approx(widths[0] / 2, rel=0.1)
    with pytest.raises(InputError, match="lengths differ: origins 3, rows 900"):
        quiet("bbse", *world.given, origins=[0, 1, 2])


# --- the record of an estimate --------------------------------------------------------------------


@given(st.integers(0, 1000), st.sampled_from(sorted(ESTIMATORS)))
def test_intervals_hold_the_estimate_and_grow_with_their_level(seed, method):
    world = World(seed, n=120, n_classes=3, alpha=0.3)
    assume(np.isin(np.arange(3), world.labels).all())
    estimate = quiet(method, *world.given)
    wide, narrow = (estimate.bounds(Resampling(replicates=50, level=level)) for level in (0.95, 0.5))
    for low, high in (wide, narrow):
        assert ((low >= 0) & (low <= estimate.marginal)).all()
        assert ((high <= 1) & (high >= estimate.marginal)).all()
    assert ((wide[0] <= narrow[0]) & (wide[1] >= narrow[1])).all()
    assert estimate.low.tolist() == quiet(method, *world.given).low.tolist()


def test_an_estimate_is_a_table():
    estimate = quiet("mean", *World(0, n=200, n_classes=3).given)
    lines = estimate.table(["ant", "bee", "cat"]).splitlines()
    assert lines[0] == "mean-soft, 200 source and 200 target rows"
    assert lines[1].split() == ["label", "share", "95", "%", "interval", "source"]
    assert lines[2].split() == [
        "ant",
        *(f"{estimate.marginal[0]:.3f} {estimate.low[0]:.3f} - {estimate.high[0]:.3f}").split(),
        f"{estimate.evidence.prior[0]:.3f}",
    ]
    assert lines[-1].startswith("note: the mean prediction is biased")
    assert str(estimate).splitlines()[2].startswith("0")
    with pytest.raises(InputError, match="2 names for 3 labels"):
        estimate.table(["ant", "bee"])


def test_estimates_that_may_be_biased_say_so():
    given = World(0, n=200, n_classes=3).given
    assert "miscalibrated" in quiet("mlls", *given, calibrate=False).caveat
    assert "miscalibrated" in quiet("mlls", *given, variant="code").caveat
    for method in ("bbse", "rlls", "mlls"):
        assert quiet(method, *given).caveat == ""


def test_where_the_data_say_nothing_an_interval_is_everything():
    alike = quiet("rlls", np.full((40, 2), 0.5), np.arange(40) % 2, np.full((40, 2), 0.5))
    absent = quiet("mean", np.eye(3)[[0, 1]], [0, 1], np.eye(3)[[0, 1, 2]])
    for estimate in (alike, absent):
        assert estimate.low.tolist() == [0] * len(estimate.marginal)
        assert estimate.high.tolist() == [1] * len(estimate.marginal)


# --- calibration by default -----------------------------------------------------------------------


def test_a_penalised_calibration_is_finite_where_every_prediction_is_right():
    sure = distorted(np.eye(3)[np.arange(60) % 3] * 0.9 + 0.1 / 3, 1, 0)
    fitted = fit_calibrator(evidence_of(sure, np.arange(60) % 3, sure))
    assert 0.3 < fitted.temperature < 1
    estimate = quiet("mlls", sure, np.arange(60) % 3, sure[[0, 0, 0, 1]])
    assert estimate.marginal == pytest.approx([0.75, 0.25, 0], abs=0.02)


# --- warnings -------------------------------------------------------------------------------------


def test_a_miscalibrated_classifier_is_reported_with_figures():
    given = at(3, World(0, n=1000))
    expected = (
        r"miscalibrated: on 1,000 hold-out rows its mean confidence is 0\.9.*temperature [23]\.\d\d.*p = "
    )
    for options, advice in (({}, "Reweight"), ({"calibrate": False}, "leave `calibrate` at its default")):
        with pytest.warns(LabelShiftWarning, match=f"{expected}.*{advice}") as caught:
            estimate_marginal("mlls", *given, **options)
        assert caught[0].filename == __file__


def test_classes_that_are_hardly_separated_are_named():
    world = World(0, n=300, n_classes=4)
    world.centres[3] = world.centres[1] + 0.05
    source, labels = world.draw(world.prior, 300)
    with pytest.warns(LabelShiftWarning, match=r"nearly singular .*mostly for classes 1 and 3"):
        estimate_marginal("rlls", source, labels, world.target)


def test_absent_classes_are_reported_where_an_estimate_can_be_made():
    with pytest.warns(LabelShiftWarning, match="classes 2 have no row in the hold-out"):
        estimate_marginal("mean", np.eye(3)[[0, 1]], [0, 1], np.eye(3))


def test_good_evidence_is_not_reported():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in ESTIMATORS:
            estimate_marginal(method, *World(0, n=1000).given)
        estimate_marginal("bbse", *at(3, World(0, n=1000)))  # holds for any probabilities
        quiet("mlls", *at(3, World(0, n=1000)))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 17, 40])
def test_the_tail_of_chi_squared_is_scipys(freedom):
    from scipy.stats import chi2

    for value in (0, 1e-3, 0.5, 3, 20, 60, 200):
        tail = chi_squared_tail(value, freedom)
        assert tail == pytest.approx(chi2.sf(value, freedom), rel=1e-9, abs=1e-12)
