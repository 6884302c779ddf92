"""The page of predictions: its numbers are those of `task.evaluate`, and a stranger sees the worst group."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest

import shiftdata as sd
from shiftdata.bench import select
from shiftdata.cli.app import main
from shiftdata.cli.evaluate import predictions_of
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.differences import paired_test
from shiftdata.evaluation.metrics.statistics import wilson
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.tasks.comparison import Comparison
from shiftdata.serve.pages.predictions_page import predictions_page
from tests.bench.synthetic import synthetic
from tests.serve.pages.conftest import HOSTILE


def random_predictions(task: sd.Task, seed: int, share: float = 0.7) -> dict[str, str]:
    """Predictions of which about a share is right, by key."""
    draw, name = np.random.default_rng(seed), task.set_of("test")
    known = task.metadata.label[task.rows(name)]
    guess = np.where(draw.random(len(known)) < share, known, draw.choice(task.label_ids, len(known)))
    return dict(zip(task.keys(name), [task.metadata.labels[label] for label in guess], strict=True))


def task_of(built: Path, name: str, words: str) -> sd.Task:
    return sd.task(built / "shift" / name, parse_protocol(words), on_empty="report")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tiny", ""),
        ("tiny", "group-fairness k=3 mu=0.25 seed=1"),
        ("tiny", "label-shift alpha=1 seed=2"),
        ("tiny_continuous", "continuous"),
        ("tiny", "unida source=blue target=red shared=2 source_private=1 target_private=1"),
        ("tiny_text", ""),
        ("tiny_table", ""),
    ],
)
def test_the_numbers_are_those_of_the_package(built, name, words):
    task = task_of(built, name, words)
    given = {"a": random_predictions(task, 1), "b": random_predictions(task, 2, 0.5)}
    compared = Comparison.of(task, given)
    for method, predictions in given.items():
        result = task.evaluate(predictions)
        groups = compared.groups(method)
        by_name = {
            f"{task.metadata.labels[y]} / {task.metadata.nuisances[z]}": (n, right / n, low, high, origins)
            for y, z, n, right, low, high, origins in groups
        }
        parts = result.groups
        for group, n, accuracy, origins, ends in zip(
            parts.names, parts.n, parts.accuracy, parts.origins, parts.intervals(), strict=True
        ):
            if n == 0:
                assert group not in by_name
                continue
            got = by_name[group]
            assert got[0] == n
            assert got[1] == pytest.approx(accuracy)
            assert got[2:] == (*(round(end, 4) for end in ends), origins)
            if origins == n:
                assert ends == wilson(accuracy * n, n)
        assert sum(count for *_, count in compared.confusions(method)) == result.n
        right = sum(count for _, y, to, count in compared.confusions(method) if y == to)
        assert right == round(result.overall * result.n)
        along = compared.along(method)
        if words == "continuous":
            of_cells = result.by("nuisance", "severity")
            for name, accuracy in zip(of_cells.names, of_cells.accuracy.tolist(), strict=True):
                nuisance, _, severity = name.rpartition(" / ")
                assert along[nuisance][compared.steps.index(float(severity))] == round(accuracy, 4)
            points = result.failure_points
            assert sum(sum(counts) for counts in compared.failures(method).values()) == len(points.point)
            never = sum(counts[-1] for counts in compared.failures(method).values())
            assert never == np.isnan(points.point).sum()
    pair = next(compared.pairs())
    ok = {
        method: {key for key, label in given[method].items() if label == truth(task)[key]} for method in given
    }
    keys = task.keys(task.set_of("test"))
    wanted = [sum((key in ok["a"], key in ok["b"]) == kind for key in keys) for kind in KINDS]
    assert pair["counts"] == wanted
    if pair["origins"] is None:
        assert pair["p"] == pytest.approx(binomtest(wanted[1], max(1, wanted[1] + wanted[2])).pvalue)
    else:
        only = np.array([(key in ok["a"]) - (key in ok["b"]) for key in keys], int)
        by_origin = pd.Series(only).groupby(task.metadata.origin[task.rows(task.set_of("test"))]).sum()
        assert pair["p"] == paired_test(by_origin)
        assert pair["origins"] == (by_origin != 0).sum()
    assert np.sum([counts[2:] for counts in pair["groups"]], axis=0).tolist() == wanted


KINDS = ((True, True), (True, False), (False, True), (False, False))


def truth(task: sd.Task) -> dict[str, str]:
    name = task.set_of("test")
    labels = task.metadata.label[task.rows(name)]
    return dict(zip(task.keys(name), [task.metadata.labels[number] for number in labels], strict=True))


def test_predictions_by_hashed_keys_are_of_the_same_rows(built):
    """A method that sees the test without labels knows its rows by other keys, in another order."""
    task = task_of(built, "tiny", "").also("test", "unlabelled")
    plain = random_predictions(task, 5)
    by_row = dict(zip(task.rows("test").tolist(), plain.values(), strict=True))
    hidden = task.rows("test", "unlabelled").tolist()
    assert hidden != sorted(hidden)
    hashed = {key: by_row[row] for key, row in zip(task.keys("test", "unlabelled"), hidden, strict=True)}
    pair = next(Comparison.of(task, {"plain": plain, "hashed": hashed}).pairs())
    assert pair["counts"][1:3] == [0, 0]


@pytest.fixture(scope="module")
def pages(built, tmp_path_factory) -> tuple[Path, sd.Task]:
    """A page of two methods."""
    task = task_of(built, "tiny", "group-fairness k=3 mu=0.25 seed=1")
    given = {"erm": random_predictions(task, 1), "rwg": random_predictions(task, 2, 0.8)}
    folder = tmp_path_factory.mktemp("predictions") / "fair"
    return predictions_page(task, given, folder), task


def test_the_page_begins_with_the_worst_group_and_its_pictures(page, pages):
    page.goto(pages[0].as_uri())
    page.wait_for_selector("#worst-list .group .tile")
    first = page.locator("#worst-list .group").first
    worst = re.match(r"Worst group of erm: (.*), \d+ %", page.locator("p.lead").first.inner_text())[1]
    assert first.locator("h3").inner_text() == worst
    assert "taken for" in first.inner_text()
    assert page.wrong == []


def test_squares_open_by_keyboard_and_links_restore_the_view(page, pages):
    page.goto(pages[0].as_uri())
    square = page.wait_for_selector("#group-matrix button")
    name = square.get_attribute("title").partition(":")[0]
    square.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#chosen .group .tile")
    assert page.inner_text("#chosen h3") == name
    page.select_option("#method", "1")
    page.wait_for_timeout(200)
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#chosen .group .tile")
    assert page.inner_text("#chosen h3") == name
    assert page.input_value("#method") == "1"
    page.go_back()
    assert page.wrong == []


def test_texts_and_severities_are_shown(page, built, tmp_path):
    for name, words in (("tiny_text", ""), ("tiny_continuous", "continuous")):
        task = task_of(built, name, words)
        front = predictions_page(task, {HOSTILE: random_predictions(task, 3)}, tmp_path / name)
        page.goto(f"file://{front}")
        page.wait_for_selector("#worst-list .group li")
        assert page.title() != "run"
        if name == "tiny_text":
            assert len(page.locator("#worst-list .text").first.inner_text()) > 3
        else:
            assert page.locator("#along-charts svg").count() == len(task.metadata.nuisances)
            assert page.locator("#failures tbody tr").count() == len(task.metadata.nuisances)
    assert page.wrong == []


def test_the_command_line_writes_pages_of_files_and_runs(built, tmp_path, capsys):
    task = task_of(built, "tiny", "group-fairness k=3 mu=0.25 seed=1")
    task.freeze(tmp_path / "task.parquet")
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text('{"method": "group-dro"}')
    given = random_predictions(task, 4)
    table = pa.table({"key": list(given), "prediction": list(given.values())})
    pq.write_table(table, run / "predictions-test.parquet")
    pq.write_table(table, tmp_path / "mine.parquet")
    words = ["evaluate", str(tmp_path / "task.parquet"), str(run), "--dataset", str(built / "shift" / "tiny")]
    assert (
        main([*words, "--also", f"other={tmp_path / 'mine.parquet'}", "--page", str(tmp_path / "page")]) == 0
    )
    assert "group-dro and other" in (tmp_path / "page" / "index.html").read_text()
    assert main([*words, "--also", str(run), "--page", str(tmp_path / "page")]) == 1
    assert "one name" in capsys.readouterr().err
    assert main([*words, "--also", str(run)]) == 1
    assert "--page" in capsys.readouterr().err


def test_a_sweep_gives_the_runs_that_its_rule_chose(built, tmp_path):
    words = "group-fairness k=3 mu=0.25 seed=1"
    task = task_of(built, "tiny", words)
    methods = {"erm": (0.9, 0.4), "rwg": (0.8, 0.7)}
    records = synthetic(tmp_path / "sweep", tasks={words: task}, methods=methods, trials=2, seeds=2)
    given = predictions_of(str(tmp_path / "sweep"), task)
    assert set(given) == {"erm", "rwg"}
    for selected in select(records, "iid-worst"):
        wanted = records.evaluation(selected.runs[0].run, "test", selected.runs[0].step)
        assert task.evaluate(given[selected.study.method])["worst"] == wanted["worst"]
    with pytest.raises(InputError, match="no stored predictions"):
        predictions_of(str(tmp_path / "sweep"), task_of(built, "tiny", "group-fairness k=2 mu=0.5"))


def test_a_place_with_an_equals_sign_in_its_path_is_a_place(built, tmp_path):
    task = task_of(built, "tiny", "")
    file = tmp_path / "rate=0.1" / "a.csv"
    file.parent.mkdir()
    file.touch()
    assert predictions_of(str(file), task) == {"a": str(file)}
    assert predictions_of(f"mine={file}", task) == {"mine": str(file)}


def test_what_cannot_be_compared_is_refused(built, tmp_path):
    task = task_of(built, "tiny", "")
    with pytest.raises(InputError, match="0 methods"):
        predictions_page(task, {}, tmp_path)
    with pytest.raises(InputError, match="unknown label"):
        predictions_page(task, {"a": {"x": "y"}}, tmp_path)
