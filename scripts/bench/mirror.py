"""Many readers of a mirror at once: throughput compared with cat, and the server's memory over time.

    python scripts/bench/mirror.py --out build/bench [--gb 1] [--readers 50]

A repo of random bytes is served by `shiftdata serve` in a process of its own. Readers are threads of a few
processes; half of them read whole files, half read ranges of 64 KiB. For comparison, the readers of whole
files read from the mirror alone and from the file server of Python's library (which knows no ranges), and
`cat` pipes the same files from the same disk cache, in as many processes: nothing can be faster.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

PIECE = 1 << 20
RANGE = 64 << 10
RANGES = 200
RESOLVE = "/datasets/shift/load/resolve/main/"


def main() -> None:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.out) as scratch:
        files = make(Path(scratch) / "shift" / "load", options.gb)
        result = measure(Path(scratch), files, options.readers, options.processes)
    (options.out / "mirror.json").write_text(json.dumps(result, indent=1))
    picture(result, options.out / "mirror.png")
    for name in (
        "cat_mb_s",
        "python_mb_s",
        "mirror_mb_s",
        "served_mb_s",
        "whole_mb",
        "ranges_per_s",
        "rss_before_mb",
        "rss_peak_mb",
        "rss_after_mb",
        "errors",
    ):
        print(f"{name:<16}{result[name]:>12,.1f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--gb", type=float, default=1.0, help="size of the repo")
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--processes", type=int, default=5)
    return parser.parse_args()


def make(folder: Path, size_gb: float) -> list[Path]:
    """Ten files of random bytes."""
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("load\n")
    files = []
    for at in range(10):
        path = folder / f"data-{at}.bin"
        with path.open("wb") as stream:
            for _ in range(int(size_gb * 1e9 / 10 / PIECE)):
                stream.write(os.urandom(PIECE))
        files.append(path)
    return files


def measure(root: Path, files: list[Path], readers: int, processes: int) -> dict[str, Any]:
    whole = readers // 2
    cat_seconds = cat(files, whole, processes)
    server = subprocess.Popen(
        [sys.executable, "-m", "shiftdata", "serve", str(root), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    port = 0
    for line in server.stdout:
        if found := re.search(r"HF_ENDPOINT=http://\S+:(\d+)", line):
            port = int(found[1])
            break
    drain = threading.Thread(target=server.stdout.read, daemon=True)
    drain.start()
    time.sleep(1)
    memory = Memory(server.pid)
    memory.start()
    time.sleep(1)
    began = time.perf_counter()
    sizes = {path.name: path.stat().st_size for path in files}
    jobs = [(port, RESOLVE, sizes, at, at < whole) for at in range(readers)]
    results = run(jobs, processes)
    seconds = time.perf_counter() - began
    mirror_speed = speed(jobs[:whole], processes)
    time.sleep(2)
    memory.stop()
    server.terminate()
    server.wait(20)
    drain.join(5)
    sent = sum(result["bytes"] for result in results)
    cat_bytes = whole * max(sizes.values())
    with library_server(files[0].parent) as library_port:
        python_speed = speed([(library_port, "/", sizes, at, True) for at in range(whole)], processes)
    return {
        "readers": readers,
        "gb": sum(sizes.values()) / 1e9,
        "seconds": seconds,
        "cat_mb_s": cat_bytes / cat_seconds / 1e6,
        "python_mb_s": python_speed,
        "mirror_mb_s": mirror_speed,
        "served_mb_s": sent / seconds / 1e6,
        "whole_mb": sum(result["bytes"] for result in results if result["whole"]) / 1e6,
        "ranges_per_s": sum(
            result["ranges"] / result["seconds"] for result in results if not result["whole"]
        ),
        "rss_before_mb": memory.points[0][1],
        "rss_peak_mb": max(point[1] for point in memory.points),
        "rss_after_mb": memory.points[-1][1],
        "errors": sum(result["errors"] for result in results),
        "rss": memory.points,
    }


def cat(files: list[Path], times: int, processes: int) -> float:
    """Seconds that `cat` takes for as many files as readers read whole."""
    named = [str(files[at % len(files)]) for at in range(times)]
    began = time.perf_counter()
    running = [
        subprocess.Popen(["sh", "-c", 'cat "$@" | cat > /dev/null', "sh", *named[at::processes]])
        for at in range(processes)
    ]
    for process in running:
        process.wait()
    return time.perf_counter() - began


@contextmanager
def library_server(folder: Path) -> Iterator[int]:
    """The file server of Python's library in a process of its own; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen([*command, "--directory", str(folder)], **quiet)
    try:
        time.sleep(1)
        yield port
    finally:
        server.terminate()
        server.wait(20)


def speed(jobs: list[Any], processes: int) -> float:
    """MB a second that some readers get together."""
    began = time.perf_counter()
    sent = sum(result["bytes"] for result in run(jobs, processes))
    return sent / (time.perf_counter() - began) / 1e6


def run(jobs: list[Any], processes: int) -> list[dict[str, Any]]:
    """Run readers in some processes."""
    with ThreadPoolExecutor(processes) as pool:
        shares = [jobs[at::processes] for at in range(processes)]
        return [result for share in pool.map(run_process, shares) for result in share]


def run_process(jobs: list[Any]) -> list[dict[str, Any]]:
    """Run some readers in a process of their own, each in a thread."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(run_threads, (jobs,))


def run_threads(jobs: list[Any]) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(lambda job: read(*job), jobs))


def read(port: int, prefix: str, sizes: dict[str, int], at: int, whole: bool) -> dict[str, Any]:
    """One reader: a whole file, or many ranges; each answer is checked for its length."""
    names, draw = sorted(sizes), random.Random(at)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    began, got, errors, count = time.perf_counter(), 0, 0, 0
    for _ in range(1 if whole else RANGES):
        name = names[at % len(names)] if whole else draw.choice(names)
        start = 0 if whole else draw.randrange(sizes[name] - RANGE)
        headers = {} if whole else {"Range": f"bytes={start}-{start + RANGE - 1}"}
        connection.request("GET", f"{prefix}{name}", headers=headers)
        response = connection.getresponse()
        length = 0
        while piece := response.read(PIECE):
            length += len(piece)
        got, count = got + length, count + 1
        errors += length != (sizes[name] if whole else RANGE)
    connection.close()
    return {
        "whole": whole,
        "bytes": got,
        "ranges": count,
        "errors": errors,
        "seconds": time.perf_counter() - began,
    }


class Memory(threading.Thread):
    """The resident memory of a process, ten times a second, in MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._end = pid, threading.Event()
        self.points: list[tuple[float, float]] = []

    def run(self) -> None:
        began = time.perf_counter()
        while not self._end.is_set():
            status = Path(f"/proc/{self._pid}/status").read_text()
            self.points.append(
                (time.perf_counter() - began, int(status.split("VmRSS:")[1].split()[0]) / 1024)
            )
            self._end.wait(0.1)

    def stop(self) -> None:
        self._end.set()
        self.join()


def picture(result: dict[str, Any], path: Path) -> None:
    from shiftdata.evaluation.charts import drawn_figure, new_figure

    figure = new_figure(6, 2.6)
    axes = figure.subplots()
    axes.plot(*zip(*result["rss"], strict=True), color="#2b6cb0")
    axes.set(xlabel="seconds", ylabel="resident memory, MB", ylim=(0, None))
    axes.set_title(f"{result['readers']} readers of {result['gb']:.1f} GB", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    drawn_figure(figure).save(path)


if __name__ == "__main__":
    main()
