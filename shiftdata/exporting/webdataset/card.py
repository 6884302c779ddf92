"""The README of a dataset in WebDataset format: YAML for `datasets` and the Hub, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from shiftdata.format.attribution import ATTRIBUTION
from shiftdata.format.front_matter import split_entries, task_category, yaml_lines
from shiftdata.format.licenses import hub_terms
from shiftdata.format.manifest import Manifest
from shiftdata.format.markdown import cell
from shiftdata.format.schema import Feature, columns

Json: TypeAlias = dict[str, Any]

TYPES = {pa.float64(): "float64", pa.string(): "string"}

MOST_NAMES = 60
TEMPLATE = Path(__file__).with_name("card.md")


def card(manifest: Manifest) -> str:
    """The README.md of a dataset in WebDataset format; it depends on the manifest alone."""
    roles, splits = manifest.roles, list(manifest.base(manifest.default_base).splits)
    members = list(manifest.sample)
    rows = [
        [f"`{base.name}`", *(f"{base.splits[split].rows:,}" for split in splits), cell(base.summary)]
        for base in manifest.bases
    ]
    return TEMPLATE.read_text(encoding="utf-8").format(
        front="\n".join(yaml_lines(_front_matter(manifest))),
        title=manifest.title,
        summary=manifest.summary,
        preview="\n![Examples](preview.jpg)\n" if "preview.jpg" in manifest.files else "",
        name=manifest.name.removesuffix("_wds"),
        content_id=manifest.content_id[:16],
        nuisance=roles.nuisance,
        Nuisance=roles.nuisance.capitalize(),
        base=manifest.default_base,
        example=roles.modality if roles.modality != "table" else "metadata",
        members=", ".join(members),
        files=", ".join(f"`<key>.{member}`" for member in members),
        splits=" | ".join(splits),
        rules="---|" * len(splits),
        bases="\n".join(f"| {' | '.join(cells)} |" for cells in rows),
        label_count=len(manifest.labels),
        labels=_listed(manifest.labels),
        nuisance_count=len(manifest.nuisances),
        nuisances=_listed(manifest.nuisances),
        license=manifest.license,
        attribution=f" [{ATTRIBUTION}]({ATTRIBUTION}) lists them." if ATTRIBUTION in manifest.files else "",
        citation=manifest.citation,
    )


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence, not more than can be read."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more:,} more (manifest.json has all)" if more > 0 else "")


def _front_matter(manifest: Manifest) -> Json:
    default = manifest.default_base
    return {
        "pretty_name": f"{manifest.title}, as WebDataset",
        **hub_terms(manifest.license.split(" AND ")),
        "task_categories": [task_category(manifest.roles.modality)],
        "tags": ["distribution-shift", manifest.family, "shiftdata", "webdataset"],
        "configs": [
            {"config_name": base.name}
            | ({"default": True} if base.name == default else {})
            | {"data_files": [_files(base.name, split) for split in base.splits]}
            for base in manifest.bases
        ],
        "dataset_info": [
            {
                "config_name": base.name,
                "features": _features(manifest),
                "splits": split_entries(base.splits),
            }
            for base in manifest.bases
        ],
    }


def _files(base: str, split: str) -> Json:
    return {"split": split, "path": f"data/{base}/{split}-*.tar"}


def _features(manifest: Manifest) -> list[Json]:
    """What `datasets` makes of a sample; without this it would guess from the first five."""
    roles = manifest.roles
    named: dict[str, Feature] = {roles.label: manifest.labels, roles.nuisance: manifest.nuisances}
    held: dict[str, Feature] = {
        name: TYPES.get(kind, str(kind)) for name, kind in columns(roles.nuisance).items()
    } | named
    if roles.modality == "table":
        held |= dict(roles.example)
    first = [name for name in manifest.sample if name not in ("cls", "json")]
    return [
        *({"name": name, "dtype": "string" if name == "txt" else "image"} for name in first),
        _feature("cls", manifest.labels),
        {"name": "json", "struct": [_feature(name, feature) for name, feature in held.items()]},
        {"name": "__key__", "dtype": "string"},
        {"name": "__url__", "dtype": "string"},
    ]


def _feature(name: str, held: Feature) -> Json:
    """One feature: of a type's name, or of a category's names."""
    if isinstance(held, str):
        return {"name": name, "dtype": held}
    names = {str(number): value for number, value in enumerate(held)}
    return {"name": name, "dtype": {"class_label": {"names": names}}}
