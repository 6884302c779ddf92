"""Sweeps as they run: killed and resumed, on every executor, with failures; the records are equal."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.baselines import Training
from shiftdata.bench import Records, Sweep, folder_sweep, progress_of, report, run_sweep, select, sweep_of
from shiftdata.bench.records import RECORDS
from shiftdata.cli.app import main as cli
from shiftdata.data.executors import Here, Pool
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import parse_protocol
from tests.bench.jobs import SWEEP
from tests.paths import ROOT

QUIET = subprocess.DEVNULL
COST = ("seconds", "processor_seconds", "peak_memory")


@pytest.fixture(scope="module")
def sweep(tiny) -> Sweep:
    return sweep_of(SWEEP, [str(tiny)])


@pytest.fixture(scope="module")
def whole(sweep, tmp_path_factory) -> Path:
    """The folder of the sweep, done in this process without a stop."""
    folder = tmp_path_factory.mktemp("sweep") / "whole"
    run_sweep(sweep, folder)
    return folder


def said(folder: Path) -> list[tuple[object, ...]]:
    """All that records say but what it cost."""
    made = Records.read(folder)
    rows = made.runs.drop_columns(
        ["seconds", "processor_seconds", "peak_memory", "_file", "_row"]
    ).to_pylist()
    kept = [
        [None if (some := made.predicted(run, name, step)) is None else some.tolist() for name, step in of]
        for run, of in enumerate(made.places)
    ]
    return sorted((row["id"], repr(row), repr(predicted)) for row, predicted in zip(rows, kept, strict=True))


def test_a_sweep_leaves_every_evaluation_and_the_predictions_of_what_was_chosen(sweep, whole):
    made = Records.read(whole)
    assert len(made) == 2 * 2 * 2
    assert set(made.column("status")) == {"done"}
    assert made.steps(0) == [3, 6]
    assert {name for name, _ in made.places[0]} == {"validation", "test"}
    assert len(made.runs["evaluations"][0]) == 4  # each set once after each step
    chosen = {(at.run, at.step) for rule in sweep.rules for of in select(made, rule) for at in of.runs}
    for run in range(len(made)):
        for step in made.steps(run):
            labels = made.predicted(run, "test", step)
            assert (labels is not None) == ((run, step) in chosen)
            if labels is not None:
                right = made.evaluation(run, "test", step)
                assert right.cells.correct.sum() <= len(labels)
    assert min(made.column("peak_memory")) > 1 << 20
    assert made.column("examples") == [48] * 8
    assert not list(whole.glob("running/*"))


def test_its_scores_are_those_of_a_training_by_hand(sweep, whole):
    """The last evaluation of a run is what `sd.train` gives for the same settings."""
    made = Records.read(whole)
    for run in (0, len(made) - 1):
        about = json.loads(made.column("about")[run])
        task = sd.task(sweep.tasks[0].dataset, parse_protocol(about["protocol"]))
        training = Training(**about["training"])
        by_hand = sd.train(task, about["method"], backbone="small-cnn", training=training, seed=about["seed"])
        of_sweep, alone = made.evaluation(run).to_dict(), by_hand.evaluate().to_dict()
        assert (
            alone | {"notes": of_sweep["notes"]} == of_sweep
        )  # notes are of predictions, which are not stored


@pytest.mark.slow
def test_a_pool_leaves_the_same(sweep, whole, tmp_path):
    run_sweep(sweep, tmp_path / "other", executor=Pool(2))
    assert said(tmp_path / "other") == said(whole)


@pytest.mark.slow
def test_a_ray_cluster_leaves_the_same(sweep, whole, tmp_path):
    from shiftdata.data.executors import Ray

    run_sweep(sweep, tmp_path / "ray", executor=Ray(workers=2))
    assert said(tmp_path / "ray") == said(whole)


@pytest.mark.slow
def test_ranks_that_share_a_folder_leave_the_same(sweep, whole, tmp_path):
    folder = tmp_path / "ranks"
    begin(sweep, folder)
    started = [subprocess.Popen(resuming(folder, n, 2), env=known(), stdout=QUIET) for n in range(2)]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    assert said(tmp_path / "ranks") == said(whole)


def test_a_run_that_two_ranks_did_is_there_once_and_files_may_go_while_they_are_read(sweep, whole, tmp_path):
    """One rank has finished, and another writes what it was doing; a third begins to read in between."""
    shutil.copytree(whole, tmp_path / "twice")
    (only,) = (tmp_path / "twice" / RECORDS).iterdir()
    table = pq.read_table(only)
    pq.write_table(table.slice(0, 3), only.with_name("late.parquet"))
    run_sweep(sweep, tmp_path / "twice")
    (merged,) = (tmp_path / "twice" / RECORDS).iterdir()
    assert pq.read_table(merged)["id"].to_pylist() == table["id"].to_pylist()
    assert said(tmp_path / "twice") == said(whole)
    gone = [FileNotFoundError(only)]
    read = pq.read_table

    def vanishing(path, **options):
        if gone:
            raise gone.pop()
        return read(path, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pq, "read_table", vanishing)
        assert len(Records.read(tmp_path / "twice")) == len(table)


def begin(sweep: Sweep, folder: Path) -> None:
    """A folder in which nothing was done yet."""

    class StopError(Exception):
        pass

    class Stops(Here):
        def run(self, work, jobs):
            raise StopError
            yield

    with pytest.raises(StopError):
        run_sweep(sweep, folder, executor=Stops())


def resuming(folder: Path, rank: int = 0, world: int = 1) -> list[str]:
    code = (
        "import sys, pathlib\n"
        "from shiftdata.bench import folder_sweep, run_sweep\n"
        "from shiftdata.data.executors import Rank\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "run_sweep(folder_sweep(folder), folder, rank=Rank(int(sys.argv[2]), int(sys.argv[3])))\n"
    )
    return [sys.executable, "-c", code, str(folder), str(rank), str(world)]


def known() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.mark.slow
def test_killed_at_random_and_resumed_it_leaves_the_same(sweep, whole, tmp_path):
    folder, drawn = tmp_path / "killed", random.Random(0)
    begin(sweep, folder)
    command = resuming(folder)
    seen = 0
    for _ in range(2):
        with subprocess.Popen(command, env=known(), stdout=QUIET) as process:
            wanted, waited = seen + drawn.randint(1, 3), time.monotonic()
            while len(list((folder / RECORDS).glob("[!.]*.parquet"))) < wanted and process.poll() is None:
                time.sleep(0.005)
                assert time.monotonic() - waited < 120
            time.sleep(drawn.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
        seen = len(list((folder / RECORDS).glob("[!.]*.parquet")))
    now = progress_of(sweep, folder)
    assert 0 < now.left < now.runs
    assert "not complete" in str(now)
    run_sweep(sweep, folder)
    assert said(folder) == said(whole)


@pytest.mark.slow
def test_a_part_that_is_killed_goes_on_and_is_a_part_of_the_whole(sweep, whole, tmp_path):
    folder, part = tmp_path / "part", sweep.share(0.5)
    begin(part, folder)
    code = (
        "import os, pathlib, signal, sys\n"
        "from shiftdata.bench import folder_sweep, run_sweep\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "end = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "run_sweep(folder_sweep(folder), folder, on_unit=end)\n"
    )
    command = [sys.executable, "-c", code, str(folder)]
    killed = subprocess.run(command, env=known(), stdout=QUIET, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert progress_of(part, folder).left == 3
    run_sweep(folder_sweep(folder), folder)
    assert {row[0] for row in said(folder)} < {row[0] for row in said(whole)}
    assert len(Records.read(folder)) == 4
    assert "--fraction 0.5 (1 tasks, 2 trials, 1 seeds)" in str(report(Records.read(folder)))
    run_sweep(sweep, folder)
    assert said(folder) == said(whole)
    with pytest.raises(InputError, match="a larger part of the sweep"):
        run_sweep(part, folder)


def test_a_sweep_that_is_done_trains_nothing_again(sweep, whole):
    before = {path: path.stat().st_mtime_ns for path in (whole / RECORDS).iterdir()}
    run_sweep(sweep, whole, on_unit=lambda *_: pytest.fail("it was done"))
    assert {path.name for path in before} == {path.name for path in (whole / RECORDS).iterdir()}


@pytest.mark.slow
def test_more_of_the_same_goes_on_and_something_else_is_refused(sweep, tiny, tmp_path):
    some = sweep_of(SWEEP | {"search": SWEEP["search"] | {"trials": 1}}, [str(tiny)])
    run_sweep(some, tmp_path)
    before = Records.read(tmp_path).column("id")
    run_sweep(sweep, tmp_path)
    assert set(before) < set(Records.read(tmp_path).column("id"))
    changed = sweep_of(SWEEP | {"training": SWEEP["training"] | {"steps": 7}}, [str(tiny)])
    with pytest.raises(InputError, match="begun as another sweep"):
        run_sweep(changed, tmp_path)


@pytest.mark.slow
def test_failures_are_recorded_with_their_reasons_and_the_rest_goes_on(tiny, tmp_path, capsys):
    broken = SWEEP | {
        "methods": ["nan-of-a-test", "memory-of-a-test", "bug-of-a-test", "killed-of-a-test", "dann", "erm"],
        "tasks": [{"protocol": "group-fairness", "k": 2, "mu": 0.2}],
        "search": {},
        "imports": ["tests.bench.jobs"],
    }
    sweep = sweep_of(broken, [str(tiny)])
    run_sweep(sweep, tmp_path, executor=Pool(1))
    made = Records.read(tmp_path)
    ends = zip(made.column("status"), made.column("reason"), strict=True)
    ended = dict(zip(made.column("method"), ends, strict=True))
    assert ended["erm"] == ("done", "")
    assert ended["nan-of-a-test"][0] == "diverged"
    assert "lower learning_rate" in ended["nan-of-a-test"][1]
    assert ended["memory-of-a-test"][0] == "out of memory"
    assert ended["bug-of-a-test"] == ("error", "ZeroDivisionError: a mistake (jobs.py, line 53)")
    assert ended["killed-of-a-test"][0] == "out of memory"
    assert "SIGKILL" in ended["killed-of-a-test"][1]
    assert ended["dann"][0] == "refused"
    assert "needs a set with the role 'unlabelled'" in ended["dann"][1]
    now = progress_of(sweep, tmp_path)
    assert (now.left, now.recorded["done"], len(now.failed)) == (0, 1, 5)
    assert cli(["sweep", "--status", str(tmp_path)]) == 0
    assert "1 done" in capsys.readouterr().out
    again: list[str] = []
    run_sweep(sweep, tmp_path, retry=["error"], on_unit=lambda unit, _: again.append(unit.runs[0].job.method))
    assert again == ["bug-of-a-test"]


def test_a_task_that_cannot_be_made_is_a_reason(tiny, tmp_path):
    impossible = SWEEP | {"tasks": [{"protocol": "group-fairness", "k": [2, 99], "mu": 0.2}], "search": {}}
    made = run_sweep(sweep_of(impossible, [str(tiny)]), tmp_path)
    ended = {(row["protocol"], row["status"]) for row in made.runs.select(["protocol", "status"]).to_pylist()}
    assert ended == {("group-fairness k=2 mu=0.2", "done"), ("group-fairness k=99 mu=0.2", "refused")}
    refused = [selected for selected in select(made, "iid") if selected.refused]
    assert len(refused) == 2


def test_runs_that_fail_alike_are_one_reason_and_a_sweep_without_a_run_ends_with_1(
    tiny, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    search = '[search]\nkind = "random"\ntrials = 3\n'
    asked = f'datasets = ["{tiny}"]\nmethods = ["erm"]\n{search}[[tasks]]\nprotocol = "group-fairness"\n'
    Path("all.toml").write_text(f"{asked}mu = 0.2\nk = 99\n")
    Path("some.toml").write_text(f"{asked}mu = 0.2\nk = [2, 99]\n[training]\nsteps = 1\n")
    assert cli(["sweep", "all.toml", "--quiet"]) == 1
    said = capsys.readouterr().out
    assert said.count("k=99 needs") == 1
    assert "erm on group-fairness mu=0.2 k=99, trial 0, seed 0, and 2 more" in said
    assert cli(["sweep", "some.toml", "--quiet"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "tpe"])
def test_further_seeds_of_the_best_come_after_the_search_and_a_kill_changes_nothing(tiny, tmp_path, kind):
    search = {
        "kind": kind,
        "trials": 7,
        "seeds": 3,
        "seeds_of": "best",
        "space": {"learning_rate": [0.1, 0.003]},
    }
    sweep = sweep_of(
        SWEEP | {"search": search, "methods": ["erm"], "tasks": [SWEEP["tasks"][0] | {"k": 2}]}, [str(tiny)]
    )
    made = run_sweep(sweep, tmp_path / "whole")
    assert len(made) == 7 + 2
    (chosen,) = select(made, "iid")
    assert [at.seed for at in chosen.runs] == [0, 1, 2]

    class StopError(Exception):
        pass

    def stop(unit, now):
        if now.recorded.total() == 6:
            raise StopError

    with pytest.raises(StopError):
        run_sweep(sweep, tmp_path / "stopped", on_unit=stop)
    run_sweep(sweep, tmp_path / "stopped")
    assert said(tmp_path / "stopped") == said(tmp_path / "whole")


def test_the_python_of_the_docs_runs(whole, tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs/sweeps.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shutil.copytree(whole, tmp_path / "runs/quick")
    monkeypatch.chdir(tmp_path)
    exec(block.replace('"style"', '"nuisance"'), {})
    assert "iid-worst: trial" in capsys.readouterr().out
