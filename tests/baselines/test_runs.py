"""Runs as a user makes them: by name, by an object, by the command; stopped and resumed; or a reason."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from torch.nn.functional import cross_entropy

import shiftdata as sd
from shiftdata.baselines import (
    METHODS,
    DivergedError,
    Hyper,
    Method,
    Training,
    make_method,
    method,
    method_class,
)
from shiftdata.cli.app import main as cli
from shiftdata.cli.train import _tests
from shiftdata.errors import InputError, NotFoundError
from tests.baselines.problems import problem, trainer_of
from tests.evaluation.protocols.made import metadata
from tests.paths import ROOT

QUICK = Training(steps=12, batch=16, evaluate_every=6)


@pytest.fixture(scope="module")
def task(tiny) -> sd.Task:
    return sd.task(tiny, "group-fairness", k=4, mu=0.2)


@method("focal-of-a-test")
class Focal(Method):
    """Cross-entropy with less weight on rows that are right already."""

    gamma = Hyper(2.0, low=0.5, high=5.0, source="a test")

    def loss(self, batch):
        losses = cross_entropy(self.network(batch.x), batch.y, reduction="none")
        return ((1 - torch.exp(-losses)) ** self.gamma * losses).mean()


def test_a_method_of_ones_own_is_trained_by_name_and_as_an_object(task):
    named = sd.train(task, "focal-of-a-test", gamma=1, side=24, training=QUICK)
    given = sd.train(task, Focal(gamma=1), side=24, training=QUICK)
    assert (named.scores == given.scores).all()
    assert named.about["hyper"] == {"gamma": 1.0}
    erm = sd.train(task, side=24, training=QUICK)
    zero = sd.train(task, "focal-of-a-test", gamma=0, side=24, training=QUICK)
    assert (erm.scores == zero.scores).all()
    assert not (erm.scores == named.scores).all()


def test_a_run_says_all_that_determines_it_and_is_kept(task, tmp_path):
    run = sd.train(task, "rwg", side=24, training=QUICK, seed=3, folder=tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["task_id"] == task.content_id()
    assert (record["method"], record["variant"], record["seed"]) == ("rwg", "fixed", 3)
    assert [entry["step"] for entry in record["history"]] == [6, 12]
    assert len(record["history"][0]["predicted"]) == len(task.rows("validation"))
    table = pq.read_table(tmp_path / "predictions-test.parquet")
    assert task.evaluate(table).mean == run.evaluate().mean
    assert not (tmp_path / "checkpoint.pt").exists()
    assert run.evaluate("validation").n == len(task.rows("validation"))


WORK = """
import sys, time
import shiftdata as sd
from shiftdata.baselines import Training
task = sd.task(sys.argv[1], "group-fairness", k=4, mu=0.2)
def slowly(done, total):
    print(done, flush=True)
    time.sleep(0.05 if sys.argv[3] == "slow" else 0)
