"""Decoded pictures that are kept: the same batches with and without them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.loading.features import pixels_of
from shiftdata.errors import InputError, IntegrityError
from shiftdata.stable import rng
from tests.data.batches.test_loader import TwoSizes, seen


def shaken(x, generator):
    x += generator.integers(0, 9, dtype=np.uint8)  # in place: what is kept must not change
    return x


@pytest.mark.parametrize("number", range(5))
def test_the_same_batches_with_and_without(task, tmp_path, number):
    generator = rng("decoded", number)

    def drawn(*choices):
        return choices[generator.integers(len(choices))]

    options = {
        "sampler": drawn(None, "shuffle", "rwg"),
        "batch_size": drawn(13, 64),
        "size": drawn(None, 24, (8, 12)),
        "transform": drawn(None, shaken),
        "seed": number,
    } | drawn({}, {"rank": 1, "world": 3})
    plain = task.loader("validation", workers=0, **options)
    for workers in (0, 2):  # two runs: the second starts with what the first one has kept
        with task.loader("validation", decoded=tmp_path, workers=workers, **options) as loader:
            for epoch in range(2):
                plain.set_epoch(epoch)
                assert seen(loader) == seen(plain)


def test_pictures_are_decoded_once_and_each_size_apart(task, tmp_path, monkeypatch):
    for size in (None, 12, (12, 16)):
        assert seen(task.loader(decoded=tmp_path, size=size)) == seen(task.loader(size=size))
    monkeypatch.setattr("shiftdata.data.loading.batches.examples.decode", None)
    for size in (None, 12, (12, 16)):
        assert seen(task.loader(decoded=tmp_path, size=size))


def test_hidden_labels_and_resumed_epochs(tiny, tmp_path):
    tested = sd.task(tiny).also("test", "unlabelled")
    plain, cached = (
        tested.loader("test", role="unlabelled", sampler="shuffle", batch_size=9, decoded=decoded)
        for decoded in (False, tmp_path)
    )
    for _ in range(2):
        for (x, known), (other, also) in zip(plain, cached, strict=True):
            assert x.equal(other)
            assert all(known[name].equal(also[name]) for name in known)
    batches = iter(cached)
    next(batches)
    state = json.loads(json.dumps(cached.state_dict()))
    again = tested.loader("test", role="unlabelled", sampler="shuffle", batch_size=9, decoded=tmp_path)
    again.load_state_dict(state)
    assert next(iter(again))[0].equal(next(batches)[0])


def test_bytes_that_are_not_those_of_the_metadata_are_not_kept(copy, tmp_path):
    task = sd.task(copy)
    (shard,) = copy.glob("data/mini/train-*.parquet")
    data = bytearray(shard.read_bytes())
    data[data.index(b"IDAT") + 10] ^= 1
    shard.write_bytes(data)
    with pytest.raises(IntegrityError, match="does not have the sha256"):
        task.loader(decoded=tmp_path)


def test_what_has_no_pictures_of_one_size_is_refused(task, tasks, tmp_path, monkeypatch):
    monkeypatch.setattr("shiftdata.data.loading.features.ExampleReader", TwoSizes)
    with pytest.raises(InputError, match=r"\(20, 30\) and \(21, 30\): give size"):
        pixels_of(task.metadata, task.rows("train"), cache=tmp_path)
    with pytest.raises(InputError, match="has examples of the modality text"):
        tasks["text"].loader(decoded=True)
