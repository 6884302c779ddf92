"""The pages of datasets, from manifests and metadata; the same whether they are files or served."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import README
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.loading.sprites import as_webp, sprite
from shiftdata.data.places.search import NAMESPACE
from shiftdata.data.places.store import Store
from shiftdata.errors import NotFoundError
from shiftdata.evaluation.duplicates import summary_of
from shiftdata.evaluation.pages.shell import as_size, markdown, render
from shiftdata.evaluation.protocols import parse_protocol, protocols, task
from shiftdata.serve.pages.duplicates_page import clusters_data, last_duplicates, with_duplicates
from shiftdata.serve.pages.rows import Rows
from shiftdata.untrusted.pictures import decoded_picture

SIDE = 96  # of a square of a sprite of a group
COVER = 64  # of one in the matrix
COLUMNS = 16
WIDE = 200  # squares in a line of the matrix's sprites at most
#: Sets of one task whose counts are shown: a protocol may cut a set into hundreds; bars of one chart at most.
MOST_SETS, MOST_BARS = 12, 40
#: Pictures of a card; the front page shows the first that exists, within these pixels.
PICTURES, CARD = ("preview.jpg", "groups.png"), (480, 240)
#: Characters by which a dataset is found.
MOST_SEARCHED = 4000
#: The scripts of each page, after `data.js`.
SCRIPTS = {
    "dataset": ("grid.js", "dataset.js"),
    "duplicates": ("duplicates.js",),
    "example": ("example.js",),
    "severity": ("severity.js",),
}


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

    def sample(self, rows: Rows) -> Mapping[tuple[int, int], IntArray]:
        """Return the rows of each group that the pages show without a server: first ones, near-duplicates."""
        if not self.each:
            return {}
        return rows.keep(("shown", self.each), lambda: with_duplicates(rows, rows.sample(self.each)))


def entry_of(known: Manifest, url: str, repo_id: str, picture: str = "") -> dict[str, str]:
    """Return what the front page shows of a dataset; `picture` is the address of its picture, or empty."""
    facts = f"{len(known.labels)} {known.roles.label}s, {len(known.nuisances)} {known.roles.nuisance}s"
    facts += f" in {len(known.severities)} severities" if len(known.severities) > 1 else ""
    facts += f"; {known.rows:,} rows, {as_size(known.bytes)}"
    facts += "" if known.pixels_included else "; splits only"
    texts = [known.name, known.title, known.summary, known.family, known.license]
    search = " ".join([*texts, *known.labels[:200], *known.nuisances[:200]]).lower()[:MOST_SEARCHED]
    return {
        "name": known.name,
        "title": known.title,
        "license": known.license,
        "facts": facts,
        "shift": known.family.replace("-", " "),
        "calibrated": str(known.calibration or ""),
        "url": url,
        "repo_id": repo_id,
        "picture": picture,
        "search": search,
    }


def card_picture(dataset: OpenDataset) -> bytes | None:
    """The upper left of the picture on a dataset's card, its first groups; None if the card has none."""
    name = next((name for name in PICTURES if name in dataset.manifest.files), None)
    if name is None:
        return None
    picture = decoded_picture(dataset.read_file(name), name=name)
    width = min(picture.width, max(CARD[0], round(picture.width * 0.6)))
    part = picture.crop((0, 0, width, min(picture.height, width * CARD[1] // CARD[0])))
    part.thumbnail(CARD, Image.Resampling.LANCZOS)
    return as_webp(part)


def pages_of(dataset: OpenDataset, place: Place) -> dict[str, str]:
    """Return every page of a dataset, by file name."""
    names = {"dataset": "index.html", "example": "example.html"}
    if _is_continuous(dataset.manifest):
        names["severity"] = "severity.html"
    if last_duplicates(dataset.manifest) is not None:
        names["duplicates"] = "duplicates.html"
    return {file: page(dataset, name, place) for name, file in names.items()}


def page(dataset: OpenDataset, name: str, place: Place) -> str:
    """Render one page: `dataset`, `duplicates`, `example` or `severity`."""
    data = page_data(dataset, place)
    if name == "duplicates":
        if (found := last_duplicates(dataset.manifest)) is None:
            raise NotFoundError(f"run `shiftdata duplicates {dataset.manifest.name}` first, on this machine")
        rows = Rows.of(dataset, found.base)
        data["found"] = clusters_data(found, rows, place.sample(rows))
    context = vars(place) | {"manifest": dataset.manifest, "page": data}
    context |= _of_dataset_page(dataset, place) if name == "dataset" else {}
    return render(f"{name}.html", scripts=SCRIPTS[name], **context)


def page_data(dataset: OpenDataset, place: Place) -> dict[str, Any]:
    """Return what the scripts of every page of a dataset know without asking."""
    manifest, live = dataset.manifest, not place.each
    found = last_duplicates(manifest)
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
        "duplicates": "" if found is None else summary_of(found),
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


def wall(rows: Rows, at: IntArray) -> bytes:
    """Return the pictures of a group as a sprite."""
    return sprite(rows.examples(at), SIDE, COLUMNS)


def _is_continuous(manifest: Manifest) -> bool:
    return len(manifest.severities) > 1


def _of_dataset_page(dataset: OpenDataset, place: Place) -> dict[str, Any]:
    manifest = dataset.manifest
    rows = Rows.of(dataset, manifest.default_base)
    splits = manifest.canonical_splits
    config = next((name for name in manifest.configs if manifest.canonical(name)), "")
    return {
        "distributions": rows.keep("distributions", lambda: distributions(rows)),
        "card": rows.keep(("card", place.file_url), lambda: card_of(dataset.store, place.file_url)),
        "repo_id": place.repo_id or f"{NAMESPACE}/{manifest.name}",
        "example_config": config,
        "example_split": next(iter(manifest.splits_of(config or manifest.default_config))),
        "example_task": splits[0].name if splits else "",
    }


def card_of(store: Store, file_url: str) -> Any:
    """Return the card, if any, without its front matter as HTML; HTML in it is shown as it is written."""
    if not store.has(README):
        return ""
    text = store.read(README).decode(errors="replace")
    text = re.sub(r"\A---\n.*?\n---\n", "", text, count=1, flags=re.DOTALL)
    return markdown(text, file_url)


def counts_of(dataset: OpenDataset, base: str, words: str) -> dict[str, Any]:
    """Return the groups of every set of the task that `shiftdata.task` makes of the same words.

    `words` name a canonical split or protocols; empty, they are the sets of the base itself.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a protocol that leaks says so in the notes of the page
        protocol = words if dataset.manifest.canonical(words) else parse_protocol(words)
        report = task(dataset, protocol, base=base, on_empty="report").report()
    shown = list(report.sets.items())[:MOST_SETS]
    return {
        "words": words,
        "task": report.task,
        "leaks": report.leaks,
        "notes": list(report.notes),
        "more": len(report.sets) - len(shown),
        "sets": [
            vars(rows) | {"name": name, "counts": np.ravel(rows.counts).tolist(), "empty": len(rows.empty)}
            for name, rows in shown
        ],
    }


def distributions(rows: Rows) -> list[dict[str, Any]]:
    """Count rows by split, label, nuisance and severity."""
    known, label = rows.metadata, rows.dataset.manifest.roles.label
    steps, at_step = np.unique(known.columns["severity"], return_inverse=True)
    columns = {
        "splits": (list(SPLITS), known.columns["split"]),
        f"{label}s": (known.labels, known.label),
        f"{known.nuisance_column}s": (known.nuisances, known.nuisance[known.nuisance >= 0]),
        "severities": ([f"{step:g}" for step in steps], at_step if rows.is_continuous else at_step[:0]),
    }
    charts = [_chart(caption, names, codes) for caption, (names, codes) in columns.items()]
    return [chart for chart in charts if chart["pairs"]]


def _chart(caption: str, names: Collection[str], codes: NDArray[np.integer]) -> dict[str, Any]:
    """Return a chart of bars; of more than fit the longest."""
    counts = np.bincount(codes, minlength=len(names)).tolist()
    pairs = [(name, count) for name, count in zip(names, counts, strict=True) if count]
    if len(pairs) > MOST_BARS:
        caption = f"{caption}: the largest {MOST_BARS} of {len(pairs):,}"
        pairs = sorted(pairs, key=lambda pair: -pair[1])[:MOST_BARS]
    return {"caption": caption, "pairs": pairs}
