"""Columns of a dataset's rows on demand: which are read, and that stretches make no difference."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.data.metadata import columns
from shiftdata.evaluation.tasks.rows import counts_of
from shiftdata.stable import hash64


@pytest.fixture
def read(monkeypatch):
    """The names of the columns that are read from now on."""
    names, plain = [], columns.read_columns
    monkeypatch.setattr(
        columns, "read_columns", lambda *given, **more: names.extend(given[2]) or plain(*given, **more)
    )
    return names


@pytest.mark.parametrize(
    ("of", "more"),
    [(None, {}), ("group-fairness", {"k": 4, "mu": 0.2}), ("label-shift", {"alpha": None})],
)
def test_a_task_reads_numbers_alone(tiny, read, of, more):
    task = sd.task(str(tiny), of, on_empty="report", **more)
    task.sampler("rwg")
    numbers = {"label", task.metadata.nuisance_column, "fold", "quantile", "severity"}
    assert set(read) <= numbers
    task.evaluate(task.metadata.label[task.rows("test")])
    assert set(read) <= numbers | {"origin"}, "errors are over origins"
    task.keys("test")
    assert read[-1] == "key"


def test_a_footer_is_parsed_once_for_all_blocks(copy, monkeypatch):
    for path in (copy / "metadata").rglob("*.parquet"):
        pq.write_table(pq.read_table(path), path, row_group_size=4)
    footers, plain = [], columns.untrusted.read_footer
    monkeypatch.setattr(columns.untrusted, "read_footer", lambda *given: footers.append(1) or plain(*given))
    monkeypatch.setattr(columns, "BLOCK", 7)
    rows = sd.task(str(copy)).metadata
    assert len(list(rows.blocks(["key"]))) > 3 * len(rows.source.files)
    assert len(footers) <= len(rows.source.files)


@pytest.mark.slow
def test_stretches_of_few_rows_give_the_same(tiny, copy, monkeypatch, tmp_path):
    drawn = sd.protocol("label-shift", alpha=3, replacement=True)
    whole = sd.task(str(tiny), drawn, on_empty="report")
    table, identity = whole.metadata.table, whole.freeze(tmp_path / "whole.parquet")
    for path in (copy / "metadata").rglob("*.parquet"):
        pq.write_table(pq.read_table(path), path, row_group_size=4)
    monkeypatch.setattr(columns, "BLOCK", 7)
    task = sd.task(str(copy), drawn, on_empty="report")
    rows = task.metadata
    assert rows.table.equals(table)
    assert rows.origin_names.take(pa.array(rows.origin)).to_pylist() == table["origin"].to_pylist()
    chosen = np.random.default_rng(0).permutation(len(rows))[: len(rows) // 2]
    keys = rows.keys(chosen)
    assert keys.to_pylist() == table["key"].take(chosen).to_pylist()
    assert rows.rows_of(pa.array([*keys.to_pylist(), "nobody"])).tolist() == [*chosen.tolist(), -1]
    assert rows.hashes(np.sort(chosen), "x")[0] == hash64("x", table["key"][int(chosen.min())].as_py())
    assert task.freeze(tmp_path / "cut.parquet") == identity == task.content_id()
    assert pq.read_table(tmp_path / "cut.parquet").equals(pq.read_table(tmp_path / "whole.parquet"))
    again = sd.task(rows, str(tmp_path / "cut.parquet"))
    assert all(np.array_equal(again.sets[name].indices, task.sets[name].indices) for name in task.sets)


def test_a_row_that_was_drawn_twice_is_one_origin(tiny):
    task = sd.task(str(tiny), "label-shift", alpha=3, replacement=True, on_empty="report")
    result = task.evaluate(np.repeat(task.metadata.label[task.rows("test")], counts_of(task, "test")))
    assert result.groups.n.sum() == len(task.sets["test"])
    assert result.groups.origins.sum() == len(task.rows("test")) < len(task.sets["test"])


def test_a_row_that_is_asked_for_as_often_as_there_are_rows_stays_that_row(tiny):
    metadata = sd.read_metadata(tiny)
    rows = np.full(len(metadata), 7)
    assert set(metadata.keys(rows).to_pylist()) == {metadata.table["key"][7].as_py()}
