"""Files of predictions, which may come from anybody: each kind is read within limits of rows and bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from shiftdata.data.format.bounds import read_flat
from shiftdata.errors import InputError, IntegrityError, NotFoundError

SUFFIXES = (".csv", ".parquet", ".json", ".npy")


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
            names = pq.read_schema(path).names
            wanted = [name for name in ("key", "prediction") if name in names]
            return read_flat(path, wanted if "prediction" in names else names, most_rows=most_rows)
        if kind == ".npy":
            with path.open("rb") as file:  # np.load would also open a zip of any size
                return np.lib.format.read_array(file, allow_pickle=False)
        if kind == ".json":
            return json.loads(path.read_text(encoding="utf-8"))
        as_text = pa.csv.ConvertOptions(column_types={"key": pa.string()})  # a hash may look like a number
        return pa.csv.read_csv(path, convert_options=as_text)
    except IntegrityError as error:
        hint = "give the columns key and prediction, a row for each example of the set"
        raise InputError(f"predictions: {error}; {hint}") from error
    except (OSError, pa.ArrowException, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"predictions: {path} cannot be read as {kind[1:]}: {error}") from error
