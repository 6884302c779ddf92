"""Readers of files next to hostile requests: what `shiftdata serve` keeps for those who only read.

    python scripts/bench/hostile_serve.py build --hostile 2000 --at-once 2000 --kills 20

Hostile requests ask for pages, tasks, pictures and files, read nothing of it, or slowly, or are no HTTP.
Meanwhile readers read ranges of one file and compare every byte, and the process of pages is killed.
Prints the latencies of the readers, their wrong answers, the memory of the process that serves files and of
that of pages, and the statuses of the hostile requests. Use an idle machine: clients run on it too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

from shiftdata.serve.folders import Library

HEAD = "GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n"
PIECE = 64 << 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a folder of datasets")
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--hostile", type=int, default=2000, help="requests")
    parser.add_argument("--at-once", type=int, default=500)
    parser.add_argument("--kills", type=int, default=20, help="of the process of pages")
    options = parser.parse_args()
    (repo, commit), *_ = Library(options.folder).heads()
    path = max(commit.files, key=lambda name: commit.files[name].size)
    content = (repo.root.joinpath(*repo.parts) / path).read_bytes()
    command = [sys.executable, "-m", "shiftdata", "serve", str(options.folder), "--port", "0", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r":(\d+)$", server.stdout.readline())[1])
        clients = Clients(port, f"/datasets/{repo.owner}/{repo.name}", path, content, server.pid)
        asyncio.run(clients.run(options))
    finally:
        server.kill()


class Clients:
    """Readers and hostile clients of one server, and what they saw."""

    def __init__(self, port: int, repo: str, path: str, content: bytes, pid: int) -> None:
        self.port, self.repo, self.content, self.pid = port, repo, content, pid
        self.file, self.base = f"{repo}/resolve/main/{path}", path.split("/")[1]  # of the largest shard
        self.seconds: list[float] = []
        self.seen = Counter[str]()
        self.wrong = self.killed = self.page_memory = 0

    async def run(self, options: argparse.Namespace) -> None:
        """Let readers read, then hostile clients too: in a process of their own, to slow nobody here."""
        await self.ask(0, random.Random(0))  # the process of pages has started
        readers = [asyncio.create_task(self.read(seed)) for seed in range(options.readers)]
        await asyncio.sleep(3)
        alone, self.seconds = self.seconds, []
        killer = asyncio.create_task(self.kill(options.kills))
        began = time.monotonic()
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            self.seen = await asyncio.get_running_loop().run_in_executor(pool, self.hostile, options)
        took = time.monotonic() - began
        for task in (killer, *readers):
            task.cancel()
        figures = {
            "alone": _quantiles(alone),
            "next to hostile requests": _quantiles(self.seconds),
            "wrong answers": self.wrong,
            "hostile requests": dict(self.seen),
            "seconds": round(took, 1),
            "kills": self.killed,
            "MB of the file process at most": _peak(self.pid),
            "MB of a page process at most": self.page_memory,
        }
        print(json.dumps(figures, indent=1))

    def hostile(self, options: argparse.Namespace) -> Counter[str]:
        """Send all hostile requests; return their statuses."""

        async def send() -> None:
            left = iter(range(options.hostile))
            await asyncio.gather(*(self.harass(left) for _ in range(options.at_once)))

        asyncio.run(send())
        return self.seen

    async def read(self, seed: int) -> None:
        """Read ranges for ever, over one connection as long as it lasts."""
        draw, stream = random.Random(seed), None
        while True:
            start = draw.randrange(max(1, len(self.content) - PIECE))
            began = time.monotonic()
            try:
                stream = stream or await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
                stream[1].write(
                    HEAD.format(self.file, f"Range: bytes={start}-{start + PIECE - 1}\r\n").encode()
                )
                head = await stream[0].readuntil(b"\r\n\r\n")
                length = int(re.search(rb"content-length: (\d+)", head)[1])
                body = await stream[0].readexactly(length)
                self.wrong += (
                    not head.startswith(b"HTTP/1.1 206") or body != self.content[start : start + PIECE]
                )
            except (OSError, asyncio.IncompleteReadError):
                self.wrong, stream = self.wrong + 1, None
            self.seconds.append(time.monotonic() - began)
            await asyncio.sleep(0.01)

    async def harass(self, left: object) -> None:
        for number in left:
            draw = random.Random(number)
            try:
                async with asyncio.timeout(30):
                    self.seen[await self.ask(number, draw)] += 1
            except TimeoutError:
                self.seen["no answer in 30 s"] += 1
            except OSError as error:
                self.seen[type(error).__name__] += 1

    async def ask(self, number: int, draw: random.Random) -> str:
        """Send one hostile request; return its status."""
        words = f"group-fairness+k={draw.randint(2, 9)}+mu=0.{draw.randint(1, 9)}+seed={number}"
        pages = [
            "",
            "/example.html",
            "/card.webp",
            "/data/rows.json?full=1",
            f"/data/counts.json?task={words}",
        ]
        pages += [f"/data/picture/{self.base}/{draw.randrange(500)}?side=64"]
        pages += [f"/data/covers/{self.base}-{draw.randrange(9)}-0.webp"]
        target = draw.choice(["/", self.file, *(self.repo + page for page in pages)])
        kind = draw.choice(["whole", "whole", "leaves", "slow", "garbage"]) if number else "whole"
        address = f"127.0.{draw.randrange(250)}.{1 + draw.randrange(250)}"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))
        try:
            if kind == "garbage":
                writer.write(random.randbytes(50_000))
            else:
                writer.write(HEAD.format(target, "Connection: close\r\n").encode())
            if kind == "leaves":
                return "left"
            status = (await reader.readline()).split(b" ")[1:2]
            if kind == "slow":
                for _ in range(5):
                    await asyncio.sleep(1)
                    await reader.read(10)
            else:
                while await reader.read(PIECE):
                    pass
            return status[0].decode() if status else "closed"
        finally:
            writer.transport.abort()

    async def kill(self, times: int) -> None:
        while self.killed < times:
            await asyncio.sleep(0.5)
            tasks = Path(f"/proc/{self.pid}/task").glob("*/children")  # any thread may have started it
            for pid in " ".join(task.read_text() for task in tasks).split():
                with suppress(OSError, TypeError):  # it has just ended
                    self.page_memory = max(self.page_memory, _peak(int(pid)))
                    os.kill(int(pid), signal.SIGKILL)
                    self.killed += 1


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    at = {f"p{share}": round(ordered[int(len(ordered) * share / 100)], 4) for share in (50, 95, 99)}
    return {"reads": len(ordered), **at, "most": round(ordered[-1], 4)}


def _peak(pid: int) -> int:
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) // 1024


if __name__ == "__main__":
    main()
