"""The README of a dataset in WebDataset format: YAML for `datasets` and the Hub, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from shiftdata.format.attribution import ATTRIBUTION
from shiftdata.format.front_matter import cell, linked, split_entries, task_category, yaml_lines
from shiftdata.format.licenses import hub_terms
from shiftdata.format.manifest import Manifest
from shiftdata.format.paths import data_prefix
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
        m=manifest,
        citation=linked(manifest.citation),
        front="\n".join(yaml_lines(_front_matter(manifest))),
        preview="\n![Examples](preview.jpg)\n" if "preview.jpg" in manifest.files else "",
        name=manifest.name.removesuffix("_wds"),
        content_id=manifest.content_id[:16],
        nuisance=roles.nuisance,
        Nuisance=roles.nuisance.capitalize(),
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
        attribution=f" [{ATTRIBUTION}]({ATTRIBUTION}) lists them." if ATTRIBUTION in manifest.files else "",
    )


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence, not more than can be read."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more:,} more (manifest.json has all)" if more > 0 else "")


def _front_matter(manifest: Manifest) -> Json:
    configs = []
    for base in manifest.bases:
        default = {"default": True} if base.name == manifest.default_base else {}
        files = [{"split": split, "path": f"{data_prefix(base.name, split)}*.tar"} for split in base.splits]
        configs.append({"config_name": base.name} | default | {"data_files": files})
    features = _features(manifest)
    return {
        "pretty_name": f"{manifest.title}, as WebDataset",
        **hub_terms(manifest.license.split(" AND ")),
        "task_categories": [task_category(manifest.roles.modality)],
        "tags": ["distribution-shift", manifest.family, "shiftdata", "webdataset"],
        "configs": configs,
        "dataset_info": [
            {"config_name": base.name, "features": features, "splits": split_entries(base.splits)}
            for base in manifest.bases
        ],
    }


def _features(manifest: Manifest) -> list[Json]:
    """What `datasets` makes of a sample; without this it would guess from the first five."""
    roles = manifest.roles
    fields: dict[str, Feature] = {
        name: TYPES.get(kind, str(kind)) for name, kind in columns(roles.nuisance).items()
    }
    fields |= {roles.label: manifest.labels, roles.nuisance: manifest.nuisances}
    if roles.modality == "table":
        fields |= dict(roles.example)
    first = [name for name in manifest.sample if name not in ("cls", "json")]
    return [
        *({"name": name, "dtype": "string" if name == "txt" else "image"} for name in first),
        _feature("cls", manifest.labels),
        {"name": "json", "struct": [_feature(name, feature) for name, feature in fields.items()]},
        {"name": "__key__", "dtype": "string"},
        {"name": "__url__", "dtype": "string"},
    ]


def _feature(name: str, feature: Feature) -> Json:
    """One feature: a type by name, or a category by the names of its values."""
    if isinstance(feature, str):
        return {"name": name, "dtype": feature}
    names = {str(number): value for number, value in enumerate(feature)}
    return {"name": name, "dtype": {"class_label": {"names": names}}}
