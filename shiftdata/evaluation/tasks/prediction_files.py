"""Files of predictions, which may come from anybody: each kind is read within limits of rows and bytes."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from shiftdata.data.format.bounds import most_unpacked, read_flat
from shiftdata.errors import InputError, IntegrityError, NotFoundError

SUFFIXES = (".csv", ".tsv", ".parquet", ".json", ".npy", ".npz")


def read_prediction_file(path: Path, most_rows: int) -> Any:
    """Read a table, an array, or what JSON holds, from a file of one of the `SUFFIXES`."""
    kind = path.suffix.lower()
    if kind in (*SUFFIXES, "") and not path.exists():
        raise NotFoundError(
            f"there are no predictions at {path}: name a file ({', '.join(SUFFIXES)}) with the columns key "
            "and prediction, or the folder that `shiftdata train ... --folder` wrote"
        )
    if kind not in SUFFIXES:
        raise InputError(f"predictions: {path} ends in {kind!r}; give a file of {', '.join(SUFFIXES)}")
    try:
        if kind == ".parquet":
            return _read_parquet(path, most_rows)
        if kind in (".npy", ".npz"):
            return _read_arrays(path)
        if kind == ".json":
            read = json.loads(path.read_text(encoding="utf-8"))
            records = isinstance(read, list) and bool(read) and isinstance(read[0], dict)
            return pa.Table.from_pylist(read) if records else read
        parse = pa.csv.ParseOptions(delimiter="\t" if kind == ".tsv" else ",")
        as_text = pa.csv.ConvertOptions(column_types={"key": pa.string()})  # a hash may look like a number
        return pa.csv.read_csv(path, parse_options=parse, convert_options=as_text)
    except IntegrityError as error:
        hint = "give the columns key and prediction, a row for each example of the set"
        raise InputError(f"predictions: {error}; {hint}") from error
    except FileNotFoundError as error:
        raise NotFoundError(f"predictions: there is no file {path}") from error
    except (pa.ArrowException, ValueError, RecursionError, MemoryError, zipfile.BadZipFile) as error:
        raise InputError(f"predictions: {path} cannot be read as {kind[1:]}: {error}") from error


def _read_parquet(path: Path, most_rows: int) -> pa.Table:
    names = pq.read_schema(path).names
    wanted = [name for name in ("key", "prediction") if name in names] if "prediction" in names else names
    return read_flat(path, wanted, most_rows=most_rows)


def _read_arrays(path: Path) -> Any:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as members:
            unpacked = sum(member.file_size for member in members.infolist())
        if unpacked > (most := most_unpacked(path.stat().st_size)):
            raise ValueError(f"it would unpack to {unpacked:,} bytes: at most {most:,} are read")
    loaded = np.load(path, allow_pickle=False)
    if not isinstance(loaded, np.lib.npyio.NpzFile):
        return loaded
    with loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays
