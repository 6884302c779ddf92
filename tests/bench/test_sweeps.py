"""Sweeps as files: what they stand for, presets that fit their datasets, and what is refused."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from shiftdata.bench import presets, read_sweep, sweep_of
from shiftdata.bench.job import facts_of, identity
from shiftdata.bench.records import SWEEP
from shiftdata.bench.running import needed
from shiftdata.bench.sweep import PRESETS, folder_sweep, plain_sweep
from shiftdata.cli.app import main as cli
from shiftdata.data.dataset import open_dataset
from shiftdata.errors import InputError
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


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_a_sweep_of_methods_that_there_are(name, monkeypatch):
    monkeypatch.setattr("shiftdata.bench.sweep._canonical", lambda place, patterns: ["label-shift"])
    made = read_sweep(name)
    assert made.about
    assert (PRESETS / f"{name}.toml").read_text().startswith("# ")
    assert len(list(made.studies())) >= 3


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
