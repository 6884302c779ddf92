"""Pack rows that are rendered already: rows a second by phase, and memory, beside a plain copy of the bytes.

    python scripts/bench/pack.py --rows 36000 --size 5000 --workers 1 2 [--at folder] [--keep]

A spool of small pictures is written first, 160 rows a block as a build makes them; each picture has bytes of
its own. Packing with each number of workers, and copying the spool with the sha256 of every byte and a sync
to disk, each run in a process of their own; its peak memory, and that of a worker, is what the system
counted. Results are printed with a hash of all files that were packed, so that two versions of the code can
be compared.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from builders.blocks import ITEMS_PER_BLOCK
from builders.encode import ImageEncoding
from builders.make import assign, pack
from builders.make.equal import listed
from builders.make.render import plan_blocks
from builders.recipe import Base, Recipe
from builders.sample import Item, Sample
from builders.spool import Spool
from shiftdata.data.executors import Here, Pool
from shiftdata.evaluation.protocols import GroupFairness
from shiftdata.files import sha256_of

#: Seconds, and those of processor time, by phase.
Spent: TypeAlias = dict[str, tuple[float, float]]
NUISANCES = tuple(f"style-{number:02d}" for number in range(20))
LABELS = tuple(f"label-{number}" for number in range(10))
PHASES = (
    "gather",
    "parts_of_sets",
    "_row_groups",
    "write_plan",
    "_do_jobs",
    "join",
    "finished",
    "freeze",
    "measure",
    "write_pictures",
    "describe",
)


@dataclass(frozen=True)
class Album:
    """Items without content: what they would show is in the spool."""

    count: int
    code_version = 1
    labels = LABELS

    def items(self) -> tuple[Item, ...]:
        """As many as were asked for, of two licences."""
        return tuple(
            Item(
                key=f"item-{number:07d}",
                label=LABELS[number % len(LABELS)],
                origin=f"origin-{number:07d}",
                license="CC-BY-4.0" if number % 3 else "CC0-1.0",
                attribution=f"Somebody {number % 50}",
            )
            for number in range(self.count)
        )

    def load(self, item: Item) -> Image.Image:
        """Nothing is rendered."""
        raise AssertionError(item)

    def fingerprint(self) -> str:
        """The count is all there is."""
        return str(self.count)


@dataclass(frozen=True)
class Styles:
    """The nuisances, without a way to make them."""

    code_version = 1
    nuisances = NUISANCES

    def __call__(self, samples: Iterator[Sample], /) -> Iterator[Sample]:
        """Nothing is rendered."""
        raise AssertionError(samples)


def recipe_of(rows: int) -> Recipe:
    """A recipe of about so many rows."""
    return Recipe(
        name="pack_bench",
        family="bench",
        version="1.0.0",
        released="2026-11-22",
        title="Bench of packing",
        summary="Rows that cost nothing to render.",
        creators=("Somebody",),
        citation="",
        album=Album(rows // len(NUISANCES)),
        shift=Styles(),
        encoding=ImageEncoding(),
        bases=(Base(name="all", summary="Every row."),),
        default_base="all",
        nuisance="style",
        protocols=(GroupFairness(k=8, mu=0.1, seed=0),),
    )


def rendered(rows: int, folder: Path) -> pack.Rendered:
    """What is packed."""
    recipe = recipe_of(rows)
    content = listed(recipe.album)
    items = content.items
    fold_of = assign.folds(items)
    blocks = {
        name: [block.id for block in of] for name, of in plan_blocks(recipe, ["all"], items, fold_of).items()
    }
    return pack.Rendered(recipe=recipe, content=content, fold_of=fold_of, spool=Spool(folder), blocks=blocks)


def picture(size: int) -> bytes:
    """A picture of noise, below some bytes."""
    side, stream = max(4, int((size / 4) ** 0.5)), io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (side, side, 3), dtype=np.uint8)
    Image.fromarray(noise // 16).save(stream, "PNG" if size < 1500 else "JPEG", quality=70)
    return stream.getvalue()


def write_spool(rows: int, size: int, folder: Path) -> None:
    """Write every block, as a build would; what follows the end of a picture differs from row to row."""
    made, begin = rendered(rows, folder), picture(size)
    noise = np.random.default_rng(1).bytes(2 * size + (1 << 16))
    folder.mkdir(parents=True)
    step = ITEMS_PER_BLOCK["image"]
    os.fsync = lambda descriptor: None  # a synced block takes longer than it should here
    for number, block in enumerate(made.blocks["all"]):
        lines: list[dict[str, object]] = []
        for place, item in enumerate(made.content.items[number * step : (number + 1) * step]):
            for style, name in enumerate(NUISANCES):
                row = (number * step + place) * len(NUISANCES) + style
                length = max(8, size - len(begin) + row * 7919 % (size // 2) - size // 4)
                start = row * 31 % (1 << 16)
                example = begin + noise[start : start + length - 8] + row.to_bytes(8, "big")
                key = f"{item.key}-{name}"
                params = {"content": item.key, "style": name, "strength": 1.0, "seed": row, "file": f"{row}"}
                lines.append(
                    {
                        "item": item.key,
                        "key": key,
                        "nuisance": name,
                        "trajectory": key,
                        "severity": None,
                        "params": json.dumps(params, sort_keys=True),
                        "sha256": hashlib.sha256(example).digest(),
                        "size": len(example),
                        "example": example,
                    }
                )
        made.spool.write(block, lines, {})


def processor() -> float:
    """Seconds of processor time of this process and of its workers that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def timed(module: ModuleType, name: str, spent: Spent) -> None:
    """Let a function of a module count its seconds."""
    work: Callable[..., Any] = getattr(module, name)

    def timing(*args: Any, **kwargs: Any) -> Any:
        start, used = time.perf_counter(), processor()
        try:
            return work(*args, **kwargs)
        finally:
            seconds, before = spent.get(name, (0.0, 0.0))
            spent[name] = seconds + time.perf_counter() - start, before + processor() - used

    setattr(module, name, timing)


