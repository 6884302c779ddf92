"""How many rows each group has in each set of a task: the heat maps of a dataset's page."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.evaluation.protocols import parse_protocol, protocols, task
from shiftdata.evaluation.protocols.base import REQUIRED
from shiftdata.evaluation.tasks import Task

#: Sets of one task whose counts are shown: a protocol may cut a set into hundreds.
MOST_SETS = 12
#: What the pages without a server hold beside the canonical splits, at most.
MOST_TASKS = 120


def counts_of(dataset: OpenDataset, base: str, words: str) -> dict[str, Any]:
    """The groups of every set of a task: of canonical split `words`, of protocols, or of neither.

    Exactly what `shiftdata.task` makes of the same words; what it refuses is refused.
    """
    manifest = dataset.manifest
    split = manifest.canonical(words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a protocol that leaks says so in the notes of the page
        made = task(dataset, words if split else parse_protocol(words), base=base, on_empty="report")
    report = made.report()
    shown = list(report.sets.items())[:MOST_SETS]
    return {
        "words": words,
        "task": report.task,
        "leaks": report.leaks,
        "notes": list(report.notes),
        "more": len(report.sets) - len(shown),
        "sets": [
            {
                "name": name,
                "roles": list(one.roles),
                "examples": one.examples,
                "origins": one.origins,
                "empty": len(one.empty),
                "counts": np.array(one.counts, np.int64).ravel().tolist(),
                "untouched": _untouched(made, name),
            }
            for name, one in shown
        ],
    }


def _untouched(made: Task, name: str) -> list[int]:
    """Count the rows of each label in a set that are in no group: those without a nuisance."""
    rows, metadata = made.sets[name], made.metadata
    alone = metadata.group[rows.indices] < 0
    labels = metadata.label[rows.indices][alone]
    weights = None if rows.counts is None else rows.counts[alone]
    return [int(count) for count in np.bincount(labels, weights, minlength=len(metadata.labels))]


def forms(manifest: Manifest) -> list[dict[str, Any]]:
    """Every protocol with its parameters and their defaults, those of the canonical splits first."""
    used = {split.protocol.partition(" ")[0].partition("@")[0] for split in manifest.canonical_splits}
    known = sorted(protocols(), key=lambda one: (one.id not in used, one.id))
    return [
        {
            "id": one.id,
            "about": one.about,
            "paper": one.paper,
            "parameters": [
                {"name": name, "default": _shown(value), "required": value is REQUIRED}
                for name, value in one.parameters().items()
                if name != "variant"
            ],
        }
        for one in known
    ]


def grid(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """The tasks that pages without a server hold, base and words: canonical splits, bases, steps around them.

    Pages show the first of them. A base's own sets are mostly balanced, and say less than a canonical split.
    """
    made: dict[tuple[str, str], None] = {
        (split.base, split.name): None for split in manifest.canonical_splits
    }
    made |= {(base, ""): None for base in base_names(manifest)}
    for split in manifest.canonical_splits:
        made |= {(split.base, words): None for words in _around(split.protocol)}
    yield from list(made)[:MOST_TASKS]


def base_names(manifest: Manifest) -> list[str]:
    """The bases, the default one first."""
    names = (base.name for base in manifest.bases)
    return sorted(names, key=lambda name: (name != manifest.default_base, name))


def _around(words: str) -> list[str]:
    """A canonical split's protocol with other seeds, and other strengths where it has them."""
    steps: Mapping[str, tuple[str, ...]] = {
        "mu": ("0.05", "0.1", "0.2", "0.5", "1"),
        "alpha": ("0.5", "1", "3", "10"),
    }
    parts = [word for word in words.split() if not word.startswith("seed=")]
    if "'" in words or not any(word.split("=")[0] in steps for word in parts):
        return []
    made = []
    for seed in ("0", "1", "2"):
        for at, word in enumerate(parts):
            for value in steps.get(word.split("=")[0], ()):
                changed = [*parts[:at], f"{word.split('=')[0]}={value}", *parts[at + 1 :]]
                made.append(" ".join([*changed, f"seed={seed}"]))
    return made


def _shown(value: Any) -> str:
    """A default as it is written in the words of a task."""
    if value is REQUIRED or value in ("", ()):
        return ""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
