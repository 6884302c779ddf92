"""The renderings of a manifest that lie beside it: README.md and croissant.json."""

from __future__ import annotations

from pathlib import Path

from builders.card import render_card
from builders.croissant import render_croissant
from builders.spool import whole_file
from shiftdata.manifest import FILE_NAME, Manifest


def renderings(manifest: Manifest) -> dict[str, str]:
    """The text of each rendering, by file name."""
    return {"README.md": render_card(manifest), "croissant.json": render_croissant(manifest)}


def write_renderings(folder: Path, manifest: Manifest) -> None:
    """Write the renderings and, last, the manifest: a dataset with a manifest is whole."""
    for name, text in [*renderings(manifest).items(), (FILE_NAME, manifest.to_json())]:
        with whole_file(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
