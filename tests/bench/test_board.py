"""The leaderboard: ranks, the board of oracles, flags, hostile texts, and the workflow of the docs."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import yaml

import shiftdata as sd
from shiftdata.bench import Records, run_sweep, select, sweep_of
from shiftdata.bench.leaderboard import leaderboard
from shiftdata.bench.leaderboard.judging import scores_of
from shiftdata.bench.leaderboard.submission import Submission
from shiftdata.bench.leaderboard.submitting import from_records
from shiftdata.cli.app import main as cli
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.statistics import student_quantile
from tests.bench.submissions import GF, edited, fair, guess, part, submitted, written
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
    assert [(line.entry.card.method, line.rank) for line in main.lines] == [
        ("copied", 1.5), ("high", 1.5), ("middle", 3), ("low", 4),
    ]  # fmt: skip
    assert [line.entry.card.method for line in oracles.lines] == ["tuned"]
    for line in main.lines:
        share = {"copied": 0.95, "high": 0.95, "middle": 0.6, "low": 0.3}[line.entry.card.method]
        assert line.entry.scores["worst"].value == task.evaluate(guess(task, "test", share), "test").worst
    (refused,) = board.refused
    assert (refused.file, refused.method) == ("forged.parquet", "forged")
    assert "1 missing" in refused.reason


def test_less_is_better_where_it_is(tiny, task, monkeypatch, tmp_path):
    from shiftdata.bench.leaderboard import board

    for name, share in (("low", 0.3), ("high", 0.95)):
        written(tmp_path, f"{name}.parquet", submitted(task, [part(task, "test", share)], method=name))
    monkeypatch.setattr(board, "LESS", ("worst",))
    (table,) = leaderboard(tmp_path, data=tiny.parent).tables
    assert [line.entry.card.method for line in table.lines] == ["low", "high"]


# --- hostile texts


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.texts = set(), [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)


def test_hostile_texts_are_texts_on_the_page_and_in_markdown(tiny, task, tmp_path):
    parts = [part(task, "test", 0.5)]
    same = {"backbone": HOSTILE, "authors": [HOSTILE], "hyper": {HOSTILE: HOSTILE}, "cost": HOSTILE}
    written(tmp_path, "<img src=x>.parquet", submitted(task, parts, method=HOSTILE, **same))
    written(tmp_path, "=cmd.parquet", forged(submitted(task, parts, method="=1+1")))
    (tmp_path / "\x1b[2J.parquet").write_bytes(b"no")
    board = leaderboard(tmp_path, data=tiny.parent)
    page = Tags(board.to_html())
    assert not page.tags & {"script", "img", "iframe", "form", "base", "object"}
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    links = {value for name, value in page.attributes if name == "href" and not value.startswith("#")}
    assert links == {"data:,", "https://example.org/paper"}
    assert HOSTILE in page.texts
    text = board.to_markdown()
    assert not re.search(r"<|>|@|(?<!\\)`|(?<!\\)\]\(|\x1b|https?://", text)
    for line in text.splitlines():
        if line.startswith("| ") and "---" not in line:
            assert line.count("|") in (4, 12), line  # no cell began another


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
    assert page.count('class="interval"') == 25


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
    board = leaderboard(tmp_path / "a", tmp_path / "b", data=tiny.parent)
    assert {line.entry.file for line in board.tables[0].lines} == {"a/mine.parquet", "b/mine.parquet"}
    assert [refused.file for refused in board.refused] == ["a/broken.parquet"]


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


def test_a_sweep_becomes_a_submission_whose_selection_is_repeated(tiny, sweep, tmp_path, capsys):
    out = tmp_path / "rwg.parquet"
    line = ["submit", str(sweep), "--method", "rwg", "--rule", "iid-worst", "--out", str(out)]
    assert cli([*line, "--data", str(tiny.parent)]) == 0
    assert capsys.readouterr().out.count("selection repeated (8 models)") == 1
    records = Records.read(sweep).where(method="rwg")
    tables = leaderboard(out, data=tiny.parent).tables
    chosen = {selected.study.task_id: selected.runs for selected in select(records, "iid-worst")}
    assert chosen.keys() == {table.entry.task_id for table in tables}
    for table in tables:
        (line,) = table.lines
        results = [records.evaluation(run.run, "test", run.step) for run in chosen[table.entry.task_id]]
        assert line.entry.seeds == (0, 1)
        for name, score in line.entry.scores.items():
            assert score.value == pytest.approx(sum(result[name] for result in results) / 2, nan_ok=True)
    card = tables[0].lines[0].entry.card
    assert (card.method, card.trials, card.rule) == ("rwg", 2, "iid-worst")
    assert set(card.hyper) == {GF}


def test_an_oracles_choice_from_a_sweep_is_on_the_board_of_oracles(tiny, sweep, tmp_path):
    records = Records.read(sweep).where(method="erm")
    made = from_records(records, "oracle", data=tiny.parent)
    written(tmp_path, "oracle.parquet", made)
    tables = leaderboard(tmp_path, data=tiny.parent).tables
    assert [table.oracle for table in tables] == [True]
    assert "selection as stated" in tables[0].lines[0].entry.badge
    # The same models under another name of a rule: its own candidates say no.
    honest = from_records(records, "iid-worst", data=tiny.parent)
    rows = honest.rows.to_pylist()
    moved = [row | ({"trial": 1 - row["trial"]} if row["set"] == "test" else {}) for row in rows]
    tuned = edited(honest, trial=[row["trial"] for row in moved]).rows.cast(honest.rows.schema)
    written(tmp_path, "tuned.parquet", Submission(honest.card, tuned))
    (refused,) = leaderboard(tmp_path, data=tiny.parent).refused
    assert refused.reason.startswith("test-tuned: iid-worst, repeated on its own candidates")


def test_what_a_sweep_cannot_submit_is_said(tiny, sweep):
    records = Records.read(sweep)
    with pytest.raises(InputError, match="2 of method: erm, rwg; choose one with --method"):
        from_records(records, "iid-worst", data=tiny.parent)
    with pytest.raises(InputError, match="cannot choose in group-fairness"):
        from_records(records.where(method="erm"), "last", data=tiny.parent)


# --- the workflow of the docs


def _script() -> tuple[dict[str, object], str, str]:
    text = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    workflow = yaml.safe_load(block)
    steps = {step.get("name"): step for step in workflow["jobs"]["check"]["steps"]}
    return workflow, steps["check"]["run"], block


def test_the_workflow_has_no_secret_and_may_write_nothing():
    workflow, _, block = _script()
    assert workflow["permissions"] == {"contents": "read"}
    assert list(workflow[True]) == ["pull_request"]  # YAML reads `on` as true; never pull_request_target
    assert "secrets" not in block
    for step in workflow["jobs"]["check"]["steps"]:
        if "run" in step:  # nothing that a submitter writes is put into the text of a command
            assert "${{" not in step["run"]


def test_the_workflow_accepts_a_good_submission_and_refuses_a_forged_one(tiny, task, tmp_path):
    _, script, _ = _script()
    repo = tmp_path / "repo"
    (repo / "submissions").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "shiftdata"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m shiftdata "$@"\n')
    command.chmod(0o755)
    who = {f"GIT_{who}_{field}": "x" for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
    env = os.environ | who | {
        "PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(tmp_path), "BASE": "base",
        "SHIFTDATA_HOME": str(tiny.parent), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }  # fmt: skip

    def git(*words):
        subprocess.run(["git", *words], cwd=repo, env=env, check=True, capture_output=True)

    def checked(name, submission):
        git("checkout", "-q", "-B", "change", "base")
        written(repo / "submissions", name, submission)
        git("add", "-A")
        git("commit", "-qm", "change")
        (tmp_path / "summary.md").write_text("")
        line = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = subprocess.run(line, cwd=repo, env=env, capture_output=True, text=True)
        return done.returncode, (tmp_path / "summary.md").read_text()

    git("init", "-q", "-b", "main")
    written(repo / "submissions", "old.parquet", submitted(task, method="old"))
    git("add", "-A")
    git("commit", "-qm", "base")
    git("tag", "base")
    code, summary = checked("a b; touch x $(touch y).parquet", submitted(task, method="good"))
    assert code == 0
    assert "| good | 1 |" in summary
    assert "old" not in summary
    code, summary = checked("forged.parquet", forged(submitted(task, method="bad")))
    assert code != 0
    assert "1 missing" in summary
    assert sorted(path.name for path in repo.iterdir()) == [".git", "submissions"]


def test_differences_are_paired_by_origin():
    """Against the error of a mean of paired differences, one an origin."""
    task, generator = sd.task(metadata(4, 3, 40)), np.random.default_rng(0)
    rows = task.rows("test")
    true, origin = task.metadata.label[rows].astype(int), task.metadata.origin[rows]
    hard = generator.random(len(task.metadata.origin_names))[origin]
    right = [generator.random(len(rows)) < share - 0.5 * hard for share in (1.1, 1.0)]
    first, second = (
        scores_of([task.evaluate(np.where(ok, true, (true + 1) % 4))])["overall"] for ok in right
    )
    sums = np.bincount(origin, right[0] * 1.0 - right[1])
    by_origin = (sums / 3)[np.bincount(origin) == 3]  # each origin has three rows
    low, high = first.minus(second)
    reach = student_quantile(0.95, len(by_origin) - 1) * by_origin.std(ddof=1) / math.sqrt(len(by_origin))
    assert [low, high] == pytest.approx([by_origin.mean() - reach, by_origin.mean() + reach], rel=1e-4)
    assert high - low < 0.9 * math.hypot(first.high - first.low, second.high - second.low)
    assert first.minus(first) == (0, 0)
