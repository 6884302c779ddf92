"""A subset of a dataset of 100,000 images over HTTP: bytes fetched for bytes needed, time to the first batch.

python scripts/bench/subset.py [--rows 100000] [--pixels 128]
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

import shiftdata as sd
from builders.make.row_groups import Rows, cut_into_shards, row_groups
from shiftdata.format.manifest import FILE_NAME, Base, FileRecord, Manifest, Split
from shiftdata.format.schema import SPLITS, Roles, data_schema, metadata_schema
from shiftdata.format.writer import offsets, write_metadata, write_shard
from shiftdata.loading.byte_ranges import ExampleReader
from shiftdata.metadata.own_table import metadata_from_table
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
    """What it takes to have the rows of some sets, from nothing."""
    counted: list[int] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Counted, folder.parent, counted))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/{folder.name}"
    begun = time.perf_counter()
    task = sd.task(url, "group-fairness", k=8, mu=0.05)
    told = time.perf_counter() - begun
    reader = ExampleReader(url, "mini")
    rows = np.concatenate([task.sets[name].indices for name in sets])
    first = rng(0, "subset").choice(rows, 64, replace=False)
    reader.read(first.tolist())
    batch = time.perf_counter() - begun
    others = rows[~np.isin(rows, first)]
    reader.read(others.tolist())
    needed = reader.stats.asked
    total = sum(counted)
    beside = total - reader.stats.fetched
    print(
        f"{'+'.join(sets)}: {len(rows):,} images, {needed:,} bytes; fetched {total:,} in {len(counted):,} "
        f"requests (metadata and manifest {beside:,}): {total / needed:.3f}; "
        f"task {told:.2f} s, first batch of 64 {batch:.2f} s, all {time.perf_counter() - begun:.1f} s"
    )
    reader.close()
    server.shutdown()


def make(folder: Path, count: int, pixels: int) -> None:
    """A dataset as `builders` lays it out, of `DIFFERENT` JPEGs over and over under keys of their own."""
    images = [picture(number, pixels) for number in range(DIFFERENT)]
    each = count // LABELS // STYLES
    names = [(a, b, c) for a in range(LABELS) for b in range(STYLES) for c in range(each)]
    label, style, content = (np.array(part) for part in zip(*names, strict=True))
    origin = [f"label-{a}_noto-thing-{c}" for a, _, c in names]
    keys = [f"{one}-style-{b}" for one, b in zip(origin, style.tolist(), strict=True)]
    own = pa.table({"key": keys, "label": label, "style": style, "origin": origin})
    labels, styles = ([f"{what}{n}" for n in range(20)] for what in ("label", "style"))
    read = metadata_from_table(own, nuisance="style", origin="origin", labels=labels, nuisances=styles)
    which = (content * 7 + style * 31 + label) % DIFFERENT
    roles = Roles(nuisance="style")
    files: dict[str, FileRecord] = {}
    splits = {}
    for split in SPLITS:
        rows = np.flatnonzero(np.array(read.table["split"].to_pylist()) == split)
        splits[split] = Split(rows=len(rows), bytes=0, groups=LABELS * STYLES, smallest=1, largest=each)
        table = read.table.take(pa.array(rows))
        for name in ("license", "attribution", "params"):
            table = table.append_column(name, pa.array(["CC0-1.0"] * len(rows)))
        files |= write_split(folder, split, table, [images[n] for n in which[rows]], roles, labels, styles)
    manifest = Manifest(
        **dict.fromkeys(("family", "version", "released", "title", "summary", "citation", "license"), ""),
        **dict.fromkeys(("recipe_id", "content_id"), ""),
        **dict.fromkeys(("credits", "creators", "severities", "configs"), ()),
        datasheet={}, sample={}, more_credits=0, seed=0,
        name="subset", roles=roles, origins_shared=True, labels=labels, nuisances=styles, default_base="mini",
        bases=[Base(name="mini", summary="", content_id="", splits=splits)], files=files,
    )  # fmt: skip
    (folder / FILE_NAME).write_text(manifest.to_json())


def write_split(
    folder: Path,
    split: str,
    table: pa.Table,
    images: list[bytes],
    roles: Roles,
    labels: list[str],
    styles: list[str],
) -> dict[str, FileRecord]:
    """Write the shards and the metadata of a split, as `builders.make.pack` does."""
    sizes = np.array([len(image) for image in images])
    cells = np.asarray(table["group"])
    label, quantile = np.asarray(table["label"]), np.asarray(table["quantile"])
    groups = row_groups(Rows(table["key"].to_pylist(), cells, label, quantile, sizes))
    shards = cut_into_shards(groups, sizes)
    schema = data_schema(roles, labels, styles)
    written: dict[str, FileRecord] = {}
    pointers: list[pa.Table] = []
    for number, shard in enumerate(shards):
        path = folder / f"data/mini/{split}-{number:05}-of-{len(shards):05}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)

        def cut(group: Any) -> pa.Table:
            bytes_of = [{"bytes": images[row], "path": None} for row in group]
            part = table.take(pa.array(group))
            return part.append_column("image", pa.array(bytes_of, schema.field("image").type)).cast(schema)

        write_shard(path, schema, map(cut, shard))
        order = np.concatenate(shard)
        told = {
            "shard": [number] * len(order),
            "row": range(len(order)),
            "offset": list(offsets(path, (images[row] for row in order))),
            "length": sizes[order],
            "sha256": [hashlib.sha256(images[row]).digest() for row in order],
        }
        part = table.take(pa.array(order))
        for name, values in told.items():
            part = part.append_column(name, pa.array(values))
        pointers.append(part.cast(metadata_schema(roles, labels, styles)))
        written[str(path.relative_to(folder))] = record(path, len(order))
    path = folder / f"metadata/mini/{split}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_metadata(path, pa.concat_tables(pointers))
    return written | {str(path.relative_to(folder)): record(path, len(table))}


def record(path: Path, rows: int) -> FileRecord:
    """What the manifest says of a file."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return FileRecord(bytes=path.stat().st_size, sha256=digest, rows=rows)


def picture(number: int, pixels: int) -> bytes:
    """A JPEG of smooth noise."""
    noise = rng(0, "subset", "picture", number).integers(0, 256, (pixels // 6, pixels // 6, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(noise).resize((pixels, pixels), Image.Resampling.BICUBIC).save(stream, "JPEG", quality=92)
    return stream.getvalue()


class Counted(BaseHTTPRequestHandler):
    """A server of files and byte ranges that takes down how many bytes each answer has."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, root: Path, counted: list[int], *args: Any) -> None:
        self.root, self.counted = root, counted
        super().__init__(*args)

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, body: bool = True) -> None:
        file = self.root / self.path.lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return
        size = file.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, end = (int(asked[1]), min(int(asked[2]) + 1, size)) if asked else (0, size)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(end - start))
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if body:
            with file.open("rb") as stream:
                stream.seek(start)
                self.counted.append(self.wfile.write(stream.read(end - start)))

    def log_message(self, *_: Any) -> None:
        """Stay quiet."""


if __name__ == "__main__":
    main()
