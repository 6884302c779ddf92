"""What large datasets would take, by a fit of what small ones take here: time, disk and money.

    python scripts/bench/scale.py [--sides 64,128,256] [--pictures 8] [--out build/bench/scale]

Crops of photographs at a few sizes are rendered by one process of one thread: in 20 styles, and in 14
continuous shifts of 6 steps. Processor seconds and bytes a row are fitted as a + b x pixels. Packing, of two
sizes of picture and two numbers of rows, is fitted as a + b x bytes for its processor seconds, and as
a + b x rows for its memory. Listing and planning, of two numbers of tiny items, are fitted as a + b x items.
Pictures are read once as a build reads them, and the requests of a build to an object store are counted. The
fits are read off at the size and the number of rows of each planned dataset. Prices are assumptions, to be
replaced by yours.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import items
import numpy as np
from pack import in_process, write_spool
from PIL import Image
from sklearn.datasets import load_sample_images

from builders.albums.folder import FolderAlbum
from builders.albums.reading import read_once
from builders.blocks import SAMPLES_PER_BLOCK
from builders.encode import ImageEncoding
from builders.items import ItemTable
from builders.make.build import build
from builders.make.render import blocks_of, render_block
from builders.recipe import Base, Recipe, Shift
from builders.shifts.steps import Continuous, Stylize
from builders.spool import Spool
from shiftdata.files import remove

LABELS, QUALITY = 4, 92
NODES, CORES = (1, 64), 32
#: Bytes of a row in spool and dataset beside its picture.
BESIDE = 300
#: Rows, and bytes of a picture, of what is packed.
PACKED = ((30_000, 2_000), (30_000, 20_000), (240_000, 2_000))
#: Tiny items that are listed and planned; pictures that are read; items of the build with an object store.
LISTED, READ, STORED = (50_000, 250_000), 400, 2_560


@dataclass(frozen=True)
class Planned:
    """A dataset to be made: content pictures, nuisances x steps, and the side of a picture in pixels."""

    name: str
    shift: str
    content: int
    each: int
    side: int

    @property
    def rows(self) -> int:
        return self.content * self.each


PLANNED = (
    Planned("Stylized Meta-Album, extended", "styles", 143_000, 20, 128),
    Planned("ImageNet under 14 shifts of 6 steps", "continuous", 1_281_167, 84, 224),
    Planned("14 million pictures, each in one style", "styles", 14_000_000, 1, 224),
    Planned("a billion pictures, each in one style", "styles", 1_000_000_000, 1, 224),
)
SHIFTS: Mapping[str, Shift] = {
    "styles": Stylize(dataset="scale", seed=0),
    "continuous": Continuous(dataset="scale", seeds=(0,)),
}


@dataclass(frozen=True)
class Line:
    """A straight line through some measurements, by least squares."""

    start: float
    slope: float

    @classmethod
    def through(cls, x: Sequence[float], y: Sequence[float]) -> Line:
        slope, start = np.polyfit(x, y, 1)
        return cls(max(0.0, float(start)), float(slope))

    def at(self, x: float) -> float:
        return self.start + self.slope * x


def draw(folder: Path, side: int, pictures: int) -> None:
    """Crops of the two photographs that scikit-learn ships."""
    photos = [Image.fromarray(image) for image in load_sample_images().images]
    for number in range(pictures):
        draws = np.random.default_rng(number)
        photo, wide = photos[number % 2], int(draws.integers(max(side, 200), 427))
        left, top = (int(draws.integers(0, whole - wide + 1)) for whole in photo.size)
        crop = photo.crop((left, top, left + wide, top + wide)).resize((side, side), Image.Resampling.BOX)
        path = folder / f"label{number % LABELS}" / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        crop.save(path)


def rendered(folder: Path, shift: Shift, side: int, pictures: int) -> tuple[float, float]:
    """Processor seconds, and bytes of its picture, for a row."""
    content = folder / f"content-{side}"
    if not content.exists():
        draw(content, side, pictures)
    recipe = Recipe(
        name="scale",
        family="stylized",
        version="1.0.0",
        released="2026-01-31",
        creators=("shiftdata",),
        title="Crops",
        summary="Crops of photographs.",
        citation="None.",
        album=FolderAlbum(content, layout=("label",), license="CC0-1.0", attribution="scikit-learn"),
        nuisance="style",
        shift=shift,
        encoding=ImageEncoding(format="jpeg", quality=QUALITY),
        bases=(Base(name="all", summary="Every crop."),),
        default_base="all",
    )
    blocks = blocks_of(recipe, "shift", ItemTable.of(recipe.album.items()))
    spool = Spool(folder / "spool")
    render_block(recipe, blocks[0], spool)  # what is loaded once
    started = time.process_time()
    for block in blocks:
        render_block(recipe, block, spool)
    spent = time.process_time() - started
    tables = [spool.read(block.id)[0] for block in blocks]
    rows = sum(map(len, tables))
    pictures_size = sum(sum(table["size"].to_pylist()) for table in tables)
    shutil.rmtree(folder / "spool")
    return spent / rows, pictures_size / rows


def packed(folder: Path, rows: int, size: int) -> tuple[float, float]:
    """Processor seconds a row, and the peak of memory in bytes."""
    write_spool(rows, size, folder / "spool")
    spent, memory = in_process("pack", rows, folder / "spool", folder / "packed")
    for name in ("spool", "packed", "work"):
        shutil.rmtree(folder / name)
    return spent["all"][1] / rows, memory * 2**20


def planned(count: int, folder: Path) -> tuple[float, float]:
    """Processor seconds, and the peak of memory in bytes, of listing and planning tiny items."""
    command = [sys.executable, items.__file__, "--plan", "--items", str(count), "--at", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit("planning failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 2**10


def read(folder: Path, side: int) -> tuple[float, float]:
    """Processor seconds to hash, check and copy a picture, and its bytes."""
    content = folder / "read"
    draw(content, side, READ)
    album = FolderAlbum(content, layout=("label",), license="CC0-1.0", attribution="scikit-learn")
    started = time.process_time()
    read_once(album, str(folder / "copies"), folder / "work")
    spent = time.process_time() - started
    return spent / READ, sum(path.stat().st_size for path in content.rglob("*.png")) / READ


@contextmanager
def object_store() -> Iterator[tuple[str, Counter[tuple[str, str]]]]:
    """A bucket of a server in this process, and its requests by folder and kind."""
    import s3fs
    from moto.server import ThreadedMotoServer

    server, seen, ask = ThreadedMotoServer(port=0), Counter[tuple[str, str]](), s3fs.S3FileSystem._call_s3

    async def count(system: Any, method: str, *given: Any, **named: Any) -> Any:
        of = str({**(given[0] if given else {}), **named}.get("Key", "")).split("/")
        seen[(of[2] if len(of) > 3 else "").partition("-")[0] or "listings", method] += 1
        return await ask(system, method, *given, **named)

    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    os.environ |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    s3fs.S3FileSystem().mkdir("scale")
    s3fs.S3FileSystem._call_s3 = count
    try:
        yield "s3://scale/spools", seen
    finally:
        s3fs.S3FileSystem._call_s3 = ask
        server.stop()


def print_requests(folder: Path) -> None:
    """Build from files with a spool in an object store, and print the requests for an item and a block."""
    (opened := folder / "opened").mkdir()
    recipe = folder / "stored.py"
    few_labels = items.RECIPE.replace("1000", "10")
    recipe.write_text(few_labels.format(items=STORED, opened=str(opened.absolute())))
    with object_store() as (place, seen):
        build(str(recipe), folder / "stored", spool=place, workers=1, quiet=True)
    for (of, method), count in sorted(seen.items()):
        each = f"{count / STORED:.3f} an item, {count / STORED * SAMPLES_PER_BLOCK:.2f} a block"
        print(f"object store, {of}: {count:,} {method}: {each}")


def main() -> None:
    """Measure, fit, and print what each planned dataset would take."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sides", default="64,128,256")
    parser.add_argument("--pictures", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("build/bench/scale"))
    parser.add_argument("--core-hour", type=float, default=0.04, help="USD")
    parser.add_argument("--terabyte-month", type=float, default=23.0, help="USD")
    options = parser.parse_args()
    remove(options.out)
    options.out.mkdir(parents=True)
    sides = [int(side) for side in options.sides.split(",")]
    pixels = [float(side**2) for side in sides]
    render, size = {}, {}
    for name, shift in SHIFTS.items():
        measured = [rendered(options.out, shift, side, options.pictures) for side in sides]
        for side, (seconds, of_picture) in zip(sides, measured, strict=True):
            print(f"{name}, {side} px: {1e3 * seconds:.1f} ms, {of_picture:,.0f} bytes a row")
        render[name], size[name] = (Line.through(pixels, column) for column in zip(*measured, strict=True))
    (few, small), (_, large), (many, _) = PACKED
    few_small, few_large, many_small = (packed(options.out, *one) for one in PACKED)
    pack = Line.through([small, large], [few_small[0], few_large[0]])
    memory = Line.through([few, many], [few_small[1], many_small[1]])
    print(
        f"packing: {1e6 * pack.start:.0f} us a row and {1e9 * pack.slope:.1f} ns a byte; "
        f"{memory.start / 1e6:.0f} MB and {memory.slope:.0f} bytes a row"
    )
    costs = [planned(count, options.out / "planned") for count in LISTED]
    plan, plan_memory = (Line.through(LISTED, column) for column in zip(*costs, strict=True))
    print(f"planning: {1e6 * plan.slope:.0f} us and {plan_memory.slope:.0f} bytes an item")
    of_file, size_of_file = read(options.out, PLANNED[-1].side)
    print(f"reading: {1e6 * of_file:.0f} us a picture of {size_of_file:,.0f} bytes")
    print_requests(options.out)
    nodes = " | ".join(f"render on {count}" for count in NODES)
    columns = (
        f"dataset | rows | core-hours | {nodes} | plan | its memory | copies | pack | its memory "
        "| spool | dataset | USD | USD a month"
    )
    print(f"\n| {columns} |")
    print("|---" * (12 + len(NODES)) + "|")
    for one in PLANNED:
        of_row = size[one.shift].at(one.side**2)
        core_hours = one.rows * render[one.shift].at(one.side**2) / 3600
        terabytes = one.rows * (of_row + BESIDE) / 1e12
        cells = [one.name, f"{one.rows / 1e6:.1f} M", f"{core_hours:,.0f}"]
        cells += [f"{core_hours / count / CORES:,.1f} h" for count in NODES]
        cells += [f"{plan.at(one.content) / 3600:,.1f} h", f"{plan_memory.at(one.content) / 1e9:,.1f} GB"]
        cells += [f"{one.content * size_of_file / 1e9:,.0f} GB"]
        cells += [f"{one.rows * pack.at(of_row) / 3600:,.1f} h", f"{memory.at(one.rows) / 1e9:,.1f} GB"]
        cells += [f"{1e3 * terabytes:,.0f} GB"] * 2
        cells += [f"{core_hours * options.core_hour:,.0f}", f"{terabytes * options.terabyte_month:,.0f}"]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
