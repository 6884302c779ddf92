"""An epoch of training pictures over HTTP: ours beside its peers, from a server of this machine.

    python scripts/bench/remote.py [--pause 0.02] [--out build/bench/loaders/noisy]

The pictures are those of `loaders.py`, which builds them. The server waits `--pause` seconds before each
answer, as a network does. Ours reads in random order, by byte range, without and with its cache (filled by
the epoch before); `datasets` and `webdataset` read shards from front to back. Two workers, batches of 64,
libjpeg-turbo for all; `first` is the time to the first batch, with workers that start.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from http.server import ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from loader_peers import BATCH, by_turbo, torch_loader
from loader_sets import prepare
from subset import Counted

WORKERS = 2


class Slow(Counted):
    """A server that waits before it answers."""

    pause = 0.0

    def handle_one_request(self) -> None:
        with suppress(ConnectionError):  # of a reader that has gone
            super().handle_one_request()

    def parse_request(self) -> bool:
        time.sleep(self.pause)
        return super().parse_request()


def serve(root: Path, pause: float, told: Connection) -> None:
    """Serve a folder in a process of its own; each question on the pipe is answered by the bytes sent."""
    Slow.pause = pause
    counted: list[int] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Slow, root, counted))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told.send(server.server_port)
    with suppress(EOFError):
        while told.recv():
            told.send(sum(counted))


def ours(url: str, cache: Path | None) -> Any:
    import shiftdata as sd
    from shiftdata.loading.byte_ranges import ExampleReader

    url = f"{url}/shift/bench_jpeg"
    reader = ExampleReader(url, "all", cache=cache)
    return sd.task(url).loader("train", sampler="shuffle", batch_size=BATCH, workers=WORKERS, reader=reader)


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
    data = data.decode(lambda key, held: by_turbo(held) if key.endswith("jpg") else None)
    return torch_loader(data.to_tuple("jpg", "cls").batched(BATCH), WORKERS, batch_size=None)


def epoch(name: str, loader: Iterable[Any], told: Connection) -> None:
    """Read one epoch, and print what it took."""
    told.send(True)
    before, began, first, seen = told.recv(), time.perf_counter(), 0.0, 0
    for batch in loader:
        first = first or time.perf_counter() - began
        seen += len(next(iter(batch.values())) if isinstance(batch, dict) else batch[0])
    took = time.perf_counter() - began
    told.send(True)
    sent = (told.recv() - before) / 1e6
    print(f"{name:<28}{first:>9.2f}{seen / took:>12,.0f}{sent:>10,.0f}", flush=True)


def main() -> None:
    """Each reader once, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=Path("build/bench/loaders/noisy"))
    options = parser.parse_args()
    prepare(options.out, "noisy")
    told, theirs = multiprocessing.Pipe()
    spawn = multiprocessing.get_context("spawn")
    spawn.Process(target=serve, args=(options.out, options.pause, theirs), daemon=True).start()
    url = f"http://127.0.0.1:{told.recv()}"
    print(f"{'reader':<28}{'first s':>9}{'pictures/s':>12}{'MB':>10}")
    with tempfile.TemporaryDirectory() as cache:
        epoch("shiftdata", ours(url, None), told)
        epoch("shiftdata, cache to be filled", ours(url, Path(cache)), told)
        epoch("shiftdata, cache full", ours(url, Path(cache)), told)
    epoch("HF streaming", hf_streaming(url, options.out), told)
    epoch("webdataset", webdataset(url, options.out), told)


if __name__ == "__main__":
    main()
