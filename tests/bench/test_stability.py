"""Reports: the spread of a test over the last steps, and what selection by the test gains."""

from __future__ import annotations

import numpy as np
import pytest

from shiftdata.bench import report, select
from tests.bench.synthetic import synthetic

METHODS = {"erm": (0.5, 0.5), "rwg": (0.7, 0.6)}


def tables(made):
    (section,) = [section for section in made.sections if section.title.startswith("Test variance")]
    cells = [
        {
            (row, column): cell
            for row, *of in table.blocks[0].body
            for column, cell in zip(table.blocks[0].columns, of, strict=True)
        }
        for table in section.tables
    ]
    return section, cells


def worst(records, run, step):
    """The worst group of a test, from its cells: in per cent."""
    cells = records.evaluation(run, "test", step).cells
    label, nuisance = (codes for name, codes in cells.codes.items() if name != "severity")
    groups = set(zip(label.tolist(), nuisance.tolist(), strict=True))
    share = [
        cells.correct[(label == y) & (nuisance == z)].sum() / cells.n[(label == y) & (nuisance == z)].sum()
        for y, z in groups
    ]
    return 100 * min(share)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    steps = tuple(range(1, 13))
    return synthetic(folder, methods=METHODS, steps=steps, rules=("iid-worst", "oracle"))


def expected(of):
    """The mean over tasks, with its standard error, as it is printed."""
    points = np.array(list(of.values()))
    return f"{points.mean():.1f}±{points.std(ddof=1) / np.sqrt(len(points)):.1f}"


def test_the_spread_is_over_the_last_ten_steps_of_each_run(records):
    _, (spread, _) = tables(report(records))
    for method in METHODS:
        of = {
            selected.study.task_id: np.mean(
                [
                    np.std([worst(records, at.run, step) for step in range(3, 13)], ddof=1)
                    for at in selected.runs
                ]
            )
            for selected in select(records, "iid-worst")
            if selected.study.method == method
        }
        assert spread[method, "selected by iid-worst"] == expected(of)


def test_the_gap_is_paired_by_seed(records):
    _, (_, gap) = tables(report(records))
    chosen = {rule: select(records, rule) for rule in ("iid-worst", "oracle")}
    for method in METHODS:
        of = {
            mine.study.task_id: np.mean(
                [
                    worst(records, best.run, best.step) - worst(records, at.run, at.step)
                    for at, best in zip(mine.runs, theirs.runs, strict=True)
                ]
            )
            for mine, theirs in zip(*chosen.values(), strict=True)
            if mine.study.method == method
        }
        assert gap[method, "oracle - iid-worst"] == expected(of)


def test_records_that_do_not_have_them_are_said_to(records, tmp_path):
    section, cells = tables(report(records, ["iid-worst"]))
    assert len(cells) == 1
    assert [note.partition(":")[0] for note in section.notes] == ["Gap of oracle to source selection"]
    once = synthetic(tmp_path, methods=METHODS, steps=(20,), trials=1)
    section, cells = tables(report(once, ["iid-worst", "oracle"]))
    assert not cells
    assert "evaluate_every" in section.notes[0]
    assert len(section.notes) == 2
