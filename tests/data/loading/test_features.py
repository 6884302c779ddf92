"""Features on disk: computed once, whatever is killed, torn, full or written by two at once."""

from __future__ import annotations

import errno
import multiprocessing
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.loading import features
from shiftdata.data.loading.features import (
    ABOUT,
    BLOCK,
    CHECKS,
    ROWS,
    CacheWarning,
    LineCache,
    encoded,
    features_of,
)
from shiftdata.errors import InputError
from tests.paths import ROOT
from tests.shared import dataset_of


def cache_of(folder, encoder="test", size=400):
    return LineCache({"encoder": encoder}, size, folder)


class Pixels:
    """An encoder that counts its blocks: each picture's pixels as they are."""

    modality = "image"
    fingerprint = "pixels"

    def __init__(self, size=24):
        self.size, self.sizes = size, []

    def __call__(self, x):
        assert x.dtype == np.uint8
        assert x.shape[1:] == (self.size, self.size, 3)
        self.sizes.append(len(x))
        return x.copy()

    @property
    def blocks(self):
        assert set(self.sizes) <= {BLOCK}
        return len(self.sizes)


@pytest.fixture(scope="module")
def task(tiny) -> sd.Task:
    return sd.task(tiny, "group-fairness", k=4, mu=0.2)


@pytest.fixture(scope="module")
def truth(task):
    """Every row, in memory."""
    return features_of(task.metadata, np.arange(len(task.metadata)), Pixels(), cache=False)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(features, "BATCH", BLOCK)


def blocks_of(rows):
    return -(-len(rows) // BLOCK)


def the_folder(root):
    (folder,) = [path for path in root.iterdir() if path.is_dir()]
    return folder


def test_lines_are_those_of_a_loader(task, truth):
    assert truth.shape == (len(task.metadata), 24, 24, 3)
    rows = task.rows("train")
    for x, _, known in task.loader("train", size=24, batch_size=16):
        lines = truth[rows[np.asarray(known["position"])]]
        assert (np.asarray(x).transpose(0, 2, 3, 1) == lines).all()


def test_only_what_is_missing_is_computed(task, truth, tmp_path):
    train, test, encoder = task.rows("train"), task.rows("test"), Pixels()
    for _ in range(2):
        x = features_of(task.metadata, train, encoder, cache=tmp_path)
        assert isinstance(x, np.memmap)
        assert (x[train] == truth[train]).all()
        assert encoder.blocks == blocks_of(train)
    both, encoder, ready = np.union1d(train[::2], test), Pixels(), []
    x = features_of(task.metadata, both, encoder, cache=tmp_path, on_rows=ready.append)
    assert (x[both] == truth[both]).all()
    assert encoder.blocks == blocks_of(np.setdiff1d(test, train))
    assert sum(ready) == len(both)
    assert x.shape == truth.shape


def test_another_encoder_or_size_is_another_folder(task, tmp_path):
    rows, third = task.rows("train")[:5], Pixels()
    third.fingerprint = "other pixels"
    for number, encoder in enumerate((Pixels(), Pixels(16), third), 1):
        assert features_of(task.metadata, rows, encoder, cache=tmp_path).shape[1] == encoder.size
        assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == number


def test_the_users_folder_is_the_default_and_memory_is_filled_only_where_asked(task, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    rows = task.rows("train")[:3]
    x = features_of(task.metadata, rows, Pixels(), cache=False)
    assert not any(tmp_path.iterdir())
    assert not x[np.setdiff1d(np.arange(len(x)), rows)].any()
    kept = features_of(task.metadata, rows, Pixels())
    assert (kept[rows] == x[rows]).all()
    assert the_folder(tmp_path / "shiftdata" / "features")


def test_what_cannot_be_encoded_is_an_error(task):
    encoder, rows = Pixels(), task.rows("train")[:2]
    with pytest.raises(InputError, match="no rows"):
        features_of(task.metadata, rows[:0], encoder, cache=False)
    encoder.modality = "text"
    with pytest.raises(InputError, match="modality image"):
        features_of(task.metadata, rows, encoder, cache=False)
    for wrong in (lambda x: x[:1], lambda x: x.astype(np.float64)):
        with pytest.raises(InputError, match="a line of float32"):
            encoded(wrong, np.zeros((3, 4), np.uint8))


def test_an_untouched_picture_is_encoded_once(tmp_path_factory):
    metadata, encoder = sd.task(dataset_of(tmp_path_factory, "continuous")).metadata, Pixels()
    rows = np.flatnonzero(np.asarray(metadata.columns["severity"]) == 0)
    x = features_of(metadata, rows, encoder, cache=False)
    assert len(np.unique(metadata.picture[rows])) < len(rows)
    assert encoder.blocks == blocks_of(np.unique(metadata.picture[rows]))
    alone = [features_of(metadata, np.array([row]), Pixels(), cache=False) for row in rows]
    assert all(
        (x[metadata.picture[r]] == y[metadata.picture[r]]).all() for r, y in zip(rows, alone, strict=True)
    )


@pytest.mark.parametrize("damaged", ["rows", "checks"])
def test_a_changed_byte_is_noticed(task, truth, tmp_path, damaged):
    rows, encoder = task.rows("train"), Pixels()
    features_of(task.metadata, rows, encoder, cache=tmp_path)
    name, each = (ROWS, 3 * 24**2) if damaged == "rows" else (CHECKS, 8)
    path = the_folder(tmp_path) / name
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - each * (len(task.metadata) - int(rows[0])))
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    ready = []
    x = features_of(task.metadata, rows, encoder, cache=tmp_path, on_rows=ready.append)
    assert (x[rows] == truth[rows]).all()
    assert sum(ready) == len(rows)
    assert encoder.blocks == blocks_of(rows) + 1


@pytest.mark.parametrize(
    "damage", ["torn rows", "torn checks", "no rows", "foreign", "garbage", "other shape", "other lines"]
)
def test_what_is_torn_or_foreign_is_thrown_away_with_a_warning(task, truth, tmp_path, damage):
    rows = task.rows("train")
    features_of(task.metadata, rows, Pixels(), cache=tmp_path)
    folder = the_folder(tmp_path)
    name = CHECKS if "checks" in damage else ABOUT if damage == "foreign" else ROWS
    if "torn" in damage:
        os.truncate(folder / name, (folder / name).stat().st_size // 2)
    elif damage == "no rows":
        (folder / name).unlink()
    elif damage.startswith("other"):
        np.save(folder / ROWS, np.zeros((3 if damage == "other shape" else len(task.metadata), 4)))
    else:
        (folder / name).write_bytes(b"{}")
    encoder = Pixels()
    with pytest.warns(CacheWarning, match="thrown away"):
        x = features_of(task.metadata, rows, encoder, cache=tmp_path)
    for _ in range(2):
        assert (x[rows] == truth[rows]).all()
        assert encoder.blocks == blocks_of(rows)
        x = features_of(task.metadata, rows, encoder, cache=tmp_path)


@pytest.mark.parametrize("writes", [0, 2])
def test_a_full_disk_costs_a_warning(task, truth, tmp_path, monkeypatch, writes):
    rows, write, calls, ready = task.rows("train"), features._write_at, [], []

    def full(*args):
        calls.append(1)
        if len(calls) > writes:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*args)

    monkeypatch.setattr(features, "_write_at", full)
    encoder = Pixels()
    with pytest.warns(CacheWarning, match="No space left"):
        x = features_of(task.metadata, rows, encoder, cache=tmp_path, on_rows=ready.append)
    assert (x[rows] == truth[rows]).all()
    assert encoder.blocks == blocks_of(rows) + 1  # the one that could not be written
    assert sum(ready) == len(rows)


def test_a_folder_that_cannot_be_made_costs_a_warning(task, truth, tmp_path):
    rows = task.rows("train")
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning, match="nothing more is kept"):
        x = features_of(task.metadata, rows, Pixels(), cache=tmp_path / "file")
    assert (x[rows] == truth[rows]).all()


