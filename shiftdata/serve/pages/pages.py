"""The pages of one dataset, from its manifest and metadata; the same whether they are files or served."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import README
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.places.search import NAMESPACE
from shiftdata.evaluation.pages.shell import render
from shiftdata.extras import require
from shiftdata.serve.pages.counts import base_names, forms, grid
from shiftdata.serve.pages.figures import distributions, duplicates, features
from shiftdata.serve.pages.rows import Indices, Rows
from shiftdata.serve.pages.sprites import sprite

SIDE = 96  # of a square of a sprite of a group
COVER = 64  # of one in the matrix
COLUMNS = 16
PLAIN = (60, 40)  # labels and nuisances of the table that stands for the matrix without JavaScript
WIDE = 200  # squares in a line of the matrix's sprites at most
#: The scripts of each page, after `data.js`.
SCRIPTS = {"dataset": ("grid.js", "dataset.js"), "example": ("example.js",), "severity": ("severity.js",)}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the pages of a dataset stand, and who answers them.

    `root` and `here` are how links to the front page's folder and to the dataset's begin; `up` is the link to
    its page. Without a server, `each` rows (or trajectories) of a group are in the pages, and those whose
    keys `more` has by base.
    """

    root: str
    here: str
    up: str
    index: str = "index.html"
    live: bool = False
    each: int = 0
    version: str = ""
    repo_id: str = ""
    endpoint: str = ""
    files: Sequence[Mapping[str, Any]] = ()
    more_files: int = 0
    file_url: str = ""
    accuracy: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def sample(self, rows: Rows) -> Mapping[tuple[int, int], Indices]:
        """The rows of each group that the pages show without a server: the first ones, and `more`."""
        key = "shown", self.each, tuple(self.more.get(rows.base, ()))
        return rows.keep(key, lambda: self._sample(rows)) if self.each else {}

    def _sample(self, rows: Rows) -> Mapping[tuple[int, int], Indices]:
        known, chosen = rows.metadata, dict(rows.sample(self.each))
        for row in map(rows.row_of, self.more.get(rows.base, ())):
            group = int(known.label[row]), int(known.nuisance[row])
            if row not in chosen[group]:
                chosen[group] = np.append(chosen[group], row)
        return chosen


def pages_of(dataset: OpenDataset, place: Place) -> dict[str, str]:
    """Every page of a dataset, by file name."""
    names = ["dataset", "example", *(["severity"] if _is_continuous(dataset.manifest) else [])]
    return {
        "index.html" if name == "dataset" else f"{name}.html": page(dataset, name, place) for name in names
    }


def page(dataset: OpenDataset, name: str, place: Place) -> str:
    """One page: `dataset`, `example` or `severity`."""
    manifest = dataset.manifest
    more = _of_dataset_page(dataset, place) if name == "dataset" else {}
    return render(
        f"{name}.html",
        root=place.root,
        index=place.index,
        up=place.up,
        manifest=manifest,
        page=page_data(dataset, place),
        scripts=SCRIPTS[name],
        **more,
    )


def page_data(dataset: OpenDataset, place: Place) -> dict[str, Any]:
    """What the scripts of every page of a dataset know without asking."""
    manifest = dataset.manifest
    return {
        "name": manifest.name,
        "here": place.here,
        "up": place.up,
        "live": place.live,
        "version": place.version,
        "modality": manifest.roles.modality,
        "pictures": manifest.pixels_included,
        "label": manifest.roles.label,
        "nuisance": manifest.roles.nuisance,
        "labels": list(manifest.labels),
        "nuisances": list(manifest.nuisances),
        "severities": list(manifest.severities) if _is_continuous(manifest) else [],
        "splits": list(SPLITS),
        "bases": [base_data(Rows.of(dataset, name), place) for name in base_names(manifest)],
        "tasks": [{"base": base, "words": words} for base, words in tasks_of(manifest, place)],
        "forms": forms(manifest) if place.live else [],
        "accuracy": place.accuracy,
    }


def tasks_of(manifest: Manifest, place: Place) -> list[tuple[str, str]]:
    """The tasks of a page's list: without a server, those whose counts it holds."""
    if not place.live:
        return list(grid(manifest))
    return [*((split.base, split.name) for split in manifest.canonical_splits), (base_names(manifest)[0], "")]


def base_data(rows: Rows, place: Place) -> dict[str, Any]:
    """A base: how many rows each group has, and how its sprites are laid out."""
    return {
        "name": rows.base,
        "rows": len(rows.metadata),
        "counts": rows.counts.tolist(),
        "severities": rows.severities if rows.is_continuous else [],
        "columns": COLUMNS,
        "wide": min(WIDE, max(1, len(rows.nuisances))),
        "sample": {f"{label},{nuisance}": len(one) for (label, nuisance), one in place.sample(rows).items()},
    }


