"""Write the texts that are made from a manifest, which lists them with their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import RENDERINGS
from shiftdata.data.format.records import FileRecord
from shiftdata.files import write_text


def write_renderings(
    folder: Path, manifest: Manifest, texts: Mapping[str, str], name: str = FILE_NAME
) -> Manifest:
    """Write the texts that differ and, last, the manifest that lists them: with one, a dataset is whole.

    A text names the `content_id`, never the hash of the manifest, which would change with the text.
    """
    files = {path: record for path, record in manifest.files.items() if path not in RENDERINGS}
    for path, text in texts.items():
        data = text.encode()
        files[path] = FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), rows=None)
    listed = replace(manifest, files=files)
    for path, text in {**texts, name: listed.to_json()}.items():
        if not (folder / path).is_file() or (folder / path).read_bytes() != text.encode():
            write_text(folder / path, text)
    return listed
