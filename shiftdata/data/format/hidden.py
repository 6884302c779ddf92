"""The file of what a publisher hides of a dataset: labels, groups, quantiles of its test, by public key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftdata.errors import InputError, IntegrityError
from shiftdata.files import whole_file
from shiftdata.untrusted.parquet import ParquetReader
from shiftdata.untrusted.texts import read_json

#: The columns that are always hidden: quantiles count the rows of a group.
HIDES = ("label", "group", "quantile")
SALT = 32
KEY = b"shiftdata-hidden"
MOST_ROWS = 20_000_000


@dataclass(frozen=True, eq=False)
class Answers:
    """The hidden values of each row of each base, and the salt of public keys."""

    dataset: str
    salt: bytes
    rows: pa.Table

    @property
    def sha256(self) -> str:
        return answers_id(self.rows, self.salt)


def labels_table(keys: pa.Array, rows: pa.Table, columns: Sequence[str], base: str) -> pa.Table:
    """Return the hidden values of rows, by public key, with the key of the owner's own dataset."""
    hidden = {name: rows[name] for name in columns}
    return pa.table({"base": pa.repeat(base, len(rows)), "key": keys, **hidden, "own_key": rows["key"]})


def answers_id(rows: pa.Table, salt: bytes) -> str:
    """Return the hash of the answers, in any order of rows."""
    digest = hashlib.sha256(salt)
    rows = rows.sort_by([("base", "ascending"), ("key", "ascending")])
    for name in sorted(rows.column_names):
        texts = pc.fill_null(rows[name].cast(pa.string()), "").to_pylist()
        digest.update(f"{name}\n{len(texts)}\n".encode() + "\n".join(texts).encode())
    return digest.hexdigest()


def write_labels(path: Path, rows: pa.Table, salt: bytes, dataset: str) -> None:
    """Write the owner's file, whole or not at all, for nobody else to read."""
    about = json.dumps({"dataset": dataset, "salt": salt.hex()})
    with whole_file(path) as temporary:
        temporary.touch(mode=0o600)  # before anything is in it
        pq.write_table(rows.replace_schema_metadata({KEY: about}), temporary, compression="zstd")


def read_labels(path: Path) -> Answers:
    """Read an owner's file."""
    hint = "name the file that `hide` wrote"
    try:
        with ParquetReader(path) as file:
            about = read_json((file.footer.metadata or {})[KEY])
            rows = file.read(file.schema.names, most_rows=MOST_ROWS).replace_schema_metadata(None)
            return Answers(str(about["dataset"]), bytes.fromhex(about["salt"]), rows)
    except (KeyError, TypeError, ValueError, OSError, IntegrityError) as error:
        raise InputError(f"{path} is not a file of hidden labels ({error}): {hint}") from error
