"""The leaderboard: ranks, the board of oracles, flags, hostile texts, and the workflow of the docs."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import yaml

import shiftdata as sd
from shiftdata.bench import Records, run_sweep, select, sweep_of
from shiftdata.bench.leaderboard import leaderboard
from shiftdata.bench.leaderboard.judging import scores_of
from shiftdata.bench.leaderboard.submission import Submission
from shiftdata.bench.leaderboard.submitting import dataset_of, from_records
from shiftdata.cli.app import main as cli
from shiftdata.data.format.croissant import render_croissant
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.metadata import read_metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.differences import holm, paired_test
from shiftdata.evaluation.metrics.statistics import student, student_quantile
from tests.bench.submissions import GF, fair, guess, part, submitted, written
from tests.evaluation.protocols.made import metadata
from tests.paths import ROOT

HOSTILE = "<script>alert(1)</script>|`x` [a](http://b) @all =1+1 & \"'"


@pytest.fixture(scope="module")
def task(tiny):
    return fair(tiny)


def forged(submission):
    return Submission(submission.card, submission.rows.slice(1))


@pytest.fixture
def folder(task, tmp_path):
    """Three submissions, an oracle, a copy of another's predictions, and a file with a missing key."""
    for name, share in (("low", 0.3), ("high", 0.95), ("middle", 0.6)):
        written(tmp_path, f"{name}.parquet", submitted(task, [part(task, "test", share)], method=name))
    best = [part(task, "test", 1.0)]
    written(tmp_path, "oracle.parquet", submitted(task, best, method="tuned", rule="oracle"))
    written(tmp_path, "copied.parquet", submitted(task, [part(task, "test", 0.95)], method="copied"))
    written(tmp_path, "forged.parquet", forged(submitted(task, method="forged")))
    return tmp_path


def test_ranks_by_the_worst_group_with_oracles_apart(tiny, task, folder):
    board = leaderboard(folder, data=tiny.parent)
    main, oracles = board.tables
    assert (main.oracle, oracles.oracle, main.headline) == (False, True, "worst")
    assert [(entry.card.method, rank) for rank, entry in main.lines] == [
        ("copied", 1.5), ("high", 1.5), ("middle", 3), ("low", 4),
    ]  # fmt: skip
    assert [entry.card.method for entry in oracles.entries] == ["tuned"]
    for entry in main.entries:
        share = {"copied": 0.95, "high": 0.95, "middle": 0.6, "low": 0.3}[entry.card.method]
        assert entry.scores["worst"].value == task.evaluate(guess(task, "test", share), "test").worst
    (refused,) = board.refused
    assert (refused.file, refused.method) == ("forged.parquet", "forged")
    assert "1 missing" in refused.reason


def test_less_is_better_where_it_is(tiny, task, monkeypatch, tmp_path):
    from shiftdata.bench.leaderboard import board

    for name, share in (("low", 0.3), ("high", 0.95)):
        written(tmp_path, f"{name}.parquet", submitted(task, [part(task, "test", share)], method=name))
    monkeypatch.setattr(board, "LESS", ("worst",))
    (table,) = leaderboard(tmp_path, data=tiny.parent).tables
    assert [entry.card.method for entry in table.entries] == ["low", "high"]


# --- hostile texts


def test_hostile_texts_are_texts_in_markdown(tiny, task, tmp_path):
    parts = [part(task, "test", 0.5)]
    same = {"backbone": HOSTILE, "authors": HOSTILE, "code": HOSTILE}
    written(tmp_path, "<img src=x>.parquet", submitted(task, parts, method=HOSTILE, **same))
    written(tmp_path, "=cmd.parquet", forged(submitted(task, parts, method="=1+1")))
    (tmp_path / "\x1b[2J.parquet").write_bytes(b"no")
    board = leaderboard(tmp_path, data=tiny.parent)
    text = board.to_markdown()
    assert not re.search(r"<|>|@|(?<!\\)`|(?<!\\)\]\(|\x1b|https?://", text)
    for line in text.splitlines():
        if line.startswith("| ") and "---" not in line:
            assert line.count("|") in (4, 11), line  # no cell began another


