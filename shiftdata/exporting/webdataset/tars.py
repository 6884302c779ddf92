"""Tars with equal bytes for equal samples, and the place of each member in them."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from shiftdata.format.schema import columns

BLOCK = tarfile.BLOCKSIZE

#: The members of a sample by their extensions, in the order of the tar.
Members = Mapping[str, bytes]


def tar_path(base: str, split: str, number: int, total: int) -> str:
    """Where a shard lies in its repo."""
    return f"data/{base}/{split}-{number:05d}-of-{total:05d}.tar"


def index_path(tar: str) -> str:
    """Where the index of a shard lies.

    >>> index_path("data/mini/train-00000-of-00002.tar")
    'index/mini/train-00000-of-00002.parquet'
    """
    return f"index/{tar.removeprefix('data/').removesuffix('.tar')}.parquet"


def index_schema(nuisance: str, members: Sequence[str]) -> pa.Schema:
    """The columns of an index: all that is known of a sample, its hash, the place of each of its members."""
    places = {f"{member}_{what}": pa.int64() for member in members for what in ("offset", "length")}
    return pa.schema(columns(nuisance) | {"sha256": pa.binary()} | places)


def write_tar(path: Path, samples: Iterable[tuple[str, Members]]) -> dict[str, list[int]]:
    """Write samples one after the other; give offset and length of each member, a list a column."""
    places: dict[str, list[int]] = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for key, members in samples:
            for member, data in members.items():
                file.write(_header(f"{key}.{member}", len(data)))
                places.setdefault(f"{member}_offset", []).append(file.tell())
                places.setdefault(f"{member}_length", []).append(len(data))
                file.write(data + bytes(-len(data) % BLOCK))
        end = file.tell() + 2 * BLOCK
        file.write(bytes(2 * BLOCK + -end % tarfile.RECORDSIZE))
        file.flush()
        os.fsync(file.fileno())
    return places


def _header(name: str, size: int) -> bytes:
    """A member's header, of nobody and of no time; names over 100 characters get one more block."""
    info = tarfile.TarInfo(name)  # of the owner 0, modified at 0, with the rights 0644
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
