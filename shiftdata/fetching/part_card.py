"""The README of a part: YAML by which plain `datasets` loads it, and words that say what it is a part of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from shiftdata.format.attribution import ATTRIBUTION
from shiftdata.format.front_matter import Entry, cell, config_entry, split_entries, task_category, yaml_lines
from shiftdata.format.licenses import hub_terms
from shiftdata.format.manifest import Manifest

TEMPLATE = Path(__file__).with_name("part_card.md")


def part_card(manifest: Manifest, words: str) -> str:
    """The README.md of a part; `words` is its selection."""
    part, base = manifest.part, manifest.bases[0]
    splits = list(base.splits)
    return TEMPLATE.read_text(encoding="utf-8").format(
        front="\n".join(yaml_lines(_front_matter(manifest))),
        m=manifest,
        content_id=part.content_id[:16] if part else "",
        manifest=f"`{part.manifest[:16]}`" if part else "",
        words=words,
        config=manifest.default_base if part is None or manifest.config(part.config) is None else part.config,
        splits=" | ".join(splits),
        rules="---|" * len(splits),
        rows="\n".join(_rows(manifest, splits, words)),
        attribution=ATTRIBUTION,
    )


def _rows(manifest: Manifest, splits: Sequence[str], words: str) -> Iterator[str]:
    about = {config.name: config.summary for config in manifest.configs}
    about[manifest.default_base] = f"every row of the part: {words}"
    for name in manifest.config_names():
        held = manifest.splits_of(name)
        counts = [f"{held[split].rows:,}" if split in held else "none" for split in splits]
        text = about.get(name, "the same rows without the examples")
        yield f"| `{name}` | {' | '.join(counts)} | {cell(text)} |"


def _front_matter(manifest: Manifest) -> Entry:
    names = manifest.config_names()
    return {
        "pretty_name": f"{manifest.title}: a part",
        **hub_terms(manifest.license.split(" AND ")),
        "task_categories": [task_category(manifest.roles.modality)],
        "tags": ["distribution-shift", manifest.family, "shiftdata"],
        "configs": [config_entry(manifest, name) for name in names],
        "dataset_info": [
            {"config_name": name, "splits": split_entries(manifest.splits_of(name))}
            for name in names
            if name != "metadata"
        ],
    }
