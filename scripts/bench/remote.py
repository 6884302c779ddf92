"""An epoch of training pictures over HTTP: ours beside its peers, from a server of this machine.

    python scripts/bench/remote.py [--rounds 5] [--pause 0.02] [--faults 0.05]

The pictures are those of `loaders.py`, which builds them. The server waits `--pause` seconds before each
answer, as a network does. Ours reads in random order, by byte range, without and with its cache (filled by
the epoch before), with windows of a tenth of the set at most, and from tars; `sd.webdataset` mixes stretches
of tars; `datasets` and `webdataset` read shards from front to back. Two workers, batches of 64, libjpeg-turbo
for all, each epoch in a process of its own;
`first` is the time to the first batch, with workers that start. In each round every reader has its turn;
medians, of ratios too.

With `--faults` that share of the answers for pictures fails: refused, cut, stalled, too short, of another
place, or the whole file. Ours alone is read then, and its pictures are compared with those of a quiet server.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import multiprocessing
import random
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import ThreadingHTTPServer
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from loader_peers import BATCH, by_turbo, pipeline, torch_loader
from loader_sets import prepare
from subset import Counted

WORKERS = 2
#: Bytes to read ahead, of which a window is half: about a tenth of the set.
SMALL = 22 << 20
RATES = ("rate", "per_cpu")
SPAWN = multiprocessing.get_context("spawn")
FAULTS = ("refused", "cut", "stalled", "short", "elsewhere", "whole")


class Slow(Counted):
    """A server that waits before it answers, and answers badly now and then."""

    pause = faults = 0.0

    def handle_one_request(self) -> None:
        with suppress(ConnectionError):  # of a reader that has gone
            super().handle_one_request()

    def parse_request(self) -> bool:
        time.sleep(self.pause)
        return super().parse_request()

    def answer(self, body: bool) -> None:
        if not body or "/data/" not in self.path or random.random() >= self.faults:
            super().answer(body)
            return
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        if (fault := random.choice(FAULTS)) == "refused":
            self.send_error(503)
        elif fault in ("cut", "stalled"):
            self.send_response(206)
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("Content-Range", self.headers["Range"].replace("=", " ") + "/*")
            self.end_headers()
            self.wfile.write(bytes(1000))
            time.sleep(60 if fault == "stalled" else 0)
            self.close_connection = True
        else:
            asked = {"short": (first, last - 1), "elsewhere": (first + 1, last + 1)}.get(fault)
            del self.headers["Range"]
            if asked:
                self.headers["Range"] = "bytes={}-{}".format(*asked)
            super().answer(body)


def serve(root: Path, pause: float, faults: float, pipe: Connection) -> None:
    """Serve a folder in a process of its own; each question on the pipe is answered by the bytes sent."""
    Slow.pause, Slow.faults = pause, faults
    counted: list[int] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Slow, root, counted))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipe.send(server.server_port)
    with suppress(EOFError):
        while pipe.recv():
            pipe.send(sum(counted))


def ours(
    url: str, out: Path, cache: Path | None = None, ahead: int = 1 << 28, name: str = "bench_jpeg"
) -> Any:
    import shiftdata as sd
    from shiftdata.data.loading.byte_ranges import ExampleReader

    url = f"{url}/shift/{name}"
    reader = ExampleReader(url, "all", cache=cache, ahead=ahead)
    return sd.task(url).loader("train", sampler="shuffle", batch_size=BATCH, workers=WORKERS, reader=reader)


def our_pipeline(url: str, out: Path) -> Any:
    return torch_loader(pipeline(f"{url}/shift/bench_jpeg_wds", "turbo"), WORKERS, batch_size=None)


def hf_streaming(url: str, out: Path) -> Any:
    import datasets

    datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0
    files = [f"{url}/parquet/{path.name}" for path in sorted((out / "parquet").iterdir())]
    data = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    data = data.cast_column("image", datasets.Image(decode=False))
    data = data.map(lambda row: {"image": by_turbo(row["image"]["bytes"]), "label": row["label"]})
    return torch_loader(data.shuffle(seed=0, buffer_size=1000), WORKERS, batch_size=BATCH)


def webdataset(url: str, out: Path) -> Any:
    import webdataset as wds

    urls = [f"{url}/tar/{path.name}" for path in sorted((out / "tar").iterdir())]
    data = wds.WebDataset(urls, shardshuffle=len(urls)).shuffle(1000)
    data = data.decode(lambda key, data: by_turbo(data) if key.endswith("jpg") else None)
    return torch_loader(data.to_tuple("jpg", "cls").batched(BATCH), WORKERS, batch_size=None)


def epoch(make: Callable[[], Any], pipe: Connection) -> None:
    """Read one epoch; send its seconds to the first batch and in all, its pictures, its processor time."""
    multiprocessing.set_start_method("fork", force=True)  # for the workers of torch
    for name in ("torch", "shiftdata.evaluation.tasks", "datasets", "webdataset", "simplejpeg"):
        import_module(name)  # its time is not an epoch's
    began, first, seen, pixels = time.perf_counter(), 0.0, 0, hashlib.sha256()
    before = processor_time()
    for batch in make():
        first = first or time.perf_counter() - began
        x = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
        seen += len(x)
        pixels.update(x[0].numpy().tobytes() if hasattr(x, "numpy") else x[0].tobytes())
    took = time.perf_counter() - began
    pipe.send((first, took, seen, processor_time() - before, pixels.hexdigest()))


def processor_time() -> float:
    """Seconds of processor time of this process and of the workers that it had."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Server:
    """The server in its process."""

    def __init__(self, out: Path, pause: float, faults: float = 0.0) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        SPAWN.Process(target=serve, args=(out, pause, faults, theirs), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.pipe.recv()}"

    def sent(self) -> int:
        self.pipe.send(True)
        return int(self.pipe.recv())