def plain_groups(rows: Rows, place: Place) -> dict[str, Any]:
    """Return what the page shows of the groups without JavaScript: counts, and a line of pictures a label."""
    manifest, used = rows.dataset.manifest, rows.nuisances
    columns = used[: PLAIN[1]]
    labels = np.flatnonzero(rows.counts.any(axis=1)).tolist()
    has = rows.modality == "image" and manifest.pixels_included and len(columns) == len(used)
    step = len(rows.severities) - 1 if rows.is_continuous else 0
    version = f"?v={place.version}" if place.live else ""
    return {
        "base": rows.base,
        "columns": [manifest.nuisances[one] if one >= 0 else "untouched" for one in columns],
        "lines": [
            {
                "name": manifest.labels[label],
                "counts": [int(rows.counts[label, one + 1]) for one in columns],
                "picture": f"{place.here}data/covers/{rows.base}-{label}-{step}.webp{version}" if has else "",
            }
            for label in labels[: PLAIN[0]]
        ],
        "more": (max(0, len(labels) - PLAIN[0]), len(used) - len(columns)),
        "side": COVER,
    }


def cover(rows: Rows, label: int, step: int) -> bytes:
    """The line of a label in the matrix, at one step of the severities, as a sprite."""
    wanted = rows.covers(label, step)
    present = [row for row in wanted if row is not None]
    read = dict(zip(present, rows.examples(present), strict=True))
    columns = min(WIDE, max(1, len(wanted)))
    return sprite([None if row is None else read[row] for row in wanted], COVER, columns)


def _is_continuous(manifest: Manifest) -> bool:
    return len(manifest.severities) > 1


def _of_dataset_page(dataset: OpenDataset, place: Place) -> dict[str, Any]:
    manifest = dataset.manifest
    rows = Rows.of(dataset, base_names(manifest)[0])
    config = next((name for name in manifest.configs if manifest.canonical(name)), "")
    splits = manifest.canonical_splits
    return {
        "groups": plain_groups(rows, place),
        "distributions": rows.keep("distributions", lambda: distributions(rows)),
        "features": rows.keep("features", lambda: features(rows)),
        "duplicates": rows.keep("duplicates", lambda: duplicates(rows)),
        "card": rows.keep(("card", place.file_url), lambda: card_html(dataset, place.file_url)),
        "calibrated": calibrated(manifest),
        "repo_id": place.repo_id or f"{NAMESPACE}/{manifest.name}",
        "endpoint": place.endpoint,
        "example_config": config,
        "example_task": splits[0].name if splits else "",
        "files": place.files,
        "more_files": place.more_files,
    }


def calibrated(manifest: Manifest) -> str:
    """In a line: what a small model reaches on the first canonical split that was measured."""
    if manifest.calibration is None or not manifest.calibration.measures:
        return ""
    known = [one for one in manifest.calibration.measures if one.trained.lower() == "erm"]
    one = (known or list(manifest.calibration.measures))[0]
    return (
        f"{one.trained} {'from scratch' if one.mode == 'scratch' else 'on frozen features'} on {one.split}: "
        f"mean {one.mean[0]:.2f}, worst {one.worst[0]:.2f} ({one.worst_cell}), chance {one.chance:.2f}"
    )


def card_html(dataset: OpenDataset, file_url: str) -> Any:
    """The card of a dataset as HTML that needs no escaping."""
    if not dataset.store.has(README):
        return ""
    return require("markupsafe", "a page").Markup(card_of(dataset.store.read(README), file_url))


def card_of(data: bytes, file_url: str) -> str:
    """A card without its front matter as HTML; any HTML in it is shown as it is written."""
    text = re.sub(r"\A---\n.*?\n---\n", "", data.decode(errors="replace"), count=1, flags=re.DOTALL)
    return markdown(text, file_url)


#: What keyboards and screen readers need of Markdown's HTML: what scrolls can be reached, no head is empty.
USABLE = (
    ("<pre>", '<pre tabindex="0">'),
    ("<table>", '<div class="scroll" tabindex="0" role="group" aria-label="table"><table>'),
    ("</table>", "</table></div>"),
    ("<th></th>", "<td></td>"),
)


def markdown(text: str, file_url: str) -> str:
    """Markdown of a stranger as HTML: no tags of its own, pictures and links to files below `file_url`."""
    reader = require("markdown_it", "a page").MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(text)
    for token in tokens:
        for one in (token, *(token.children or ())):
            for name in ("src", "href"):
                url = str(one.attrGet(name) or "")
                if url and not re.match(r"[a-z][a-z0-9+.-]*:|#|/", url):
                    one.attrSet(name, f"{file_url}{url}")
            if one.type == "image" and re.match(r"[a-z]+:|//", str(one.attrGet("src") or "")):
                one.attrSet("src", "")  # the policy would forbid it
            if one.type == "image":
                one.attrSet("loading", "lazy")
    text = str(reader.renderer.render(tokens, reader.options, {}))
    for plain, usable in USABLE:  # every other `<` of a text is escaped by now
        text = text.replace(plain, usable)
    return text
