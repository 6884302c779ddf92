"""The YAML of every card, so that plain `datasets` finds configs and splits, and the cells of its tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from shiftdata.format.manifest import Manifest, Split
from shiftdata.format.schema import SPLITS

Entry: TypeAlias = dict[str, Any]

#: What is written one line an entry: every load of any config parses all of it.
LISTS = ("configs", "dataset_info")


def config_entry(manifest: Manifest, name: str) -> Entry:
    """A config of a Parquet dataset: its files, and the filters of a canonical split."""
    config = manifest.config(name)
    base = config.base if config else manifest.default_base if name == "metadata" else name
    pattern = f"metadata/{base}/{{}}.parquet" if name == "metadata" else f"data/{base}/{{}}-*.parquet"
    entry: Entry = {"config_name": name}
    if name == manifest.config_names()[0]:
        entry["default"] = True
    splits = manifest.splits_of(name) or SPLITS  # a card may be drawn before anything is built
    entry["data_files"] = [{"split": split, "path": pattern.format(split)} for split in splits]
    if config:
        entry["filters"] = [[list(condition) for condition in clause] for clause in config.filters]
    return entry


def split_entries(splits: Mapping[str, Split]) -> list[Entry]:
    """How much each split holds, as `datasets` checks it."""
    return [
        {"name": name, "num_bytes": split.bytes, "num_examples": split.rows} for name, split in splits.items()
    ]


def task_category(modality: str) -> str:
    """What the Hub calls the task.

    >>> task_category("image"), task_category("table")
    ('image-classification', 'tabular-classification')
    """
    return f"{'tabular' if modality == 'table' else modality}-classification"


def yaml_lines(front: Mapping[str, Any]) -> Iterator[str]:
    """The front matter, in which JSON is YAML."""
    for key, value in front.items():
        if key in LISTS:
            yield f"{key}:"
            yield from (f"- {json.dumps(entry, ensure_ascii=False)}" for entry in value)
        else:
            yield f"{key}: {json.dumps(value, ensure_ascii=False)}"


def cell(text: object) -> str:
    r"""Text that cannot break the table or the line it stands in.

    >>> print(cell("a|b <c>"))
    a\|b \<c\>
    """
    plain = str(text).replace("\\", "\\\\")
    for mark in "|<>*_`[]":
        plain = plain.replace(mark, f"\\{mark}")
    return " ".join(plain.split())
