"""The bytes of a tar in WebDataset format: of nobody and no time, with the places of its members."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

BLOCK = tarfile.BLOCKSIZE

#: The members of a sample by their extensions, in the order of the tar.
Members = Mapping[str, bytes]


def write_tar(path: Path, samples: Iterable[tuple[str, Members]]) -> dict[str, list[int | None]]:
    """Write samples one after the other; return offset and length of each member, a list per column.

    A member that a sample lacks has None.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    places: list[dict[str, int]] = []
    with path.open("wb") as file:
        for key, members in samples:
            places.append({})
            for member, data in members.items():
                file.write(_header(f"{key}.{member}", len(data)))
                places[-1] |= {f"{member}_offset": file.tell(), f"{member}_length": len(data)}
                file.write(data + bytes(-len(data) % BLOCK))
        file.write(bytes(2 * BLOCK))  # two empty blocks end a tar; more, up to a tape's record, say nothing
        file.flush()
        os.fsync(file.fileno())
    names = dict.fromkeys(name for of_sample in places for name in of_sample)
    return {name: [of_sample.get(name) for of_sample in places] for name in names}


def _header(name: str, size: int) -> bytes:
    """Return a member's header, without owner or time; names over 100 characters get one more block."""
    info = tarfile.TarInfo(name)  # owner 0, modified at 0, mode 0644
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
