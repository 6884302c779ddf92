"""The pages of datasets, from manifests and metadata; the same whether they are files or served."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.licenses import rights
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import README
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.loading.sprites import as_webp, sprite
from shiftdata.data.places.search import NAMESPACE
from shiftdata.data.places.store import Store
from shiftdata.errors import NotFoundError
from shiftdata.evaluation.charts import CELL, GAP
from shiftdata.evaluation.duplicates import summary_of
from shiftdata.evaluation.pages.shell import as_size, markdown, render
from shiftdata.evaluation.protocols import parse_protocol, protocols, task
from shiftdata.serve.pages.duplicates_page import clusters_data, last_duplicates, with_duplicates
from shiftdata.serve.pages.rows import Rows
from shiftdata.serve.pages.verdict import MOST_MADE, NOUNS, lead_of, leaks_of, strip_of, verdict
from shiftdata.untrusted.pictures import decoded_picture

SIDE = 96  # of a square of a sprite of a group
COVER = 64  # of one in the matrix
COLUMNS = 16
WIDE = 200  # squares in a line of the matrix's sprites at most
#: Sets of one task whose counts are shown: a protocol may cut a set into hundreds; bars of one chart at most.
MOST_SETS, MOST_BARS = 12, 40
#: The contact sheet of a card, and the pictures across and down that the front page shows of it.
PREVIEW, SHOWN = "preview.jpg", (8, 4)
#: Characters of a text on the front page.
MOST_QUOTED = 140
#: Characters by which a dataset is found.
MOST_SEARCHED = 4000
#: The parameters of protocols, in words.
PARAMETERS = {
    "k": "classes of group-fairness, each of them mostly in one nuisance of its own",
    "mu": "the share of rows that a class keeps in other nuisances, relative to its own; 1 is balance",
    "nu": "the range of the share of rows that a class keeps in its own nuisance, from 0.3 to 1 by default",
    "alpha": "how far label-shift goes: the smaller, the more unequal the labels of the target",
    "test, source, target": "names of nuisances, such as test=a or source=a,b target=c",
    "dominant, minor": "nuisances with many and with few training rows of each class, in flexible-dg",
    "seed": "another draw of classes, nuisances or rows",
}
#: The scripts of each page, after `data.js`.
SCRIPTS = {
    "dataset": ("grid.js", "rows.js", "dataset.js"),
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
    noun = NOUNS[known.roles.modality]
    facts = (
        f"{known.rows:,} {noun}s, {len(known.labels)} classes, {len(known.nuisances)} {known.roles.nuisance}s"
    )
    facts += f" in {len(known.severities)} severities" if len(known.severities) > 1 else ""
    facts += f", {as_size(known.bytes)}" if known.pixels_included else f"; splits only, without the {noun}s"
    features = ", ".join(known.roles.example) if known.roles.modality == "table" else ""
    quote = str(known.sample.get("text", features))
    texts = [known.name, known.title, known.summary, known.family, known.license]
    search = " ".join([*texts, *known.labels[:200], *known.nuisances[:200]]).lower()[:MOST_SEARCHED]
    return {
        "name": known.name,
        "title": known.title,
        "license": known.license,
        "facts": facts,
        "shift": known.family.replace("-", " "),
        "use": "|use=commercial" if rights(known.license)["commercial"] == "yes" else "",
        "quote": quote[:MOST_QUOTED],
        "url": url,
        "repo_id": repo_id,
        "picture": picture if PREVIEW in known.files else "",
        "search": search,
    }


def card_picture(dataset: OpenDataset) -> bytes | None:
    """Cut whole pictures, without their names, out of the contact sheet on a card; None if there is none."""
    if PREVIEW not in dataset.manifest.files:
        return None
    sheet, step = decoded_picture(dataset.read_file(PREVIEW), name=PREVIEW), CELL + GAP
    across, down = (
        min(most, max(1, (side - GAP) // step - 1)) for most, side in zip(SHOWN, sheet.size, strict=True)
    )
    width, height = sheet.size
    return as_webp(sheet.crop((width - across * step, height - down * step, width - GAP, height - GAP)))


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
    most = len(splits) if place.each else MOST_MADE  # files have the counts of every task, and time for it
    config = next((name for name in manifest.configs if manifest.canonical(name)), "")
    return {
        "lead": lead_of(manifest),
        "verdict": rows.keep("verdict", lambda: verdict(rows, most)),
        "strip": rows.keep(("strip", place.each), lambda: strip_of(rows, place.sample(rows))),
        "leaks": list(leaks_of(rows, most)[0].items()),
        "traces": [
            (trace.name, target, trace.accuracy, trace.chance, trace.plainest, trace.alone)
            for kind, target in (("label", manifest.roles.label), ("nuisance", manifest.roles.nuisance))
            for trace in (manifest.shortcuts.traces if manifest.shortcuts else ())
            if trace.target == kind
        ],
        "credits": [(credit.license, credit.attribution, credit.rows) for credit in manifest.credits],
        "works": [(work.name, work.license, work.attribution) for work in manifest.materials],
        "splits": [(split.name, " ".join([split.summary, *split.notes])) for split in splits],
        "parameters": PARAMETERS,
        "examples": _examples(manifest),
        "protocols": [
            (known.id, known.about, " ".join(_parameter(*pair) for pair in known.parameters().items()))
            for known in protocols()
        ],
        "distributions": rows.keep("distributions", lambda: distributions(rows)),
        "card": rows.keep(("card", place.file_url), lambda: card_of(dataset.store, place.file_url)),
        "repo_id": place.repo_id or f"{NAMESPACE}/{manifest.name}",
        "example_config": config,
        "example_split": next(iter(manifest.splits_of(config or manifest.default_config))),
        "example_task": splits[0].name if splits else "",
    }


def _parameter(name: str, value: Any) -> str:
    """Write a parameter with its default, if it has one that says something."""
    return f"{name}={value}" if isinstance(value, int | float) else name


def _examples(manifest: Manifest) -> list[str]:
    """Return words that make tasks of this dataset."""
    names = [name for name in manifest.nuisances if re.fullmatch(r"[\w-]+", name)][:1]
    conditions = [f"{manifest.roles.nuisance}!={name}" for name in names]
    return [
        "group-fairness k=2 mu=0.1",
        *(f"leave-one-domain-out test={name}" for name in names),
        *conditions,
    ]


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
    """Count rows by split, label, nuisance and severity, where there are several."""
    known, label = rows.metadata, rows.dataset.manifest.roles.label
    steps, at_step = np.unique(known.columns["severity"], return_inverse=True)
    columns = {
        "splits": (list(SPLITS), known.columns["split"]),
        f"{label}s": (known.labels, known.label[known.label >= 0]),
        f"{known.nuisance_column}s": (known.nuisances, known.nuisance[known.nuisance >= 0]),
        "severities": ([f"{step:g}" for step in steps], at_step if rows.is_continuous else at_step[:0]),
    }
    charts = [_chart(caption, names, codes) for caption, (names, codes) in columns.items()]
    return [chart for chart in charts if len(chart["pairs"]) > 1]


def _chart(caption: str, names: Collection[str], codes: NDArray[np.integer]) -> dict[str, Any]:
    """Return a chart of bars; of more than fit the longest."""
    counts = np.bincount(codes, minlength=len(names)).tolist()
    pairs = [(name, count) for name, count in zip(names, counts, strict=True) if count]
    if len(pairs) > MOST_BARS:
        caption = f"{caption}: the largest {MOST_BARS} of {len(pairs):,}"
        pairs = sorted(pairs, key=lambda pair: -pair[1])[:MOST_BARS]
    same = pairs[0][1] if len({count for _, count in pairs}) == 1 else 0
    return {"caption": caption, "pairs": pairs, "same": same}
