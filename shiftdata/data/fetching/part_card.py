"""The README of a part: YAML by which plain `datasets` loads it, and the whole that it is a part of."""

from __future__ import annotations

from pathlib import Path

from shiftdata.data.format.front_matter import Entry, linked, loading_entries, task_category, yaml_lines
from shiftdata.data.format.licenses import hub_terms
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import ATTRIBUTION

TEMPLATE = Path(__file__).with_name("part_card.md")


def part_card(manifest: Manifest, words: str) -> str:
    """Render the README.md of a part; `words` is its selection."""
    part, base = manifest.part, manifest.bases[0]
    front: Entry = {
        "pretty_name": f"{manifest.title}: a part",
        **hub_terms(manifest.license.split(" AND ")),
        "task_categories": [task_category(manifest.roles.modality)],
        "tags": ["distribution-shift", manifest.family, "shiftdata"],
        **loading_entries(manifest),
    }
    return TEMPLATE.read_text(encoding="utf-8").format(
        front="\n".join(yaml_lines(front)),
        m=manifest,
        citation=linked(manifest.citation),
        content_id=part.content_id[:16] if part else "",
        manifest=f"`{part.manifest[:16]}`" if part else "",
        words=words,
        config=part.config if part and part.config in manifest.configs else base.name,
        attribution=ATTRIBUTION,
    )
