"""A subset of a dataset of 100,000 images over HTTP: bytes fetched for bytes needed, time to the first batch.

python scripts/bench/subset.py [--rows 100000] [--pixels 128]
"""

from __future__ import annotations

import argparse
import hashlib
import io
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image
from range_server import serve

import shiftdata as sd
from builders.make.row_groups import Rows, row_groups
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.records import Base
from shiftdata.data.format.schema import SPLITS, Roles
from shiftdata.data.format.writer import Ordered, write_splits
from shiftdata.data.format.written import finished
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.metadata.own_table import metadata_from_table
from shiftdata.stable import rng

LABELS, STYLES, DIFFERENT = 20, 20, 500
ROOT = Path(__file__).parents[2] / "build" / "bench"


def main() -> None:
    """Build the dataset once, and read two subsets of it from a server that counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--pixels", type=int, default=128)
    options = parser.parse_args()
    folder = ROOT / f"subset_{options.rows}_{options.pixels}"
    if not (folder / FILE_NAME).is_file():
        make(folder, options.rows, options.pixels)
    for sets in (["train"], ["train", "validation", "test"]):
        measure(folder, sets)


def measure(folder: Path, sets: list[str]) -> None:
    """What it takes to have the batches of some sets, from nothing."""
    import_module("torch")  # its seconds are not the first batch's
    counted: list[int] = []
    url = f"{serve(folder.parent, counted=counted)}/{folder.name}"
    begun = time.perf_counter()
    task = sd.task(url, "group-fairness", k=8, mu=0.05)
    known_after = time.perf_counter() - begun
    reader = ExampleReader(task.metadata.dataset, "mini")
    batch, images = 0.0, 0
    for name in sets:
        for _, _, known in task.loader(name, sampler="shuffle", batch_size=64, reader=reader):
            batch = batch or time.perf_counter() - begun
            images += len(known["key"])
    needed = reader.stats["asked"]
    total = sum(counted)
    other_bytes = total - reader.stats["fetched"]
    print(
        f"{'+'.join(sets)}: {images:,} images, {needed:,} bytes; fetched {total:,} in {len(counted):,} "
        f"requests (metadata and manifest {other_bytes:,}): {total / needed:.3f}; "
        f"task {known_after:.2f} s, first batch of 64 {batch:.2f} s, all {time.perf_counter() - begun:.1f} s"
    )
    reader.close()


def make(folder: Path, count: int, pixels: int) -> None:
    """A dataset as `builders` lays it out, of `DIFFERENT` JPEGs over and over under keys of their own."""
    images = [picture(number, pixels) for number in range(DIFFERENT)]
    each = count // LABELS // STYLES
    names = [(a, b, c) for a in range(LABELS) for b in range(STYLES) for c in range(each)]
    label, style, content = (np.array(part) for part in zip(*names, strict=True))
    origin = [f"label-{a}_noto-thing-{c}" for a, _, c in names]
    keys = [f"{one}-style-{b}" for one, b in zip(origin, style.tolist(), strict=True)]
    own = pa.table({"key": keys, "label": label, "style": style, "origin": origin})
    labels, styles = ([f"{name}{n}" for n in range(20)] for name in ("label", "style"))
    read = metadata_from_table(own, nuisance="style", origin="origin", labels=labels, nuisances=styles)
    which = (content * 7 + style * 31 + label) % DIFFERENT
    draft = Manifest(
        **dict.fromkeys(("family", "title", "summary", "citation", "license"), "-"),
        **dict.fromkeys(("recipe_id", "content_id"), 64 * "0"),
        version="1.0.0", released="2026-01-31",
        **dict.fromkeys(("credits", "creators", "severities", "canonical_splits"), ()),
        datasheet={}, sample={}, more_credits=0, seed=0, files={}, roles=Roles(nuisance="style"),
        name="subset", origins_shared=True, labels=labels, nuisances=styles, default_base="mini",
        bases=[Base(name="mini", summary="", content_id="", splits={})],
    )  # fmt: skip
    splits = {}
    for split in SPLITS:
        rows = np.flatnonzero(np.array(read.table["split"].to_pylist()) == split)
        encoded = [images[number] for number in which[rows]]
        splits[split] = ordered(read.table.take(pa.array(rows)), encoded)
    files = write_splits(folder, draft, "mini", splits)
    (folder / FILE_NAME).write_text(finished(folder, draft, {"mini": list(splits)}, files).to_json())


def ordered(table: pa.Table, images: list[bytes]) -> Ordered:
    """A split in the order in which `builders.make.pack` writes it."""
    for name, value in {"license": "CC0-1.0", "attribution": "nobody", "params": "{}"}.items():
        table = table.append_column(name, pa.array([value] * len(table)))
    sizes = np.array([len(image) for image in images])
    table = table.append_column("length", pa.array(sizes))
    hashes = [hashlib.sha256(image).digest() for image in images]
    table = table.append_column("sha256", pa.array(hashes))
    label, quantile = np.asarray(table["label"]), np.asarray(table["quantile"])
    keys = table["key"].combine_chunks()
    groups = row_groups(Rows(keys, np.asarray(table["group"]), label, quantile, sizes))
    parts = np.zeros(len(table), np.int64)
    return Ordered.of_table(table, groups, lambda rows: [images[n] for n in rows], parts)


def picture(number: int, pixels: int) -> bytes:
    """A JPEG of smooth noise."""
    noise = rng(0, "subset", "picture", number).integers(0, 256, (pixels // 6, pixels // 6, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(noise).resize((pixels, pixels), Image.Resampling.BICUBIC).save(stream, "JPEG", quality=92)
    return stream.getvalue()


if __name__ == "__main__":
    main()
