"""An epoch of training pictures over HTTP: ours, shuffled, and webdataset from front to back, side by side.

    python scripts/bench/remote.py [--rounds 3] [--latency 0 0.02] [--windows 0.5 10 40] [--rate 0] [--single]

The pictures are those of `loaders.py`, which builds them. A server of this machine waits `--latency` seconds
before each answer, and gives `--rate` bytes a second. Ours reads in random order, without a cache, and may
read ahead a part of the set: `--windows` says how many times larger the set is. `--single` serves one range a
request. Webdataset reads shards from front to back. Two workers, batches of 64, libjpeg-turbo for both, each
epoch in a process of its own; opening the dataset is not counted. In each round every reader has its turn;
medians, of ratios too.
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
from range_server import serve

WORKERS = 2
PEER = "webdataset, front to back"
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
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def ours(url: str, times: float) -> Any:
    import shiftdata as sd
    from shiftdata.data.loading.byte_ranges import ExampleReader

    task = sd.task(f"{url}/shift/bench_jpeg")
    rows = task.rows("train")
    plan = ExampleReader(task.metadata.dataset, "all")
    reader = ExampleReader(task.metadata.dataset, "all", ahead=int(plan.lengths(rows).sum() / times))
    return task.loader("train", sampler="shuffle", batch_size=BATCH, workers=WORKERS, reader=reader)


def epoch(make: Callable[[], Any], pipe: Connection) -> None:
    """Read one epoch; send pictures a second, and a second of processor time."""
    multiprocessing.set_start_method("fork", force=True)  # for the workers of torch
    for name in ("torch", "shiftdata.evaluation.tasks", "webdataset", "simplejpeg"):
        import_module(name)  # its time is not an epoch's
    batches = make()
    began, before, seen = time.perf_counter(), processor_time(), 0
    for batch in batches:
        seen += len(batch[0])
    rate = seen / (time.perf_counter() - began)
    del batches  # workers that have ended are counted
    pipe.send((rate, seen / (processor_time() - before)))


def measured(make: Callable[[], Any]) -> tuple[float, float]:
    """Run an epoch in a process of its own."""
    pipe, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=epoch, args=(make, theirs))
    process.start()
    theirs.close()
    rates: tuple[float, float] = pipe.recv()
    process.join()
    return rates


def serving(out: Path, pipe: Connection, **options: Any) -> None:
    """Serve a folder in a process of its own."""
    pipe.send(serve(out, **options))
    pipe.recv()


def side_by_side(options: argparse.Namespace, latency: float) -> None:
    """Read an epoch with every reader in each round; print medians, and ours compared with webdataset."""
    pipe, theirs = SPAWN.Pipe()
    network = {"pause": latency, "rate": options.rate, "several": not options.single}
    SPAWN.Process(target=serving, args=(options.out, theirs), kwargs=network, daemon=True).start()
    url = pipe.recv()
    readers: dict[str, Callable[[], Any]] = {PEER: functools.partial(webdataset, url, options.out)}
    for times in options.windows:
        readers[f"shuffled, {times:g} x the window"] = functools.partial(ours, url, times)
    rounds = [{name: measured(make) for name, make in readers.items()} for _ in range(options.rounds)]
    print(
        f"{f'latency {1000 * latency:g} ms':<30}{'pictures/s':>12}{'a s of CPU':>12}{'ratio':>8}{'of CPU':>8}"
    )
    for name in readers:
        rate, per_cpu = (median(row[name][place] for row in rounds) for place in (0, 1))
        # A ratio of one round is of one state of the machine.
        ratios = [median(row[name][place] / row[PEER][place] for row in rounds) for place in (0, 1)]
        print(f"{name:<30}{rate:>12,.0f}{per_cpu:>12,.0f}{ratios[0]:>8.2f}{ratios[1]:>8.2f}", flush=True)
    pipe.send(None)


def main() -> None:
    """Measure at each latency."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, nargs="+", default=[0.0, 0.02])
    parser.add_argument("--windows", type=float, nargs="+", default=[0.5, 10, 40])
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/bench/loaders/noisy"))
    options = parser.parse_args()
    prepare(options.out)
    for latency in options.latency:
        side_by_side(options, latency)


if __name__ == "__main__":
    main()
