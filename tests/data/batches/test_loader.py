"""Batches: what is in them, in which order, resumed at any point, with damaged pictures, with no torch."""

from __future__ import annotations

import itertools
import json
import threading
from threading import get_ident

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.loading.batches import arrays, assembly
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.errors import InputError, IntegrityError
from shiftdata.evaluation.protocols import protocol
from tests.data.batches.test_decode import encoded, picture

torch = pytest.importorskip("torch")


def seen(loader) -> list[tuple]:
    """What an epoch hands out, as plain values."""
    return [
        (x.numpy().tobytes(), y.tolist(), {name: list(values) for name, values in known.items()})
        for x, y, known in loader
    ]


def positions(loader) -> list[list[int]]:
    return [known["position"].tolist() for _, _, known in loader]


def test_a_batch_holds_what_the_examples_are(task):
    examples = task.dataset("validation")
    with task.loader("validation", sampler="shuffle", batch_size=32, seed=5) as loader:
        assert len(loader) == -(-len(examples) // 32)
        for x, y, known in loader:
            assert (x.dtype, x.shape[1:], y.dtype) == (torch.uint8, (3, 24, 24), torch.int64)
            wanted = examples.__getitems__(known["position"].tolist())
            for place, (pixels, label, one) in enumerate(wanted):
                np.testing.assert_array_equal(x[place].permute(1, 2, 0), pixels)
                assert (y[place], known["group"][place]) == (label, one["group"])
                assert known["nuisance"][place] == one["nuisance"]
                assert known["key"][place] == one["key"]
    assert x.permute(0, 2, 3, 1).is_contiguous()


@pytest.mark.parametrize("sampler", ["shuffle", "subg", "rwg", "per-domain"])
def test_the_same_batches_for_any_number_of_workers(task, sampler):
    each = [
        seen(task.loader(sampler=sampler, batch_size=20, seed=2, workers=workers)) for workers in (0, 1, 3)
    ]
    assert each[0] == each[1] == each[2]
    order = list(task.sampler(sampler, batch_size=20, seed=2))
    assert [batch[2]["position"] for batch in each[0]] == order


def test_what_a_sampler_may_be(task):
    stored = [position for batch in positions(task.loader()) for position in batch]
    assert stored == list(range(len(task.sets["train"])))
    assert positions(task.loader(sampler=[5, 3, 5], batch_size=2)) == [[5, 3], [5]]
    assert positions(task.loader(sampler=np.array([4, 1]))) == [[4, 1]]
    made = task.sampler("rwy", seed=4)
    assert positions(task.loader(sampler=made)) == positions(task.loader(sampler="rwy", seed=4))
    batched = task.sampler("rwy", seed=4, batch_size=16)
    rows = positions(task.loader(sampler=made, batch_size=16))
    assert positions(task.loader(sampler=batched)) == rows
    assert positions(task.loader(sampler=batched, rank=1, world=2)) == positions(
        task.loader(sampler=task.sampler("rwy", seed=4, rank=1, world=2), batch_size=16)
    )


def test_labels_are_renumbered_on_wish(tiny):
    some = sd.task(tiny, "group-fairness", k=2, mu=0.2, seed=1)
    known = some.label_ids.tolist()
    plain, renumbered = (
        [y for _, y, _ in some.loader(sampler="shuffle", remap=remap)] for remap in (False, True)
    )
    for before, after in zip(plain, renumbered, strict=True):
        assert [known[y] for y in after.tolist()] == before.tolist()
    assert some.dataset(remap=True)[0][1] == some.remapped[some.dataset()[0][1]]


def test_an_epoch_left_early_begins_again(task):
    loader = task.loader(sampler="shuffle", batch_size=16)
    (_, first, _) = next(iter(loader))
    left = iter(loader)
    next(left)
    assert torch.equal(next(iter(loader))[1], first)
    assert next(left, None) is None  # one iteration at a time
    loader.close()


@pytest.mark.parametrize("world", [2, 5])
def test_ranks_share_every_batch(task, world):
    """Stretches in the order of ranks are the batch, also where it does not divide."""

    def rows(**share):
        loader = task.loader(sampler="shuffle", batch_size=32, drop_last=True, seed=9, **share)
        return [known["position"].tolist() for *_, known in loader]

    parts = [rows(rank=rank, world=world, share="batch") for rank in range(world)]
    for whole, *stretches in zip(rows(), *parts, strict=True):
        assert [row for stretch in stretches for row in stretch] == whole
        assert max(map(len, stretches)) - min(map(len, stretches)) <= 1


def test_an_epoch_is_over_with_its_last_batch(task):
    """A caller that counts batches, as Lightning does, never asks for one more."""
    counted, whole = (task.loader(sampler="shuffle", batch_size=32, seed=9) for _ in range(2))
    first, second = (seen(itertools.islice(counted, len(counted))) for _ in range(2))
    assert first == seen(whole)
    assert second == seen(whole) != first


@pytest.mark.parametrize("sampler", ["shuffle", "per-domain"])
def test_resumed_at_every_cut_it_goes_on_as_if_nothing_had_happened(task, sampler):
    def loader(workers=1):
        return task.loader(sampler=sampler, batch_size=60, seed=9, workers=workers)

    whole = loader()
    whole.set_epoch(3)
    uninterrupted = seen(whole) + seen(whole)
    for cut in range(len(whole) + 1):
        killed = loader()
        killed.set_epoch(3)
        batches = iter(killed)
        for _ in range(cut):
            next(batches)
        state = json.loads(json.dumps(killed.state_dict()))
        batches.close()
        resumed = loader(workers=cut % 3)
        resumed.load_state_dict(state)
        resumed.set_epoch(state["epoch"])  # as training loops do: it changes nothing
        # After the last batch the epoch is over: what is left is the next one.
        left = seen(resumed) + (seen(resumed) if cut < len(whole) else [])
        assert left == uninterrupted[cut:]
        assert resumed.state_dict()["epoch"] == 5


def test_a_state_of_another_loader_is_refused(task):
    state = task.loader(sampler="shuffle", seed=1).state_dict()
    for other in (
        task.loader(sampler="shuffle", seed=2),
        task.loader(sampler="subg", seed=1),
        task.loader(sampler="shuffle", seed=1, batch_size=8),
        task.loader(sampler="shuffle", seed=1, rank=0, world=2),
        task.loader("test", sampler="shuffle", seed=1),
    ):
        with pytest.raises(InputError, match="of another loader"):
            other.load_state_dict(state)


def test_ranks_see_each_example_once_in_equally_many_batches(task):
    each = [positions(task.loader(sampler="shuffle", batch_size=7, rank=rank, world=3)) for rank in range(3)]
    assert len({len(batches) for batches in each}) == 1
    found = np.bincount([position for batches in each for batch in batches for position in batch])
    size = len(task.sets["train"])
    assert len(found) == size
    assert found.min() == 1
    assert found.sum() == -(-size // 3) * 3


def test_rows_drawn_with_replacement_come_as_often_as_they_were_drawn(tiny):
    drawn = sd.task(tiny, protocol("label-shift", alpha=1.0, replacement=True), on_empty="report")
    name = next(name for name, rows in drawn.sets.items() if rows.counts is not None)
    counts = drawn.sets[name].counts
    batches = positions(drawn.loader(name, sampler="shuffle"))
    found = np.bincount([position for batch in batches for position in batch], minlength=len(counts))
    assert found.tolist() == counts.tolist()


def test_size_and_transforms(task):
    def shaken(x, generator):
        return torch.from_numpy(x).permute(2, 0, 1) + float(generator.random())

    options = {"sampler": "shuffle", "size": (12, 8), "transform": shaken}
    loaders = [task.loader(workers=workers, **options) for workers in (0, 3)]
    one, other = ([x for x, _, _ in loader] for loader in loaders)
    assert one[0].shape[1:] == (3, 12, 8)
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))
    assert len({float(x.flatten()[0] % 1) for x in one}) == len(one)
    resumed = task.loader(workers=0, **options)
    resumed.load_state_dict(task.loader(workers=0, **options).state_dict() | {"done": 2})
    assert all(torch.equal(*pair) for pair in zip([x for x, _, _ in resumed], one[2:], strict=True))


