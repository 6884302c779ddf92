"""Decoded pictures that are kept: the same batches with and without them, whatever happens to their files."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.loading.batches import decoded as module
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.errors import ChangedError, InputError
from shiftdata.stable import rng
from tests.data.batches.test_decode import encoded, picture
from tests.data.batches.test_loader import TwoSizes, seen

PICTURE = 24 * 24 * 3 + module.RECORD.itemsize


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.rglob(f"*.{suffix}"))


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def kept(folder: Path) -> int:
    return sum(path.stat().st_size for path in files(folder, "index")) // module.RECORD.itemsize


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

    def one_of(*choices):
        return choices[generator.integers(len(choices))]

    options = {
        "sampler": one_of(None, "shuffle", "rwg"),
        "batch_size": one_of(13, 64),
        "size": one_of(None, 24, (8, 12)),
        "transform": one_of(None, shaken),
        "seed": number,
        "on_error": one_of("error", "skip"),
    } | one_of({}, {"rank": 1, "world": 3})
    limit = one_of(20 * PICTURE, 10**9)
    plain = task.loader("validation", workers=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for workers in (0, 2):  # two runs: the second starts with what the first one has kept
            kept_for = {"decoded": tmp_path, "decoded_limit": limit, "workers": workers}
            with task.loader("validation", **kept_for, **options) as loader:
                for epoch in range(2):
                    plain.set_epoch(epoch)
                    assert seen(loader) == seen(plain)
            assert size(tmp_path) <= limit


def test_pictures_are_read_once_and_later_runs_read_none(task, tmp_path):
    reader, later = counting(task), counting(task)
    with task.loader(sampler="shuffle", decoded=tmp_path, reader=reader) as loader:
        first, second = seen(loader), seen(loader)
    assert reader.asked == kept(tmp_path) == len(task.sets["train"])
    with task.loader(sampler="shuffle", decoded=tmp_path, reader=later) as loader:
        assert (seen(loader), seen(loader)) == (first, second)
    assert later.asked == 0


def test_another_dataset_with_the_same_pictures_has_them_already(task, copy, tmp_path):
    list(task.loader(decoded=tmp_path))
    other = sd.task(copy)
    assert other.metadata.dataset.address != task.metadata.dataset.address
    reader = counting(other)
    assert seen(other.loader(decoded=tmp_path, reader=reader)) == seen(task.loader())
    assert reader.asked == 0


def test_another_size_is_kept_apart(task, tmp_path):
    for size in (None, 12, (12, 16)):
        list(task.loader(decoded=tmp_path, size=size))
        assert seen(task.loader(decoded=tmp_path, size=size)) == seen(task.loader(size=size))
    assert kept(tmp_path) == 3 * len(task.sets["train"])


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


def test_damaged_pictures_are_neither_kept_nor_hidden(damaged, tmp_path):
    task, keys = damaged
    for _ in range(2):
        loader = task.loader(batch_size=16, on_error="skip", decoded=tmp_path)
        with pytest.warns(UserWarning, match="2 examples cannot be read"):
            found = seen(loader)
        assert sorted(loader.skipped) == sorted(keys)
    with pytest.warns(UserWarning, match="2 examples"):
        assert found == seen(task.loader(batch_size=16, on_error="skip"))
    assert kept(tmp_path) == len(task.sets["train"]) - 2


def test_bytes_that_are_not_those_of_the_metadata_are_not_kept(task, tmp_path):
    class Other(ExampleReader):
        def read(self, rows):
            return [encoded(picture(24, 24), "PNG") for _ in rows]

    wrong = Other(task.metadata.dataset, task.metadata.base)
    list(task.loader(decoded=tmp_path, reader=wrong))
    assert kept(tmp_path) == 0
    assert seen(task.loader(decoded=tmp_path)) == seen(task.loader())


def test_a_dataset_that_has_changed_is_refused(copy, tmp_path):
    loader = sd.task(copy).loader(batch_size=8, workers=0, decoded=tmp_path)
    list(loader)
    manifest = copy / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": "', '"version": "9'))
    with pytest.raises(ChangedError):
        next(iter(loader))


@pytest.mark.parametrize("transform", [None, lambda x, generator: x[:16, :16]])
def test_pictures_of_several_sizes_are_not_kept(task, tmp_path, transform):
    class Several(TwoSizes):
        def hashes(self, rows):
            data = self.read(rows)
            return np.array([hashlib.sha256(one).digest() for one in data], "V32")

    options = {"batch_size": 4, "workers": 0, "transform": transform}
    reader = Several(task.metadata.dataset, "mini")
    loader = task.loader(decoded=tmp_path, reader=reader, **options)
    if transform is None:
        with pytest.raises(InputError, match=r"\(21, 30\) beside \(20, 30\): give size=\(height, width\)"):
            next(iter(loader))
        return
    with pytest.warns(UserWarning, match="the pictures differ in size") as warned:
        assert seen(loader) == seen(task.loader(reader=reader, **options))
    assert len(warned) == 1
    assert seen(loader)


def test_what_is_over_the_limit_is_decoded(task, tmp_path):
    limit, reader = 40 * PICTURE, counting(task)
    loader = task.loader(decoded=tmp_path, decoded_limit=limit, reader=reader, workers=0)
    with pytest.warns(UserWarning, match="the 70,720 bytes of its limit") as warned:
        assert seen(loader) == seen(task.loader())
    assert len(warned) == 1
    assert kept(tmp_path) == 40
    before = reader.asked
    assert seen(loader) == seen(task.loader())
    assert reader.asked == before + len(task.sets["train"]) - 40


def test_what_nobody_uses_makes_room(task, tmp_path):
    list(task.loader("test", decoded=tmp_path, size=8))
    old = files(tmp_path, "index")
    limit = size(tmp_path) + 10 * PICTURE
    options = {"decoded": tmp_path, "decoded_limit": limit}
    with pytest.warns(UserWarning, match="of its limit"):
        list(task.loader("test", **options))
    assert set(old) <= set(files(tmp_path, "index"))  # it was used just now
    for path in old:
        os.utime(path, (1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(task.loader("test", **options))
        assert seen(task.loader("test", **options)) == seen(task.loader("test"))
    assert not set(old) & set(files(tmp_path, "index"))


@pytest.mark.parametrize("suffix", ["pixels", "index"])
@pytest.mark.parametrize("damage", ["flipped", "shorter", "empty", "gone", "longer"])
@pytest.mark.parametrize("when", ["between runs", "between epochs"])
def test_files_that_are_damaged_cost_a_decoding(task, tmp_path, suffix, damage, when):
    loader = task.loader(decoded=tmp_path, batch_size=16)
    list(loader)
    (path,) = files(tmp_path, suffix)
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "flipped":
        data[100:110] = bytes(byte ^ 255 for byte in data[100:110])
        path.write_bytes(data)
    else:
        size = {"shorter": len(data) - 1001, "empty": 0, "longer": len(data) + 777}[damage]
        os.truncate(path, size)
    loader = task.loader(decoded=tmp_path, batch_size=16) if when == "between runs" else loader
    plain = task.loader(batch_size=16)
    for _ in range(2):
        assert seen(loader) == seen(plain)
    reader = counting(task)
    assert seen(task.loader(decoded=tmp_path, batch_size=16, reader=reader)) == seen(plain)
    assert reader.asked <= (0 if when == "between runs" else len(task.sets["train"]))


def test_a_folder_that_cannot_be_written_is_read(task, tmp_path, monkeypatch):
    list(task.loader("test", decoded=tmp_path))
    reader = counting(task)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, "locked", refused)
    assert seen(task.loader("test", decoded=tmp_path, reader=reader)) == seen(task.loader("test"))
    assert reader.asked == 0
    with pytest.warns(UserWarning, match="cannot be written .Permission denied") as warned:
        assert seen(task.loader(decoded=tmp_path, workers=2)) == seen(task.loader())
    assert len(warned) == 1
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="cannot be written"):
        assert seen(task.loader(decoded=tmp_path / "file")) == seen(task.loader())


def test_a_disk_that_is_full(task, tmp_path, monkeypatch):
    def write(descriptor, data):
        if os.fstat(descriptor).st_size + len(data) > 20_000:
            raise OSError(28, "No space left on device")
        return os.pwrite(descriptor, data[:1000], os.fstat(descriptor).st_size)  # now and then a part

    monkeypatch.setattr(module.os, "write", write)
    loader = task.loader(decoded=tmp_path, batch_size=8, workers=0)
    with pytest.warns(UserWarning, match="No space left on device"):
        assert seen(loader) == seen(task.loader(batch_size=8))
    monkeypatch.undo()
    for _ in range(2):
        assert seen(loader) == seen(loader.__class__(loader.examples, None, batch_size=8))
    assert kept(tmp_path) == len(task.sets["train"])


FILL = """
import hashlib, json, sys
import shiftdata as sd

