"""Saved runs as a report reads them: the task made again, models on a line, ranks by shift, calibration."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.baselines import Training
from shiftdata.bench.records import runs_of
from shiftdata.bench.reporting import report
from shiftdata.bench.saved import SavedRuns, saved_task
from shiftdata.cli.app import main as cli
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import group_accuracy, rank_agreement
from shiftdata.evaluation.metrics.line import Point, accuracy_line, agreement_line
from tests.bench.synthetic import made_task, synthetic
from tests.shared import dataset_of

WIDTHS = ("0.05", "0.1", "0.25", "0.5")
STEPS = (2, 6, 15, 40)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return dataset_of(tmp_path_factory, "continuous")


@pytest.fixture(scope="module")
def task(dataset):
    return sd.task(dataset, "severity<=10 continuous")


@pytest.fixture(scope="module")
def runs(task, tmp_path_factory):
    """Small networks of four widths, each trained for longer."""
    folder, made = tmp_path_factory.mktemp("saved"), {}
    for width, steps in zip(WIDTHS, STEPS, strict=True):
        training = Training(steps=steps, batch=16)
        made[folder / width] = sd.train(
            task, backbone=f"small-cnn:{width}", side=16, training=training, folder=folder / width
        )
    return made


@pytest.fixture(scope="module")
def saved(runs, dataset):
    return SavedRuns.read(*runs, dataset=str(dataset))


def section(made, start):
    return next(section for section in made.sections if section.title.startswith(start))


def test_outputs_that_are_no_label_are_wrong(runs, dataset, task, tmp_path):
    shutil.copytree(next(iter(runs)), tmp_path / "run")
    file = tmp_path / "run/predictions-test.parquet"
    table = pq.read_table(file)
    names = ["unknown"] * len(table)
    pq.write_table(table.set_column(1, "prediction", [names]), file)
    made = SavedRuns.read(tmp_path / "run", dataset=str(dataset))
    assert made.evaluation(0, "test", 0).accuracy == 0
    assert (made.predicted(0) == -1).all()


def test_a_folder_has_scores_of_the_test_set_and_of_the_validation_set(runs, task):
    for folder, run in runs.items():
        about = json.loads((folder / "run.json").read_text())
        assert about["outputs"] == list(task.labels)
        for name in ("validation", "test"):
            table = pq.read_table(folder / f"predictions-{name}.parquet")
            scores = np.stack(table["scores"].to_numpy())
            assert table["key"].to_pylist() == list(task.keys(name))
            assert table["prediction"].to_pylist() == [about["outputs"][place] for place in scores.argmax(1)]
            assert (
                task.evaluate(folder / f"predictions-{name}.parquet", name).figures
                == run.evaluate(name).figures
            )
        assert (scores == run.scores[np.searchsorted(run.rows, task.rows("test"))]).all()


def test_the_task_is_made_again_from_what_the_run_says(runs, task, dataset):
    about = json.loads((next(iter(runs)) / "run.json").read_text())
    assert saved_task(about, str(dataset)).content_id() == task.content_id()
    for of in (None, "continuous@paper", "label-shift alpha=1 seed=3"):
        made = sd.task(dataset, of)
        described = about | {"task": made.describe(), "task_id": made.content_id()}
        assert saved_task(described, str(dataset)).sets.keys() == made.sets.keys()
    seen = sd.task(dataset).also("test", "unlabelled")
    described = about | {"task": seen.describe(), "task_id": seen.content_id()}
    assert "unlabelled" in saved_task(described, str(dataset)).sets["test"].roles
    with pytest.raises(InputError, match="other rows here"):
        saved_task(about | {"task_id": "0" * 64}, str(dataset))
    with pytest.raises(InputError, match="--dataset"):
        saved_task(about | {"content_id": "0" * 64}, str(dataset))


@pytest.mark.parametrize(("sides", "at"), [(("select", "test"), None), (("test@0", "test@1"), ("0", "1"))])
def test_the_line_and_the_agreement_are_those_of_the_predictions(runs, saved, task, sides, at):
    clean_table, *more = section(report(saved, ["last"], line=sides), "Accuracy on the line").tables
    label, severity, origin = task.metadata.label, task.metadata.columns["severity"], task.metadata.origin
    hits, labels, rows_of, sizes = [], [], [], []
    for run in runs.values():
        test = task.rows("test")
        predicted = run.predicted[np.searchsorted(run.rows, test)]
        if at is None:
            validation = task.rows("validation")
            pair = [(validation, run.outputs[run.scores_of("validation").argmax(1)]), (test, predicted)]
        else:
            chosen = [severity[test] == float(step) for step in at]
            pair = [(test[mask], predicted[mask]) for mask in chosen]
        hits.append([float((label[rows] == of).mean()) for rows, of in pair])
        rows_of.append([rows for rows, _ in pair])
        errors = [
            group_accuracy(label[rows], of, np.zeros(len(rows), int), n_groups=1, origins=origin[rows]).sem[0]
            for rows, of in pair
        ]
        sizes.append(
            tuple(
                min(len(rows), 1 + p * (1 - p) / float(error) ** 2)
                for (rows, _), p, error in zip(pair, hits[-1], errors, strict=True)
            )
        )
        labels.append([of for _, of in pair])
    points = [
        Point(f"small-cnn:{width}", *of, *map(len, pair_rows), effective=size)
        for width, of, pair_rows, size in zip(WIDTHS, hits, rows_of, sizes, strict=True)
    ]
    line = accuracy_line(points)
    names = clean_table.blocks[0].header[1:3]
    assert names == (("validation", "test") if at is None else sides)
    assert clean_table.blocks == line.table(sides=names).blocks
    agreement = agreement_line(
        *map(np.stack, zip(*labels, strict=True)), [of[0] for of in hits], names=[p.name for p in points],
        true=[of[1] for of in hits],
    )  # fmt: skip
    assert [table.blocks for table in more] == [agreement.table().blocks]


def test_models_stand_in_one_table_with_ranks_by_shift(saved, runs, task):
    made = section(report(saved, ["last"]), "Continuous shift")
    tables = {table.title.partition(",")[0]: table.blocks[0] for table in made.tables}
    assert [line[0] for line in tables["Accuracy"].body] == [f"small-cnn:{width}" for width in WIDTHS]
    figures = {width: run.evaluate() for width, run in zip(WIDTHS, runs.values(), strict=True)}
    shown = {line[0]: line for line in tables["Figures"].body}
    place = tables["Figures"].header.index("mean failure point (severity)")
    for width, result in figures.items():
        assert shown[f"small-cnn:{width}"][place] == f"{result.mean_failure_point:.3f}"
    ranks = tables["Ranks by shift"]
    shifts = {shift: [float(of.by("nuisance").accuracy[place]) for of in figures.values()]
              for place, shift in enumerate(next(iter(figures.values())).by("nuisance").names)}  # fmt: skip
    clean = [float(of["accuracy@0"]) for of in figures.values()]
    taus = {shift: rank_agreement(clean, of).kendall for shift, of in shifts.items()}
    assert ranks.header == ("method", "clean", *shifts)
    assert ranks.body[-1][2:] == tuple("-" if np.isnan(tau) else f"{tau:.2f}" for tau in taus.values())


def test_the_command_line_draws_the_line_and_measures_calibration(runs, dataset, tmp_path, capsys):
    folders = [f"{name}={folder}" for name, folder in zip("abcd", runs, strict=True)]
    words = [
        "--dataset",
        str(dataset),
        "--line",
        "validation",
        "test",
        "--picture",
        str(tmp_path / "line.svg"),
    ]
    assert cli(["report", *folders, *words]) == 0
    out = capsys.readouterr().out
    assert "Accuracy on the line" in out
    assert "ALine-S" in out
    assert "<svg" in (tmp_path / "line.svg").read_text()
    page = tmp_path / "report.html"
    assert cli(["report", *folders, *words[:5], "--out", str(page)]) == 0
    assert "Chart of Accuracy on the line" in page.read_text()
    capsys.readouterr()
    folder = str(next(iter(runs)))
    of_task = ["evaluate", str(dataset), "severity<=10", "continuous"]
    assert cli([*of_task, folder, "--calibration", "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)["calibration"]
    run = next(iter(runs.values()))
    assert result["accuracy"] == pytest.approx(float(run.evaluate()["accuracy"]))
    assert cli([*of_task, folder, "--calibration"]) == 0
    assert "Selective prediction" in capsys.readouterr().out


def test_bad_folders_and_sides_say_what_to_do(runs, dataset, tmp_path, capsys):
    def refused(*words):
        assert cli(["report", *map(str, words), "--dataset", str(dataset)]) == 1
        return capsys.readouterr().err

    first = next(iter(runs))
    assert "is no saved run" in refused(first, tmp_path)
    assert "validation" in refused(*runs, "--line", "dev", "test")
    assert "no severity 7" in refused(*runs, "--line", "test@0", "test@7")
    assert "two runs" in refused(first, first)
    assert "leave --rule out" in refused(first, "--rule", "iid")
    assert "at least 3 models" in refused(first, *list(runs)[1:2], "--line", "select", "test")
    assert "--line" in refused(first, "--picture", tmp_path / "line.svg")
    copied = shutil.copytree(first, tmp_path / "copied")
    table = pq.read_table(copied / "predictions-test.parquet")
    pq.write_table(table.drop(["scores"]), copied / "predictions-test.parquet")
    of_task = ["evaluate", str(dataset), "severity<=10", "continuous"]
    assert cli([*of_task, str(copied), "--calibration"]) == 1
    assert "has no scores" in capsys.readouterr().err
    (copied / "predictions-test.parquet").unlink()
    assert "has no predictions-test.parquet" in refused(copied)
    about = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps(about | {"task_id": "1", "task": "another"}))
    assert "on one task" in refused(first, copied)
    (copied / "run.json").write_text(json.dumps({**about, "content_id": ""}))
    assert "does not say content_id" in refused(first, copied)


SKILLS = {"erm": (0.9, 0.5), "coral": (0.8, 0.45), "dann": (0.7, 0.4), "mixup": (0.6, 0.3), "irm": (0.5, 0.3)}


def test_a_sweep_of_enough_models_under_a_shift_has_a_line_too(tmp_path):
    words = "leave-one-domain-out test=kind1"
    tasks = {words: made_task(words)}
    records = synthetic(tmp_path / "dg", tasks=tasks, methods=SKILLS, trials=1, rules=["last"])
    clean, agreement = section(report(records), "Accuracy on the line").tables
    shown = {line[0]: line for line in clean.blocks[0].body}
    assert clean.blocks[0].header[1:3] == ("validation", "test")
    for study, runs in runs_of(records):
        for name, cell in zip(("validation", "test"), shown[study.method][1:3], strict=True):
            cells = [records.evaluation(run, name).cells for run in runs]
            assert cell == f"{100 * np.mean([of.correct.sum() / of.n.sum() for of in cells]):.1f}"
    assert len(agreement.blocks[0].body) == len(SKILLS)
    few = dict(list(SKILLS.items())[:3])
    for name, of, methods in (("few", tasks, few), ("fairness", None, SKILLS)):
        made = report(synthetic(tmp_path / name, tasks=of, methods=methods, trials=1, rules=["last"]))
        assert not [part for part in made.sections if part.title == "Accuracy on the line"]
    asked = report(
        synthetic(tmp_path / "asked", tasks=tasks, methods=few, trials=1), ["last"], line=("test", "test")
    )
    assert section(asked, "Accuracy on the line").tables
