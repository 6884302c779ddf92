"""Readers beside hostile clients: every reader gets all of its bytes, and the server stays small."""

from __future__ import annotations

import http.client
import os
import random
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.serve.hostile import wait_for
from tests.serve.serving import Process, request

FLOOD = Path(__file__).with_name("flood.py")
FILES, BIG = "/datasets/shift/load/resolve/main/", "20000000.bin"


@dataclass
class Usage:
    """The most memory of a process, and its descriptors."""

    pid: int
    peak: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Usage:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.peak = max(self.peak, self.memory())

    def memory(self) -> int:
        return int(Path(f"/proc/{self.pid}/status").read_text().split("VmRSS:")[1].split()[0]) * 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def read_all(port: int, contents: dict[str, bytes], seed: int, until: float) -> int:
    """Read ranges and whole files over connections that are used again; like other clients, try again."""
    draw, count = random.Random(seed), 0
    connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(3)]
    while time.monotonic() < until or count < 20:
        connection, (name, content) = connections[count % 3], draw.choice(list(contents.items()))
        start = draw.randrange(len(content))
        end = start + draw.choice([100, 64_000, 1 << 20])
        headers = {"Range": f"bytes={start}-{end - 1}"}
        if draw.random() < 0.1:
            start, end, headers = 0, len(content), {}
        if connection.sock is not None and select.select([connection.sock], [], [], 0)[0]:
            connection.close()
        for attempt in range(20):
            try:
                connection.request("GET", FILES + name, headers=headers)
                received = connection.getresponse().read()
                break
            except (ConnectionError, http.client.IncompleteRead):
                if attempt == 19:
                    raise
                connection.close()
                time.sleep(0.1)
        assert received == content[start:end]
        count += 1
    for connection in connections:
        connection.close()
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hostile", "readers", "seconds"),
    [(280, 6, 8), (2000, 50, 90)],
)
def test_readers_are_served_beside_hostile_clients(
    tmp_path: Path, hostile: int, readers: int, seconds: float
):
    (tmp_path / "load").mkdir()
    (tmp_path / "load" / "README.md").touch()
    contents = {f"{size}.bin": os.urandom(size) for size in (1000, 300_000, 20_000_000)}
    for name, content in contents.items():
        (tmp_path / "load" / name).write_bytes(content)
    server = Process(tmp_path, limit_files=None if hostile > 1000 else 656)  # 200 connections
    floods = [
        subprocess.Popen(
            [sys.executable, FLOOD, *map(str, (server.port, first, hostile // 2, seconds + 5)), FILES + BIG]
        )
        for first in (0, hostile // 2)
    ]
    try:
        with Usage(server.popen.pid) as usage:
            before = usage.descriptors()
            time.sleep(min(5, seconds / 4))
            until = time.monotonic() + seconds
            with ThreadPoolExecutor(readers) as pool:
                served = [
                    pool.submit(read_all, server.port, contents, seed, until) for seed in range(readers)
                ]
            counts = [reading.result() for reading in served]
            for flood in floods:
                assert flood.wait(60) == 0
            print(
                f"{sum(counts)} answers, at least {min(counts)} a reader, {usage.peak / 1e6:.0f} MB at most"
            )
            # Buffers of a connection in both directions, and of what it asks for.
            assert usage.peak < 200e6 + 100e3 * hostile
            assert len(server.said) < 2_000_000
            wait_for(lambda: usage.descriptors() <= before + 5)
            assert request(server.port, "GET", "/api/datasets").status == 200
    finally:
        for flood in floods:
            flood.kill()
            flood.wait()
        server.kill()
