"""Render a dataset's README from its manifest: YAML for `datasets` and the Hub, prose for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from shiftdata.errors import MissingExtraError
from shiftdata.manifest import Config, Manifest, Split
from shiftdata.schema import SPLITS

CARDS = Path(__file__).resolve().parent.parent / "cards"
TEMPLATE = "dataset.md.jinja"
SIZES = {
    1_000: "n<1K",
    10_000: "1K<n<10K",
    100_000: "10K<n<100K",
    1_000_000: "100K<n<1M",
    10_000_000: "1M<n<10M",
}


def render_card(manifest: Manifest) -> str:
    """The whole README.md."""
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError(
            "cards need jinja2, which is not installed: pip install -e '.[build]'"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(CARDS), undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    dropped = [
        (base, reason, count)
        for base, reasons in manifest.dropped.items()
        for reason, count in sorted(reasons.items())
    ]
    return environment.get_template(TEMPLATE).render(
        m=manifest,
        splits=list(SPLITS),
        default=manifest.base(manifest.default_base),
        dropped=dropped,
        front_matter=_yaml(front_matter(manifest)),
    )


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """The card's YAML: licence, sizes, and every config with its files, filters and counts."""
    default = manifest.base(manifest.default_base)
    splits_of: dict[str, Mapping[str, Split]] = {base.name: base.splits for base in manifest.bases}
    splits_of |= {config.name: config.splits for config in manifest.configs}
    virtual = {config.name: config for config in manifest.configs}
    configs = [_config(manifest, name, virtual) for name in manifest.config_names()]
    return {
        "pretty_name": manifest.title,
        "license": [part.lower() for part in manifest.license.split(" AND ")],
        "task_categories": ["image-classification"],
        "tags": ["distribution-shift", manifest.family, "shiftdata"],
        "size_categories": [_size(sum(split.rows for split in default.splits.values()))],
        "configs": configs,
        "dataset_info": [
            {"config_name": name, "splits": [_split(split, splits[split]) for split in SPLITS]}
            for name, splits in splits_of.items()
        ],
    }


def _config(manifest: Manifest, name: str, virtual: Mapping[str, Config]) -> dict[str, Any]:
    config = virtual.get(name)
    base = config.base if config else manifest.default_base if name == "metadata" else name
    pattern = f"metadata/{base}/{{}}.parquet" if name == "metadata" else f"data/{base}/{{}}-*.parquet"
    entry: dict[str, Any] = {"config_name": name}
    if name == manifest.default_base:
        entry["default"] = True
    entry["data_files"] = [{"split": split, "path": pattern.format(split)} for split in SPLITS]
    if config:
        entry["filters"] = [[list(condition) for condition in clause] for clause in config.filters]
    return entry


def _split(name: str, split: Split) -> dict[str, Any]:
    return {"name": name, "num_bytes": split.bytes, "num_examples": split.rows}


def _size(rows: int) -> str:
    return next((name for limit, name in SIZES.items() if rows < limit), "n>10M")


def _yaml(front: dict[str, Any]) -> str:
    """One line a config: every load of any config parses all of it, and block style is half as long again."""
    lines = []
    for key, value in front.items():
        if key in ("configs", "dataset_info"):
            lines.append(f"{key}:")
            lines += [f"- {_flow(entry)}" for entry in value]
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines)


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(
        value, default_flow_style=True, width=float("inf"), sort_keys=False, allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...")
