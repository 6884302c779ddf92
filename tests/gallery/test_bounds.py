"""What a stranger's dataset or request can cost a mirror: memory, and the time of those who read files."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from shiftdata.files import sha256_of
from tests.bombs import write_equal_rows
from tests.serving.serving import Answer, Process, request
from tests.tiny import edit_manifest

DATASET = "/datasets/shift/tiny"
ROWS = f"{DATASET}/data/rows.json?base=mini"


def peak(process: Process) -> int:
    """The most memory that a process has had."""
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def list_file(folder: Path, path: Path) -> None:
    """List a file in a manifest, as a forger would."""
    record = {"bytes": path.stat().st_size, "sha256": sha256_of(path), "rows": None}

    def change(raw: dict[str, Any]) -> None:
        raw["files"] = dict(sorted({**raw["files"], str(path.relative_to(folder)): record}.items()))

    edit_manifest(folder, change)


def test_equal_rows_of_scores_do_not_fill_the_memory(tiny: Path, tmp_path: Path):
    folder = Path(shutil.copytree(tiny, tmp_path / "shift" / "tiny"))
    bomb = write_equal_rows(folder / "filters/mini.parquet", {"key": "k", "score_a": 0.5}, 4_000_000)
    list_file(folder, bomb)
    assert bomb.stat().st_size < 100_000
    server = Process(tmp_path, "--quiet")
    try:
        assert request(server.port, "GET", ROWS).status == 200
        before = peak(server)
        answer = request(server.port, "GET", f"{ROWS}&full=1")
        assert answer.status == 400
        assert "4,000,000 rows" in answer.json["error"]
        assert peak(server) - before < 100e6
        assert request(server.port, "GET", ROWS).status == 200
    finally:
        server.kill()


def test_who_asks_for_look_alikes_does_not_keep_the_readers_of_files_waiting(tiny: Path, tmp_path: Path):
    """More datasets than stay open, each asked for by several connections at once."""
    names = [f"tiny{number}" for number in range(10)]
    for name in names:
        shutil.copytree(tiny, tmp_path / "shift" / name)
    shard = next(tiny.glob("data/mini/train-*.parquet"))
    server = Process(tmp_path, "--quiet")

    def look(name: str) -> Answer:
        return request(server.port, "GET", f"/datasets/shift/{name}/data/look_alikes.json")

    try:
        with ThreadPoolExecutor(60) as pool:
            asked = [pool.submit(look, name) for name in names * 6]
            waits = []
            while not all(one.done() for one in asked):
                begin = time.monotonic()
                path = f"/datasets/shift/tiny0/resolve/main/{shard.relative_to(tiny)}"
                assert request(server.port, "GET", path).body == shard.read_bytes()
                waits.append(time.monotonic() - begin)
        answers = [one.result() for one in asked]
        busy = [one for one in answers if one.status == 503]
        assert {one.status for one in answers} == {200, 503}
        assert all(int(one.headers["retry-after"]) > 0 and "ask again" in one.json["error"] for one in busy)
        assert max(waits) < 2
        for name in names:
            assert look(name).json["rows"] == look("tiny0").json["rows"]
        begin = time.monotonic()
        assert {look(name).status for name in names} == {200}
        assert time.monotonic() - begin < 1  # they are kept, though the datasets are not
    finally:
        server.kill()