folder, cache, seed = sys.argv[1:]
digest = hashlib.sha256()
with sd.task(folder).loader(sampler="shuffle", seed=int(seed), batch_size=8, decoded=cache) as loader:
    print("begins", flush=True)
    for _ in range(2):
        for x, y, known in loader:
            digest.update(x.numpy().tobytes())
print(digest.hexdigest(), flush=True)
"""


def fill(tiny: Path, folder: Path, seed: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", FILL, str(tiny), str(folder), str(seed)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_processes_that_fill_it_at_once_and_are_killed(tiny, task, tmp_path):
    both = [fill(tiny, folder := tmp_path / "shared", seed) for seed in (5, 6)]
    for process, pictures in zip(both, (20, 60), strict=True):
        while kept(folder) < pictures and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    both = [fill(tiny, folder, 5) for _ in range(2)]
    digest, plain = hashlib.sha256(), task.loader(sampler="shuffle", seed=5, batch_size=8)
    for x, *_ in itertools.chain(plain, plain):
        digest.update(x.numpy().tobytes())
    assert [process.communicate()[0] for process in both] == [f"begins\n{digest.hexdigest()}\n"] * 2
    reader = counting(task)
    assert seen(task.loader(decoded=folder, reader=reader)) == seen(task.loader())
    assert reader.asked == 0
    assert kept(folder) == len(task.sets["train"])  # none is there twice


def test_a_process_that_is_stopped_as_it_writes_is_not_waited_for_in_each_batch(task, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    with module.locked(tmp_path / ".lock", ""):
        started = time.monotonic()
        assert seen(task.loader(decoded=tmp_path, batch_size=4, workers=0)) == seen(
            task.loader(batch_size=4, workers=0)
        )
    assert time.monotonic() - started < 20
    assert kept(tmp_path) == 0


def test_texts_and_tables_are_refused(tasks):
    with pytest.raises(InputError, match="decoded is for pictures"):
        tasks["text"].loader(decoded=True)


def test_the_default_folder_is_in_the_users_cache(task, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    list(task.loader("test", decoded=True))
    assert kept(tmp_path / "shiftdata" / "decoded") == len(task.sets["test"])
    shutil.rmtree(tmp_path)