def measured(server: Server, make: Callable[[str], Any]) -> tuple[dict[str, float], str]:
    """What an epoch took, in a process of its own, and the hash of its first pictures."""
    pipe, theirs = SPAWN.Pipe()
    before = server.sent()
    process = SPAWN.Process(target=epoch, args=(functools.partial(make, server.url), theirs))
    process.start()
    theirs.close()
    first, took, seen, used, pixels = pipe.recv()
    process.join()
    sent = (server.sent() - before) / 1e6
    return {"first": first, "rate": seen / took, "per_cpu": seen / used, "MB": sent}, pixels


def main() -> None:
    """Every reader in each round; medians, and ours beside the best peer."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--faults", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=Path("build/bench/loaders/noisy"))
    options = parser.parse_args()
    prepare(options.out, "noisy")
    if options.faults:
        lossy(options.out, options.pause, options.faults)
    else:
        compare(options.out, options.pause, options.rounds)


def compare(out: Path, pause: float, rounds: int) -> None:
    server, found = Server(out, pause), dict[str, list[dict[str, float]]]()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cached = functools.partial(ours, out=out, cache=Path(cache))
            readers = {
                "shiftdata": functools.partial(ours, out=out),
                "shiftdata, small window": functools.partial(ours, out=out, ahead=SMALL),
                "shiftdata, cache to be filled": cached,
                "shiftdata, cache full": cached,
                "shiftdata, tars": functools.partial(ours, out=out, name="bench_jpeg_wds"),
                "shiftdata, sd.webdataset": functools.partial(our_pipeline, out=out),
                "HF streaming": functools.partial(hf_streaming, out=out),
                "webdataset": functools.partial(webdataset, out=out),
            }
            for name, make in readers.items():
                found.setdefault(name, []).append(measured(server, make)[0])
                print(f"  {name}: {found[name][-1]['rate']:,.0f} pictures/s", file=sys.stderr, flush=True)
    peers = [name for name in found if not name.startswith("shiftdata")]
    # A ratio of one round is of one state of the machine.
    best = {
        column: [max(found[peer][n][column] for peer in peers) for n in range(rounds)] for column in RATES
    }
    print(
        f"{'reader':<30}{'first s':>9}{'pictures/s':>12}{'a s of CPU':>12}{'MB':>8}{'beside best peer':>24}"
    )
    for name, rows in found.items():
        first, rate, per_cpu, sent = (median(row[one] for row in rows) for one in ("first", *RATES, "MB"))
        beside = [median(row[one] / peer for row, peer in zip(rows, best[one], strict=True)) for one in RATES]
        print(
            f"{name:<30}{first:>9.2f}{rate:>12,.0f}{per_cpu:>12,.0f}{sent:>8,.0f}"
            f"{beside[0]:>14.2f}, CPU {beside[1]:.2f}"
        )


def lossy(out: Path, pause: float, faults: float) -> None:
    make = functools.partial(ours, out=out)
    good, pixels = measured(Server(out, pause), make)
    bad, same = measured(Server(out, pause, faults), make)
    print(f"{faults:.0%} of answers fail: {bad['rate']:,.0f} pictures/s beside {good['rate']:,.0f}, ", end="")
    print(f"{bad['MB']:,.0f} MB beside {good['MB']:,.0f}, pictures equal: {pixels == same}")


if __name__ == "__main__":
    main()
