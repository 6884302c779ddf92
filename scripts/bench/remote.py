"""An epoch of training pictures over HTTP: ours beside webdataset, from a server of this machine.

    python scripts/bench/remote.py [--rounds 5] [--pause 0.02]

The pictures are those of `loaders.py`, which builds them. The server waits `--pause` seconds before each
answer, as a network does. Ours reads in random order by byte range, without a cache, and once more with
windows of a tenth of the set; webdataset reads shards from front to back. Two workers, batches of 64,
libjpeg-turbo for both, each epoch in a process of its own. In each round every reader has its turn; medians,
of ratios too.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import resource
import time
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from loader_peers import BATCH, by_turbo, torch_loader
from loader_sets import prepare
from subset import serve

WORKERS = 2
#: Bytes to read ahead, of which a window is half: about a tenth of the set.
SMALL = 22 << 20
SPAWN = multiprocessing.get_context("spawn")


def webdataset(url: str, out: Path) -> Any:
    import webdataset as wds

    urls = [f"{url}/tar/{path.name}" for path in sorted((out / "tar").iterdir())]
    data = wds.WebDataset(urls, shardshuffle=len(urls)).shuffle(1000)
    data = data.decode(lambda key, data: by_turbo(data) if key.endswith("jpg") else None)
    return torch_loader(data.to_tuple("jpg", "cls").batched(BATCH), WORKERS, batch_size=None)


def processor_time() -> float:
    """Seconds of processor time of this process and of the workers that it had."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def ours(url: str, out: Path, ahead: int = 1 << 28) -> Any:
    import shiftdata as sd
    from shiftdata.data.loading.byte_ranges import ExampleReader

    url = f"{url}/shift/bench_jpeg"
    reader = ExampleReader(url, "all", ahead=ahead)
    return sd.task(url).loader("train", sampler="shuffle", batch_size=BATCH, workers=WORKERS, reader=reader)


def epoch(make: Callable[[], Any], pipe: Connection) -> None:
    """Read one epoch; send pictures a second, and a second of processor time."""
    multiprocessing.set_start_method("fork", force=True)  # for the workers of torch
    for name in ("torch", "shiftdata.evaluation.tasks", "webdataset", "simplejpeg"):
        import_module(name)  # its time is not an epoch's
    began, before, seen = time.perf_counter(), processor_time(), 0
    for batch in make():
        seen += len(batch[0])
    pipe.send((seen / (time.perf_counter() - began), seen / (processor_time() - before)))


def measured(make: Callable[[], Any]) -> tuple[float, float]:
    """Run an epoch in a process of its own."""
    pipe, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=epoch, args=(make, theirs))
    process.start()
    theirs.close()
    rates: tuple[float, float] = pipe.recv()
    process.join()
    return rates


def serving(out: Path, pause: float, pipe: Connection) -> None:
    """Serve a folder in a process of its own."""
    pipe.send(serve(out, [], pause).server_port)
    pipe.recv()


def main() -> None:
    """Read an epoch with every reader in each round; print medians, and ours beside webdataset."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=Path("build/bench/loaders/noisy"))
    options = parser.parse_args()
    prepare(options.out)
    pipe, theirs = SPAWN.Pipe()
    SPAWN.Process(target=serving, args=(options.out, options.pause, theirs), daemon=True).start()
    url = f"http://127.0.0.1:{pipe.recv()}"
    readers = {
        "shiftdata": functools.partial(ours, url, options.out),
        "shiftdata, small window": functools.partial(ours, url, options.out, ahead=SMALL),
        "webdataset": functools.partial(webdataset, url, options.out),
    }
    rounds = [{name: measured(make) for name, make in readers.items()} for _ in range(options.rounds)]
    print(f"{'reader':<30}{'pictures/s':>12}{'a s of CPU':>12}{'beside webdataset':>24}")
    for name in readers:
        rate, per_cpu = (median(row[name][place] for row in rounds) for place in (0, 1))
        # A ratio of one round is of one state of the machine.
        beside = [median(row[name][place] / row["webdataset"][place] for row in rounds) for place in (0, 1)]
        print(f"{name:<30}{rate:>12,.0f}{per_cpu:>12,.0f}{beside[0]:>14.2f}, CPU {beside[1]:.2f}")


if __name__ == "__main__":
    main()
