"""Write to a URL that fsspec writes, so that a file appears there whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

#: Where a file appears whole by itself. Elsewhere it is sent under another name and then renamed.
WHOLE = {"abfs", "abfss", "adl", "az", "gcs", "gs", "memory", "oci", "oss", "s3", "s3a"}


def put_whole(system: Any, path: str, put: Callable[[str], object]) -> None:
    """Have `put` write a file of a file system at the path that it is given."""
    if protocols(system) & WHOLE:
        put(path)
        return
    parent, _, name = path.rpartition("/")
    part = f"{parent}/.{name}.part"
    system.makedirs(parent, exist_ok=True)
    put(part)
    with suppress(FileNotFoundError):
        system.rm_file(path)  # some would not rename onto it
    system.mv(part, path)


def protocols(system: Any) -> set[str]:
    """The names of a file system in URLs."""
    named = system.protocol
    return {named} if isinstance(named, str) else set(named)
