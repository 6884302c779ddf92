"""A dataset in a notebook: rows by base and split, names, and pictures if they are on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.loading.sprites import for_browser
from shiftdata.data.metadata import read_metadata
from shiftdata.errors import ShiftdataError
from shiftdata.notebook import box, line, strip, table

#: Of the strip: pictures, the bytes of each, seconds in all, and the rows of a base that is looked through.
PICTURES, BYTES, SECONDS, ROWS = 12, 500_000, 0.5, 200_000
#: A picture of more bytes is shown as a small one, of twice the height of the strip.
SMALL, SIDE = 4_000, 128
MOST_NAMES = 20


def dataset_html(dataset: OpenDataset) -> str:
    """Return what a notebook shows of an opened dataset; nothing is read from another machine."""
    shown = ""
    with suppress(ShiftdataError, OSError):
        shown = _strip(dataset)
    return manifest_html(dataset.manifest, shown)


def manifest_html(manifest: Manifest, pictures: str = "") -> str:
    """Return what a notebook shows of a manifest."""
    splits = list(dict.fromkeys(split for base in manifest.bases for split in base.splits))
    rows = [
        [base.name, *(f"{base.splits[name].rows:,}" if name in base.splits else "" for name in splits)]
        for base in manifest.ordered_bases
    ]
    return box(
        f"{manifest.title} ({manifest.name} {manifest.version})",
        line(manifest.summary),
        pictures,
        table("Rows by base and split", ["base", *splits], rows),
        line(_named("labels", manifest.labels)),
        line(_named(f"values of {manifest.roles.nuisance}", manifest.nuisances)),
        line(_named("canonical splits", [split.name for split in manifest.canonical_splits])),
        line(f"licence {manifest.license}; content {manifest.content_id[:16]}"),
        "" if manifest.pixels_included else line("the examples are not included"),
    )


def _named(kind: str, names: Sequence[str]) -> str:
    more = ["..."] if len(names) > MOST_NAMES else []
    return f"{len(names):,} {kind}: {', '.join([*names[:MOST_NAMES], *more])}"


def _strip(dataset: OpenDataset) -> str:
    """Return pictures of groups far apart, of the first base that is small enough to look through."""
    manifest = dataset.manifest
    bases = [base for base in manifest.ordered_bases if PICTURES <= base.rows <= ROWS]
    if not (bases and dataset.folder and manifest.roles.modality == "image" and manifest.pixels_included):
        return ""
    rows, pictures = read_metadata(dataset, bases[0].name), []
    named = rows.label.astype(np.int64) * (len(rows.nuisances) + 1) + rows.nuisance + 1
    firsts = np.unique(named, return_index=True)[1]
    chosen = firsts[np.unique(np.linspace(0, len(firsts) - 1, PICTURES).astype(int))]
    with ExampleReader(dataset, bases[0].name) as reader:
        chosen = chosen[reader.lengths(chosen) <= BYTES]
        ends = time.monotonic() + SECONDS
        for row in chosen.tolist():
            if time.monotonic() > ends:
                break
            with suppress(ShiftdataError):  # that of a picture which cannot be decoded
                data, kind = for_browser(reader.read([row])[0], SMALL, SIDE)
                label, nuisance = rows.label[row], rows.nuisance[row]
                names = [*rows.labels[label : label + 1], *rows.nuisances[nuisance : nuisance + 1]]
                pictures.append((" / ".join(names), data, kind))  # -1 has none
    return strip(pictures)
