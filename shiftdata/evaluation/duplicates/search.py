"""`near_duplicates`: candidates by embeddings, pixels and bytes, and their verification."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import DatasetName, open_dataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.loading.features import features_of, pixels_of
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.duplicates.clusters import KINDS, Duplicates, Pairs, clusters_of
from shiftdata.evaluation.duplicates.neighbours import neighbours
from shiftdata.evaluation.duplicates.pictures import (
    SIDE,
    Small,
    candidates,
    distances,
    sift,
    usual_thresholds,
)
from shiftdata.evaluation.duplicates.texts import table_pairs, text_pairs
from shiftdata.untrusted.texts import read_json

#: The largest distance of near-duplicates among texts and rows of a table; pictures have `usual_thresholds`.
THRESHOLDS = {"text": 0.4, "table": 0.005}
#: Neighbours of each example by its embedding, of other origins and of other splits.
NEIGHBOURS = 8
#: Pairs whose pictures are decoded together.
TOGETHER = 512


def base_compared(manifest: Manifest, base: str | None = None) -> str:
    """Return the base whose examples are compared: by default `content`, the untouched ones, if it exists."""
    names = [known.name for known in manifest.ordered_bases]
    return manifest.base(base or ("content" if "content" in names else manifest.default_base)).name


def rows_compared(metadata: Metadata) -> IntArray:
    """Return the rows that are compared: of pictures in many forms, one form of each origin and label.

    It is the untouched or mildest form, under the first nuisance. Of texts and tables all rows are compared.
    """
    columns, nuisance, every = metadata.columns, metadata.nuisance, np.arange(len(metadata))
    is_image = metadata.with_examples().manifest.roles.modality == "image"
    if not is_image or (nuisance < 0).all() or not (metadata.origins_shared or metadata.repeats):
        return every
    severity = np.nan_to_num(columns["severity"])
    order = np.lexsort((every, severity, nuisance, metadata.label, metadata.origin))
    unit, form = (
        np.concatenate([[True], (part[:, 1:] != part[:, :-1]).any(axis=0)])
        for part in (
            np.stack([metadata.origin[order], metadata.label[order]]),
            np.stack([nuisance[order], severity[order]]),
        )
    )
    forms = np.cumsum(unit | form)  # rows of the first form of their unit
    return np.sort(order[forms == forms[unit][np.cumsum(unit) - 1]])


def near_duplicates(
    dataset: DatasetName,
    base: str | None = None,
    *,
    vectors: NDArray[Any] | None = None,
    model: str = "",
    threshold: float | None = None,
    cache: bool | str | Path = True,
    on_rows: Callable[[int], object] = int,
) -> Duplicates:
    """Return the clusters of examples of different origins that show the same.

    Equal bytes are found by their hashes, texts by the words that they share, rows of a table by rounded
    values, and pictures in two stages: candidates are nearest neighbours by small pictures (also mirrored)
    and by `vectors`; then each pair is aligned and compared pixel by pixel, so that a JPEG of lower quality,
    another size, a small crop, another brightness, a mirror image, a frame or a caption still match, and two
    pictures that merely look alike do not.

    Args:
        dataset: a name, a folder, a URL or an opened dataset.
        base: by default `content`, the untouched examples, where a dataset has it.
        vectors: embeddings of pictures, a line for each row of the base as `features_of` returns them.
        model: the name of what made them, for the record.
        threshold: the largest distance [default: `usual_thresholds` of pictures, `THRESHOLDS` of others].
        cache: where small pictures are kept, as `features_of` takes it.
        on_rows: gets how many examples became ready since its last call.

    """
    opened = open_dataset(dataset)
    manifest, name = opened.manifest, base_compared(opened.manifest, base)
    metadata, modality = read_metadata(opened, name), manifest.roles.modality
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError(f"threshold={threshold:g}: it is a distance from 0 (equal bytes) to 1")
    most = THRESHOLDS.get(modality, 0.0) if threshold is None else threshold
    rows = rows_compared(metadata)
    found = [_equal_bytes(metadata, rows)]
    if manifest.pixels_included and len(rows) > 1:
        if modality == "image":
            pairs, most = _pictures(metadata, rows, vectors, threshold, cache, on_rows)
            found.append(pairs)
        else:
            found.append(_contents(metadata, rows, modality, most))
            on_rows(len(rows))
    joined = Pairs(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    return Duplicates(
        dataset=manifest.name,
        base=name,
        content_id=manifest.base(name).content_id,
        modality=modality,
        model=model,
        threshold=most,
        compared=len(rows),
        clusters=clusters_of(metadata, joined),
    )


def _equal_bytes(metadata: Metadata, rows: IntArray) -> Pairs:
    """Return a chain of pairs through the rows of each hash that several origins have."""
    hashes = metadata.take(["sha256"], rows)["sha256"].combine_chunks()
    codes = hashes.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    origins, splits = metadata.origin[rows], metadata.columns["split"][rows]
    order = np.lexsort((origins, splits, codes))
    pairs = np.stack([order[:-1], order[1:]], axis=1)
    pairs = pairs[codes[pairs[:, 0]] == codes[pairs[:, 1]]]
    differ = origins[pairs[:, 0]] != origins[pairs[:, 1]]
    several = np.isin(codes[pairs[:, 0]], codes[pairs[differ, 0]])
    return _pairs(rows[pairs[several]], np.zeros(int(several.sum())), KINDS.index("equal bytes"))


def _pairs(rows: IntArray, distance: NDArray[Any], kind: int | IntArray) -> Pairs:
    kinds = np.broadcast_to(np.asarray(kind, np.int64), len(rows))
    return Pairs(rows.reshape(-1, 2).astype(np.int64), np.asarray(distance, np.float64), kinds)


def _pictures(
    metadata: Metadata,
    rows: IntArray,
    vectors: NDArray[Any] | None,
    threshold: float | None,
    cache: bool | str | Path,
    on_rows: Callable[[int], object],
) -> tuple[Pairs, float]:
    """Return the pairs of pictures within the threshold, and the threshold."""
    small = features_of(metadata, rows, Small(), cache=cache, on_rows=on_rows)[metadata.picture[rows]]
    origins, splits = metadata.origin[rows], metadata.columns["split"][rows]
    pairs = candidates(small, origins, splits)
    if vectors is not None:
        lines = metadata.picture[rows]  # a block at a time: all of them may not fit into memory
        near = neighbours(lines, origins, splits, NEIGHBOURS, form=vectors.__getitem__)
        pairs = np.unique(np.concatenate([pairs, near]), axis=0)
    first = sift(small, pairs)
    distance = np.empty(len(first.rows), np.float32)
    for start in range(0, len(distance), TOGETHER):
        at = slice(start, start + TOGETHER)
        used, places = np.unique(first.rows[at], return_inverse=True)
        pixels = pixels_of(metadata, rows[used], size=SIDE, cache=False)[metadata.picture[rows[used]]]
        local = first.part(at)._replace(rows=places.reshape(-1, 2))
        distance[at] = distances(pixels, local)
    limits = usual_thresholds(len(rows), first.rows, distance)
    if threshold is not None:
        limits = np.full_like(limits, threshold)
    good = distance <= limits
    most = round(float(limits.max(initial=0)), 3) if threshold is None else threshold
    kinds = np.where(first.mirrored[good], KINDS.index("mirrored"), KINDS.index("near"))
    return _pairs(rows[first.rows[good]], distance[good], kinds), most


def _contents(metadata: Metadata, rows: IntArray, modality: str, most: float) -> Pairs:
    """Compare texts or rows of a table."""
    dataset = metadata.with_examples()
    data = ExampleReader(dataset, metadata.base).read(rows.tolist())
    if modality == "text":
        pairs, distance = text_pairs([text.decode(errors="replace") for text in data])
    else:
        names = list(dataset.manifest.roles.example)
        pairs, distance = table_pairs([dict(zip(names, read_json(row), strict=True)) for row in data])
    origins = metadata.origin[rows]
    good = (distance <= most) & (origins[pairs[:, 0]] != origins[pairs[:, 1]])
    return _pairs(rows[pairs[good]], distance[good], KINDS.index("near"))
