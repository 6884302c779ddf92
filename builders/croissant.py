"""Render a dataset's Croissant metadata from its manifest."""

from __future__ import annotations

from shiftdata.manifest import Manifest


def render_croissant(manifest: Manifest) -> str:
    """The text of croissant.json."""
    return "{}\n"
