"""The YAML of every card, from which plain `datasets` takes configs and splits, and table cells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import CanonicalSet, Split
from shiftdata.errors import InputError

Entry: TypeAlias = dict[str, Any]

#: How many virtual configs and bytes of YAML a card may have: every load of any config parses all of it.
MOST_VIRTUAL = 24
MOST_BYTES = 100_000

SPLIT_NAME = re.compile(r"\w+(\.\w+)*")  # as `datasets` takes it
ARXIV = re.compile(r"arXiv:([0-9]{4}\.[0-9]{4,5})(?:v[0-9]+)?")

#: The keys whose entries are written one a line.
LISTS = ("configs", "dataset_info", "tasks")


def config_entry(manifest: Manifest, name: str) -> Entry:
    """Return a config of a Parquet dataset: its files, and the filters of a canonical split."""
    config, entry = manifest.configs[name], Entry(config_name=name)
    if name == manifest.default_config:
        entry["default"] = True
    entry["data_files"] = [
        {"split": split, "path": files if len(files) > 1 else files[0]}
        for split, files in config.files.items()
    ]
    if config.filters is not None:
        entry["filters"] = [[list(condition) for condition in clause] for clause in config.filters]
    return entry


def loading_entries(manifest: Manifest) -> dict[str, list[Entry]]:
    """Return the part of the YAML that `datasets` reads: every config, and the sizes of its splits."""
    configs = manifest.configs
    entries = {"configs": [config_entry(manifest, name) for name in configs]}
    sizes = [
        {"config_name": name, "splits": split_entries(config.splits)}
        for name, config in configs.items()
        if name != "metadata"
    ]
    if manifest.files and sizes:  # else nothing is built, or the examples are not published
        entries["dataset_info"] = sizes
    return entries


def is_config(sets: Mapping[str, CanonicalSet]) -> bool:
    """Return True if a config can give each set: by whole files, or by filters on splits that no two share.

    The filters of a config act on all its splits, and `datasets` refuses some names of splits.
    """
    if not all(map(SPLIT_NAME.fullmatch, sets)):
        return False
    read = [split for rows in sets.values() for split in rows.splits]
    filtered = all(rows.filters is not None for rows in sets.values()) and len(set(read)) == len(read)
    return filtered or all(rows.files for rows in sets.values())


def check_size(lines: Sequence[str], configs: int) -> None:
    """Refuse a card of which every load would parse too much."""
    size = sum(len(line.encode()) + 1 for line in lines)
    if configs > MOST_VIRTUAL or size > MOST_BYTES:
        raise InputError(
            f"the card would have {configs} virtual configs and {size:,} bytes of YAML, and every load "
            f"parses all of it: at most {MOST_VIRTUAL} and {MOST_BYTES:,}. Give the recipe a lower "
            "`virtual`: only that many of its first protocols become configs, the others are key files"
        )


def split_entries(splits: Mapping[str, Split]) -> list[Entry]:
    """Return the sizes of splits, as `datasets` checks them."""
    return [
        {"name": name, "num_bytes": split.bytes, "num_examples": split.rows} for name, split in splits.items()
    ]


def task_category(modality: str) -> str:
    """Return the Hub's name of the task."""
    return f"{'tabular' if modality == 'table' else modality}-classification"


def tags(manifest: Manifest, *more: str) -> list[str]:
    """Return the tags of a card: those by which the Hub finds datasets, and the papers that it cites."""
    papers = dict.fromkeys(f"arxiv:{paper}" for paper in ARXIV.findall(manifest.citation))
    return ["distribution-shift", manifest.family, "shiftdata", *more, *papers]


def yaml_lines(front: Mapping[str, Any]) -> Iterator[str]:
    """Yield the front matter, in which JSON is YAML."""
    for key, value in front.items():
        if key in LISTS:
            yield f"{key}:"
            yield from (f"- {json.dumps(entry, ensure_ascii=False)}" for entry in value)
        else:
            yield f"{key}: {json.dumps(value, ensure_ascii=False)}"


def linked(citation: str) -> str:
    """Return a citation in which each arXiv id links to its paper.

    >>> linked("A. Author. A paper. arXiv:2305.15253v2.")
    'A. Author. A paper. [arXiv:2305.15253v2](https://arxiv.org/abs/2305.15253).'
    """
    return ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", citation)


def cell(text: object) -> str:
    r"""Return text that cannot break the table or the line around it.

    >>> print(cell("a|b <c>"))
    a\|b \<c\>
    """
    plain = str(text).replace("\\", "\\\\")
    for mark in "|<>*_`[]":
        plain = plain.replace(mark, f"\\{mark}")
    return " ".join(plain.split())
