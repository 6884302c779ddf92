"""The tiny dataset of most tests: 4 labels x 40 pictures x 5 tints, the stylized kind of the contract."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shiftdata.data.format.manifest import FILE_NAME, checksummed
from tests.contracts.kinds import prepare

#: The most bytes of a tar of the tiny dataset: several a split.
SMALL_TAR = 40_000


def write_recipe(folder: Path) -> Path:
    """Draw the pictures and write the recipe that uses them; give the recipe's path."""
    return prepare("stylized", folder)


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the fields of a manifest as a forger would: with a checksum that is right."""
    text = forged((folder / FILE_NAME).read_text(encoding="utf-8"), change)
    (folder / FILE_NAME).write_text(text, encoding="utf-8", newline="\n")


def forged(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    """The text of a manifest with changed fields and the checksum of what it then is."""
    raw = json.loads(text)
    change(raw)
    del raw["checksum"]
    return checksummed(raw)


def edit_file(folder: Path, path: str, change: Callable[[bytes], bytes]) -> None:
    """Change a file and its record in the manifest, so that only its meaning is wrong."""
    data = change((folder / path).read_bytes())
    (folder / path).write_bytes(data)
    record = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    edit_manifest(folder, lambda raw: raw["files"][path].update(record))
