"""A planted label shift: RW keeps its gain under every rule that chooses a checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shiftdata as sd
from builders.make.build import build
from shiftdata.baselines import Training
from shiftdata.bench import Records, run_sweep, select, sweep_of

#: The share of the second class before the shift and after it.
SHARES = {"before": 0.5, "after": 0.9}
METHODS = ("erm", "rw+erm", "rs+erm", "rs+rw+erm")


RECIPE = """
from pathlib import Path

from builders.albums.rows import Columns, RowsAlbum
from builders.encode import TableEncoding
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains

FEATURES = {"x": "float64", "noise": "float64"}
COLUMNS = Columns(features=FEATURES, label="outcome", domain="clinic", key="id")

RECIPE = Recipe(
    name="planted",
    family="label-shift",
    version="1.0.0",
    released="2026-01-31",
    title="Planted",
    summary="Two classes whose shares differ.",
    creators=("A. Maker",),
    citation="None.",
    album=RowsAlbum(
        Path(__file__).parent / "planted.csv", COLUMNS, license="CC-BY-4.0", attribution="A. Maker"
    ),
    nuisance="clinic",
    shift=Domains(names=("before", "after")),
    encoding=TableEncoding(features=FEATURES),
    bases=(Base(name="all", summary="Every row."),),
    default_base="all",
)
"""


def planted(folder: Path) -> str:
    """Two classes, normal around -1 and 1 in either clinic: only their shares differ."""
    generator, lines = np.random.default_rng(0), ["id,x,noise,outcome,clinic"]
    for clinic, share in SHARES.items():
        for number in range(1500):
            ill = generator.random() < share
            x, noise = generator.normal(2 * ill - 1), generator.normal()
            lines.append(f"{clinic}{number},{x},{noise},{'ill' if ill else 'well'},{clinic}")
    (folder / "planted.csv").write_text("\n".join(lines), encoding="utf-8")
    (folder / "planted.py").write_text(RECIPE, encoding="utf-8")
    return str(folder / "planted.py")


TASK = {"protocol": "label-shift", "source": "before", "target": "after", "alpha": "none"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    return build(planted(folder), folder, workers=1, quiet=True)


def swept(dataset: Path, folder: Path, methods: list[str], backbone: str, **training: float) -> Records:
    asked = {"name": "planted", "methods": methods, "backbones": backbone, "tasks": [TASK]}
    run_sweep(sweep_of(asked | {"training": training}, [str(dataset)]), folder)
    return Records.read(folder)


@pytest.fixture(scope="module")
def records(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Records:
    training = {"steps": 60, "learning_rate": 0.05, "evaluate_every": 15}
    return swept(dataset, tmp_path_factory.mktemp("records"), [*METHODS], "linear", **training)


def accuracies(records: Records, rule: str) -> dict[str, float]:
    """The accuracy of each method's chosen checkpoint on the target's test set."""
    chosen = {selected.study.method: selected.runs[0] for selected in select(records, rule)}
    return {
        method: records.evaluation(choice.run, step=choice.step).figures["overall"].value
        for method, choice in chosen.items()
    }


@pytest.mark.parametrize("rule", ["iid", "oracle", "last"])
def test_rw_keeps_its_gain_under_every_rule(records, rule):
    """With shares of .9 Bayes' rule is right for .92 of the rows, and the source's model for .84."""
    found = accuracies(records, rule)
    for with_rw, without in (("rw+erm", "erm"), ("rs+rw+erm", "rs+erm")):
        assert found[with_rw] - found[without] > 0.04


def test_rw_and_the_method_inside_are_selected_at_the_same_step_by_the_same_score(records):
    chosen = {selected.study.method: selected for selected in select(records, "iid")}
    for with_rw, without in (("rw+erm", "erm"), ("rs+rw+erm", "rs+erm")):
        assert chosen[with_rw].score == chosen[without].score
        assert chosen[with_rw].runs[0].step == chosen[without].runs[0].step


def test_a_run_judges_the_validation_set_as_selection_does(dataset):
    task = sd.task(dataset, "label-shift", source="before", target="after", alpha=None)
    training = Training(steps=60, learning_rate=0.05)
    plain, corrected = (
        sd.train(task, method, backbone="linear", training=training) for method in ("erm", "rw+erm")
    )
    for name in ("source_train", "source_test"):
        assert corrected.evaluate(name).overall == plain.evaluate(name).overall
    assert corrected.evaluate().overall > plain.evaluate().overall + 0.04


def test_the_first_of_jtts_heads_is_no_checkpoint(dataset, tmp_path):
    made = swept(dataset, tmp_path, ["erm", "jtt"], "heads", steps=40, evaluate_every=2)
    steps = {method: made.steps(run) for run, method in enumerate(made.column("method"))}
    assert steps["erm"] == [*range(2, 41, 2)]
    assert steps["jtt"] == [*range(8, 41, 2)]  # a share of .15 are six steps
