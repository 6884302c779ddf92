"""The bytes of a tar in WebDataset format: of nobody and no time, with the places of its members."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from shiftdata.data.format.paths import PACKED

BLOCK = tarfile.BLOCKSIZE

#: The members of a sample by their extensions, in the order of the tar.
Members = Mapping[str, bytes]


def write_tar(path: Path, samples: Iterable[tuple[str, Members]]) -> dict[str, list[int | None]]:
    """Write samples one after the other; return offset and length of each member, a list per column.

    A file that ends in `.tar.gz` is compressed; the places are then those in the unpacked tar. A member that
    a sample lacks has none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    places: list[dict[str, int]] = []
    end = 0
    with _opened(path) as file:
        for key, members in samples:
            places.append({})
            for member, data in members.items():
                header = _header(f"{key}.{member}", len(data))
                places[-1] |= {f"{member}_offset": end + len(header), f"{member}_length": len(data)}
                padding = bytes(-len(data) % BLOCK)
                file.write(header + data + padding)
                end += len(header) + len(data) + len(padding)
        file.write(bytes(2 * BLOCK))  # two empty blocks end a tar; more, up to a tape's record, say nothing
    with path.open("r+b") as written:
        os.fsync(written.fileno())
    names = dict.fromkeys(name for of in places for name in of)
    return {name: [of.get(name) for of in places] for name in names}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.name.endswith(PACKED):
        with path.open("wb") as plain:
            yield plain
        return
    # Arrow's own zlib: the lock file pins it, so that the bytes do not depend on the system's.
    with pa.OSFile(str(path), "wb") as raw, pa.CompressedOutputStream(raw, "gzip") as packed:
        yield packed


def _header(name: str, size: int) -> bytes:
    """A member's header, without owner or time; names over 100 characters get one more block."""
    info = tarfile.TarInfo(name)  # owner 0, modified at 0, mode 0644
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