def test_the_page_needs_nothing_else_and_fits_dark_and_narrow_screens(tiny, folder, tmp_path):
    out = tmp_path / "page.html"
    assert cli(["leaderboard", str(folder), "--data", str(tiny.parent), "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import|src=|https?://(?!example\.org/paper)", page)
    for needed in (
        "color-scheme: light dark",
        "width=device-width",
        "default-src &#39;none&#39;; style-src &#39;sha256-",
        "content_id",
        "Refused",
    ):
        assert needed in page
    assert "Selection" not in page


# --- places


def test_places_without_submissions_are_errors_and_a_broken_file_is_refused(tiny, task, tmp_path):
    with pytest.raises(InputError, match="no file ends in"):
        leaderboard(tmp_path)
    with pytest.raises(InputError, match="is not there"):
        leaderboard(tmp_path / "x")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name in ("a", "b"):
        written(tmp_path / name, "mine.parquet", submitted(task))
    (tmp_path / "a" / "broken.parquet").write_bytes(b"PAR1")
    places = tmp_path / "a", tmp_path / "b"
    board = leaderboard(*places, data=tiny.parent)
    assert {entry.file for entry in board.tables[0].entries} == {"a/mine.parquet", "b/mine.parquet"}
    assert [refused.file for refused in board.refused] == ["a/broken.parquet"]
    line = ["leaderboard", *map(str, places), "--data", str(tiny.parent)]
    assert (cli(line), cli([*line, "--check"])) == (0, 1)


def test_figures_as_croissant_tasks_name_the_problem_of_croissant_json(tiny, task, folder, tmp_path):
    out = tmp_path / "results.jsonld"
    line = ["leaderboard", str(folder), "--data", str(tiny.parent)]
    assert cli([*line, "--croissant", str(out)]) == 0
    entries = [entry for table in leaderboard(folder, data=tiny.parent).tables for entry in table.entries]
    graph = json.loads(out.read_text())["@graph"]
    for entry, evaluation in zip(entries, graph, strict=True):
        solution = evaluation["cr:evaluatedSolution"]
        assert solution["sc:name"] == entry.card.method
        results = {result["cr:metric"]: result["cr:value"] for result in evaluation["cr:evaluationResults"]}
        assert results["worst"]["sc:value"] == entry.scores["worst"].value
        assert results["worst"]["sc:minValue"] <= results["worst"]["sc:value"]
    manifest = Manifest.read(tiny)
    split = replace(manifest.canonical_splits[0], protocol=GF)
    (problem,) = json.loads(render_croissant(replace(manifest, canonical_splits=[split])))["subjectOf"]
    assert solution["sc:isBasedOn"] == problem["sameAs"]


def test_a_leaderboard_needs_no_torch(tiny, task, tmp_path):
    written(tmp_path, "mine.parquet", submitted(task))
    code = (
        "import sys; sys.modules['torch'] = None\nfrom shiftdata.cli.app import main\n"
        f"sys.exit(main(['leaderboard', {str(tmp_path)!r}, '--data', {str(tiny.parent)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


# --- sweeps


@pytest.fixture(scope="module")
def sweep(tiny, tmp_path_factory):
    """A sweep that kept everything: two methods, two trials, two seeds, two steps each."""
    folder = tmp_path_factory.mktemp("sweep") / "kept"
    asked = {
        "name": "kept",
        "keep": "all",
        "methods": ["erm", "rwg"],
        "tasks": [{"protocol": "group-fairness", "k": 4, "mu": 0.2}],
        "training": {"steps": 6, "batch": 8, "evaluate_every": 3},
        "search": {"kind": "random", "trials": 2, "seeds": 2, "seeds_of": "each"},
        "rules": ["iid-worst"],
    }
    run_sweep(sweep_of(asked, [str(tiny)]), folder)
    return folder


def test_a_sweep_becomes_a_submission_of_what_its_rule_chooses(tiny, sweep, tmp_path):
    out = tmp_path / "rwg.parquet"
    line = ["submit", str(sweep), "--method", "rwg", "--rule", "iid-worst", "--out", str(out)]
    assert cli([*line, "--data", str(tiny.parent)]) == 0
    records = Records.read(sweep).where(method="rwg")
    tables = leaderboard(out, data=tiny.parent).tables
    chosen = {selected.study.task_id: selected.runs for selected in select(records, "iid-worst")}
    assert chosen.keys() == {table.entries[0].task_id for table in tables}
    for table in tables:
        (entry,) = table.entries
        results = [records.evaluation(run.run, "test", run.step) for run in chosen[entry.task_id]]
        assert entry.seeds == (0, 1)
        for name, score in entry.scores.items():
            assert score.value == pytest.approx(sum(result[name] for result in results) / 2, nan_ok=True)
    card = tables[0].entries[0].card
    assert (card.method, card.trials, card.rule) == ("rwg", 2, "iid-worst")
    assert card.pretraining.pretraining.by == "from scratch"


def test_an_oracles_choice_from_a_sweep_is_on_the_board_of_oracles(tiny, sweep, tmp_path):
    records = Records.read(sweep).where(method="erm")
    submission = from_records(records, "oracle", read_metadata(tiny))
    written(tmp_path, "oracle.parquet", submission)
    tables = leaderboard(tmp_path, data=tiny.parent).tables
    assert [table.oracle for table in tables] == [True]


def test_what_a_sweep_cannot_submit_is_said(tiny, sweep):
    records = Records.read(sweep)
    with pytest.raises(InputError, match="2 of method: erm, rwg; choose one with --method"):
        dataset_of(records)
    with pytest.raises(InputError, match="cannot choose in group-fairness"):
        from_records(records.where(method="erm"), "last", read_metadata(tiny))


# --- the workflow of the docs


def test_the_workflow_has_no_secret_and_may_write_nothing():
    text = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    workflow = yaml.safe_load(block)
    assert workflow["permissions"] == {"contents": "read"}
    assert list(workflow[True]) == ["pull_request"]  # YAML reads `on` as true; never pull_request_target
    assert "secrets" not in block
    for step in workflow["jobs"]["check"]["steps"]:
        if "run" in step:  # nothing that a submitter writes is put into the text of a command
            assert "${{" not in step["run"]


@pytest.fixture
def two():
    """Two methods of two seeds on a task whose origins have three rows each."""
    task, generator = sd.task(metadata(4, 3, 40)), np.random.default_rng(0)
    rows = task.rows("test")
    true, origin = task.metadata.label[rows].astype(int), task.metadata.origin[rows]
    hard = generator.random(len(task.metadata.origin_names))[origin]
    right = [[generator.random(len(rows)) < share - 0.5 * hard for _ in range(2)] for share in (1.2, 0.9)]
    scores = [
        scores_of([task.evaluate(np.where(ok, true, (true + 1) % 4)) for ok in seeds]) for seeds in right
    ]
    return task, rows, origin, np.array(right), scores


def test_differences_are_paired_by_origin(two):
    """Against the error of a mean of paired differences, one an origin, and the exact test of them."""
    _, _, origin, right, (first, second) = two
    sums = np.bincount(origin, right[0].sum(axis=0) - 1.0 * right[1].sum(axis=0))
    by_origin = (sums / 6)[np.bincount(origin) == 3]  # three rows, two seeds
    lead = first["overall"].minus(second["overall"])
    reach = student_quantile(0.95, len(by_origin) - 1) * by_origin.std(ddof=1) / math.sqrt(len(by_origin))
    ends = [by_origin.mean() - reach, by_origin.mean() + reach]
    assert [lead.low, lead.high] == pytest.approx(ends, rel=1e-4)
    apart = math.hypot(*(score["overall"].high - score["overall"].low for score in (first, second)))
    assert lead.high - lead.low < 0.9 * apart
    assert lead.p == paired_test(sums) < 0.05
    assert lead.origins == len(by_origin)
    same = first["overall"].minus(first["overall"])
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)


def test_worst_groups_are_tested_on_the_rows_of_the_group_that_both_have(two):
    """One group: the exact test of its rows. Two: Student's by the influence of each origin."""
    task, rows, origin, right, _ = two
    group, true = task.metadata.group[rows], task.metadata.label[rows].astype(int)
    groups = np.unique(group)

    def score(ok, worst, share):
        ok = np.where(group == worst, np.arange(len(ok)) % share == 0, ok)
        return ok, scores_of([task.evaluate(np.where(ok, true, (true + 1) % 4))])["worst"]

    (ok, first), (ok_too, second) = score(right[0][0], groups[0], 3), score(right[1][0], groups[0], 5)
    mine = group == groups[0]
    by_origin = np.bincount(origin[mine], ok[mine] * 1.0 - ok_too[mine])
    assert first.minus(second).p == paired_test(by_origin)
    _, elsewhere = score(right[1][0], groups[1], 5)
    lead = first.minus(elsewhere)
    error = math.sqrt(((first.pairs.influence - elsewhere.pairs.influence) ** 2).sum())
    assert lead.p == pytest.approx(1 - student(lead.value / error, int(elsewhere.pairs.effective) - 1))


@pytest.mark.slow
def test_equal_methods_are_rarely_called_different():
    """Groups and origins that are not equally hard, and two methods that are equally good in each."""
    task, generator, count = sd.task(metadata(4, 4, 60)), np.random.default_rng(0), 200
    rows = task.rows("test")
    true, origin = task.metadata.label[rows].astype(int), task.metadata.origin[rows]
    group = np.unique(task.metadata.group[rows], return_inverse=True)[1]
    called = {"worst": 0, "overall": 0}
    for _ in range(count):
        skill = generator.uniform(0.4, 0.9, 16)[group] + generator.normal(0, 0.1, origin.max() + 1)[origin]
        labels = (np.where(generator.random(len(rows)) < skill, true, (true + 1) % 4) for _ in range(2))
        first, second = (scores_of([task.evaluate(predicted)]) for predicted in labels)
        for name in called:
            called[name] += first[name].minus(second[name]).p < 0.05
    assert max(called.values()) <= 0.05 * count


def test_more_seeds_of_one_method_do_not_count_more(two):
    task, _, origin, right, (first, _) = two
    true = task.metadata.label[task.rows("test")].astype(int)
    one = scores_of([task.evaluate(np.where(right[1][0], true, (true + 1) % 4))])["overall"]
    by_origin = np.bincount(origin, right[0].sum(axis=0) - 2.0 * right[1][0])
    assert first["overall"].minus(one).p == paired_test(by_origin)


def test_holm_adjusts_for_all_methods_behind_the_first(tiny, task, folder):
    main, _ = leaderboard(folder, data=tiny.parent).tables
    first, *others = main.entries
    single = {entry.file: first.scores["worst"].minus(entry.scores["worst"]).p for entry in others}
    assert {file: lead.p for file, lead in main.leads.items()} == dict(
        zip(single, holm([*single.values()]), strict=True)
    )
    assert "no difference shown from high (p\u00a01.000)" in main.ahead
    behind = [line[3] for line in main.body]
    assert behind[0] == ("-", "")
    assert behind[1] == ("0.0", "p\u00a01.000")
