"""Streams: each test row once, in an order that only names and the seed decide; labels out of reach."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.protocols import Stream, parse_protocol, stream_of
from tests.evaluation.protocols.made import metadata
from tests.properties import share

STEPS = (0.0, 1.0, 2.0)
ROWS = metadata(4, 3, 20, severities=STEPS)
SETTINGS, ORDERS = ("episodic", "online", "continual", "mixed"), ("iid", "correlated")
#: The first digits of `content_id`: a change here is another stream for everybody.
FROZEN = {
    "online iid 0": "095ddb63fe1d3926",
    "online iid 1": "3ad06a837c06d3c9",
    "online correlated 0": "79089f4f3e65f93f",
    "mixed iid 0": "ada2e8a8d5c35d3a",
    "mixed correlated 1": "a0035f41e8060d6d",
}


def ordered(rows=ROWS, **params):
    task = sd.task(rows, "stream", **params)
    return stream_of(task).order_of(task)


def runs(order) -> float:
    """Return the share of rows whose neighbour has the same label."""
    label = order.task.metadata.label[order.rows]
    return float((label[1:] == label[:-1]).mean())


@pytest.mark.parametrize("name", FROZEN)
def test_the_order_is_frozen(name):
    setting, order, seed = name.split()
    assert ordered(setting=setting, order=order, seed=int(seed)).content_id()[:16] == FROZEN[name]


@share(0.5)
@given(
    setting=st.sampled_from(SETTINGS),
    order=st.sampled_from(ORDERS),
    seed=st.integers(0, 99),
    shuffle=st.integers(0, 99),
)
def test_each_test_row_comes_once_whatever_the_order_of_the_file(setting, order, seed, shuffle):
    first = ordered(setting=setting, order=order, seed=seed)
    task, table = first.task, first.table()
    assert sorted(table["key"].to_pylist()) == sorted(task.keys("test"))
    assert table["position"].to_pylist() == list(range(len(table)))
    moved = ordered(
        metadata(4, 3, 20, severities=STEPS, order=shuffle), setting=setting, order=order, seed=seed
    )
    assert moved.table().equals(table)
    names = ["mixed"] if setting == "mixed" else [f"kind{k}@{step:g}" for k in range(3) for step in STEPS]
    assert list(dict.fromkeys(table["segment"].to_pylist())) == names  # and none comes back
    assert (np.diff(first.segment) >= 0).all()
    batches = first.batches(7)
    assert np.concatenate(batches).tolist() == list(range(len(table)))
    assert all(2 <= len(batch) <= 8 and len(set(first.segment[batch])) == 1 for batch in batches)


def test_correlated_labels_come_in_runs_and_seeds_differ():
    assert runs(ordered(metadata(8, 1, 200), order="iid")) < 0.2
    assert runs(ordered(metadata(8, 1, 200), order="correlated")) > 0.9
    assert runs(ordered(metadata(8, 1, 200), order="correlated", alpha=1000)) < 0.9
    keys = {tuple(ordered(order=order, seed=seed).rows.tolist()) for order in ORDERS for seed in range(3)}
    assert len(keys) == 6


def test_labels_are_out_of_reach_and_the_test_is_still_judged():
    task = sd.task(ROWS, "continuous stream setting=continual")
    assert task.sets["test"].roles == ("test", "unlabelled")
    assert set(task.table("test", "unlabelled").column_names) == {"key", "a", "severity"}
    assert not set(task.keys("test", "unlabelled")) & set(task.keys("test"))
    assert task.evaluate(dict.fromkeys(task.keys("test"), "label01"))["accuracy@0"] == 0.25


def test_a_stream_is_found_again_in_words_and_in_frozen_files(tmp_path):
    stream = Stream(setting="mixed", order="correlated", alpha=0.05, rounds=3, seed=7)
    assert parse_protocol(stream.words()) == stream
    task = sd.task(ROWS, stream)
    task.freeze(tmp_path / "task.parquet")
    again = sd.task(ROWS, str(tmp_path / "task.parquet"))
    assert stream_of(again) == stream_of(task) == stream
    content = stream.order_of(task).freeze(tmp_path / "stream.parquet")
    assert content == stream.order_of(again).content_id()
    table = pq.read_table(tmp_path / "stream.parquet")
    assert table.column_names == ["position", "key", "segment"]
    assert table["key"].to_pylist() == task.metadata.keys(stream.order_of(task).rows).to_pylist()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"setting": "onlin"}, "unknown setting of a stream 'onlin'; did you mean 'online'"),
        ({"order": "sorted"}, "unknown order of a stream"),
        ({"rounds": 2}, "rounds go with setting=continual or mixed"),
        ({"alpha": 0}, "alpha is above 0"),
        ({"setting": "mixed", "rounds": 0}, "rounds are at least 1"),
    ],
)
def test_streams_that_make_no_sense_are_refused(params, message):
    with pytest.raises((InputError, NotFoundError), match=message):
        sd.task(ROWS, "stream", **params)


def test_a_task_without_a_stream_says_how_to_make_one():
    with pytest.raises(InputError, match="is no stream: make it one"):
        stream_of(sd.task(ROWS))
    with pytest.raises(InputError, match="is a stream already"):
        sd.task(ROWS, "stream stream setting=mixed")
    with pytest.raises(InputError, match="at least 1 row"):
        ordered().batches(0)