def test_a_transform_makes_one_shape(task):
    with pytest.raises(InputError, match="the transform makes x of several shapes"):
        next(iter(task.loader(workers=0, transform=lambda x, generator: x[: generator.integers(2, 20)])))


def test_without_torch_batches_are_arrays(task, monkeypatch):
    monkeypatch.setattr(arrays, "torch_or_none", lambda: None)
    for x, y, known in task.loader(batch_size=50):
        assert {type(one) for one in (x, y, *known.values())} == {np.ndarray, list}
        assert x.shape == (50, 3, 24, 24)


def test_a_damaged_picture_is_an_error_that_names_it(damaged):
    task, keys = damaged
    for loader in (task.loader(workers=0), task.loader(workers=2)):
        with pytest.raises(IntegrityError, match=rf"{keys[0]}, row 3 of tiny/extended: .*cannot be decoded"):
            list(loader)
    with pytest.raises(IntegrityError, match=keys[1]):
        task.dataset()[70]


class TwoSizes(ExampleReader):
    """A reader whose pictures are now large, now small."""

    def read(self, rows):
        return [encoded(picture(20 + row % 2, 30), "JPEG") for row in rows]


def test_pictures_of_several_sizes_need_one(task):
    with pytest.raises(InputError, match=r"\(20, 30\) and \(21, 30\): give size=\(height, width\)"):
        next(iter(task.loader(batch_size=4, reader=TwoSizes(task.metadata.dataset, "mini"))))
    x, _, _ = next(iter(task.loader(batch_size=4, reader=TwoSizes(task.metadata.dataset, "mini"), size=16)))
    assert x.shape == (4, 3, 16, 16)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"workers": -1}, "workers at least 0"),
        ({"size": 0}, "height and a width"),
        ({"size": (1, 2, 3)}, "height and a width"),
        ({"sampler": [0, 10_000]}, "from 0 to"),
        ({"sampler": [0.5]}, "whole numbers"),
        ({"sampler": [1, 2], "on_empty": "drop"}, "options go with the name of a sampler"),
        ({"batch_size": 10_000, "drop_last": True}, "drop_last leaves none"),
        ({"rank": 0}, "rank and world together"),
    ],
)
def test_what_cannot_be_is_refused(task, options, said):
    with pytest.raises(InputError, match=said):
        task.loader(**options)


