"""The exploration as files: a folder for a Space or any web server, where DuckDB runs in the browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.data.loading.sprites import as_webp
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.files import whole_file, write_text
from shiftdata.serve.explore import atlas
from shiftdata.serve.explore.view import view_of
from shiftdata.serve.pages.rows import Rows
from shiftdata.untrusted.pictures import UndecodableError, thumbnail

SIDE = 96
#: Rows whose pictures are read at once.
BATCH = 256
CARD = """\
---
title: Explore {title}
emoji: 🔎
sdk: static
license: {license}
datasets:
- shift/{name}
---

Every row of `{base}` of [shift/{name}](https://huggingface.co/datasets/shift/{name}) by label, {nuisance},
split and licence, on a map of features. Drawn by
[Embedding Atlas](https://github.com/apple/embedding-atlas) {version} (MIT); made by
`shiftdata explore {name} --out`. On another web server: `python -m http.server` in this folder.
"""


def write_space(
    metadata: Metadata,
    table: pa.Table,
    out: Path,
    *,
    most: int = 20_000,
    on_rows: Callable[[int], object] = int,
) -> Path:
    """Write the application, the table and pictures of `most` rows into a folder; return its front page.

    Of more rows, pictures would fill a browser's memory: `most` rows have theirs, the same ones each time.
    A dataset whose recipe publishes no examples has none here either.
    """
    assert metadata.dataset is not None
    manifest, rows = metadata.dataset.manifest, Rows.of(metadata.dataset, metadata.base)
    if manifest.publishes == "nothing":
        raise InputError(
            f"the licence of {manifest.name} lets nothing of it be published, and files for others are"
        )
    if out.exists() and (
        not out.is_dir() or (any(out.iterdir()) and not (out / "data/metadata.json").is_file())
    ):
        raise InputError(f"{out} is here, and no earlier exploration: give a new folder")
    if manifest.publishes != "all":
        table = table.drop_columns(
            [name for name in table.column_names if name in ("text", *manifest.roles.example)]
        )
    elif rows.has_pictures:
        table = table.append_column("picture", _pictures(rows, len(table), most, on_rows))
    shutil.copytree(atlas.application(), out, dirs_exist_ok=True)
    (out / "data").mkdir(exist_ok=True)
    with whole_file(out / "data/dataset.parquet") as file:
        pq.write_table(table, file, compression="zstd")
    view = view_of(rows, table, version("embedding-atlas"), pictures=False)
    about = {"props": view, "isStatic": True, "database": {"type": "wasm", "load": True}}
    write_text(out / "data/metadata.json", json.dumps(about))
    facts = {
        "title": manifest.title,
        "name": manifest.name,
        "license": "other",
        "nuisance": metadata.nuisance_column,
    }
    card = CARD.format(**facts, base=metadata.base, version=version("embedding-atlas"))
    write_text(out / "README.md", card)
    return out / "index.html"


def _pictures(rows: Rows, count: int, most: int, on_rows: Callable[[int], object]) -> pa.Array:
    shown = np.sort(np.random.default_rng(0).permutation(count)[:most])
    pictures: list[dict[str, bytes] | None] = [None] * count
    for start in range(0, len(shown), BATCH):
        batch = shown[start : start + BATCH]
        for row, data in zip(batch.tolist(), rows.examples(batch), strict=True):
            try:
                pictures[row] = {"bytes": as_webp(thumbnail(data, SIDE))}
            except UndecodableError:
                pictures[row] = None
        on_rows(len(batch))
    return pa.array(pictures, pa.struct({"bytes": pa.binary()}))
