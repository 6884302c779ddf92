"""The page of predictions: its numbers are those of `task.evaluate`, and it shows methods side by side."""

from __future__ import annotations

import re
from collections import Counter
from http.server import SimpleHTTPRequestHandler
from itertools import combinations
from pathlib import Path
from typing import Any

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
from shiftdata.evaluation.metrics.differences import holm, paired_test
from shiftdata.evaluation.metrics.statistics import wilson
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.tasks.comparison import Comparison
from shiftdata.evaluation.tasks.sets import LeakWarning
from shiftdata.serve.pages import predictions_page as predictions
from shiftdata.serve.pages.predictions_page import predictions_page
from tests.bench.synthetic import synthetic
from tests.browser import accessibility_problems, wait_for_text
from tests.serve.pages.conftest import HOSTILE
from tests.web import answering


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
        ("tiny", "group-fairness k=3 mu=0.25 seed=1"),
        ("tiny_continuous", "continuous"),
        ("tiny", "unida source=blue target=red shared=2 source_private=1 target_private=1"),
        ("tiny_text", ""),
    ],
)
def test_the_numbers_are_those_of_the_package(built, name, words):
    task = task_of(built, name, words)
    given = {"a": random_predictions(task, 1), "b": random_predictions(task, 2, 0.5)}
    compared = Comparison.of(task, given)
    keys = task.keys(task.set_of("test"))
    right = {
        method: np.array([labels[key] == truth(task)[key] for key in keys])
        for method, labels in given.items()
    }
    confusions = np.array(compared.confusions(10_000))
    for place, (method, labels) in enumerate(given.items()):
        result = task.evaluate(labels)
        groups = {compared.group_name(group): values for group, values in compared.groups(method).items()}
        parts = result.groups
        for group, n, accuracy, origins, ends in zip(
            parts.names, parts.n, parts.accuracy, parts.origins, parts.intervals(), strict=True
        ):
            if n == 0:
                assert group not in groups
                continue
            assert groups[group][0] == n
            assert groups[group][1] / n == pytest.approx(accuracy)
            assert groups[group][2:] == [*(round(end, 4) for end in ends), origins]
            if origins == n:
                assert ends == wilson(accuracy * n, n)
        assert (
            confusions[:, 3 + place].sum() == (~right[method]).sum() == round((1 - result.overall) * result.n)
        )
        line = compared.worst()[place]
        assert line["accuracy"] == pytest.approx(result.worst if result.groups.n.all() else line["accuracy"])
        assert groups[line["name"]] == [line["n"], *compared.groups(method)[line["group"]][1:]]
        if words == "continuous":
            of_cells = result.by("nuisance", "severity")
            for cell, accuracy in zip(of_cells.names, of_cells.accuracy.tolist(), strict=True):
                nuisance, _, severity = cell.rpartition(" / ")
                step = compared.steps.index(float(severity))
                assert compared.along()[nuisance][place][step] == round(accuracy, 4)
            points = result.failure_points
            assert sum(sum(counts) for counts in compared.failures(method).values()) == len(points.point)
            never = sum(counts[-1] for counts in compared.failures(method).values())
            assert never == np.isnan(points.point).sum()
    patterns = Counter[int]()
    for counts in compared.patterns().values():
        patterns.update(counts)
    assert patterns == Counter((~right["a"] + 2 * ~right["b"]).tolist())
    shown = compared.to_dict()["groups"]
    assert [sum(column) for column in list(zip(*shown, strict=True))[3:]] == [
        right["a"].sum(),
        right["b"].sum(),
    ]
    lowest = [min(counts) / n for _, _, n, *counts in shown]
    assert lowest == sorted(lowest)
    (pair,) = compared.pairs
    wanted = [int(((right["a"] == a) & (right["b"] == b)).sum()) for a, b in KINDS]
    assert pair["counts"] == wanted
    if pair["origins"] is None:
        assert pair["p"] == pytest.approx(binomtest(wanted[1], max(1, wanted[1] + wanted[2])).pvalue)
    else:
        only = right["a"].astype(int) - right["b"]
        by_origin = pd.Series(only).groupby(task.metadata.origin[task.rows(task.set_of("test"))]).sum()
        assert pair["p"] == paired_test(by_origin)
        assert pair["origins"] == (by_origin != 0).sum()


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
    (pair,) = Comparison.of(task, {"plain": plain, "hashed": hashed}).pairs
    assert pair["counts"][1:3] == [0, 0]


