"""The cache of byte ranges gives what was fetched or nothing, in few files, within its limit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import shiftdata as sd
from shiftdata.data.loading.byte_ranges import ExampleReader, cache
from shiftdata.data.loading.byte_ranges.cache import RangeCache
from shiftdata.errors import InputError
from tests.data.byte_ranges.server import Served
from tests.data.byte_ranges.test_reading import served, server, whole

__all__ = ["served", "server", "whole"]  # fixtures

SHARD = "f" * 64


def blocks(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def used(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in blocks(folder))


def read(
    server: Served, folder: Path, rows: range = range(50), **options: object
) -> tuple[list[bytes], dict]:
    with ExampleReader(f"{server.url}/tiny", "mini", cache=folder, **options) as reader:
        return reader.read(rows), dict(reader.stats)


@pytest.mark.parametrize("several", ["well", ""])
def test_what_was_fetched_is_not_fetched_again(server, whole, tmp_path, several):
    server.several = several
    images, stats = read(server, tmp_path)
    assert (images, stats["cache_hits"]) == (whole[:50], 0)
    assert len(blocks(tmp_path)) == 1  # of one shard
    images, stats = read(server, tmp_path, verify=True)
    assert (images, stats["cache_hits"], stats.get("requests", 0)) == (whole[:50], 50, 0)
    images, stats = read(server, tmp_path, range(40, 60))
    assert (images, stats["cache_hits"]) == (whole[40:60], 10)


@pytest.mark.parametrize("damage", ["flipped", "torn", "hole", "emptied", "folder"])
def test_damage_is_noticed_and_mended(server, whole, tmp_path, damage):
    read(server, tmp_path)
    (block,) = blocks(tmp_path)
    data = bytearray(block.read_bytes())
    at = data.index(whole[9])
    if damage == "flipped":
        data[at + 20] ^= 1
    elif damage == "hole":
        data[at : at + len(whole[9])] = bytes(len(whole[9]))
    block.write_bytes({"torn": data[: at + 90], "emptied": b""}.get(damage, data))
    if damage == "folder":
        block.unlink()
        block.mkdir()
    hits = {"flipped": 49, "hole": 49, "folder": 0, "emptied": 0}
    images, stats = read(server, tmp_path)
    assert images == whole[:50]
    assert stats["cache_hits"] == hits.get(damage, stats["cache_hits"]) < 50
    if damage != "folder":
        assert read(server, tmp_path)[1]["cache_hits"] == 50


def test_a_link_is_not_followed(tmp_path):
    kept = RangeCache(tmp_path / "cache", None)
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "cache" / SHARD).mkdir(parents=True)
    (tmp_path / "cache" / SHARD / "0").symlink_to(tmp_path / "mine")
    kept.write(SHARD, 0, b"theirs")
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert kept.read(SHARD, 0, 4) is None


def test_a_folder_that_cannot_be_written_keeps_nothing(server, whole, tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"")
    with ExampleReader(f"{server.url}/tiny", "mini", cache=tmp_path / "file") as reader:
        assert [reader.read(range(9)), reader.read(range(9))] == [whole[:9]] * 2
        assert reader.stats["cache_hits"] == 0
    assert caplog.text.count("keeps no more bytes") == 1


def test_a_full_disk_stops_nobody(server, whole, tmp_path):
    """The system refuses files of more than 4 KB in the process that reads."""
    code = (
        "import resource, signal, sys; from shiftdata.data.loading.byte_ranges import ExampleReader\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "reader = ExampleReader(sys.argv[1], 'mini', cache=sys.argv[2])\n"
        "images = reader.read(range(50)); assert images == reader.read(range(50))\n"
        "sys.stdout.buffer.write(b''.join(images))"
    )
    command = [sys.executable, "-c", code, f"{server.url}/tiny", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"".join(whole[:50])


def test_the_limit_holds_and_what_was_used_last_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "BLOCK", 1 << 16)
    monkeypatch.setattr(cache, "TOUCH", 0.0)
    limit, size = 1 << 20, 1 << 14
    kept, draw = RangeCache(tmp_path, limit), random.Random(0)
    content = draw.randbytes(4 << 20)
    kept.write(SHARD, 0, content[:size])
    for start in range(0, len(content), size):
        kept.write(SHARD, start, content[start : start + size])
        assert used(tmp_path) <= limit
        assert kept.read(SHARD, 0, size) == content[:size]  # used again and again
    assert kept.read(SHARD, size * 40, size) is None
    assert used(tmp_path) > limit // 2


def test_a_range_across_blocks_is_one_range(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "BLOCK", 100)
    kept, content = RangeCache(tmp_path, None), random.Random(1).randbytes(1000)
    kept.write(SHARD, 50, content[50:470])
    assert len(blocks(tmp_path)) == 5
    for start, end in ((50, 470), (99, 101), (100, 200), (250, 469)):
        assert kept.read(SHARD, start, end - start) == content[start:end]
    assert kept.read(SHARD, 460, 20) is None


def test_a_loader_keeps_what_it_fetches(server, tmp_path):
    task = sd.task(f"{server.url}/tiny")
    for epoch in range(2):
        server.bodies.clear()
        with task.loader(sampler="shuffle", batch_size=16, cache=tmp_path, cache_limit=10e6) as loader:
            loader.set_epoch(epoch)
            assert sum(len(y) for _, y, _ in loader) == 200
        assert bool(server.fetched("/data/")) is (epoch == 0)
    with pytest.raises(InputError, match="a reader has a cache of its own"):
        task.loader(cache=tmp_path, reader=ExampleReader(task.metadata.dataset, "mini"))


def test_a_limit_below_one_range_keeps_nothing(server, whole, tmp_path):
    images, _ = read(server, tmp_path, cache_limit=100)
    assert images == whole[:50]
    assert used(tmp_path) == 0
    with pytest.raises(InputError, match="cache_limit is a number of bytes, or None"):
        ExampleReader(f"{server.url}/tiny", "mini", cache_limit=0)


def test_processes_that_share_a_folder_and_are_killed_leave_a_right_one(server, whole, tmp_path):
    code = (
        "import sys, random; from shiftdata.data.loading.byte_ranges import ExampleReader\n"
        "print('begun', flush=True)\n"
        "while True:\n"
        "    reader = ExampleReader(sys.argv[1], 'mini', cache=sys.argv[2], cache_limit=60_000)\n"
        "    for _ in range(20): reader.read(random.sample(range(len(reader)), 30))\n"
    )
    command = [sys.executable, "-c", code, f"{server.url}/tiny", str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for process in processes:
            assert process.stdout
            assert process.stdout.readline() == b"begun\n"
        until = time.monotonic() + 20
        while not blocks(tmp_path) and time.monotonic() < until:
            time.sleep(0.01)
        for _ in range(3):
            assert read(server, tmp_path, range(0, len(whole), 3), cache_limit=60_000)[0] == whole[::3]
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert process.stdout
            process.stdout.close()
    assert read(server, tmp_path, range(len(whole)))[0] == whole
    assert {path.parent.parent for path in blocks(tmp_path)} == {tmp_path}  # nothing but blocks


def test_threads_that_write_and_remove_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "BLOCK", 1 << 12)
    content, wrong = random.Random(2).randbytes(1 << 18), []

    def work(seed: int) -> None:
        kept, draw = RangeCache(tmp_path, 1 << 16), random.Random(seed)
        for _ in range(300):
            start = draw.randrange(len(content) - 2000)
            kept.write(SHARD, start, content[start : start + 2000])
            data = kept.read(SHARD, start, 2000)
            # A block may be removed between two reads of it: then it is a hole.
            if data is not None and any(a not in (b, 0) for a, b in zip(data, content[start:], strict=False)):
                wrong.append(start)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert os.listdir(tmp_path) == [SHARD]
