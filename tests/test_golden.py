"""The published bytes of the tiny dataset stay what they are: `scripts/regenerate_goldens.py` renews them."""

from __future__ import annotations

from pathlib import Path

from builders.recipe import file_versions
from shiftdata.data.format.manifest import Manifest

GOLDEN = Path(__file__).parent / "golden"


def test_content_is_what_it_was(tiny):
    golden = Manifest.from_json((GOLDEN / "tiny_manifest.json").read_text())
    made = Manifest.read(tiny)
    assert made.recipe_id == golden.recipe_id
    assert made.content_id == golden.content_id
    assert made.canonical_splits == golden.canonical_splits


def test_every_published_byte_is_what_it_was(tiny):
    # Only under the pinned versions: another Parquet writer lays out the same rows in other bytes.
    golden = Manifest.from_json((GOLDEN / "tiny_manifest.json").read_text())
    if golden.versions == file_versions():
        assert (tiny / "manifest.json").read_bytes() == (GOLDEN / "tiny_manifest.json").read_bytes()
        for name in ("README.md", "croissant.json"):
            assert (tiny / name).read_bytes() == (GOLDEN / f"tiny_{name}").read_bytes()
    else:
        assert Manifest.read(tiny).files.keys() == golden.files.keys()