def test_the_verdict_is_that_of_a_paired_test_on_the_same_rows(built):
    """A method far ahead is called ahead; of one that differs little no difference is shown."""
    task = task_of(built, "tiny", "")
    close = truth(task) | dict.fromkeys(list(truth(task))[:2], task.metadata.labels[0])
    given = {"weak": random_predictions(task, 1, 0.1), "best": truth(task), "close": close}
    compared = Comparison.of(task, given)
    origin = task.metadata.origin[task.rows("test")]
    of_pair = []
    for first, second in combinations(given, 2):
        gain = compared.right(first).astype(int) - compared.right(second)
        of_pair.append(paired_test(pd.Series(gain).groupby(origin).sum()))
    assert [pair["p"] for pair in compared.pairs] == holm(of_pair)
    verdict = compared.verdict()
    assert verdict.startswith(
        "best has the most rows right. By a paired test on the same rows, it is ahead of"
    )
    assert re.search(
        r"ahead of weak \(\d+\.\d points, p\s<\s0\.\d+\); no difference is shown from close \(", verdict
    )
    assert Comparison.of(task, {"best": truth(task)}).verdict() == ""


@pytest.fixture(scope="module")
def pages(built, tmp_path_factory) -> tuple[Path, sd.Task, dict[str, dict[str, str]]]:
    """A page of three methods, of which a group has as many wrong examples as a page of them holds."""
    words = parse_protocol("leave-one-domain-out@paper test=blue")
    with pytest.warns(LeakWarning):  # it tests all rows of a domain: the largest groups of this dataset
        task = sd.task(built / "shift" / "tiny", words, base="extended")
    given = {f"method {at}": random_predictions(task, at, share) for at, share in enumerate((0.05, 0.3, 0.5))}
    folder = tmp_path_factory.mktemp("predictions") / "three"
    return predictions_page(task, given, folder), task, given


def test_three_methods_fit_three_screens(page, pages):
    page.goto(pages[0].as_uri())
    page.wait_for_selector("#examples .tile")
    assert page.locator("#examples li").count() == predictions.PART
    assert page.evaluate("document.documentElement.scrollHeight") <= 3 * 900
    assert page.wrong == []


def test_the_page_begins_with_the_verdict_and_the_worst_groups(page, pages):
    compared = Comparison.of(pages[1], pages[2])
    page.goto(pages[0].as_uri())
    page.wait_for_selector("#examples .tile")
    assert page.inner_text("p.lead").replace("\xa0", " ") == compared.verdict().replace("\xa0", " ")
    assert page.locator("main table").first.locator("a").all_inner_texts() == [
        line["name"] for line in compared.worst()
    ]
    assert page.inner_text("#group") == compared.group_name(next(iter(compared.by_group)))
    asked = [url for url in page.asked if "/data/" in url]
    assert len(asked) == 2, asked  # one part and its picture: the rest when it is asked for


def test_the_list_has_every_group_and_differences_to_a_baseline(page, pages):
    compared = Comparison.of(pages[1], pages[2])
    page.goto(pages[0].as_uri())
    page.select_option("[name=baseline]", "1")
    shown = page.locator("#list tbody tr").evaluate_all(
        "(all) => all.map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    assert len(shown) == len(compared.by_group)
    for (group, of), (name, *cells, rows) in zip(compared.by_group.items(), shown, strict=True):
        assert name == compared.group_name(group)
        n, base, _ = int(rows), of["method 1"][1], cells[1]
        for cell, (_, right, *_) in zip(cells, of.values(), strict=True):
            percent, _, points = cell.replace("−", "-").replace("=", "0").partition(" ")
            assert abs(int(percent) - 100 * right / n) <= 0.5
            assert abs(int(points or 0) - 100 * (right - base) / n) <= 0.5
    page.select_option("[name=by]", "label")
    assert page.locator("#list tbody tr").count() == len(pages[1].metadata.labels)
    name = page.locator("#list tbody a").first.inner_text()
    page.locator("#list tbody a").first.click()
    assert page.locator("#list tbody a").all_inner_texts() == [f"{name} / blue"]
    page.fill("[name=q]", "no such name")
    assert "No name" in page.inner_text("#list")
    assert page.wrong == []


def test_links_and_the_keyboard_open_and_restore_a_view(page, pages):
    page.goto(pages[0].as_uri())
    link = page.locator("#list tbody a").nth(2)
    name = link.inner_text()
    link.focus()
    page.keyboard.press("Enter")
    wait_for_text(page, "#group", name)
    assert link.evaluate("(node) => node === document.activeElement")
    page.select_option("[name=filter]", "wrong-1")
    example = page.locator("#examples a").nth(1)
    key = example.get_attribute("title")
    example.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    address = page.url
    page.keyboard.press("Escape")
    assert not page.is_visible("dialog")
    assert example.evaluate("(node) => node === document.activeElement")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("dialog[open]")
    assert page.inner_text("#group") == name
    assert page.inner_text("dialog .mono") == key
    assert page.input_value("[name=filter]") == "wrong-1"
    page.go_back()
    assert page.wrong == []


@pytest.mark.slow
def test_an_example_says_all_that_is_known_and_its_code_loads_it(page, pages, built, monkeypatch):
    page.goto(pages[0].as_uri())
    page.click("#examples a")
    page.wait_for_selector("dialog img")
    assert page.locator("dialog img").evaluate("(node) => node.complete && node.naturalWidth > 0")
    key = page.inner_text("dialog .mono")
    facts = dict(
        zip(
            page.locator("dialog dt").all_inner_texts(),
            page.locator("dialog dd").all_inner_texts(),
            strict=True,
        )
    )
    assert (facts["label"], facts[pages[1].metadata.nuisance_column]) == (truth(pages[1])[key], "blue")
    for method, labels in pages[2].items():
        assert facts[method] == ("✓ right" if labels[key] == truth(pages[1])[key] else f"✗ {labels[key]}")
    monkeypatch.setenv("SHIFTDATA_HOME", str(built / "shift"))
    scope: dict[str, Any] = {}
    exec(page.text_content("dialog pre"), scope)
    assert scope["example"]["key"] == key
    assert len(list(scope["ds"])) == 1
    assert page.wrong == []


@pytest.mark.slow
def test_examples_lead_to_the_page_of_their_dataset(page, mirror, built, tmp_path):
    """The page is served by any web server, the dataset's by the mirror."""
    task = task_of(built, "tiny", "")
    address = f"{mirror.endpoint}/datasets/shift/tiny"
    predictions_page(task, {"a": random_predictions(task, 1)}, tmp_path, gallery=address)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(tmp_path))

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with answering(Handler) as server:
        page.goto(f"{server}/index.html")
        page.click("#examples a")
        key = page.inner_text("dialog .mono")
        page.click("dialog a")
        wait_for_text(page, "#facts", key)
    assert page.url.startswith(f"{address}/example.html#")
    assert page.wrong == []
    with pytest.raises(InputError, match="no address"):
        predictions_page(task, {"a": random_predictions(task, 1)}, tmp_path, gallery="javascript:alert(1)")


