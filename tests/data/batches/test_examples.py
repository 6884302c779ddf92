"""The map-style dataset: alone, in torch's loaders with worker processes, and beside plain `datasets`."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pyarrow as pa
import pytest

import shiftdata as sd
from shiftdata.errors import InputError


def test_examples_are_the_rows_of_the_set(task):
    examples, table = task.dataset("test"), task.table("test")
    assert len(examples) == len(table)
    for number in (0, 7, len(examples) - 1):
        x, y, known = examples[number]
        row = table.slice(number, 1).to_pylist()[0]
        assert (x.dtype, x.shape) == (np.uint8, (24, 24, 3))
        assert (y, known["key"], known["position"]) == (row["label"], row["key"], number)
        assert (known["nuisance"], known["group"]) == (row["style"], row["group"])
    with pytest.raises(IndexError):
        examples[len(examples)]


def test_transform_and_encoded_bytes(task):
    assert task.dataset(transform=lambda x, _: x.mean())[3][0] == task.dataset()[3][0].mean()
    assert task.dataset(decode=False)[3][0].startswith(b"\x89PNG")
    assert task.dataset(size=(8, 12))[3][0].shape == (8, 12, 3)
    with pytest.raises(InputError, match="size is for pictures that are decoded"):
        task.dataset(size=8, decode=False)


def noise(x, generator):
    """A transform that says what it drew."""
    return x.astype(np.float32) + generator.random(x.shape, np.float32)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_makes_the_same_pixels_in_a_loader_and_in_torchs(task, workers):
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    examples = task.dataset(transform=noise, seed=3, size=8)
    sampler = task.sampler("shuffle", seed=3)
    torchs = DataLoader(examples, batch_size=16, sampler=sampler, num_workers=workers)
    ours = task.loader(sampler="shuffle", seed=3, batch_size=16, transform=noise, size=8, workers=workers)
    for epoch in range(2):
        examples.set_epoch(epoch)
        batches = [(x.permute(0, 3, 1, 2), known["key"]) for x, _, known in torchs]
        for (x, key), (our_x, _, our_known) in zip(batches, ours, strict=True):
            assert x.equal(our_x)
            assert list(key) == our_known["key"]


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (1, False), (1, True)])
def test_without_set_epoch_each_epoch_is_transformed_anew(task, workers, persistent):
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    loader = DataLoader(
        task.dataset("validation", transform=lambda x, generator: generator.random(), seed=1),
        batch_size=64,
        num_workers=workers,
        persistent_workers=persistent,
        multiprocessing_context="fork" if workers else None,
    )
    drawn = [value for _ in range(3) for x, _, _ in loader for value in x.tolist()]
    assert len(set(drawn)) == len(drawn) == 3 * len(task.sets["validation"])


def test_a_row_that_comes_again_is_transformed_anew(task):
    drawn = [x for x, _, _ in task.loader(sampler=[4, 4, 5, 4], batch_size=3, transform=noise)]
    first, again, other, last = (one for x in drawn for one in x)
    assert not any(np.array_equal(a, b) for a, b in itertools.combinations((first, again, other, last), 2))
    examples = task.dataset(transform=noise)
    for ours, (x, _, _) in zip((first, again, last), (examples[4], examples[4], examples[4]), strict=True):
        np.testing.assert_array_equal(np.asarray(ours).transpose(1, 2, 0), x)


@pytest.mark.parametrize("streaming", [False, True])
def test_plain_datasets_has_the_same_samples(task, tiny, streaming):
    import datasets

    theirs = datasets.load_dataset(str(tiny), task.metadata.base, split="test", streaming=streaming)
    ours = {known["key"]: (x, y, known) for x, y, known in task.dataset("test")}
    read = 0
    for row in theirs:
        x, y, known = ours[row["key"]]
        np.testing.assert_array_equal(x, np.asarray(row["image"].convert("RGB")))
        assert (y, known["nuisance"], known["group"]) == (row["label"], row["style"], row["group"])
        read += 1
    assert read == len(ours)


def test_a_table_of_ones_own_has_no_examples():
    table = pa.table({"id": ["a", "b"], "y": ["cat", "dog"], "style": ["ink", "oil"]})
    task = sd.task(sd.metadata_from_table(table, key="id", label="y", nuisance="style"))
    with pytest.raises(InputError, match="without examples"):
        task.dataset(next(iter(task.sets)))


def test_pictures_of_a_batch_lie_in_memory_that_is_used_again(task):
    """Only once nothing refers to it; what travels to a process has none."""
    examples = pickle.loads(pickle.dumps(task.dataset()))
    fresh = [examples[number][0] for number in range(60)]
    places = []
    for begin in range(0, 60, 10):
        batch = examples.__getitems__(range(begin, begin + 10))
        for (x, _, _), picture in zip(batch, fresh[begin:], strict=False):
            np.testing.assert_array_equal(x, picture)
        if begin == 20:
            kept = batch[3][0]
        places.append(batch[0][0].ctypes.data)
        del batch, x
    assert len(set(places)) == 2
    np.testing.assert_array_equal(kept, fresh[23])
    assert len(pickle.dumps(examples)) < len(pickle.dumps(task.dataset())) + 100
