"""Sweeps as files: what they stand for, presets that fit their datasets, and what is refused."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections import Counter
from typing import Any

import pytest

from shiftdata.baselines import Training
from shiftdata.bench import presets, read_sweep, sweep_of
from shiftdata.bench.job import facts_of, identity
from shiftdata.bench.records import SWEEP, part_of
from shiftdata.bench.running import needed
from shiftdata.bench.sweep import PRESETS, folder_sweep, plain_sweep
from shiftdata.cli.app import main as cli
from shiftdata.data.dataset import open_dataset
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.protocols.rlsbench import rlsbench
from tests.paths import ROOT

SMALL = {
    "name": "small",
    "methods": ["erm", "rwg"],
    "tasks": [{"protocol": "group-fairness", "k": [2, 4], "mu": 0.2}],
    "training": {"steps": 6, "batch": 8},
}


def test_canonical_splits_are_named_by_a_pattern(tiny):
    made = sweep_of(SMALL | {"tasks": [{"canonical": "gf_*"}]}, [str(tiny)])
    assert made.tasks
    assert all(task.protocol.startswith("group-fairness") for task in made.tasks)
    with pytest.raises(InputError, match="canonical split"):
        sweep_of(SMALL | {"tasks": [{"canonical": "lodo_*"}]}, [str(tiny)])


def test_a_run_is_another_when_anything_that_determines_it_is(tiny):
    def ids(**changed):
        return {run.id for run in needed(sweep_of(SMALL | changed, [str(tiny)]), None)}

    before = ids()
    assert ids() == before
    others = [
        {"training": {"steps": 7, "batch": 8}},
        {"backbones": "small-resnet"},
        {"methods": ["subg", "rwy"]},
        {"search": {"kind": "random", "trials": 2, "seed": 1}},
        {"tasks": [{"protocol": "group-fairness", "k": [2, 4], "mu": 0.3}]},
    ]
    for changed in others[:3] + others[4:]:
        assert not ids(**changed) & before, changed
    assert ids(**others[3]) > before  # the defaults are trial 0 of every search


def test_the_data_of_a_run_is_part_of_its_id(tiny, monkeypatch):
    job = next(iter(needed(sweep_of(SMALL, [str(tiny)]), None))).job
    facts = facts_of(job.task)
    for name in ("content_id", "task_id", "dataset", "base"):
        run = identity(job).id
        with monkeypatch.context() as patched:
            patched.setattr("shiftdata.bench.job.facts_of", lambda spec, name=name: facts | {name: "another"})
            assert identity(job).id != run


def test_a_sweep_is_kept_whole(tiny, tmp_path):
    raw = SMALL | {"search": {"kind": "random", "trials": 3, "space": {"learning_rate": [0.1, 0.01]}}}
    made = sweep_of(raw, [str(tiny)])
    (tmp_path / SWEEP).write_text(json.dumps(plain_sweep(made)))
    again = folder_sweep(tmp_path)
    assert again == made
    assert [run.id for run in needed(again, None)] == [run.id for run in needed(made, None)]
    (tmp_path / SWEEP).write_text(json.dumps(plain_sweep(made) | {"colour": "red"}))
    with pytest.raises(InputError, match="'colour' is an unknown field"):
        folder_sweep(tmp_path)


def test_joined_protocols_take_parameters_where_they_name_them(tiny):
    task = {"protocol": "group-fairness k=2 mu={mu} label-shift", "mu": [0.5, 1], "alpha": ["none", 3]}
    made = sweep_of(SMALL | {"tasks": [task]}, [str(tiny)])
    assert [spec.protocol for spec in made.tasks] == [
        f"group-fairness k=2 mu={mu} label-shift alpha={alpha}" for mu in (0.5, 1) for alpha in ("none", 3)
    ]


@pytest.fixture
def everything_is_here(monkeypatch):
    """Datasets have one canonical split and are not opened."""
    monkeypatch.setattr("shiftdata.bench.sweep._canonical", lambda place, patterns: ["label-shift"])


@pytest.mark.usefixtures("everything_is_here")
@pytest.mark.parametrize("stand_ins", [False, True])
@pytest.mark.parametrize("name", presets())
def test_every_preset_is_a_sweep_of_methods_that_there_are(name, stand_ins):
    made = read_sweep(name, stand_ins=stand_ins)
    assert made.about
    assert (PRESETS / f"{name}.toml").read_text().startswith("# ")
    assert len(list(made.studies())) >= 2
    embedded = {path.stem for path in (ROOT / "cards").glob("*.md")}
    if stand_ins and made.stand_ins:
        assert {task.dataset for task in made.tasks} <= embedded
        assert not embedded & made.stand_ins.keys()


@pytest.mark.usefixtures("everything_is_here")
def test_the_tasks_of_rlsbench_are_those_of_its_protocol():
    tasks = {parse_protocol(task.protocol) for task in read_sweep("rlsbench").tasks}
    assert tasks == set(rlsbench(variant="code"))
    assert len(tasks) == 560


@pytest.mark.usefixtures("everything_is_here")
@pytest.mark.parametrize("name", ["rlsbench", "rlsbench-small", "sma-fairness-paper", "sma-table3"])
def test_a_preset_says_how_many_runs_it_has(name):
    made = read_sweep(name)
    assert f": {len(list(made.studies())) * made.runs_of_a_study:,} runs" in made.about


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_small_part_compares_methods_though_a_task_has_fewer(tiny, place):
    tasks = [{"protocol": "group-fairness", "k": k, "mu": 0.2} for k in (2, 3, 4)]
    for at, task in enumerate(tasks):
        task |= {} if at == place else {"methods": "erm"}
    part = sweep_of(SMALL | {"tasks": tasks}, [str(tiny)]).share(0.01)
    assert len([*part.studies()]) == len(SMALL["methods"])


def test_a_part_has_every_method_on_a_share_of_each_dataset_and_is_in_a_larger_part(tiny, tmp_path):
    places = [str(tiny), str(tmp_path / "a"), str(tmp_path / "b")]
    tasks = {"protocol": "group-fairness", "k": [2, 3], "mu": [0.1, 0.2, 0.3, 0.4], "seed": list(range(5))}
    search = {"kind": "random", "trials": 4, "seeds": 3}
    whole = sweep_of(SMALL | {"tasks": [tasks], "search": search}, places)
    before = None
    for fraction in (0.0001, 0.001, 0.004, 0.0083, 0.02, 0.1, 0.5, 0.9, 1.0):
        part = whole.share(fraction)
        studies = {(task, method.text) for task, method, _ in part.studies()}
        assert studies == {(task, method.text) for task in part.tasks for method in whole.methods}
        runs = {
            (task, method, trial, seed)
            for task, method in studies
            for trial in range(part.search.trials)
            for seed in range(part.search.seeds)
        }
        assert runs
        assert before is None or before <= runs
        before = runs
        if fraction >= 0.02:
            of = Counter(task.dataset for task in part.tasks)
            assert all(abs(of[place] - fraction * 40) <= 1 for place in places)
    assert part.tasks == whole.tasks
    assert [whole.share(share).search.trials for share in (0.0001, 0.0083, 0.01)] == [1, 3, 4]
    assert [whole.share(share).search.seeds for share in (0.0001, 0.0014, 0.01)] == [1, 2, 3]
    best = sweep_of(SMALL | {"search": search | {"seeds_of": "best"}}, [str(tiny)]).share(0.4)
    assert (best.search.trials, best.search.seeds) == (3, 1)  # the best of all trials is not known
    for wrong in (0, -1, 1.5):
        with pytest.raises(InputError, match="a number above 0"):
            whole.share(wrong)


STANDS = {
    "name": "stands",
    "methods": ["erm"],
    "backbones": "small-resnet",
    "tasks": [
        {
            "dataset": ["not_here", "nor_this"],
            "protocol": "group-fairness",
            "mu": 0.2,
            "rlsbench": "x",
            "methods": ["erm", "rwg"],
            "stand_in": "letters",
        },
        {"protocol": "group-fairness", "k": 2, "mu": 0.2, "training": {"batch": 9}},
    ],
    "training": {"epochs": 2, "evaluate_epochs": 1, "batch": 8},
}


def standing(tiny) -> dict[str, Any]:
    letters = {
        "dataset": str(tiny),
        "rlsbench": "",
        "k": 2,
        "backbones": "small-cnn",
        "training": {"steps": 5},
    }
    return STANDS | {"datasets": [str(tiny)], "stand_ins": {"letters": letters}}


def test_a_stand_in_replaces_keys_of_a_task_and_a_task_may_have_settings_of_its_own(tiny):
    real, made = (sweep_of(standing(tiny), stand_ins=stand_ins) for stand_ins in (False, True))
    assert [task.dataset for task in real.tasks] == ["not_here", "nor_this", str(tiny)]
    assert not real.stand_ins
    first, second = made.tasks
    assert (first.dataset, first.protocol) == (str(tiny), "group-fairness mu=0.2 k=2")
    assert made.stand_ins == {"not_here": str(tiny), "nor_this": str(tiny)}
    assert f"{tiny} stands in for not_here, nor_this" in part_of(plain_sweep(made))
    studies = [(task, method.text, backbone) for task, method, backbone in made.studies()]
    assert studies == [
        (first, "erm", "small-cnn"),
        (first, "rwg", "small-cnn"),
        (second, "erm", "small-resnet"),
    ]
    jobs = [run.job for run in needed(made, None)]
    assert jobs[0].training == Training(steps=5)
    rows = len(second.make().rows("train"))
    assert jobs[2].training == Training(
        steps=2 * math.ceil(rows / 9), evaluate_every=math.ceil(rows / 9), batch=9
    )
    with pytest.raises(InputError, match="unknown stand-in 'letters'"):
        sweep_of(STANDS, [str(tiny)], stand_ins=True)


def test_datasets_that_are_not_here_are_listed_and_may_be_left_out(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    file = tmp_path / "two.toml"
    tasks = '[[tasks]]\nprotocol = "group-fairness"\nk = 2\nmu = 0.2\n[training]\nsteps = 6\nbatch = 8\n'
    file.write_text(f'datasets = ["not_here", "{tiny}"]\nmethods = ["erm"]\n{tasks}')
    folder = ["--folder", str(tmp_path / "runs"), "--quiet"]
    assert cli(["sweep", str(file), *folder]) == 1
    refused = capsys.readouterr().err
    assert "not_here: 1 tasks, 1 runs" in refused
    assert "--stand-ins" in refused
    assert not (tmp_path / "runs").exists()
    assert cli(["sweep", str(file), *folder, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "1 studies on 1 tasks" in printed
    assert "not_here: 1 tasks, 1 runs" in printed
    assert not (tmp_path / "runs").exists()
    assert cli(["sweep", str(file), *folder, "--skip-missing"]) == 0
    assert "1 done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"metods": ["erm"]}, "methods"),
        ({"methods": ["ermm"]}, "erm"),
        ({"methods": ["jtt@cod"]}, "variant"),
        ({"tasks": []}, "has no tasks"),
        ({"tasks": [{"k": 2}]}, "protocol = or canonical ="),
        ({"rules": ["iid-wurst"]}, "iid-worst"),
        ({"training": {"stepz": 3}}, "steps"),
        ({"training": {"steps": 0}}, "at least 1 step"),
        ({"search": {"kind": "random", "space": {"learning_rate": {"low": 1}}}}, "low, high and log"),
        ({"hyper": {"dann": {"slope": 1}}}, "method of"),
        ({"backbones": "heads", "methods": ["dann"]}, "linear heads"),
        ({"backbones": "heads", "training": {"batch": 8}}, "heads trains with"),
        ({"training": {"steps": "3"}}, "training.steps is '3', not a int"),
        ({"search": {"kind": "bayes"}}, "search.kind is 'bayes', not a 'defaults' or 'random'"),
        ({"search": {"seeds_of": "worst"}}, "seeds_of is 'worst', not a 'each' or 'best'"),
        ({"keep": "some"}, "keep is 'some', not a 'chosen' or 'all'"),
    ],
)
def test_bad_sweeps_are_refused_with_what_is_allowed(tiny, changed, why):
    with pytest.raises(InputError, match=why):
        sweep_of(SMALL | changed, [str(tiny)])


def test_bad_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="sma-fairness"):
        read_sweep("sma-fairnes")
    with pytest.raises(InputError, match=r"there is no sweep file .*none\.toml: give .* or a preset"):
        read_sweep(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("tasks = [")
    with pytest.raises(InputError, match="cannot be read"):
        read_sweep(tmp_path / "bad.toml")
    with pytest.raises(InputError, match="names no dataset"):
        sweep_of(SMALL)


def test_the_command_lists_presets_and_names_what_is_missing(capsys):
    assert cli(["sweep"]) == 0
    assert set(presets()) <= set(capsys.readouterr().out.split())
    for command, why in (
        (["--status", "x"], "has no sweep.json"),
        (["quick", "--dataset", "x", "--rank", "1"], "--rank and --world go together"),
    ):
        assert cli(["sweep", *command]) == 1
        assert why in capsys.readouterr().err


def test_the_sweep_of_the_docs_is_one(tiny):
    text = (ROOT / "docs/sweeps.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    named = [split.name for split in open_dataset(tiny).manifest.canonical_splits]
    made = sweep_of(
        {"name": "mine", **tomllib.loads(block.replace('"uda_*"', f'"{named[-1]}"'))}, [str(tiny)]
    )
    assert len(made.tasks) == 3
    assert made.search.space["batch"].choices == (32, 64, 128)
