"""Small datasets, and forgeries of them by a seed: rows, pictures, side files; the hashes always agree."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.make.build import build
from shiftdata.data.exporting.webdataset import export
from shiftdata.data.format.manifest import checksummed
from tests.bombs import png, with_small_footer, write_equal_rows
from tests.contracts.shapes import draw_shapes
from tests.fuzz.mutations import json_text, manifest_of, mutated, odd_value, sealed
from tests.paths import ROOT
from tests.shared import made_once

#: Changes of recipes of the contract that leave some hundred rows.
SMALLER = {
    "stylized": {
        '"blue", "cyan", "green", "red", "yellow"': '"blue", "red"',
        "per_group=20": "per_group=6",
        ", GroupFairness(k=4, mu=0.2, seed=1)": ",",
        'Base(name="extended"': '# Base(name="extended"',
    },
    "continuous": {
        "per_group=10": "per_group=4",
        'Base(name="extended"': '# Base(name="extended"',
        'default_base="extended"': 'default_base="mini"',
    },
}
KINDS = (*SMALLER, "tars")


def honest(factory: pytest.TempPathFactory, kind: str) -> Path:
    """The folder of a small dataset. Read only."""

    def make(folder: Path) -> None:
        if kind == "tars":
            export(honest(factory, "stylized"), folder / "tiny_wds", shard_bytes=20_000)
            return
        draw_shapes(folder / "recipe" / "pictures", per_label=12)
        text = (ROOT / "tests/contracts" / kind / "recipe.py").read_text()
        for old, new in SMALLER[kind].items():
            assert old in text
            text = text.replace(old, new)
        (folder / "recipe/recipe.py").write_text(text)
        build(str(folder / "recipe/recipe.py"), folder, workers=1, quiet=True)

    top = made_once(factory, f"small_{kind}", make)
    return next(path.parent for path in top.rglob("manifest.json"))


def seal(folder: Path, change: Callable[[dict[str, Any]], object] = lambda raw: None) -> None:
    """Write the manifest as a forger does: with the size, hash and rows of every file that is there."""
    raw = json.loads((folder / "manifest.json").read_text())
    change(raw)
    del raw["checksum"]
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"):
        name, data = path.relative_to(folder).as_posix(), path.read_bytes()
        rows = raw["files"].get(name, {}).get("rows")
        if path.suffix == ".parquet":
            with suppress(pa.ArrowException, OSError):
                rows = pq.read_metadata(path).num_rows
        raw["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "rows": rows}
    (folder / "manifest.json").write_text(checksummed(raw), encoding="utf-8", errors="surrogatepass")


# Pictures


@cache
def pictures() -> dict[str, bytes | None]:
    whole, frames = io.BytesIO(), io.BytesIO()
    Image.effect_noise((24, 24), 50).convert("RGB").save(whole, "PNG")
    tiles = [Image.new("P", (2000, 2000), number) for number in range(40)]
    tiles[0].save(frames, "GIF", save_all=True, append_images=tiles[1:])
    text = zlib.compress(bytes(100 << 20))
    row = zlib.compress(bytes(12_001) * 12_000)
    return {
        "none": None, "empty": b"", "a text": b"a text in the place of a picture", "null": bytes(300),
        "cut": whole.getvalue()[:-30], "head": whole.getvalue()[:20], "gif head": b"GIF89a",
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        "html": b"<script>alert(1)</script>", "no pixels": png(24, 24), "zero": png(0, 0, (b"IDAT", b"")),
        "huge by its head": png(60_000, 60_000, (b"IDAT", zlib.compress(b"x"))),
        "huge": png(12_000, 12_000, (b"IDAT", row)),
        "large": png(12_000, 7_000, (b"IDAT", row)), "wide": png(1_000_000, 1, (b"IDAT", row)),
        "chunk of texts": png(24, 24, (b"zTXt", b"x\0\0" + text), (b"IDAT", zlib.compress(bytes(600)))),
        "profile": png(24, 24, (b"iCCP", b"x\0\0" + text), (b"IDAT", zlib.compress(bytes(600)))),
        "frames": frames.getvalue(), "tiff": b"II*\0\x08\0\0\0\xff\xff" + bytes(99), "eps": b"%!PS-Adobe-3.0",
        "webp": b"RIFF\xff\xff\xff\xffWEBPVP8X" + bytes(40), "ico": b"\0\0\1\0\xff\xff" + bytes(400),
    }  # fmt: skip


def _pictures(folder: Path, rng: random.Random, name: str | None = None) -> None:
    """Other bytes in rows of a shard, where its metadata points to with the right hash."""
    shard = _file(folder, rng, "data")
    metadata = folder / "metadata" / shard.parent.name / f"{shard.name.partition('-')[0]}.parquet"
    rows, about = pq.read_table(shard), pq.read_table(metadata)
    examples = [dict(example) for example in rows["image"].to_pylist()]
    for row in rng.sample(range(len(examples)), rng.choice([1, 3, len(examples)])):
        examples[row]["bytes"] = pictures()[name or rng.choice(sorted(pictures()))]
    place = rows.schema.get_field_index("image")
    rows = rows.set_column(place, rows.schema.field(place), pa.array(examples, rows.schema.field(place).type))
    pq.write_table(rows, shard, compression="none", use_dictionary=False, row_group_size=40)
    written, at, offsets = shard.read_bytes(), 0, []
    for example in examples:
        at = max(at, written.find(example["bytes"] or b"", at))
        offsets.append(at)
        at += len(example["bytes"] or b"")
    data = [example["bytes"] or b"" for example in examples]
    pointers: dict[str, list[Any]] = {
        "offset": offsets,
        "length": list(map(len, data)),
        "sha256": [hashlib.sha256(each).digest() for each in data],
    }
    for column, values in pointers.items():
        about = _with_column(about, column, values)
    pq.write_table(about, metadata)


# Rows


def _with_column(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(
        place, table.schema.field(place), pa.array(values, table.schema.field(place).type)
    )


#: Folders of tables.
TABLES = ("metadata", "data", "protocols", "index")
INTEGERS = (-1, 99, 2**31 - 1, 2**62, -(2**62), None)
TEXTS = ("../x", "x" * 3000, "\x1b[2Jx", "two\nlines", "", "caf\u00e9", "<script>alert(1)</script>", None)
VALUES: dict[str, tuple[Any, ...]] = {
    "severity": (float("inf"), float("-inf"), float("nan"), 1e308, -1.0, None),
    "quantile": (float("inf"), float("nan"), -1.0, 7.5, None),
    "params": (
        *(
            "NaN",
            '{"a": NaN}',
            '{"a": 1e999}',
            "[" * 100_000,
            '{"a":' * 50_000,
            '"\\ud800"',
            "[]",
            "",
            "9" * 5000,
        ),
        *('{"a": "\\ud800"}', "no JSON", "null", '{"a": -Infinity}', '{"a": "\\u001b[2J"}', None),
    ),
    "sha256": (b"", b"x", b"x" * 32, None),
}
CASTS = (pa.string(), pa.float16(), pa.null(), pa.decimal128(38, 2), pa.list_(pa.int64()), pa.timestamp("us"))


def _cells(folder: Path, rng: random.Random) -> None:
    """Another value in one row, or in all, of a file or of a pair of them."""
    path = _file(folder, rng, "metadata", "metadata", "data", "protocols", "index")
    paths = [path]
    if path.parent.parent.name == "metadata" and rng.random() < 0.6:
        paths += sorted((folder / "data" / path.parent.name).glob(f"{path.stem}-*.parquet"))
    table = pq.read_table(path)
    name = rng.choice([name for name in table.column_names if name != "image"])
    kind = table.schema.field(name).type
    pool = VALUES.get(name) or (TEXTS if pa.types.is_string(kind) else INTEGERS)
    value = rng.choice(pool)
    rows = rng.sample(range(len(table)), rng.choice([1, len(table)])) if len(table) else []
    for each in paths:
        table = pq.read_table(each)
        values = table[name].to_pylist() if name in table.column_names else []
        for row in (row for row in rows if row < len(values)):
            values[row] = value
        with suppress(pa.ArrowException):
            pq.write_table(_with_column(table, name, values) if values else table, each)


def _columns(folder: Path, rng: random.Random) -> None:
    """A column of another type or name, missing, twice or unknown; other numbers of rows."""
    path = _file(folder, rng, *TABLES)
    table = pq.read_table(path)
    place = rng.randrange(table.num_columns)
    field, column = table.schema.field(place), table.column(place)
    changes: list[Callable[[], pa.Table]] = [
        lambda: table.set_column(place, field.name, column.cast(rng.choice(CASTS))),
        lambda: table.set_column(place, field.name, pa.nulls(len(table), rng.choice(CASTS))),
        lambda: table.set_column(place, field.name, column.dictionary_encode()),
        lambda: table.remove_column(place),
        lambda: table.rename_columns({field.name: rng.choice(["x", "\x1b[2J", "", "two\nlines"])}),
        lambda: table.append_column(field, column),
        lambda: table.append_column("mine", pa.array(range(len(table)))),
        lambda: table.slice(0, 0),
        lambda: table.slice(len(table) // 2),
        lambda: pa.concat_tables([table, table]),
        lambda: table.take(pa.array(range(len(table) - 1, -1, -1))),
        lambda: table.replace_schema_metadata({b"huggingface": rng.choice([b"{", b"null", b"[" * 9999])}),
    ]
    with suppress(pa.ArrowException):  # as it was
        table = rng.choice(changes)()
    pq.write_table(table, path)


def _bomb(folder: Path, rng: random.Random) -> None:
    """A small file of gigabytes instead of a table, or next to them."""
    path = _file(
        folder, rng, "metadata", "data", "protocols", "index", "dropped.parquet", "filters/x.parquet"
    )
    path.parent.mkdir(exist_ok=True)
    columns = {"base": "mini", "key": "x", "reason": "y", "split": "test", "trajectory": "a", "severity": 1.0}
    if rng.random() < 0.5:
        write_equal_rows(path, columns, 4_000_000)
        return
    table = pq.read_table(path) if path.is_file() else pa.Table.from_pylist([columns])
    name = rng.choice([field.name for field in table.schema if pa.types.is_string(field.type)] or ["key"])
    long = pa.array(["x" * (16 << 20)])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * len(table), pa.int32()), long)
    place = table.schema.get_field_index(name)
    pq.write_table(table.set_column(place, name, column), path, compression="zstd")


def _footer(folder: Path, rng: random.Random) -> None:
    path = _file(folder, rng, *TABLES)
    path.write_bytes(with_small_footer(path.read_bytes()))


# Whole files


def _file(folder: Path, rng: random.Random, *below: str) -> Path:
    """A Parquet file in one of some folders that there are, or a path that is named itself."""
    named = [name for name in below if name.endswith(".parquet") or (folder / name).is_dir()]
    name = rng.choice(named)
    found = sorted((folder / name).rglob("*.parquet"))
    if not found and not name.endswith(".parquet"):  # tars
        return _file(folder, rng, "index")
    return rng.choice(found or [folder / name])


def _bytes(folder: Path, rng: random.Random) -> None:
    """Other bytes instead of any file but the manifest."""
    path = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "manifest.json"))
    data = bytearray(path.read_bytes())
    at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    odd = (b"", b"PAR1", b"PAR1" + bytes(8) + b"PAR1", b"\xff\xfe", b"[" * 100_000, b"---\n" + b"- " * 50_000)
    match rng.randrange(4):
        case 0:
            path.write_bytes(rng.choice(odd))
        case 1:
            path.write_bytes(data[:at])
        case 2:
            path.write_bytes(data[:at] + rng.randbytes(rng.randrange(1, 40)) + data[at:])
        case 3:
            path.write_bytes(data[:at] + bytes(end - at) + data[end:])


def _manifest(folder: Path, rng: random.Random) -> None:
    """Fields of the manifest, one of which may be far too long."""

    def change(raw: dict[str, Any]) -> None:
        field = rng.choice([name for name in raw if name not in ("checksum", "format")])
        draws: list[Callable[[], Any]] = [
            lambda: mutated(raw[field], rng.randrange(2**32)) if raw[field] else odd_value(rng),
            lambda: mutated(raw[field], rng.randrange(2**32)) if raw[field] else odd_value(rng),
            lambda: raw[field] * rng.choice([0, 2, 5000]) if isinstance(raw[field], list | str) else 1,
        ]
        raw[field] = rng.choice(draws)()

    raw = manifest_of(folder)
    change(raw)
    text = sealed(json_text(raw, rng.randrange(2**32)))
    (folder / "manifest.json").write_bytes(text.encode(errors="surrogatepass"))


FORGERIES: dict[str, Callable[[Path, random.Random], None]] = {
    "cells": _cells,
    "columns": _columns,
    "pictures": _pictures,
    "bomb": _bomb,
    "footer": _footer,
    "bytes": _bytes,
    "manifest": _manifest,
}


def forge(good: Path, bad: Path, seed: int) -> str:
    """Make `bad` a forgery of a dataset; return its kind."""
    rng = random.Random(seed)
    shutil.copytree(good, bad)
    tars = not any((good / "data").rglob("*.parquet"))
    kinds = sorted(FORGERIES.keys() - ({"pictures"} if tars else set()))
    weights = [
        {"cells": 6, "columns": 2, "pictures": 4, "bytes": 2, "manifest": 2}.get(kind, 1) for kind in kinds
    ]
    (kind,) = rng.choices(kinds, weights)
    FORGERIES[kind](bad, rng)
    if kind != "manifest":
        seal(bad)
    return kind
