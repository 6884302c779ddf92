"""Which trial and step each rule chooses, what it may see, ties, seeds, and what cannot win."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shiftdata.bench import RULES, select
from shiftdata.bench.selection import run_scores
from shiftdata.errors import NotFoundError
from shiftdata.evaluation.tasks.cells import Cells
from tests.bench.made import TASK, predicted, records, run, shares

# Validation has 4 rows a group, so that shares are quarters. By rule another one is best.
EVEN = run({1: shares()}, trial=0)  # worst and worst-m .5
UNEVEN = run({1: shares(0.25, *[0.75] * 12)}, trial=1)  # mean above .5, worst .25
LOW = run({1: shares(0.0, *[1.0] * 15)}, trial=2)  # the best mean, worst 0, three worst .667


@pytest.mark.parametrize(
    ("rule", "trial", "score"),
    [
        ("iid", 2, 15 / 16),
        ("iid-mean-class", 2, 15 / 16),
        ("iid-mean-group", 2, 15 / 16),
        ("iid-mean-domain", 2, 15 / 16),
        ("iid-worst", 0, 0.5),
        ("iid-worst-m", 2, 2 / 3),
    ],
)
def test_each_rule_by_hand(rule, trial, score, tmp_path):
    (chosen,) = select(records(tmp_path, EVEN, UNEVEN, LOW), rule)
    assert (chosen.trial, chosen.among, chosen.refused) == (trial, 3, "")
    assert [at.step for at in chosen.runs] == [1]
    assert chosen.score == pytest.approx(score)


@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if rule.figure and not rule.reads])
def test_scores_are_those_of_an_evaluation(rule, tmp_path):
    right = shares(0.0, 0.25, *[0.75, 1.0] * 5)
    made = records(tmp_path, run({3: right}, test=0.25))
    (score,) = run_scores(made, [0], RULES[rule])[0].values()
    name = "test" if RULES[rule].oracle else "validation"
    result = TASK.evaluate(predicted(right if name == "validation" else shares(*[0.25] * 16), name), name)
    means = {"iid-mean-class": "label", "iid-mean-domain": "nuisance"}
    expected = {
        "iid-worst": result.worst,
        "iid-worst-m": result.groups.worst_of(3),
        "iid-mean-group": result.mean,
    }
    expected |= {name: result.by(column).mean for name, column in means.items()}
    assert score == pytest.approx(expected.get(rule, result.overall))


def test_no_rule_but_an_oracle_is_moved_by_a_test(tmp_path):
    good = run({1: shares()}, trial=0, test=0.25)
    leaky = run({1: shares(0.0)}, trial=1, test=1.0)
    made = records(tmp_path, good, leaky)
    for name, rule in RULES.items():
        if rule.reads:
            continue
        (chosen,) = select(made, name)
        if rule.figure:
            assert chosen.trial == (1 if rule.oracle else 0), name


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_among_equals_the_first_wins_whatever_the_files_order(tmp_path, order):
    rows = [run({5: shares(), 10: shares()}, trial=trial) for trial in order]
    (chosen,) = select(records(tmp_path, *rows), "iid")
    assert (chosen.trial, chosen.runs[0].step) == (0, 5)


def test_each_seed_chooses_its_step_and_a_trial_is_the_mean_of_its_seeds(tmp_path):
    rows = [
        run({5: shares(*[1.0] * 16), 10: shares()}, trial=0, seed=0),
        run({5: shares(), 10: shares(*[0.75] * 16)}, trial=0, seed=1),
        run({5: shares(*[0.75] * 16)}, trial=1, seed=0),
        run({5: shares(*[0.75] * 16)}, trial=1, seed=1),
    ]
    (chosen,) = select(records(tmp_path, *rows), "iid")
    assert chosen.trial == 0
    assert chosen.score == pytest.approx((1 + 0.75) / 2)
    assert [(at.seed, at.step) for at in chosen.runs] == [(0, 5), (1, 10)]


def test_further_seeds_of_the_best_do_not_choose(tmp_path):
    """Seeds that only the best trial was given would compare it by other seeds than the rest."""
    rows = [
        run({5: shares(*[1.0] * 16)}, trial=0, seed=0),
        run({5: shares(*[0.0] * 16)}, trial=0, seed=1),
        run({5: shares(*[0.75] * 16)}, trial=1, seed=0),
    ]
    (chosen,) = select(records(tmp_path, *rows), "iid")
    assert (chosen.trial, chosen.score, len(chosen.runs)) == (0, 1.0, 2)


def test_a_trial_with_a_seed_that_failed_cannot_win(tmp_path):
    rows = [
        run({5: shares(*[1.0] * 16)}, trial=0, seed=0),
        run({}, trial=0, seed=1, status="diverged"),
        run({5: shares()}, trial=1, seed=0),
        run({5: shares()}, trial=1, seed=1),
    ]
    (chosen,) = select(records(tmp_path, *rows), "iid")
    assert (chosen.trial, chosen.failed) == (1, 0)
    alone = records(tmp_path / "alone", rows[0], rows[1])  # no other trial to be compared with
    assert (select(alone, "iid")[0].score, select(alone, "iid")[0].failed) == (1.0, 1)
    lost = [run({}, trial=0, status="refused") | {"reason": "why"}]
    (nothing,) = select(records(tmp_path / "lost", *lost), "iid")
    assert "refused: why" in nothing.refused
    assert (nothing.runs, nothing.failed) == ((), 1)


def test_the_last_step_is_of_one_trial(tmp_path):
    (chosen,) = select(records(tmp_path / "one", run({5: shares(), 10: shares(0.0)})), "last")
    assert chosen.runs[0].step == 10
    assert math.isnan(chosen.score)
    (several,) = select(records(tmp_path / "two", EVEN, LOW), "last")
    assert "there are 2" in several.refused


def test_a_method_that_trains_on_the_set_to_select_by_is_not_chosen_by_it(tmp_path):
    rows = [run({5: shares()}, trial=trial, trains_on_select=True) for trial in (0, 1)]
    made = records(tmp_path, *rows)
    assert "trains on the validation set" in select(made, "iid")[0].refused
    assert select(made, "oracle")[0].runs


def test_a_wrong_rule_is_named_with_those_that_there_are(tmp_path):
    with pytest.raises(NotFoundError, match="iid-worst"):
        select(records(tmp_path, EVEN), "iid-wurst")


def test_a_group_without_rows_leaves_a_score_undefined():
    names = {"label": ("a", "b", "c"), "style": ("d",)}
    codes = {"label": np.arange(3), "style": np.zeros(3, int)}
    cells = Cells(names, codes, np.array([4, 0, 4]), np.zeros(3, int), 8)
    right = np.array([[3, 0, 4]])
    scores = {name: rule.scores(cells, right)[0] for name, rule in RULES.items() if rule.figure}
    undefined = {name for name, score in scores.items() if math.isnan(score)}
    assert undefined == {"iid-mean-class", "iid-mean-group", "iid-worst", "iid-worst-m"}
    assert scores["iid"] == 0.875
