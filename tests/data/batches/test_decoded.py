"""Decoded pictures that are kept: the same batches with and without them, whatever happens to their files."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.loading.line_cache import CacheWarning
from shiftdata.errors import ChangedError, InputError
from shiftdata.stable import rng
from tests.data.batches.test_decode import encoded, picture
from tests.data.batches.test_loader import TwoSizes, seen

LINE = 24 * 24 * 3


def pictures_in(folder: Path) -> int:
    """Count the pictures in a folder."""
    return sum(int((np.load(path) != 0).sum()) for path in folder.rglob("checks.npy"))


class Counting(ExampleReader):
    """A reader that counts what it is asked for."""

    asked = 0

    def read(self, rows):
        self.asked += len(rows)
        return super().read(rows)


def counting(task) -> Counting:
    return Counting(task.metadata.dataset, task.metadata.base)


def shaken(x, generator):
    x += generator.integers(0, 9, dtype=np.uint8)  # in place: what is kept must not change
    return x


@pytest.mark.parametrize("number", range(8))
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for workers in (0, 2):  # two runs: the second starts with what the first one has kept
            with task.loader("validation", decoded=tmp_path, workers=workers, **options) as loader:
                for epoch in range(2):
                    plain.set_epoch(epoch)
                    assert seen(loader) == seen(plain)


def test_pictures_are_read_once_and_later_runs_read_none(task, tmp_path):
    reader, later = counting(task), counting(task)
    with task.loader(sampler="shuffle", decoded=tmp_path, reader=reader) as loader:
        first, second = seen(loader), seen(loader)
    assert reader.asked == pictures_in(tmp_path) == len(task.sets["train"])
    with task.loader(sampler="shuffle", decoded=tmp_path, reader=later) as loader:
        assert (seen(loader), seen(loader)) == (first, second)
    assert later.asked == 0


def test_another_size_is_kept_apart(task, tmp_path):
    for size in (None, 12, (12, 16)):
        list(task.loader(decoded=tmp_path, size=size))
        assert seen(task.loader(decoded=tmp_path, size=size)) == seen(task.loader(size=size))
    assert pictures_in(tmp_path) == 3 * len(task.sets["train"])


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


def test_bytes_that_are_not_those_of_the_metadata_are_not_kept(task, tmp_path):
    class Other(ExampleReader):
        def read(self, rows):
            return [encoded(picture(24, 24), "PNG") for _ in rows]

    wrong = Other(task.metadata.dataset, task.metadata.base)
    list(task.loader(decoded=tmp_path, reader=wrong))
    assert pictures_in(tmp_path) == 0
    assert seen(task.loader(decoded=tmp_path)) == seen(task.loader())


def test_a_dataset_that_has_changed_is_refused(copy, tmp_path):
    loader = sd.task(copy).loader(batch_size=8, workers=0, decoded=tmp_path)
    list(loader)
    manifest = copy / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": "', '"version": "9'))
    with pytest.raises(ChangedError):
        next(iter(loader))


def test_a_folder_that_cannot_be_written_costs_a_warning(task, tmp_path):
    (tmp_path / "file").touch()
    with pytest.warns(CacheWarning, match="nothing more is kept") as warned:
        assert seen(task.loader(decoded=tmp_path / "file", workers=2)) == seen(task.loader())
    assert len(warned) == 1


@pytest.mark.parametrize("transform", [None, lambda x, generator: x[:16, :16]])
def test_pictures_of_several_sizes_are_not_kept(task, tmp_path, transform):
    class Several(TwoSizes):
        def hashes(self, rows):
            return np.array([hashlib.sha256(data).digest() for data in self.read(rows)], "V32")

    options = {"batch_size": 4, "workers": 0, "transform": transform}
    reader = Several(task.metadata.dataset, "mini")
    loader = task.loader(decoded=tmp_path, reader=reader, **options)
    warns = pytest.warns(CacheWarning, match="the pictures differ in size")
    if transform is None:
        with warns, pytest.raises(InputError, match=r"\(20, 30\) and \(21, 30\): give size"):
            next(iter(loader))
    else:
        with warns:
            batches = seen(loader)
        assert batches == seen(task.loader(reader=reader, **options))


def test_texts_and_tables_are_refused(tasks):
    with pytest.raises(InputError, match="decoded is for pictures"):
        tasks["text"].loader(decoded=True)