def run_pack(made: pack.Rendered, out: Path, workers: int) -> Spent:
    """Pack; give the seconds of each phase."""
    spent: Spent = {}
    for name in PHASES:
        timed(pack, name, spent)
    executor = Pool(workers) if workers > 1 else Here()
    pack.pack(made, out, out.with_name("work"), executor=executor)
    return spent


def run_copy(made: pack.Rendered, out: Path, workers: int) -> Spent:
    """Copy the spool into one file in one thread, with the sha256 of all bytes."""
    digest = hashlib.sha256()
    with out.open("wb") as sink:
        for block in made.blocks["all"]:
            data = Path(made.spool.path(block)).read_bytes()
            sink.write(data)
            digest.update(data)
        sink.flush()
        os.fsync(sink.fileno())
    out.unlink()
    return {}


WAYS = {"copy": run_copy, "pack": run_pack}


def in_process(way: str, rows: int, spool: Path, out: Path, workers: int = 1) -> tuple[Spent, float]:
    """Run one way in a new process; give its seconds and those of its phases, and its peak memory in MB."""
    command = [sys.executable, __file__, "--way", way, "--rows", str(rows), "--at", str(spool), str(out)]
    process = subprocess.Popen([*command, "--workers", str(workers)], stdout=subprocess.PIPE, text=True)
    printed = process.communicate()[0] if process.stdout is None else process.stdout.read()
    _, process.returncode, usage = os.wait4(process.pid, 0)
    if process.returncode:
        sys.exit(f"{way} failed")
    return json.loads(printed), usage.ru_maxrss / 1024


def hash_of(folder: Path) -> str:
    """A hash of all files of a folder, and of their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = (f"{path.relative_to(folder)} {sha256_of(path)}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def report(title: str, rows: int, spent: Spent, memory: float) -> float:
    """Print what a way took; give its rows a second."""
    rate, of_worker = rows / spent["all"][0], spent.pop("memory of a worker", (0.0, 0.0))[0]
    workers = f", {of_worker:,.0f} MB a worker" if of_worker else ""
    print(f"{title}: {rate:,.0f} rows/s, at most {memory:,.0f} MB{workers}")
    for name, (seconds, used) in spent.items():
        each = used / rows * 1e6
        print(f"  {name:16} {seconds:8.2f} s {used:8.2f} s of processor, {each:6.1f} us a row", flush=True)
    return rate


def main() -> None:
    """Write the spool if it is not there; pack, copy, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=36_000)
    parser.add_argument("--size", type=int, default=5_000, help="bytes of a picture, about")
    parser.add_argument("--workers", type=int, nargs="+", default=[1], help="processes, in turn")
    parser.add_argument("--at", type=Path, default=Path("build/bench-pack"))
    parser.add_argument("--keep", action="store_true", help="keep the spool and what was packed")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("out", nargs="?", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        made = rendered(args.rows, args.at)
        start, used = time.perf_counter(), processor()
        spent = WAYS[args.way](made, args.out, args.workers[0])
        spent["all"] = time.perf_counter() - start, processor() - used
        of_worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(json.dumps(spent | {"memory of a worker": (of_worker, 0.0)}))
        return
    rows = args.rows // len(NUISANCES) * len(NUISANCES)
    spool, out = args.at / f"spool-{rows}-{args.size}", args.at / "packed"
    if not spool.exists():
        write_spool(rows, args.size, spool)
    print(f"{rows:,} rows of about {args.size:,} bytes")
    report("copy", rows, *in_process("copy", rows, spool, args.at / "scratch"))
    rates, hashes = [], []
    for workers in args.workers:
        for folder in (out, out.with_name("work")):
            shutil.rmtree(folder, ignore_errors=True)
        spent, memory = in_process("pack", rows, spool, out, workers)
        rates.append(report(f"pack, workers {workers}", rows, spent, memory))
        hashes.append(hash_of(out))
    ratios = ", ".join(f"{rate / rates[0]:.2f}" for rate in rates)
    print(f"rates against the first: {ratios}; hashes of all files: {', '.join(hashes)}")
    if not args.keep:
        shutil.rmtree(args.at)


if __name__ == "__main__":
    main()
