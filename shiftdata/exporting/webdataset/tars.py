"""Tars with equal bytes for equal samples, and the place of each member in them."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

BLOCK = tarfile.BLOCKSIZE

#: The members of a sample by their extensions, in the order of the tar.
Members = Mapping[str, bytes]


def write_tar(path: Path, samples: Iterable[tuple[str, Members]]) -> dict[str, list[int]]:
    """Write samples one after the other; return offset and length of each member, a list per column."""
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
    """A member's header, without owner or time; names over 100 characters get one more block."""
    info = tarfile.TarInfo(name)  # owner 0, modified at 0, mode 0644
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
