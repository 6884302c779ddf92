"""Everything that reads a dataset, tried on forgeries in a process with limits.

`python -m tests.fuzz.reading WORK SHARE FIRST END FOLDER ...` tries all pages and a share of the other
readers on forgeries, each by a seed, and prints what is neither a result nor an error of ours, or takes too
much memory or time.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import random
import resource
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from itertools import islice
from pathlib import Path

import numpy as np

import shiftdata as sd
from shiftdata.cli.app import main
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import ShiftdataError
from shiftdata.serve.app import ROUTES
from tests.fuzz.datasets import forge
from tests.fuzz.guard import SECRET, confined
from tests.fuzz.requests import Asked, answered, targets

MOST_BYTES = 1 << 30
#: Addresses, so that a failure does not take the machine with it.
MOST_ADDRESSES = 8 << 30
#: Of wall time, for what hangs; of processor time `confined` allows less.
MOST_SECONDS = 300
#: Answers of the server that are no failure.
FINE = (*range(200, 500), 503)


def verb(*arguments: str) -> None:
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        status = main(list(map(str, arguments)))
    assert status in (0, 1), f"status {status}: {out.getvalue()[-500:]}"
    assert "Traceback" not in out.getvalue()
    assert "\x1b" not in out.getvalue(), "a control character is printed"


def _loader(folder: Path) -> None:
    for _ in islice(sd.task(folder).loader("train", batch_size=8, workers=1), 3):
        pass


def _canonical(folder: Path) -> None:
    for split in sd.info(folder).canonical_splits:
        task = sd.task(folder, split.name)
        next(iter(task.loader(next(iter(task.sets)), batch_size=8, workers=1)))


def _streamed(folder: Path, *config: str) -> None:
    for split in sd.info(folder).base(sd.info(folder).default_base).splits:
        rows = sd.load_dataset(str(folder), *config, split=split, streaming=True)
        with suppress(Exception):  # rows come from `datasets`, with errors of its own
            list(islice(rows, 3))


def _tars(folder: Path) -> None:
    if sd.info(folder).is_webdataset:
        for split in ("train", "test"):
            list(sd.webdataset(folder, split=split))


def _pages(folder: Path) -> None:
    """Every route for this dataset and its rows, as a browser asks for them."""
    from shiftdata.serve.app import make_app
    from shiftdata.serve.connections import Limits
    from shiftdata.serve.folders import Library
    from shiftdata.serve.request import Mirror

    log = StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    keys = [
        line.partition(",")[0] for line in (folder.parent.parent / "predictions.csv").read_text().split()[1:]
    ]
    app = make_app(Mirror(Library(folder.parent), limits=Limits()))

    async def ask() -> None:
        for target in targets(ROUTES, folder.name, keys):
            reply = await answered(app, Asked("GET", target, [(b"host", b"127.0.0.1")]))
            assert reply.status in FINE, f"{target}: {reply.status}"
            if reply.status >= 400:
                assert len(json.loads(reply.body)["error"]) > 10, f"{target} does not say why"

    try:
        asyncio.run(ask())
    finally:
        logging.getLogger().removeHandler(handler)
    assert "Traceback" not in log.getvalue(), log.getvalue()[-2000:]


#: Each reader gets the folder of a forgery, and works in an empty folder.
READERS: dict[str, Callable[[Path], object]] = {
    "info": lambda folder: verb("info", str(folder)),
    "load": lambda folder: verb("load", str(folder), "--rows", "2"),
    "task": lambda folder: verb(
        "task", str(folder), "severity<=9", "--on-empty", "report", "--freeze", "x.parquet"
    ),
    "fetch": lambda folder: verb("fetch", str(folder), "--offline", "--quiet"),
    "fetch a part": lambda folder: verb("fetch", str(folder), "--offline", "--quiet", "--split", "test"),
    "verify": lambda folder: verb("verify", str(folder), "--quiet"),
    "evaluate": lambda folder: verb("evaluate", str(folder), str(folder.parent.parent / "predictions.csv")),
    "train": lambda folder: verb("train", str(folder), "--steps", "2", "--batch", "8", "--quiet"),
    "gallery": lambda folder: verb("gallery", str(folder), "--quiet", "--each", "2", "--out", "gallery"),
    "export": lambda folder: verb("export", str(folder), "--to", "imagefolder", "--out", "folder", "--quiet"),
    "export tars": lambda folder: verb(
        "export", str(folder), "--to", "webdataset", "--out", "t/x", "--quiet"
    ),
    "sd.info": sd.info,
    "sd.metadata": lambda folder: sd.read_metadata(folder).take(["params"], np.arange(2)),
    "sd.load": lambda folder: _streamed(folder, "metadata"),
    "sd.load pictures": _streamed,
    "sd.task": lambda folder: sd.task(folder, "group-fairness", k=2, mu=0.5, on_empty="report"),
    "sd.loader": _loader,
    "sd.canonical": _canonical,
    "sd.verify": lambda folder: sd.verify(folder, deep=False),
    "sd.webdataset": _tars,
    "pages": _pages,
}


def faults(good: Path, work: Path, share: float, seeds: Iterable[int]) -> Iterator[str]:
    """Yield what a forgery should not have done."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    warnings.simplefilter("ignore")
    logging.disable(logging.NOTSET)
    for seed in seeds:
        for left in list(work.iterdir()):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        predictions = [f"{key},0" for base in ("mini",) for key in _keys(good, base)]
        (work / "secret.txt").write_bytes(SECRET)
        (work / "predictions.csv").write_text("\n".join(["key,prediction", *predictions]) + "\n")
        bad = work / "shift" / good.name
        kind, rng = forge(good, bad, seed), random.Random(seed)
        others = [name for name in READERS if name != "pages"]
        chosen = ["pages", *rng.sample(others, round(share * len(others)))]
        for number, name in enumerate(chosen):
            place = work / f"in{number}"
            place.mkdir()
            faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
            Path("/proc/self/clear_refs").write_text("5")
            print(f"trying {good.name} {seed} {kind} {name}", file=sys.stderr, flush=True)
            fault = ""
            try:
                with chdir(place), confined(work, bad.parent, place, work / "predictions.csv"):
                    READERS[name](bad)
            except ShiftdataError as error:
                str(error).encode()
            except BaseException:
                fault = "".join(traceback.format_exc().splitlines(keepends=True)[-14:])
            faulthandler.cancel_dump_traceback_later()
            peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) << 10
            if peak > MOST_BYTES:
                fault += f"peak {peak / 1e9:.1f} GB"
            if fault:
                yield f"{good.name} {seed} {kind}: {name}: {fault}"


def _keys(good: Path, base: str) -> list[str]:
    if Manifest.read(good).is_webdataset:
        return ["x", "y"]
    return sd.task(good, base=base).keys("test")


if __name__ == "__main__":
    work, share, first, end, *folders = sys.argv[1:]
    seeds, found = range(int(first), int(end)), 0
    for folder in map(Path, folders):
        for fault in faults(folder, Path(work), float(share), seeds):
            print(fault, flush=True)
            found += 1
    sys.exit(bool(found))