FILL = """
import sys
import numpy as np, torch
import shiftdata as sd
from shiftdata.data.loading.features import features_of
from tests.data.loading.test_features import Pixels
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
metadata = sd.task(sys.argv[1]).metadata
out = sys.argv[2]
rows = np.arange(200)
for name, cache in ("one", f"{out}/disk"), ("two", f"{out}/disk{rank}"), ("no", False):
    encoder, ready = Pixels(), []
    x = features_of(metadata, rows, encoder, cache=cache, on_rows=ready.append)
    assert sum(ready) == len(rows)
    np.save(f"{out}/{name}-{rank}.npy", x)
    print(encoder.blocks)
torch.distributed.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tiny, tmp_path_factory):
    """Fill caches by two ranks; give a folder with their arrays, and how many blocks each encoded."""
    out = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    command = [sys.executable, "-c", FILL, str(tiny), str(out)]
    processes = [
        subprocess.Popen(
            command,
            env=known | {"RANK": str(rank), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        blocks = [
            [int(line) for line in process.communicate(timeout=300)[0].split()] for process in processes
        ]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0]
    return out, blocks


@pytest.mark.slow
def test_ranks_share_the_work_and_all_see_all_lines(truth, ranks):
    out, blocks = ranks
    # Half of 200 lines are 4 blocks; without a common disk the other half follows; all together are 7.
    assert blocks == [[4, 8, 7]] * 2
    for name in ("one", "two", "no"):
        assert all((np.load(out / f"{name}-{rank}.npy")[:200] == truth[:200]).all() for rank in range(2))


def lines_of(rows, writer=0):
    return rows[:, None] + np.arange(300.0) + writer * 1e-3


def write(folder, writer, seed):
    cache = cache_of(folder)
    generator = np.random.default_rng(seed)
    while cache.missing(np.arange(400)).any():
        rows = np.unique(generator.integers(400, size=20))
        cache.put(rows, lines_of(rows, writer))


@pytest.mark.slow
@pytest.mark.parametrize("kills", [12])
def test_a_process_that_is_killed_leaves_only_whole_lines(tmp_path, kills):
    fork, generator = multiprocessing.get_context("fork"), np.random.default_rng(0)
    for number in range(kills):
        child = fork.Process(target=write, args=(tmp_path, 0, number))
        child.start()
        time.sleep(generator.uniform(0, 0.03))
        child.kill()
        child.join()
        cache = cache_of(tmp_path)
        present = np.flatnonzero(~cache.missing(np.arange(400)))
        if len(present):
            assert (cache.x[present] == lines_of(present)).all()
    write(tmp_path, 0, kills)
    cache = cache_of(tmp_path)
    assert (cache.x[:] == lines_of(np.arange(400))).all()


def test_two_writers_end_with_the_same_lines(tmp_path):
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=write, args=(tmp_path, writer, writer)) for writer in range(2)]
    for child in children:
        child.start()
    seen = {}
    cache = cache_of(tmp_path)
    while any(child.is_alive() for child in children):
        cache = cache_of(tmp_path)
        for row in np.flatnonzero(~cache.missing(np.arange(400))).tolist():
            assert (seen.setdefault(row, cache.x[row].copy()) == cache.x[row]).all()
    cache = cache_of(tmp_path)
    assert not cache.missing(np.arange(400)).any()
    assert all(child.exitcode == 0 for child in children)
    writers = np.round((cache.x[:] - lines_of(np.arange(400))) * 1e3)
    assert (writers == writers[:, :1]).all()
