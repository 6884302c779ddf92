"""The pages of one dataset, from its manifest and metadata; the same whether they are files or served."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import README
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.places.search import NAMESPACE
from shiftdata.data.places.store import Store
from shiftdata.evaluation.pages.shell import markdown, render
from shiftdata.evaluation.protocols import protocols
from shiftdata.serve.pages.counts import distributions
from shiftdata.serve.pages.rows import Indices, Rows
from shiftdata.serve.pages.sprites import sprite

SIDE = 96  # of a square of a sprite of a group
COVER = 64  # of one in the matrix
COLUMNS = 16
WIDE = 200  # squares in a line of the matrix's sprites at most
#: The scripts of each page, after `data.js`.
SCRIPTS = {"dataset": ("grid.js", "dataset.js"), "example": ("example.js",), "severity": ("severity.js",)}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the pages of a dataset are, and who answers them: by default files.

    `root` and `here` begin the links to the front page's folder and to the dataset's; `up` is the link to its
    page. Without a server, `each` rows (or trajectories) of a group are in the pages.
    """

    root: str = "../"
    here: str = ""
    up: str = "index.html"
    index: str = "index.html"
    each: int = 0
    version: str = ""
    repo_id: str = ""
    endpoint: str = ""
    files: Mapping[str, Any] = field(default_factory=dict)
    file_url: str = ""

    def sample(self, rows: Rows) -> Mapping[tuple[int, int], Indices]:
        """Return the rows of each group that the pages show without a server: the first ones."""
        return rows.sample(self.each) if self.each else {}


def pages_of(dataset: OpenDataset, place: Place) -> dict[str, str]:
    """Return every page of a dataset, by file name."""
    names = {"dataset": "index.html", "example": "example.html"}
    if _is_continuous(dataset.manifest):
        names["severity"] = "severity.html"
    return {file: page(dataset, name, place) for name, file in names.items()}


def page(dataset: OpenDataset, name: str, place: Place) -> str:
    """Render one page: `dataset`, `example` or `severity`."""
    context = vars(place) | {"manifest": dataset.manifest, "page": page_data(dataset, place)}
    context |= _of_dataset_page(dataset, place) if name == "dataset" else {}
    return render(f"{name}.html", scripts=SCRIPTS[name], **context)


def page_data(dataset: OpenDataset, place: Place) -> dict[str, Any]:
    """Return what the scripts of every page of a dataset know without asking."""
    manifest, live = dataset.manifest, not place.each
    return {
        "name": manifest.name,
        "here": place.here,
        "up": place.up,
        "live": live,
        "version": place.version,
        "modality": manifest.roles.modality,
        "pictures": manifest.pixels_included,
        "label": manifest.roles.label,
        "nuisance": manifest.roles.nuisance,
        "labels": list(manifest.labels),
        "nuisances": list(manifest.nuisances),
        "severities": list(manifest.severities) if _is_continuous(manifest) else [],
        "splits": list(SPLITS),
        "bases": [_base_data(Rows.of(dataset, base.name), place) for base in manifest.ordered_bases],
        "tasks": [{"base": base, "words": words} for base, words in tasks_of(manifest)],
        "protocols": sorted(known.id for known in protocols()) if live else [],
    }


def tasks_of(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the tasks of a page's list, base and words: canonical splits, then the sets of each base.

    A base's own sets are mostly balanced, and say less than a canonical split.
    """
    return [
        *((split.base, split.name) for split in manifest.canonical_splits),
        *((base.name, "") for base in manifest.ordered_bases),
    ]


def _base_data(rows: Rows, place: Place) -> dict[str, Any]:
    """Return how many rows each group has, and how the sprites are laid out."""
    sample = place.sample(rows)
    return {
        "name": rows.base,
        "rows": len(rows.metadata),
        "counts": rows.counts.tolist(),
        "severities": rows.severities if rows.is_continuous else [],
        "columns": COLUMNS,
        "wide": min(WIDE, max(1, len(rows.nuisances))),
        "sample": {f"{label},{nuisance}": len(mine) for (label, nuisance), mine in sample.items()},
    }


def cover(rows: Rows, label: int, step: int) -> bytes:
    """Return the line of a label in the matrix, at one step of the severities, as a sprite."""
    wanted = rows.covers(label, step)
    present = [row for row in wanted if row is not None]
    pictures = dict(zip(present, rows.examples(present), strict=True))
    columns = min(WIDE, max(1, len(wanted)))
    return sprite([None if row is None else pictures[row] for row in wanted], COVER, columns)


def wall(rows: Rows, at: Indices) -> bytes:
    """Return the pictures of a group as a sprite."""
    return sprite(rows.examples(at), SIDE, COLUMNS)


def _is_continuous(manifest: Manifest) -> bool:
    return len(manifest.severities) > 1


def _of_dataset_page(dataset: OpenDataset, place: Place) -> dict[str, Any]:
    manifest = dataset.manifest
    rows = Rows.of(dataset, manifest.default_base)
    splits = manifest.canonical_splits
    return {
        "distributions": rows.keep("distributions", lambda: distributions(rows)),
        "card": rows.keep(("card", place.file_url), lambda: card_of(dataset.store, place.file_url)),
        "repo_id": place.repo_id or f"{NAMESPACE}/{manifest.name}",
        "example_config": next((name for name in manifest.configs if manifest.canonical(name)), ""),
        "example_task": splits[0].name if splits else "",
    }


def card_of(store: Store, file_url: str) -> Any:
    """Return the card, if any, without its front matter as HTML; HTML in it is shown as it is written."""
    if not store.has(README):
        return ""
    text = store.read(README).decode(errors="replace")
    text = re.sub(r"\A---\n.*?\n---\n", "", text, count=1, flags=re.DOTALL)
    return markdown(text, file_url)
