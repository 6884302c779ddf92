"""Texts that are made from a manifest, which in turn lists them with their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import RENDERINGS
from shiftdata.data.format.records import FileRecord
from shiftdata.files import write_text


def with_renderings(manifest: Manifest, texts: Mapping[str, str]) -> Manifest:
    """The manifest that lists these texts, by file name, in the place of earlier ones.

    A text names the `content_id`, never the hash of the manifest, which would change with the text.
    """
    files = {path: record for path, record in manifest.files.items() if path not in RENDERINGS}
    for name, text in texts.items():
        data = text.encode()
        files[name] = FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), rows=None)
    return replace(manifest, files=files)


def write_renderings(
    folder: Path, manifest: Manifest, texts: Mapping[str, str], name: str = FILE_NAME
) -> Manifest:
    """Write the texts that differ and, last, the manifest that lists them: with one, a dataset is whole."""
    listed = with_renderings(manifest, texts)
    for path, text in {**texts, name: listed.to_json()}.items():
        if not (folder / path).is_file() or (folder / path).read_bytes() != text.encode():
            write_text(folder / path, text)
    return listed
