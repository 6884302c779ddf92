"""The table that is explored says what the metadata and `task.evaluate` say."""

from __future__ import annotations

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.errors import InputError
from shiftdata.serve.explore.neighbours import map_of
from shiftdata.serve.explore.rows import NEAR, Predicted, X, explored
from tests.serve.explore.conftest import rows_of


@pytest.mark.parametrize("kind", ["stylized", "continuous", "text", "table"])
def test_columns_are_those_that_load_dataset_filters_by(kinds, kind):
    metadata = rows_of(kinds[kind])
    table = explored(metadata, None)
    every = metadata.table.to_pydict()
    assert table["key"].to_pylist() == every["key"]
    assert table["label"].to_pylist() == [metadata.labels[label] for label in every["label"]]
    names = table[metadata.nuisance_column].to_pylist()
    numbers = metadata.nuisance.tolist()
    assert names == ["untouched" if at < 0 else metadata.nuisances[at] for at in numbers]
    assert table["origin"].to_pylist() == every["origin"]
    assert ("severity" in table.column_names) == (kind == "continuous")
    assert set(table["group"].to_pylist()) == {
        f"{label} / {nuisance}" for label, nuisance in zip(table["label"].to_pylist(), names, strict=True)
    }
    if kind == "text":
        assert all(table["text"].to_pylist())
    if kind == "table":
        assert {*sd.open_dataset(kinds[kind]).manifest.roles.example} <= {*table.column_names}


def test_predictions_are_right_where_evaluate_says_so(kinds):
    task = sd.task(kinds["stylized"])
    metadata = rows_of(kinds["stylized"])
    test, draw = task.rows("test"), np.random.default_rng(0)
    guess = draw.choice(task.label_ids, len(test))
    given = dict(zip(task.keys("test"), [metadata.labels[label] for label in guess], strict=True))
    table = explored(metadata, None, [Predicted("mine", "splits", task, "test", given)])
    right = table["mine is"].to_pylist()
    assert right.count("right") / len(test) == pytest.approx(task.evaluate(given)["overall"].value)
    assert [at for at, each in enumerate(right) if each is not None] == test.tolist()
    assert np.array(table["mine"].to_pylist())[test].tolist() == [metadata.labels[label] for label in guess]
    members = np.array(table["set of splits"].to_pylist())
    assert all((members[task.rows(name)] == name).all() for name in task.sets)
    with pytest.raises(InputError, match="another name"):
        explored(metadata, None, [Predicted("key", "splits", task, "test", given)])
    with pytest.raises(InputError, match="predicts rows of"):
        explored(rows_of(kinds["stylized"], "content"), None, [Predicted("a", "splits", task, "test", given)])


def test_neighbours_are_named_by_the_number_of_a_row(kinds, placed):
    metadata = rows_of(kinds["table"])
    drawn = np.random.default_rng(0).normal(size=(len(metadata), 4)).astype(np.float32)
    made = map_of(drawn)
    table = explored(metadata, made)
    near = table[NEAR].to_pylist()
    assert [each["ids"] for each in near] == made.neighbours.tolist()
    assert table[X].to_pylist() == made.xy[:, 0].tolist()
