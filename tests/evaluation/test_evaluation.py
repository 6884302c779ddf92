"""Predictions in every form, the official metrics by hand-computed values, names and numbers of rows."""

from __future__ import annotations

import importlib
import json
import math
import pickle
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.cli import app as cli
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.protocols import protocols
from shiftdata.evaluation.tasks import Evaluation, OneClassWarning
from shiftdata.evaluation.tasks.making import choose
from shiftdata.evaluation.tasks.official import FIGURES, OFFICIAL
from tests.evaluation.protocols.made import metadata
from tests.evaluation.protocols.test_every import CASES, SHARED

FAIR = sd.task(metadata(6, 5, 20), "group-fairness", k=3, mu=0.3)  # labels 2, 3, 5; nuisances 0, 2, 4
UNIDA = sd.task(metadata(20, 3, 12), "unida", source="kind0", target="kind1")
STEPS = metadata(3, 2, 20, severities=(0.0, 1.0, 2.5))


def truth(task, name=None):
    """The dataset's label numbers of a set, in the order of its rows."""
    return task.metadata.label[task.rows(name or task.set_of("test"))].astype(np.int64)


def some_right(task, share=0.7, seed=0):
    true, generator = truth(task), np.random.default_rng(seed)
    return np.where(generator.random(len(true)) < share, true, generator.choice(task.label_ids, len(true)))


def column(task, name):
    """A column of names of the test set, in the order of its rows."""
    return np.array(task.table(task.set_of("test"), named=True)[name].to_pylist())


def mean_of_classes(true, predicted):
    return np.mean([np.mean(predicted[true == label] == label) for label in np.unique(true)])