def test_without_whole_pictures_the_small_copy_is_shown(page, built, tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "MOST_WHOLE", 1)
    task = task_of(built, "tiny", "")
    front = predictions_page(task, {"a": random_predictions(task, 1, 0.1)}, tmp_path)
    assert len(list((tmp_path / "data/whole").iterdir())) == 1
    page.goto(front.as_uri())
    page.locator("#examples a").nth(1).click()
    page.wait_for_selector("dialog .tile")
    assert "small copy" in page.inner_text("dialog")
    assert page.wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_everybody_can_use_it(page, pages, dark, width):
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(pages[0].as_uri())
    page.wait_for_selector("#examples .tile")
    page.click("#confusions summary")
    page.wait_for_selector("#confused td")
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert accessibility_problems(page) == []
    page.click("#examples a")
    page.wait_for_selector("dialog img")
    assert accessibility_problems(page) == []


def test_the_figures_need_no_script(chromium, pages):
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(pages[0].as_uri())
        assert "paired test" in page.inner_text("p.lead")
        assert "need JavaScript" in page.inner_text("main")
        assert not page.is_visible("#groups")
        assert page.is_visible("text=Official figures")


@pytest.mark.parametrize(
    ("name", "words"), [("tiny_text", ""), ("tiny_table", ""), ("tiny_continuous", "continuous")]
)
def test_texts_features_and_severities_are_shown(page, built, tmp_path, name, words):
    task = task_of(built, name, words)
    given = {HOSTILE: random_predictions(task, 3), "b": random_predictions(task, 4)}
    front = predictions_page(task, given, tmp_path)
    page.goto(front.as_uri())
    page.wait_for_selector("#examples li")
    assert page.title() == f"{HOSTILE}, b · predictions"
    if name != "tiny_continuous":
        assert len(page.locator("#examples .text").first.inner_text()) > 3
        page.click("#examples a")
        assert page.inner_text("dialog blockquote").strip()
    else:
        assert page.locator("#along svg").count() == len(task.metadata.nuisances)
        assert page.locator("#along svg").first.locator("polyline").count() == 2
        page.click("text=Where trajectories fail first")
        failures = page.locator("details", has_text="Where trajectories fail first")
        assert failures.locator("tbody tr").count() == 2 * len(task.metadata.nuisances)
        assert "severity" in page.locator("#examples li").first.inner_text()
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
    assert "<h1>group-dro, other</h1>" in (tmp_path / "page" / "index.html").read_text()
    assert main([*words, "--also", str(run), "--page", str(tmp_path / "page")]) == 1
    assert "one name" in capsys.readouterr().err
    for option in ("--also", "--gallery"):
        assert main([*words, option, str(run)]) == 1
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
