"""Inputs that are kept on disk: computed once, whatever is killed, torn, full or written by two at once."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import time

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.baselines import Training, features, inputs, read_inputs
from shiftdata.baselines.features import ABOUT, CHECKS, ROWS, FeatureCache, FeatureWarning
from shiftdata.baselines.models import Standardised
from shiftdata.stable import content_hash

SIDE = 24
ABOUT_TEST = {"mode": "test"}


@pytest.fixture(scope="module")
def task(tiny) -> sd.Task:
    return sd.task(tiny, "group-fairness", k=4, mu=0.2)


@pytest.fixture(scope="module")
def truth(task):
    return read_inputs(task.metadata, "scratch", np.arange(len(task.metadata)), side=SIDE)


@pytest.fixture
def computed(monkeypatch):
    """How many rows were computed, batch by batch."""
    counts, was = [], inputs._described

    def counting(examples, mode):
        describe = was(examples, mode)
        return lambda x: counts.append(len(x)) or describe(x)

    monkeypatch.setattr(inputs, "_described", counting)
    monkeypatch.setattr(inputs, "BATCH", 16)
    return counts


def read(task, rows, folder):
    return read_inputs(task.metadata, "scratch", rows, side=SIDE, cache=folder)


def check(made, truth, rows):
    assert (made.x[made.positions(rows)] == truth.x[truth.positions(rows)]).all()


def files(folder):
    (only,) = [one for one in folder.iterdir() if one.is_dir()]
    return only


def test_only_what_is_missing_is_computed(task, truth, computed, tmp_path):
    train, test = task.rows("train"), task.rows("test")
    check(read(task, train, tmp_path), truth, train)
    assert sum(computed) == len(train)
    check(read(task, train, tmp_path), truth, train)
    assert sum(computed) == len(train)
    both = np.union1d(train[::2], test)
    check(read(task, both, tmp_path), truth, both)
    assert sum(computed) == len(np.union1d(train, test))
    ended = []
    made = read_inputs(task.metadata, "scratch", both, side=SIDE, cache=tmp_path, on_rows=ended.append)
    assert sum(ended) == len(both)
    with pytest.raises(sd.errors.InputError, match="were not read"):
        made.positions(np.setdiff1d(train, both))


def test_another_size_is_another_folder(task, tmp_path):
    rows = task.rows("train")[:5]
    assert read(task, rows, tmp_path).x.shape[1] == SIDE
    assert read_inputs(task.metadata, "scratch", rows, side=16, cache=tmp_path).x.shape[1] == 16
    assert len([one for one in tmp_path.iterdir() if one.is_dir()]) == 2


def test_frozen_features_are_kept_by_default_and_pixels_are_not(task, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(inputs, "fingerprint", lambda: "some weights")  # their package may not be here
    monkeypatch.setattr(
        inputs, "FrozenFeatures", lambda: lambda x: np.repeat(x[:, :4, :4, 0], 80).reshape(-1, 1280)
    )
    rows = task.rows("train")[:3]
    read_inputs(task.metadata, "scratch", rows)
    read_inputs(task.metadata, "frozen", rows, cache=False)
    assert not any(tmp_path.iterdir())
    first = read_inputs(task.metadata, "frozen", rows)
    kept = files(tmp_path / "shiftdata" / "features")
    monkeypatch.setattr(inputs, "_described", None)  # nothing is computed again
    second = read_inputs(task.metadata, "frozen", rows)
    assert first.x.shape == (len(task.metadata), 1280)
    assert (first.x[rows] == second.x[rows]).all()
    monkeypatch.setattr(inputs, "fingerprint", lambda: "other weights")
    assert inputs._cache(task.metadata, "frozen", 96, True).folder != kept


def test_they_serve_as_inputs_in_memory_do(task, truth, tmp_path):
    rows = np.concatenate([task.rows(name) for name in task.sets])
    mapped = read(task, rows, tmp_path)
    assert isinstance(mapped.x, np.memmap)
    training = Training(steps=6, batch=16)
    first, second = (sd.train(task, inputs=one, training=training) for one in (mapped, truth))
    assert (first.scores == second.scores).all()
    joined = mapped.followed_by(truth)
    check(joined, truth, rows)
    assert (joined.x[joined.positions(rows + len(mapped.place))] == truth.x[truth.positions(rows)]).all()
    assert len(joined.x) == len(np.unique(mapped.positions(rows))) + len(truth.x)
    numbers = Standardised(mapped.x[mapped.positions(rows)].reshape(len(rows), -1).astype(np.float32))
    assert numbers(np.zeros((1, 3 * SIDE**2), np.float32)).shape == (1, 3 * SIDE**2)


@pytest.mark.parametrize("what", ["rows", "checks"])
def test_a_changed_byte_is_noticed(task, truth, computed, tmp_path, what):
    rows = task.rows("train")
    mapped = read(task, rows, tmp_path)
    place = int(mapped.positions(rows[:1])[0])
    name, each = (ROWS, 3 * SIDE**2) if what == "rows" else (CHECKS, 8)
    path = files(tmp_path) / name
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - each * (len(task.metadata) - place))
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    computed.clear()
    check(read(task, rows, tmp_path), truth, rows)
    assert sum(computed) == 1


@pytest.mark.parametrize("what", ["torn rows", "torn checks", "no rows", "foreign", "garbage", "other shape"])
def test_what_is_torn_or_foreign_is_thrown_away_with_a_warning(task, truth, computed, tmp_path, what):
    rows = task.rows("train")
    read(task, rows, tmp_path)
    folder = files(tmp_path)
    name = CHECKS if "checks" in what else ABOUT if what == "foreign" else ROWS
    if "torn" in what:
        os.truncate(folder / name, (folder / name).stat().st_size // 2)
    elif what == "no rows":
        (folder / name).unlink()
    elif what == "other shape":
        np.save(folder / ROWS, np.zeros((3, 4)))
    else:
        (folder / name).write_bytes(b"{}")
    computed.clear()
    with pytest.warns(FeatureWarning, match="thrown away"):
        check(read(task, rows, tmp_path), truth, rows)
    assert sum(computed) == len(rows)
    check(read(task, rows, tmp_path), truth, rows)
    assert sum(computed) == len(rows)


def test_a_full_disk_costs_a_warning(task, truth, computed, tmp_path, monkeypatch):
    rows, was, calls = task.rows("train"), features._write_at, []

    def full(*given):
        calls.append(1)
        if len(calls) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        was(*given)

    monkeypatch.setattr(features, "_write_at", full)
    with pytest.warns(FeatureWarning, match="No space left"):
        check(read(task, rows, tmp_path), truth, rows)
    assert sum(computed) == len(rows)


def test_a_folder_that_cannot_be_made_costs_a_warning(task, truth, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(FeatureWarning, match="not kept"):
        check(read(task, task.rows("train"), tmp_path / "file"), truth, task.rows("train"))


def test_one_that_vanishes_meanwhile_costs_a_computation(task, truth, computed, tmp_path, monkeypatch):
    rows, was = task.rows("train"), FeatureCache.put

    def put(self, some, made):
        kept = was(self, some, made)
        if some[-1] == rows[-1]:
            shutil.rmtree(self.folder)
            FeatureCache(tmp_path, {"about": "another"}, 5)._open()
            self._open()
        return kept

    monkeypatch.setattr(FeatureCache, "put", put)
    check(read(task, np.sort(rows), tmp_path), truth, rows)


def test_the_limit_makes_room_of_what_nobody_uses(tmp_path):
    made = np.ones((4, 2000))
    old, new = (FeatureCache(tmp_path, {"of": one}, 4, limit=150_000) for one in "ab")
    assert old.put(np.arange(4), made)
    assert new.put(np.arange(2), made[:2])
    third = FeatureCache(tmp_path, {"of": "c"}, 4, limit=150_000)
    with pytest.warns(FeatureWarning, match="limit"):
        assert not third.put(np.arange(4), made)
    hour = time.time() - 2 * features.IDLE
    os.utime(old.folder / ABOUT, (hour, hour))
    assert FeatureCache(tmp_path, {"of": "c"}, 4, limit=150_000).put(np.arange(4), made)
    assert not old.folder.exists()
    assert new.folder.exists()


def numbers_of(rows, who=0):
    return rows[:, None] + np.arange(300.0) + who * 1e-3


def keep(folder, who, seed):
    cache = FeatureCache(folder, ABOUT_TEST, 400)
    generator = np.random.default_rng(seed)
    while cache.missing(np.arange(400)).any():
        rows = np.unique(generator.integers(400, size=20))
        cache.put(rows, numbers_of(rows, who))


@pytest.mark.slow
@pytest.mark.parametrize("kills", [12])
def test_one_that_is_killed_leaves_only_whole_rows(tmp_path, kills):
    fork, generator = multiprocessing.get_context("fork"), np.random.default_rng(0)
    for number in range(kills):
        child = fork.Process(target=keep, args=(tmp_path, 0, number))
        child.start()
        time.sleep(generator.uniform(0, 0.03))
        child.kill()
        child.join()
        cache = FeatureCache(tmp_path, ABOUT_TEST, 400)
        there = np.flatnonzero(~cache.missing(np.arange(400)))
        if len(there):
            assert (cache.x[there] == numbers_of(there)).all()
    keep(tmp_path, 0, kills)
    cache = FeatureCache(tmp_path, ABOUT_TEST, 400)
    assert (cache.x[:] == numbers_of(np.arange(400))).all()


def test_two_at_once_end_with_the_same_rows(tmp_path):
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=keep, args=(tmp_path, who, who)) for who in range(2)]
    for child in children:
        child.start()
    seen = {}
    cache = FeatureCache(tmp_path, ABOUT_TEST, 400)
    while any(child.is_alive() for child in children):
        cache = FeatureCache(tmp_path, ABOUT_TEST, 400)
        for row in np.flatnonzero(~cache.missing(np.arange(400))).tolist():
            assert (seen.setdefault(row, cache.x[row].copy()) == cache.x[row]).all()
    cache = FeatureCache(tmp_path, ABOUT_TEST, 400)
    assert not cache.missing(np.arange(400)).any()
    assert all(child.exitcode == 0 for child in children)
    who = np.round((cache.x[:] - numbers_of(np.arange(400))) * 1e3)
    assert (who == who[:, :1]).all()


def test_what_an_earlier_version_wrote_is_not_read(tmp_path):
    """Version 1 could have the inputs of other rows."""
    old = json.dumps({**ABOUT_TEST, "rows": 4}, sort_keys=True)
    cache = FeatureCache(tmp_path, ABOUT_TEST, 4)
    assert cache.put(np.arange(4), np.ones((4, 2), np.float32))
    assert cache.folder.exists()
    assert cache.folder.name != content_hash(old)[:32]
