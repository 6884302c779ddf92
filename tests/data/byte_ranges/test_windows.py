"""Read ahead in a known order: the same batches by few requests, within a limit of memory."""

from __future__ import annotations

import time

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.loading.byte_ranges import ExampleReader, read_ahead
from shiftdata.data.loading.byte_ranges.layout import WASTE_FAR
from shiftdata.errors import StorageError
from tests.data.byte_ranges.server import ranges
from tests.data.test_places import at_once

__all__ = ["at_once"]  # a fixture


@pytest.fixture(scope="module")
def served(tiny):
    with ranges(tiny.parent) as found:
        yield found


@pytest.fixture
def server(served):
    served.faults, served.always, served.several = [], "well", ""
    served.bodies.clear()
    return served


@pytest.fixture(scope="module")
def task(served):
    return sd.task(f"{served.url}/tiny")


def loader(task, **options):
    made = {"sampler": "shuffle", "batch_size": 16, "seed": 3, "workers": 1} | options
    reader = ExampleReader(task.metadata.dataset, task.metadata.base, ahead=made.pop("ahead", 1 << 28))
    return task.loader("train", reader=reader, **made)


def seen(loader) -> list[tuple]:
    return [(x.numpy().tobytes(), y.tolist(), known["key"]) for x, y, known in loader]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["shuffle", "rwg"])
@pytest.mark.parametrize("several", ["", "well"])
def test_batches_from_afar_are_those_of_the_folder(tiny, server, task, sampler, several):
    server.several = several
    task = sd.task(f"{server.url}/tiny")  # the store of another has found out what the server gives
    near = seen(sd.task(tiny).loader("train", sampler=sampler, batch_size=16, seed=3))
    for ahead, workers in ((0, 2), (20_000, 0), (1 << 28, 2)):
        with loader(task, sampler=sampler, ahead=ahead, workers=workers) as far:
            assert seen(far) == near
    with loader(task, sampler=sampler) as first:
        batches = iter(first)
        next(batches), next(batches)
        state = first.state_dict()
    with loader(task, sampler=sampler) as resumed:
        resumed.load_state_dict(state)
        assert seen(resumed) == near[2:]


def test_a_whole_epoch_is_few_requests(server, task):
    with loader(task) as far:
        rows = sum(len(y) for _, y, _ in far)
        stats = far.examples.reader.stats
    assert stats["asked"] <= stats["fetched"] <= stats["asked"] * (1 + WASTE_FAR)
    assert rows > 150
    assert stats["requests"] < rows / 2  # the first batches alone, the others together


@pytest.mark.parametrize("several", ["", "well"])
def test_no_more_waits_than_the_limit(server, several):
    server.several = several
    task = sd.task(f"{server.url}/tiny")
    with loader(task) as plan:
        reader, rows = plan.examples.reader, np.arange(200).reshape(-1, 10)
    limit = int(reader.lengths(rows.ravel()).sum()) // 4
    reader = ExampleReader(task.metadata.dataset, task.metadata.base, ahead=limit)
    largest, handed = int(reader.lengths(rows.ravel()).max()) * 10, 0
    for batch, take in read_ahead(reader, enumerate(rows)):
        time.sleep(0.02)
        assert reader.stats["fetched"] <= handed + limit + largest
        data = take()
        assert list(map(len, data)) == reader.lengths(rows[batch]).tolist()
        handed += sum(map(len, data))
    assert reader.gives_several is bool(several)
    reader.close()


def test_leaving_early_drops_what_was_asked_for(server, task):
    rows = np.arange(200).reshape(-1, 10)
    server.always = "slow"
    reader = ExampleReader(task.metadata.dataset, task.metadata.base, ahead=1 << 20)
    batches = read_ahead(reader, enumerate(rows))
    _, take = next(batches)
    expected = take()
    _, second = next(batches)
    batches.close()
    asked = reader.stats["requests"]
    server.always = "well"
    assert take() == expected
    assert list(map(len, second())) == reader.lengths(rows[1]).tolist()  # read with its batch
    assert reader.stats["requests"] < asked + 40
    reader.close()


@pytest.mark.slow
def test_what_passes_hurts_nobody_and_what_stays_is_an_error_in_its_turn(server, task, at_once):
    with loader(task) as far:
        good = seen(far)
    server.faults = ["cut", "error", "short"] * 3
    with loader(task) as far:
        assert seen(far) == good
    with loader(task, ahead=20_000) as far:
        batches = iter(far)
        next(batches)
        server.always = "error"
        with pytest.raises(StorageError, match=r"cannot be read .*500.*row"):
            list(batches)
    assert 0 < far.state_dict()["done"] < len(far)
