"""Batches of texts and of rows of tables: what is in them, and that all that holds for pictures holds."""

from __future__ import annotations

import json

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.loading.plain_datasets import load_dataset
from shiftdata.errors import InputError, IntegrityError

torch = pytest.importorskip("torch")


@pytest.fixture(params=["text", "mixed", "table"])
def task(request, tasks) -> sd.Task:
    return tasks[request.param]


def plain(x):
    return x.tolist() if isinstance(x, torch.Tensor | np.ndarray) else x


def seen(loader) -> list[str]:
    """What an epoch hands out, as texts: NaN is not equal to itself."""
    return [
        repr((plain(x), y.tolist(), {name: plain(one) for name, one in known.items()}))
        for x, y, known in loader
    ]


def test_the_rows_of_a_table_are_numbers_in_the_order_of_its_features(tasks):
    task = tasks["table"]
    stored = {row["key"]: row for row in load_dataset(task.metadata.dataset.address, split="all")}
    with task.loader(sampler="shuffle", batch_size=16) as loader:
        assert loader.features == {"age": "int64", "dose": "float64", "smoker": ["no", "quit", "yes"]}
        for x, y, known in loader:
            assert (x.dtype, x.shape) == (torch.float32, (len(y), 3))
            for values, label, key in zip(x, y.tolist(), known["key"], strict=True):
                row = stored[key]
                wanted = torch.tensor(
                    [np.nan if row[feature] is None else row[feature] for feature in loader.features]
                )
                torch.testing.assert_close(values, wanted, equal_nan=True)
                assert label == row["label"]
    missing = [x.isnan().any() for x, *_ in task.loader(batch_size=1)]
    assert 0 < sum(missing) < len(missing)


def test_texts_and_rows_with_texts_come_as_lists(tasks):
    for name, kind, column in (("text", str, "text"), ("mixed", list, "town")):
        task = tasks[name]
        stored = {row["key"]: row[column] for row in load_dataset(task.metadata.dataset.address, split="all")}
        for x, y, known in task.loader(batch_size=16):
            assert (type(x), {type(one) for one in x}) == (list, {kind})
            assert [one if kind is str else one[3] for one in x] == [stored[key] for key in known["key"]]
            assert len(x) == len(y)
        assert task.loader().features == ({} if kind is str else task.metadata.dataset.manifest.roles.example)


@pytest.mark.parametrize("sampler", ["shuffle", "per-domain"])
def test_the_same_for_any_number_of_workers_in_any_epoch_and_resumed(task, sampler):
    def loader(workers=0):
        return task.loader(sampler=sampler, batch_size=8, seed=3, workers=workers)

    whole = loader()
    first, second = seen(whole), seen(whole)
    assert sorted(first) != sorted(second)
    other = loader(2)
    assert (seen(other), seen(other)) == (first, second)
    for cut in (0, 2, len(whole)):
        killed = loader(1)
        batches = iter(killed)
        for _ in range(cut):
            next(batches)
        state = json.loads(json.dumps(killed.state_dict()))
        killed.close()
        resumed = loader()
        resumed.load_state_dict(state)
        left = seen(resumed) + (seen(resumed) if cut < len(whole) else [])
        assert left == first[cut:] + second


def test_labels_are_hidden_and_renumbered_as_for_pictures(task):
    hidden = task.also("test", "unlabelled")
    for x, known in hidden.loader("test", role="unlabelled", sampler="shuffle", batch_size=8):
        assert sorted(known) == ["key", "nuisance", "position"]
        assert len(x) == len(known["position"])
    labels = [y.tolist() for _, y, _ in task.loader(sampler="shuffle", remap=True)]
    assert [task.remapped[y].tolist() for _, y, _ in task.loader(sampler="shuffle")] == labels


def test_what_a_transform_makes(tasks):
    text, table = tasks["text"], tasks["table"]
    x, _, _ = next(iter(text.loader(transform=lambda x, _: len(x))))
    assert x.dtype == torch.int64
    x, _, _ = next(iter(text.loader(transform=lambda x, _: torch.tensor([len(x), 1]))))
    assert x.shape[1:] == (2,)
    x, y, known = next(iter(text.loader(transform=lambda x, _: list(x.encode()))))
    assert (type(x), len(x)) == (list, len(y))
    keys = {known["key"]: x for x, _, known in text.dataset()}
    assert bytes(x[0]).decode() == keys[known["key"][0]]
    with pytest.raises(InputError, match="several shapes"):
        next(iter(text.loader(transform=lambda x, _: np.zeros(len(x)))))

    def noise(x, generator):
        x += generator.random(x.shape, np.float32)  # in place: what is kept must not change
        return x

    loaders = [table.loader(sampler="shuffle", transform=noise, workers=workers) for workers in (0, 2)]
    one, other = ([seen(loader), seen(loader)] for loader in loaders)
    assert one == other
    clean = table.loader()
    assert seen(clean) == seen(clean)


class Damaged(ExampleReader):
    """A reader that cannot read one row."""

    def read(self, rows):
        if 3 in rows:
            raise IntegrityError("the row group is damaged")
        return super().read(rows)


def test_a_damaged_row_is_an_error(task):
    reader = Damaged(task.metadata.dataset, task.metadata.base)
    with pytest.raises(IntegrityError, match="damaged"):
        list(task.loader(reader=reader, workers=0))