training = Training(steps=30, batch=16)
sd.train(task, "rwg", side=24, training=training, folder=sys.argv[2], save_every=4, on_step=slowly)
"""


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_and_ends_in_the_same_bits(tiny, tmp_path):
    def start(folder: Path, pace: str) -> subprocess.Popen[str]:
        known = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", WORK, str(tiny), str(folder), pace]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=known)

    with start(tmp_path / "killed", "slow") as killed:
        assert killed.stdout is not None
        for line in killed.stdout:
            if int(line) >= 14:
                killed.send_signal(signal.SIGKILL)
                break
    steps = []
    for name in ("killed", "whole"):
        with start(tmp_path / name, "fast") as running:
            steps.append(running.communicate()[0].split())
        assert running.returncode == 0
    assert int(steps[0][0]) in (13, 17)  # after the last checkpoint
    assert int(steps[1][0]) == 1
    states = [torch.load(tmp_path / name / "model.pt") for name in ("killed", "whole")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    tables = [pq.read_table(tmp_path / name / "predictions-test.parquet") for name in ("killed", "whole")]
    assert tables[0] == tables[1]


def test_a_checkpoint_of_another_run_is_refused(task, tmp_path):
    class Stopped(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 5:
            raise Stopped

    settings = {"side": 24, "folder": tmp_path, "save_every": 2}
    with pytest.raises(Stopped):
        sd.train(task, "erm", training=QUICK, on_step=stop, **settings)
    assert (tmp_path / "checkpoint.pt").exists()
    with pytest.raises(InputError, match="of another run: delete it, or give another folder"):
        sd.train(task, "erm", training=QUICK, seed=1, **settings)
    sd.train(task, "erm", training=QUICK, **settings)


def test_a_setting_of_the_training_says_where_it_goes(task):
    with pytest.raises(NotFoundError, match=r"unknown hyper-parameter of ERM 'lr'.*training=Training\("):
        sd.train(task, "erm", side=24, lr=0.1)
    with pytest.raises(InputError, match="give it its hyper-parameters itself"):
        sd.train(task, make_method("erm"), side=24, gamma=1)
    own = {name for known in METHODS for name in method_class(known).space()}
    assert not own & set(inspect.signature(sd.train).parameters)  # they would never reach the method


def test_what_cannot_be_trained_says_why(task, tiny):
    with pytest.raises(InputError, match=r"needs a set with the role 'unlabelled'.*has train \(fit\)"):
        sd.train(task, "dann", side=24)
    with pytest.raises(NotFoundError, match="did you mean 'group-dro'"):
        sd.train(task, "group-dr", side=24)
    with pytest.raises(NotFoundError, match="unknown hyper-parameter of Focal 'gama'; did you mean 'gamma'"):
        sd.train(task, "focal-of-a-test", gama=1, side=24)
    with pytest.raises(NotFoundError, match="unknown variant of ERM 'papre'"):
        sd.train(task, variant="papre", side=24)
    with pytest.raises(InputError, match="only wrappers go before a"):
        make_method("erm+dann")
    one_domain = sd.task(tiny, "uda", source="red", target="blue")
    with pytest.raises(InputError, match="needs rows of several domains, and source_train has one"):
        sd.train(one_domain, "coral", side=24)
    with pytest.raises(InputError, match="'adagrad' is not one of adamw, adam, sgd"):
        Training(optimizer="adagrad")  # type: ignore[arg-type]


def test_a_loss_that_is_no_number_stops_the_run_and_says_where():
    class Broken(Method):
        def loss(self, batch):
            losses = cross_entropy(self.network(batch.x), batch.y, reduction="none")
            return losses.mean() * (float("nan") if batch.step == 3 else 1)

    with pytest.raises(DivergedError, match="the loss is nan at step 4: lower learning_rate"):
        trainer_of(Broken(), problem()).run()
    with pytest.raises(DivergedError, match="lower learning_rate, now 1e"):
        trainer_of(make_method("erm"), problem(), optimizer="sgd", learning_rate=1e38, steps=50).run()


def test_the_command_trains_judges_and_keeps(tiny, tmp_path, capsys):
    words = ["train", str(tiny), "group-fairness", "k=4", "mu=0.2", "--steps", "5", "--quiet"]
    assert cli([*words, "--folder", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "worst" in said
    assert f"saved in {tmp_path / 'run'}" in said
    assert cli([*words, "--method", "focal-of-a-test", "--set", "gamma=3", "--format", "json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["run"]["hyper"] == {"gamma": 3.0}
    assert cli([*words, "--set", "gamma"]) == 1
    assert "give NAME=VALUE" in capsys.readouterr().err


def test_the_command_lists_what_there_is(capsys):
    assert cli(["train"]) == 0
    said = capsys.readouterr().out
    for name in ("erm", "group-dro", "small-resnet", "needs groups", "rs+"):
        assert name in said


def test_the_command_judges_every_cell_of_a_task_that_was_cut(task):
    cut = sd.task(metadata(3, 2, 20, severities=(0.0, 1.0)), "continuous", cells=True)
    assert _tests(cut) == [name for name, rows in cut.sets.items() if rows.role == "test"]
    assert _tests(task) == ["test"]