def test_an_iteration_left_early_leaves_no_thread(task):
    for _ in task.loader(workers=3, batch_size=4):
        break
    with task.loader(workers=3, batch_size=4) as loader:
        batches = iter(loader)
        next(batches)
    # The fixture looks for threads.


def test_memory_of_a_batch_is_used_again_only_when_nothing_refers_to_it(task):
    loader, plain = (task.loader(batch_size=8, workers=workers) for workers in (1, 0))
    expected = [x.clone() for x, _, _ in plain]
    kept, views, places = [], [], set()
    for number, (x, _, _) in enumerate(loader):
        places.add(x.data_ptr())
        kept += [x] if number % 3 == 0 else []
        views += [x.numpy()[2:5, 1]] if number % 3 == 1 else []
        del x
    assert all(x.equal(one) for x, one in zip(kept, expected[::3], strict=True))
    for view, one in zip(views, expected[1::3], strict=True):
        np.testing.assert_array_equal(view, one.numpy()[2:5, 1])
    assert len(kept) + len(views) < len(places) < len(expected)


def test_all_threads_are_at_work_on_the_first_batch(task, monkeypatch):
    """Each must wait for the others in it, and no more than four batches are under way."""
    loader = task.loader(sampler="shuffle", batch_size=24, workers=3)
    decode, meet, begun = loader.examples.decoded, threading.Barrier(3, timeout=10), []

    def decoded(number, data, out=None):
        begun.append((get_ident(), number))
        if number in first and [thread for thread, _ in begun].count(get_ident()) == 1:
            meet.wait()
        return decode(number, data, out)

    first = set(next(loader.batches.items_of(0)))
    monkeypatch.setattr(loader.examples, "decoded", decoded)
    with loader:
        _, _, known = next(batches := iter(loader))
        assert set(known["position"].tolist()) == first
        assert len(begun) <= 5 * 24
        batches.close()


def test_batches_for_a_gpu_lie_in_pinned_memory(task, monkeypatch):
    """As on a machine with two: every thread pins for the second, the one that the caller uses."""
    pinned, devices, empty = [], [], torch.empty

    def pinned_empty(*shape, pin_memory, **options):
        assert pin_memory
        pinned.append(memory := empty(*shape, **options))
        return memory

    plain = seen(task.loader(sampler="shuffle", batch_size=20, seed=3))
    loader = task.loader(sampler="shuffle", batch_size=20, seed=3, workers=2, pin_memory=True)
    assert seen(loader) == plain  # without a GPU
    loader.set_epoch(0)
    monkeypatch.setattr(assembly, "gpu", lambda: 1)
    monkeypatch.setattr(torch, "empty", pinned_empty)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: devices.append((get_ident(), device)))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned.append(self) or self)
    batches = list(loader)
    assert seen(batches) == plain
    storages = {memory.untyped_storage().data_ptr() for memory in pinned}
    for x, y, known in batches:
        for value in (x, y, known["group"], known["nuisance"], known["position"]):
            assert value.untyped_storage().data_ptr() in storages
    assert {device for _, device in devices} == {1}
    assert len({thread for thread, _ in devices} - {get_ident()}) == 2
