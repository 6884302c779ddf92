"""The README of a dataset in WebDataset format: YAML for `datasets` and the Hub, and how to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from shiftdata.data.format.croissant import render_croissant
from shiftdata.data.format.front_matter import cell, linked, split_entries, tags, task_category, yaml_lines
from shiftdata.data.format.licenses import hub_terms
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import ATTRIBUTION, CROISSANT, README, data_files, data_prefix
from shiftdata.data.format.schema import Feature, columns, json_columns

Json: TypeAlias = dict[str, Any]

TYPES = {pa.float64(): "float64", pa.string(): "string"}

TEMPLATE = Path(__file__).with_name("card.md")


def renderings(manifest: Manifest) -> dict[str, str]:
    """Render the texts that describe the tars; each depends on the manifest alone."""
    return {README: card(manifest), CROISSANT: render_croissant(manifest)}


def card(manifest: Manifest) -> str:
    """Render the README.md of a dataset in WebDataset format from its manifest alone."""
    roles, default = manifest.roles, manifest.base(manifest.default_base)
    first = next(
        (name for name in default.splits if not default.hides_labels(name)), next(iter(default.splits))
    )
    example = next(iter(manifest.sample)) if roles.modality != "table" else "json"
    target = "cls" if not default.hides_labels(first) else "json"
    return TEMPLATE.read_text(encoding="utf-8").format(
        m=manifest,
        citation=linked(manifest.citation),
        front="\n".join(yaml_lines(_front_matter(manifest))),
        preview="\n![Examples](preview.jpg)\n" if "preview.jpg" in manifest.files else "",
        name=manifest.name.removesuffix("_wds"),
        content_id=manifest.content_id[:16],
        config=default.name,
        how="of" if default.task else "base",
        set=first,
        braces=_braces(data_files(manifest.files, default.name, first)),
        nuisance=roles.nuisance,
        example={"table": "row", "text": "text"}.get(roles.modality, "image"),
        target="label" if target == "cls" else "info",
        pair=f'"{example}", "{target}"',
        members=", ".join(manifest.sample),
        files=", ".join(f"`<key>.{member}`" for member in manifest.sample),
        configs="\n".join(_table(manifest)),
        attribution=f" [{ATTRIBUTION}]({ATTRIBUTION}) lists them." if ATTRIBUTION in manifest.files else "",
    )


def _braces(paths: Sequence[str]) -> str:
    """Write the numbers of a set's tars as the library expands them: `{00000..00015}-of-00016`."""
    last = f"{len(paths) - 1:05d}"
    return f"{{00000..{last}}}-of-{len(paths):05d}" if len(paths) > 1 else f"00000-of-{len(paths):05d}"


def _table(manifest: Manifest) -> Iterator[str]:
    """List the bases and tasks with their sets, and the roles of these."""
    for base in manifest.bases:
        roles = {name: f" ({' and '.join(of_set)})" for name, of_set in base.roles.items()}
        sets = [f"`{name}`{roles.get(name, '')} {size.rows:,}" for name, size in base.splits.items()]
        about = f" `{base.protocol}` on `{base.task.base}`." if base.task else ""
        yield f"| `{base.name}` | {', '.join(sets)} | {cell(base.summary)}{about} |"


def _front_matter(manifest: Manifest) -> Json:
    configs = []
    for base in manifest.bases:
        default = {"default": True} if base.name == manifest.default_base else {}
        files = [{"split": split, "path": f"{data_prefix(base.name, split)}*.tar"} for split in base.splits]
        configs.append({"config_name": base.name} | default | {"data_files": files})
    features = _features(manifest)
    return {
        "pretty_name": f"{manifest.title}, as WebDataset",
        **hub_terms(manifest.license),
        "task_categories": [task_category(manifest.roles.modality)],
        "tags": tags(manifest, "webdataset"),
        "configs": configs,
        "dataset_info": [
            {"config_name": base.name, "features": features, "splits": split_entries(base.splits)}
            for base in manifest.bases
        ],
    }


def _features(manifest: Manifest) -> list[Json]:
    """List the features of a sample; `datasets` would guess them from the first five."""
    roles = manifest.roles
    fields: dict[str, Feature] = {
        name: TYPES.get(kind, str(kind))
        for name, kind in columns(roles.nuisance).items()
        if name in json_columns(roles.nuisance)
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