def test_one_class_is_said_where_the_rows_are_of_several():
    true = truth(FAIR)
    label, n = FAIR.label_ids[0], len(true)
    collapsed = np.full(n, label)
    with pytest.warns(OneClassWarning, match=f"{n} of {n} rows of test are predicted as"):
        result = FAIR.evaluate(collapsed)
    assert "may have collapsed" in str(result)
    collapsed[: n // 10 + 1] = FAIR.label_ids[1]  # below nine tenths
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "collapsed" not in str(FAIR.evaluate(collapsed))


# --- forms of predictions


PREDICTED = some_right(FAIR)
KEYS = FAIR.keys("test")
NAMES = np.array(FAIR.metadata.labels)[PREDICTED]
SHUFFLED = np.random.default_rng(1).permutation(len(KEYS))
EXPECTED = FAIR.evaluate(PREDICTED).to_dict()


def logits(labels, width):
    return np.random.default_rng(2).random((len(labels), width)) + 5 * np.eye(width)[labels]


def frame(columns):
    import pandas as pd

    return pd.DataFrame(columns)


def series(values, **options):
    import pandas as pd

    return pd.Series(values, **options)


MAPPING = {KEYS[at]: int(PREDICTED[at]) for at in SHUFFLED}
OF_TASK = logits(FAIR.remapped[PREDICTED], 3)
BY_KEY = {"key": [KEYS[at] for at in SHUFFLED], "prediction": PREDICTED[SHUFFLED]}
FORMS = {
    "list": lambda: PREDICTED.tolist(),
    "tensor": lambda: pytest.importorskip("torch").tensor(PREDICTED),
    "series": lambda: series(PREDICTED),
    "names in a list": lambda: NAMES.tolist(),
    "names, loosely": lambda: [f" {name.upper()} " for name in NAMES],
    "names in arrow": lambda: pa.array(NAMES).dictionary_encode(),
    "categories": lambda: series(NAMES, dtype="category"),
    "names and numbers": lambda: [n if i % 2 else NAMES[i] for i, n in enumerate(PREDICTED.tolist())],
    "logits of the dataset": lambda: logits(PREDICTED, 6),
    "logits of the task": lambda: OF_TASK,
    "logits, columns in another order": lambda: frame(
        dict(zip(FAIR.labels[::-1], OF_TASK.T[::-1], strict=True))
    ),
    "logits, columns by number": lambda: frame(OF_TASK),
    "mapping": lambda: MAPPING,
    "mapping to logits": lambda: dict(zip(KEYS, logits(PREDICTED, 6), strict=True)),
    "two columns": lambda: BY_KEY,
    "pandas": lambda: frame(BY_KEY),
    "polars": lambda: importlib.import_module("polars").DataFrame(BY_KEY),
    "key and logits": lambda: frame(dict(zip(FAIR.labels, OF_TASK.T, strict=True)) | {"key": KEYS}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(form):
    assert FAIR.evaluate(FORMS[form]()).to_dict() == EXPECTED


def test_every_file_gives_the_same(tmp_path):
    pa.csv.write_csv(pa.table(BY_KEY), tmp_path / "mine.csv")
    pq.write_table(pa.table(BY_KEY), tmp_path / "mine.parquet")
    np.save(tmp_path / "mine.npy", PREDICTED)
    for path in tmp_path.iterdir():
        assert FAIR.evaluate(path).to_dict() == FAIR.evaluate(str(path)).to_dict() == EXPECTED
    (tmp_path / "broken.parquet").write_text("no")
    with pytest.raises(InputError, match=r"broken.parquet cannot be read as Parquet"):
        FAIR.evaluate(tmp_path / "broken.parquet")


def test_numbers_of_the_task_are_read_with_remap():
    for predictions in (FAIR.remapped[PREDICTED], OF_TASK, NAMES):
        assert FAIR.evaluate(predictions, remap=True).to_dict() == EXPECTED
    with pytest.raises(InputError, match="allowed are 0 to 2"):
        FAIR.evaluate(PREDICTED, remap=True)
    with pytest.raises(InputError, match=r"6 columns of logits; give one a label: 3 \(labels of the task\)"):
        FAIR.evaluate(logits(PREDICTED, 6), remap=True)


def test_labels_that_the_task_does_not_have_warn_and_alone_are_refused():
    with pytest.warns(UserWarning, match=r"36 of 54 predictions are labels .*\(label00, label01\); .* remap"):
        FAIR.evaluate(FAIR.remapped[truth(FAIR)])
    with pytest.raises(InputError, match="54 of 54 predictions are labels that the task does not have"):
        FAIR.evaluate([0] * 54)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (PREDICTED[1:], r"53 for the 54 rows of test: .* order of task.keys\('test'\), or .* by key"),
        ([], "predictions: empty"),
        ([*PREDICTED[1:].tolist(), None], "1 of 54 are nan or missing"),
        ([*NAMES[1:], None], r"1 are missing \(first in row 53\)"),
        ([*PREDICTED[1:].tolist(), 6], r"too large \(first in row 53: 6\); allowed are 0 to 5"),
        ([*NAMES[1:], "label99"], r"unknown label 'label99'; did you mean"),
        (logits(PREDICTED, 7), r"7 columns of logits; give one a label: 3 \(.* task\), 6 \(.* dataset\)"),
        ({"nobody": 0, **MAPPING}, r"1 unknown \(nobody\)"),
        ({"key": [*KEYS[1:], KEYS[1]], "prediction": PREDICTED}, "1 missing .* 1 repeated"),
        ({"key": KEYS[1:], "prediction": PREDICTED}, "53 keys and 54 predictions"),
        (pa.table({"key": KEYS}), "has no column 'prediction', and no column named as a label"),
        (pa.table({"key": KEYS, "guess": PREDICTED}), "unknown label 'guess'"),
        ("mine.txt", r"mine.txt ends in '.txt'; give a file of .csv, .parquet"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(predictions, message):
    with pytest.raises(InputError, match=message):
        FAIR.evaluate(predictions)


def test_rows_that_were_drawn_twice_count_twice():
    task = sd.task(metadata(4, 2, 40), "label-shift", alpha=3, replacement=True, on_empty="report")
    name = task.set_of("test")
    counts, true = task.table(name)["count"].to_numpy(), truth(task, name)
    predicted = np.where(np.arange(len(true)) % 3 > 0, true, (true + 1) % 4)
    result = task.evaluate(predicted, name)
    assert result.n == counts.sum() > len(counts)
    assert result.overall == pytest.approx(np.average(predicted == true, weights=counts))
    each = task.evaluate(np.repeat(predicted, counts), name)  # as a loader gives them
    by_key = task.evaluate(dict(zip(task.keys(name), predicted, strict=True)), name)
    assert each.to_dict() == by_key.to_dict() == result.to_dict()


def test_an_unlabelled_set_is_evaluated_by_hashed_keys_and_in_their_order():
    name = UNIDA.set_of("unlabelled")
    true = truth(UNIDA, name)
    assert UNIDA.evaluate(true, name).overall == 1
    order = np.random.default_rng(0).permutation(len(true))
    by_key = dict(zip(np.array(UNIDA.keys(name))[order].tolist(), true[order].tolist(), strict=True))
    result = UNIDA.evaluate(by_key, name)
    assert (result.overall, result.role) == (1, "unlabelled")


# --- official metrics


@pytest.mark.parametrize("share", [0, 0.7, 1])
def test_an_evaluation_has_an_accuracy_with_its_rows_and_standard_error(share):
    task = sd.task(metadata(4, 3, 20))
    true = truth(task)
    right = np.arange(len(true)) < share * len(true)
    predicted = np.where(right, true, (true + 1) % 4)
    result = task.evaluate(predicted)
    assert list(result.figures) == ["overall", "mean_class", "mean", "worst"]
    assert result["mean_class"] == pytest.approx(mean_of_classes(true, predicted))
    assert (result["mean"], result["worst"]) == (result.groups.mean, result.groups.worst)
    accuracy = result["accuracy"]
    assert accuracy == result["overall"] == result.accuracy == result.overall == np.mean(right)
    # Each origin has a row of every nuisance, so that the overall accuracy is the mean over origins.
    origin = np.unique(task.metadata.origin[task.rows("test")], return_inverse=True)[1]
    means = np.bincount(origin, right) / 3
    assert (accuracy.n, accuracy.origins) == (len(true), len(means)) == (3 * len(means), len(means))
    assert accuracy.sem == pytest.approx(np.std(means, ddof=1) / math.sqrt(len(means)))
    assert f"n={len(true):,} of {len(means):,} origins" in str(accuracy)
    assert pickle.loads(pickle.dumps(accuracy)).sem == accuracy.sem
    with pytest.raises(NotFoundError, match="Known: accuracy, mean, mean_class, overall, worst"):
        result["acuracy"]


def test_the_oracle_a_constant_and_hand_counts_under_group_fairness():
    oracle = FAIR.evaluate(truth(FAIR))
    assert {oracle[name] for name in ("mean", "worst", "worst_3", "worst_5", "overall")} == {1}
    assert (oracle["worst_by_chance"], oracle["worst_by_chance_p"]) == (1, 1)
    constant = FAIR.evaluate(["label03"] * 54)
    assert constant["mean"] == pytest.approx(1 / 3)
    assert [constant[name] for name in ("worst", "worst_3", "worst_5")] == [0, 0, 0]
    # 6 rows a group; wrong: 3 of label02 / kind0, 2 of label05 / kind4, 1 of label03 / kind2.
    predicted, label, nuisance = truth(FAIR), column(FAIR, "label"), column(FAIR, "a")
    for (y, z), wrong in {("label02", "kind0"): 3, ("label05", "kind4"): 2, ("label03", "kind2"): 1}.items():
        rows = np.flatnonzero((label == y) & (nuisance == z))[:wrong]
        predicted[rows] = np.where(predicted[rows] == 2, 3, 2)
    result = FAIR.evaluate(predicted)
    assert result["mean"] == pytest.approx((6 + 3 / 6 + 4 / 6 + 5 / 6) / 9)
    assert result["worst_3"] == pytest.approx((3 / 6 + 4 / 6 + 5 / 6) / 3) == result.groups.worst_of(3)
    assert result["worst_5"] == pytest.approx((3 / 6 + 4 / 6 + 5 / 6 + 2) / 5)
    assert result["overall"] == pytest.approx(48 / 54)
    worst = result.figures["worst"]
    assert (worst.value, worst.n, worst.of) == (0.5, 6, "label02 / kind0")
    assert worst.sem == pytest.approx(np.std([1, 1, 1, 0, 0, 0], ddof=1) / math.sqrt(6))
    chance = result.groups.worst_by_chance()
    assert (result.worst_by_chance, result.worst_by_chance_p) == (chance.expected, chance.at_most(0.5))


def test_domains_are_averaged_and_not_cells():
    """Equation 9 is over domains, here of unequal difficulty."""
    nico = metadata(4, ("rock", "sand", "dim", "dark", "water", "grass"), 30, shared=False)
    task = sd.task(nico, "domainbed-v2", test=("rock", "sand", "dim"))
    predicted, domain = truth(task), column(task, "a")
    right = {"rock": 110, "sand": 60, "dim": 90}
    for name, count in right.items():
        rows = np.flatnonzero(domain == name)[count:]
        predicted[rows] = (predicted[rows] + 1) % 4
    result = task.evaluate(predicted)
    shares = [count / 120 for count in right.values()]
    by_name = dict(zip(result.by("nuisance").names, result.by("nuisance").accuracy, strict=True))
    assert by_name == dict(zip(right, shares, strict=True))
    assert result["mean_domain"] == pytest.approx(np.mean(shares))
    assert result["std_domain"] == pytest.approx(np.std(shares, ddof=1))
    assert result["overall"] == pytest.approx(sum(right.values()) / 360)
    assert (result["worst_domain"], result.figures["worst_domain"].of) == (0.5, "sand")


def test_h_scores_in_both_conventions():
    true = truth(UNIDA)
    oracle = UNIDA.evaluate(true)
    assert [oracle[name] for name in ("h_score", "known", "unknown", "h_score_classes")] == [1, 1, 1, 1]
    assert "overall" not in oracle.figures
    assert (oracle["accuracy"], oracle["accuracy"].n) == (1, oracle.n)
    # One of the ten shared classes wrong altogether, and a third of another: as unknown.
    shared = sorted(set(true.tolist()) & set(UNIDA.label_ids.tolist()))
    private = ~np.isin(true, shared)
    names = np.array(UNIDA.metadata.labels)[true].astype(object)
    names[private] = "unknown"
    wrong = np.flatnonzero(true == shared[0]).tolist() + np.flatnonzero(true == shared[1])[:1].tolist()
    names[wrong] = "Unknown"
    names[np.flatnonzero(private)[:3]] = UNIDA.labels[0]
    result = UNIDA.evaluate(names)
    n_known, n_unknown = int((~private).sum()), int(private.sum())
    known, unknown = 1 - len(wrong) / n_known, 1 - 3 / n_unknown
    by_class = (10 - 1 - 1 / int((true == shared[1]).sum())) / 10
    assert (result["known"], result["unknown"]) == (pytest.approx(known), pytest.approx(unknown))
    assert result["h_score"] == pytest.approx(2 * known * unknown / (known + unknown)) == result.h_score
    assert result["known_classes"] == pytest.approx(by_class)
    assert result["h_score_classes"] == pytest.approx(2 * by_class * unknown / (by_class + unknown))
    assert (result.figures["known"].n, result.figures["unknown"].n) == (n_known, n_unknown)
    constant = UNIDA.evaluate([-1] * len(true))
    assert (constant["h_score"], constant["unknown"]) == (0, 1)


@pytest.mark.parametrize(
    "form",
    [
        lambda task, numbers: np.where(numbers == 15, -1, task.label_ids[np.minimum(numbers, 14)]),
        lambda task, numbers: np.array([*task.labels, "unknown"])[numbers],
        lambda task, numbers: ["-1" if n == 15 else str(task.label_ids[n]) for n in numbers],
        lambda task, numbers: frame(dict(zip([*task.labels, "unknown"], logits(numbers, 16).T, strict=True))),
        lambda task, numbers: logits(numbers, 16),
    ],
    ids=["-1", "names", "text", "columns by name", "k + 1 columns"],
)
def test_unknown_has_many_names(form):
    true = truth(UNIDA)
    numbers = np.where(np.arange(len(true)) % 4 > 0, UNIDA.remapped[true], 15)
    expected = UNIDA.evaluate(numbers, remap=True)  # k stands for unknown
    assert 0 < expected["known"] < 1 == expected["unknown"]
    assert UNIDA.evaluate(form(UNIDA, numbers)).to_dict() == expected.to_dict()
    assert UNIDA.evaluate(np.where(numbers == 15, -1, numbers), remap=True).to_dict() == expected.to_dict()


def test_ambiguous_columns_of_logits_are_refused():
    task = sd.task(metadata(16, 3, 12), "unida", source="kind0", target="kind1", target_private=1)
    with pytest.raises(InputError, match=r"16 columns of logits may be .* dataset or .* and unknown"):
        task.evaluate(logits(np.zeros(len(truth(task)), int), 16))
    assert task.evaluate(logits(task.remapped[truth(task)], 16), remap=True)["h_score"] == 1


def test_the_marginal_error_and_a_mean_over_the_labels_that_are_left():
    task = sd.task(metadata(4, 3, 200), "label-shift", alpha=10, source="kind0", target="kind1")
    true = truth(task)
    assert task.evaluate(true)["marginal_error"] == pytest.approx(0)
    constant = task.evaluate(np.zeros(len(true), int))
    assert constant["marginal_error"] == pytest.approx(2 * (1 - np.mean(true == 0)))
    shift = sd.protocol("label-shift", alpha=0.2, replacement=True, seed=3)
    drawn = shift(sd.task(metadata(6, 3, 40)), on_empty="report")
    left = truth(drawn)
    assert len(set(left.tolist())) < 6
    figure = drawn.evaluate(left).figures["mean_class"]
    assert figure == 1
    assert figure.of.startswith(f"{len(set(left.tolist()))} of 6 classes, those")


def test_along_the_severity_by_hand():
    task = sd.task(STEPS, "continuous")
    true, shift, severity = truth(task), column(task, "a"), column(task, "severity")
    # Every trajectory of kind0 fails at 2.5; a third of those of kind1 at 1 (and is right again at 2.5).
    late = (shift == "kind0") & (severity == 2.5)
    early = (shift == "kind1") & (severity == 1) & (true == 0)
    result = task.evaluate(np.where(late | early, (true + 1) % 3, true))
    assert [result[f"accuracy@{step}"] for step in (0, 1, 2.5)] == pytest.approx([1, (1 + 2 / 3) / 2, 0.5])
    assert [result[f"drop@{step}"] for step in (1, 2.5)] == pytest.approx([1 / 6, 0.5])
    assert result["mean_drop"] == pytest.approx((0 + 1 / 6 + 1 / 2) / 3)
    assert result["mean_failure_point"] == pytest.approx((2.5 * 3 + 1 + 3.0 * 2) / 6)
    assert result["failures"] == pytest.approx(4 / 6)
    assert result.failure_points.of("kind0").counts.tolist() == [0, 0, 18]
    assert result.by("severity").names == ("0", "1", "2.5")
    assert result.by("a", "severity").names[:3] == ("kind0 / 0", "kind0 / 1", "kind0 / 2.5")
    assert task.evaluate(true)["mean_failure_point"] == 3.0


def test_failure_points_need_complete_trajectories_and_the_result_says_so():
    task = sd.task(STEPS, "continuous")
    mask = task.metadata.columns["severity"][task.sets["test"].indices] < 2
    mask[: len(mask) // 2] = True
    partial = choose(task, "test", task.sets["test"].indices[mask], "some steps are missing")
    result = partial.evaluate(truth(partial))
    assert "mean_failure_point" not in result.figures
    assert any("trajectories lack a severity" in note for note in result.notes)
    cells = sd.task(STEPS, "continuous", cells=True)
    cell = cells.evaluate(truth(cells, "test/kind0@1"), "test/kind0@1")
    assert cell["accuracy@1"] == 1
    assert "only 1 occurs" in cell.notes[0]


def test_protocols_that_are_composed_have_all_their_figures():
    task = sd.task(metadata(4, 6, 60, shared=False), "domainbed-v2 test=kind1,kind2 label-shift alpha=30")
    assert set(task.evaluate(truth(task)).figures) == {
        *("mean_domain", "std_domain", "worst_domain", "overall", "mean_class", "marginal_error")
    }
    assert {metric for protocol in protocols() for metric in protocol.metrics} == set(OFFICIAL)


@pytest.mark.parametrize("name", CASES)
def test_the_truth_a_constant_and_random_predictions_under_every_protocol(name):
    task = sd.task(SHARED, name, on_empty="report", **CASES[name])
    test = task.set_of("test")
    times = 1 if task.sets[test].counts is None else task.table(test)["count"].to_numpy()
    true, universal = np.repeat(truth(task), times), "universal" in task.history.metrics
    label = np.where(task.remapped == len(task.label_ids), -1, np.arange(len(task.remapped)))[true]
    right = {"mean", "worst", "worst_3", "worst_5", "overall", "mean_class", "mean_domain", "worst_domain"}
    right |= {"h_score", "known", "unknown", "h_score_classes", "known_classes"}
    figures = task.evaluate(true).figures
    assert {name for metric in task.history.metrics for name in FIGURES[metric]} <= figures.keys()
    values = {figures[figure].value for figure in right & set(figures)}
    assert {value for value in values if not math.isnan(value)} == {1}
    guesses = np.random.default_rng(0).choice(task.label_ids, len(true))
    for predicted in (np.full(len(true), task.label_ids[-1]), guesses):
        result = task.evaluate(predicted)
        assert result.overall == pytest.approx(np.mean(label == predicted))
        if "mean_class" in result.figures and not math.isnan(result["mean_class"]):
            assert result["mean_class"] == pytest.approx(mean_of_classes(true, predicted))
        if universal:
            assert result["unknown"] == result["h_score"] == 0
            assert result["known"] == pytest.approx(np.mean((true == predicted)[label >= 0]))


# --- what a result shows


@given(st.integers(0, 1000), st.floats(0, 1))
def test_figures_lie_in_their_bounds_and_agree(seed, share):
    result = FAIR.evaluate(some_right(FAIR, share, seed))
    ordered = [result[name] for name in ("worst", "worst_3", "worst_5", "mean")]
    assert ordered == sorted(ordered)
    assert all(0 <= value <= 1 for value in ordered)
    assert result.by("label").mean == pytest.approx(result["mean"]) == result.by("a").mean  # equal groups
    assert {result.by(*by).n.sum() for by in (["label"], ["a"], ["group"], ["label", "a"])} == {result.n}


def test_an_empty_promised_group_shows_with_no_rows():
    rows = metadata(4, 4, 10)
    group = (rows.table["label"].to_numpy() == 1) & (rows.table["a"].to_numpy() == 2)
    lacking = sd.Metadata(rows.table.filter(pa.array(~group)), rows.labels, rows.nuisances, "a", True)
    task = sd.task(lacking, "group-fairness", k=4, mu=1, on_empty="report")
    result = task.evaluate(truth(task))
    assert (len(result.groups.n), result.groups.empty) == (16, ("label01 / kind2",))
    undefined = [math.isnan(result[name]) for name in ("mean", "worst", "worst_3", "overall")]
    assert undefined == [True, True, True, False]
    assert (result.figures["worst"].n, result.figures["worst"].of) == (0, "label01 / kind2: no rows")
    assert result.notes[0].startswith("1 groups have no rows (label01 / kind2): what needs them is undefined")
    assert "| label01 / kind2 | - | - | 0 |" in result.to_markdown("group")
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["figures"]["worst"]["value"] is None
    assert result.by("label").mean == 1
    result.picture()


def test_results_are_shown_by_name_with_their_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = FAIR.evaluate(PREDICTED)
    text = str(result)
    assert repr(result) == text
    assert text.startswith(f"{FAIR.describe()}\nof rows, test (test): 54 rows\n")
    assert text.splitlines()[3].split() == ["figure", "value", "sem", "n", "over"]
    assert result.by("nuisance").names == ("kind0", "kind2", "kind4")
    assert result.by("group").names[0] == "label02 / kind0"
    assert result.to_markdown().startswith("| figure | value | sem | n | over |\n| --- | --: |")
    assert result.mean == result["mean"] == result.figures["mean"].value
    with pytest.raises(AttributeError, match="an evaluation has no 'wurst'; figures: mean, worst"):
        result.wurst  # noqa: B018
    with pytest.raises(NotFoundError, match=r"unknown column 'severity'.* Known: a, group, label, nuisance"):
        result.by("severity")
    with pytest.raises(NotFoundError, match="unknown set 'tset'; did you mean 'test'"):
        FAIR.evaluate(PREDICTED, "tset")


@pytest.mark.parametrize(
    "task", [FAIR, UNIDA, sd.task(STEPS, "continuous")], ids=lambda task: task.history.steps[0]
)
def test_results_come_back_from_json(task):
    result = task.evaluate(some_right(task))
    again = Evaluation.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))
    assert again.to_dict() == result.to_dict()
    assert str(again) == str(result)
    assert again.groups.accuracy.tolist() == result.groups.accuracy.tolist()
    assert np.isnan(again.groups.sem).all() == (task is not UNIDA), "JSON leaves out which rows share origins"


def test_every_picture_is_drawn():
    steps = sd.task(STEPS, "continuous").evaluate(truth(sd.task(STEPS, "continuous")))
    nico = sd.task(metadata(4, 6, 30, shared=False), "domainbed-v2", test=("kind1", "kind2"))
    fair = FAIR.evaluate(PREDICTED)
    pictures = [steps.picture(), steps.picture("severity"), nico.evaluate(some_right(nico)).picture()]
    for picture in [*pictures, fair.picture(), fair.picture("label")]:
        assert len(picture.convert("L").getcolors(256)) > 20  # more than a frame and letters
    assert fair.picture().width < pictures[0].width == 1320
    with pytest.raises(InputError, match="one or two columns, got label, a, severity"):
        steps.picture("label", "a", "severity")
    many = sd.task(metadata(70, 2, 4))
    with pytest.raises(InputError, match="70 squares in a line are too many to read, at most 40 are drawn"):
        many.evaluate(truth(many)).picture()


def test_the_groups_of_untouched_content_are_its_labels(tiny):
    content = sd.task(tiny, base="content")
    labels = truth(content)
    wrong = np.where(labels == 0, 1, labels)
    result = content.evaluate(wrong)
    assert result.worst == 0.0
    assert result.groups.worst_group == f"{content.labels[0]} / untouched"
    assert result.accuracy == pytest.approx(np.mean(labels != 0))
    assert type(result).from_dict(result.to_dict()).by("label").worst == 0.0


# --- the command line


@pytest.fixture
def files(tiny, tmp_path, monkeypatch):
    """A frozen task of the tiny dataset and predictions for it, with a few errors."""
    monkeypatch.setenv("SHIFTDATA_HOME", str(tiny.parent))
    monkeypatch.chdir(tmp_path)
    task = sd.task("tiny", "group-fairness", k=3, mu=0.3)
    task.freeze("mine.parquet")
    predicted = some_right(task)
    pa.csv.write_csv(pa.table({"key": task.keys("test"), "prediction": predicted}), "p.csv")
    return task.evaluate(predicted)


def run(capsys, *words):
    status = cli.main(["evaluate", *words])
    return status, *capsys.readouterr()


def test_the_command_line_prints_the_same_in_every_format(files, capsys, tmp_path):
    described = ["tiny", "group-fairness", "k=3", "mu=0.3"]
    frozen = run(capsys, "mine.parquet", "p.csv")
    assert frozen == run(capsys, *described, "p.csv") == run(capsys, *described, "mine=p.csv")
    assert frozen == run(capsys, "mine.parquet", "p.csv", "--dataset", "tiny") == (0, f"{files}\n", "")
    markdown = run(capsys, "mine.parquet", "p.csv", "--by", "label,style", "--format", "markdown")[1]
    assert markdown == files.to_markdown("label", "style") + "\n"
    assert run(capsys, "mine.parquet", "p.csv", "--by", "style")[1] == f"{files.by('style')}\n"
    assert json.loads(run(capsys, "mine.parquet", "p.csv", "--format", "json")[1]) == files.to_dict()
    assert run(capsys, "mine.parquet", "p.csv", "--picture", "groups.png")[0] == 0
    assert (tmp_path / "groups.png").stat().st_size > 1000


def test_the_command_line_says_what_is_missing(files, capsys):
    assert "give the task, and then the file" in run(capsys, "p.csv")[2]
    assert "predictions do not fit" in run(capsys, "mine.parquet", "p.csv", "--set", "train")[2]
    pq.write_table(pq.read_table("mine.parquet").replace_schema_metadata(None), "plain.parquet")
    assert "does not say of which dataset it is: give --dataset" in run(capsys, "plain.parquet", "p.csv")[2]
    assert run(capsys, "plain.parquet", "p.csv", "--dataset", "tiny")[0] == 0


# --- standard errors


DRAWN = sd.task(metadata(20, 2, 40), "label-shift", alpha=0.5, replacement=True, on_empty="report")
TRAJECTORIES = sd.task(metadata(4, 2, 60, severities=(0.0, 1.0, 2.5)), "continuous")


@pytest.mark.parametrize(
    ("task", "figures"),
    [
        (DRAWN, ("overall", "mean_class")),
        (sd.task(metadata(4, 3, 60), "group-fairness", k=3, mu=0.3), ("overall", "mean")),
        (UNIDA, ("h_score", "known", "unknown", "h_score_classes", "known_classes")),
        (
            TRAJECTORIES,
            ("accuracy@0", "accuracy@2.5", "drop@1", "mean_drop", "failures", "mean_failure_point"),
        ),
    ],
    ids=["label shift", "fairness", "universal", "continuous"],
)
def test_the_error_of_a_figure_is_its_spread_over_models(task, figures):
    """Models that differ in which origins they get wrong whole, and in which rows of the others."""
    rows, generator = task.rows(task.set_of("test")), np.random.default_rng(0)
    true, origin = task.metadata.label[rows].astype(np.int64), task.metadata.origin[rows]
    known = task.label_ids
    wrong = known[(np.searchsorted(known, true) + 1) % len(known)]
    if task is UNIDA:
        wrong = np.where(np.isin(true, known), wrong, known[0])
        true = np.where(np.isin(true, known), true, -1)
    drawn = []
    for _ in range(300):
        hard = generator.random(len(task.metadata.origin_names)) < 0.2
        right = ~hard[origin] & (generator.random(len(rows)) < 0.8)
        drawn.append(task.evaluate(np.where(right, true, wrong)).figures)
    for name in figures:
        values, errors = np.array([(result[name].value, result[name].sem) for result in drawn]).T
        assert np.sqrt(np.mean(errors**2)) / np.std(values) == pytest.approx(1, abs=0.13), name
