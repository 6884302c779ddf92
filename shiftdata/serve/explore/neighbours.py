"""A map of the rows of a base: frozen features, a place in the plane for each row, and its neighbours.

It is computed once and kept in the user's cache folder, or with the dataset as `features/<base>.parquet`,
which the manifest then lists.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.format.written import file_records
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.files import cache_folder, whole_file, write_text
from shiftdata.stable import content_hash
from shiftdata.untrusted.parquet import read_parquet
from shiftdata.untrusted.texts import read_json

#: Principal components of a row's features that are kept.
COMPONENTS = 64
#: Nearest rows of each row.
NEIGHBOURS = 15
#: Rows that UMAP places; the others of a larger base lie among their neighbours of these.
FITTED = 50_000
#: Rows whose distances to others are in memory at once.
BLOCK = 1024
#: Raised where other code gives another map.
VERSION = 1


@dataclass(frozen=True, eq=False)
class RowMap:
    """For each row of a base: features, x and y, its neighbours (the nearest first) and their distances."""

    features: NDArray[np.float16]
    xy: NDArray[np.float32]
    neighbours: NDArray[np.int32]
    distances: NDArray[np.float32]
    about: dict[str, Any]

    def __len__(self) -> int:
        return len(self.xy)


def row_map(
    metadata: Metadata,
    model: str = "",
    *,
    on_rows: Callable[[int], object] = int,
    on_step: Callable[[str], object] = str,
) -> RowMap:
    """Return the map of a base: that of the dataset or of the cache, else one computed now and kept there.

    `model` names a trained model, as `shiftdata predict` lists them. By default pictures are read by
    EfficientNet-Lite0, texts are counts of n-grams, and tables their columns. `on_rows` gets the number of
    rows that were encoded since its last call, `on_step` a line on each step that follows.
    """
    if (published := published_map(metadata)) is not None and model in ("", published.about["model"]):
        return published
    about = _about(metadata, model)
    path = cache_folder("maps") / f"{content_hash(json.dumps(about, sort_keys=True))[:32]}.parquet"
    if path.is_file() and (kept := _read(path, metadata)) is not None and kept.about == about:
        return kept
    if find_spec("umap") is None:  # before anything is encoded; to import it takes seconds
        require("umap", "a map of rows")
    made = replace(map_of(_features(metadata, model, on_rows), on_step), about=about)
    write_map(made, metadata, path)
    return made


def published_map(metadata: Metadata) -> RowMap | None:
    """Return the map that the dataset has of this base, or None."""
    dataset, path = metadata.dataset, map_file(metadata.base)
    if dataset is None or path not in dataset.manifest.files:
        return None
    return _read(pa.BufferReader(dataset.read_file(path)), metadata)


def map_file(base: str) -> str:
    """Return the path of the map of a base in its dataset."""
    return f"features/{base}.parquet"


def add_map(dataset: OpenDataset, metadata: Metadata, made: RowMap) -> Path:
    """Write a map into the folder of a dataset, and list it in the manifest; return its path."""
    folder, path = dataset.folder, map_file(metadata.base)
    if folder is None:
        raise InputError(
            f"{dataset.address} is not a folder on this machine: fetch the dataset, and keep the map there"
        )
    (folder / path).parent.mkdir(exist_ok=True)
    write_map(made, metadata, folder / path)
    files = {**dataset.manifest.files, **file_records(folder, [path])}
    write_text(folder / FILE_NAME, replace(dataset.manifest, files=files).to_json())
    return folder / path


def map_of(features: NDArray[np.float32], on_step: Callable[[str], object] = str) -> RowMap:
    """Place rows in the plane by their features, and find the neighbours of each.

    Rows beyond `FITTED` lie at the weighted mean of their nearest rows that UMAP placed.
    """
    count = len(features)
    if count < 3:
        raise InputError(f"a map needs 3 rows, and there are {count}")
    on_step(f"reducing {features.shape[1]:,} features of {count:,} rows to {COMPONENTS}")
    kept = components(features)
    k = min(NEIGHBOURS, count - 1)
    on_step(f"finding the {k} nearest rows of each")
    fitted = np.arange(count) if count <= FITTED else np.sort(_stable_order(count)[:FITTED])
    at, far = nearest(kept[fitted], kept[fitted], k + 1)
    on_step(f"placing {len(fitted):,} rows in the plane by UMAP")
    places = _umap(kept[fitted], at, far)
    if count == len(fitted):
        return RowMap(kept.astype(np.float16), places, *_without_itself(at, far), about={})
    on_step(f"placing the other {count - FITTED:,} rows among them")
    xy = np.empty((count, 2), np.float32)
    xy[fitted] = places
    rest = np.setdiff1d(np.arange(count), fitted)
    for start in range(0, len(rest), BLOCK):
        rows = rest[start : start + BLOCK]
        near, distance = nearest(kept[rows], kept[fitted], 5)
        weight = 1 / (distance + 1e-3)
        xy[rows] = (places[near] * weight[..., None]).sum(1) / weight.sum(1, keepdims=True)
    return RowMap(kept.astype(np.float16), xy, *_in_cells(kept, k), about={})


def components(features: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return the first principal components of features, block by block."""
    mean = np.zeros(features.shape[1])
    for start in range(0, len(features), BLOCK):
        mean += np.asarray(features[start : start + BLOCK], np.float64).sum(0)
    mean /= len(features)
    if len(mean) <= COMPONENTS:
        return np.asarray(features - mean, np.float32)
    covariance = np.zeros((len(mean), len(mean)))
    for start in range(0, len(features), BLOCK):
        block = features[start : start + BLOCK] - mean
        covariance += block.T @ block
    axes = np.linalg.eigh(covariance)[1][:, : -COMPONENTS - 1 : -1]
    axes *= np.sign(axes[np.abs(axes).argmax(0), np.arange(COMPONENTS)])  # either sign is an eigenvector
    parts = [(features[start : start + BLOCK] - mean) @ axes for start in range(0, len(features), BLOCK)]
    return np.concatenate(parts).astype(np.float32)


def nearest(
    rows: NDArray[np.float32], among: NDArray[np.float32], k: int
) -> tuple[IntArray, NDArray[np.float32]]:
    """Return the `k` nearest of some vectors for each of others, the nearest first, and their distances."""
    k = min(k, len(among))
    lengths = (among * among).sum(1)
    places, distances = np.empty((len(rows), k), np.int64), np.empty((len(rows), k), np.float32)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        # |a - b|^2 without |a|^2, which orders nothing.
        square = lengths - 2 * block @ among.T
        chosen = np.argpartition(square, k - 1, axis=1)[:, :k]
        order = np.lexsort((chosen, np.take_along_axis(square, chosen, 1)), axis=1)
        chosen = np.take_along_axis(chosen, order, 1)
        places[start : start + BLOCK] = chosen
        # Of the few that were chosen by differences: the squares above lose digits where rows are near.
        distances[start : start + BLOCK] = np.linalg.norm(among[chosen] - block[:, None], axis=2)
    return places, distances


def _in_cells(vectors: NDArray[np.float32], k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Find neighbours among the rows of near cells alone, for too many rows to compare all."""
    count = len(vectors)
    centres = vectors[_stable_order(count)[: 4 * int(count**0.5)]]
    cell = nearest(vectors, centres, 1)[0][:, 0]
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(len(centres) + 1))
    members = [order[starts[at] : starts[at + 1]] for at in range(len(centres))]
    near = nearest(centres, centres, 8)[0]
    neighbours, distances = np.zeros((count, k), np.int32), np.zeros((count, k), np.float32)
    for at, mine in enumerate(members):
        candidates, more = np.concatenate([members[other] for other in near[at]]), 8
        while len(candidates) <= k:  # cells of few rows
            more *= 4
            candidates = np.concatenate(
                [members[other] for other in nearest(centres[at : at + 1], centres, more)[0][0]]
            )
        if len(mine):
            chosen, far = nearest(vectors[mine], vectors[candidates], k + 1)
            of = candidates[chosen]
            neighbours[mine], distances[mine] = _without_itself(of, far, mine)
    return neighbours, distances


def _without_itself(
    at: IntArray, far: NDArray[np.float32], rows: IntArray | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Take each row out of its own neighbours; where equal rows crowd it out, the last one goes."""
    itself = at == (np.arange(len(at)) if rows is None else rows)[:, None]
    itself[~itself.any(1), -1] = True
    shape = len(at), at.shape[1] - 1
    return at[~itself].reshape(shape).astype(np.int32), far[~itself].reshape(shape)


def _umap(vectors: NDArray[np.float32], at: IntArray, far: NDArray[np.float32]) -> NDArray[np.float32]:
    """Place vectors of known neighbours, each its own first one; the same seed gives the same places here."""
    umap = require("umap", "a map of rows")
    k = at.shape[1]
    placed = umap.UMAP(
        n_neighbors=k,
        random_state=0,
        n_jobs=1,
        precomputed_knn=(at, far),
        init="pca" if k < len(at) else "random",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it cannot place further rows, which nobody asks of it
        return np.asarray(placed.fit_transform(vectors), np.float32)


def _stable_order(count: int) -> IntArray:
    """Return all rows in an order that depends on nothing but their number."""
    order: IntArray = np.random.default_rng(0).permutation(count)
    return order


def _features(metadata: Metadata, model: str, on_rows: Callable[[int], object]) -> NDArray[np.float32]:
    """Encode every row of a base."""
    require("torch", "features of rows")
    from shiftdata.baselines.models import PREPARES
    from shiftdata.baselines.pretrained.model import encoder_of
    from shiftdata.baselines.sets import modality_of, source_of

    every = np.arange(len(metadata))
    modality = modality_of(metadata)
    encoder = encoder_of(model) if model else None
    form: Any = "frozen" if encoder or modality == "image" else "scratch"
    source = source_of(metadata, form, every, encoder=encoder, on_rows=on_rows)
    lines = source.lines(every)
    assert lines is not None  # neither pixels nor texts for a tokenizer
    if source.lines_are == "features":
        return lines
    prepare = PREPARES[source.lines_are](lines)
    parts = [np.asarray(prepare(lines[start : start + 4096])) for start in range(0, len(lines), 4096)]
    return np.concatenate(parts)


def _about(metadata: Metadata, model: str) -> dict[str, Any]:
    assert metadata.dataset is not None
    base = metadata.dataset.manifest.base(metadata.base)
    return {
        "base": base.name,
        "content_id": base.content_id,
        "model": model,
        "rows": len(metadata),
        "version": VERSION,
    }


def write_map(made: RowMap, metadata: Metadata, path: Path) -> None:
    """Write a map as Parquet: a row's key, features, place, neighbours and their distances."""
    columns = {
        "key": metadata.keys(np.arange(len(metadata))),
        "x": pa.array(made.xy[:, 0]),
        "y": pa.array(made.xy[:, 1]),
        "features": _lists(made.features),
        "neighbours": _lists(made.neighbours),
        "distances": _lists(made.distances),
    }
    table = pa.table(columns).replace_schema_metadata({"about": json.dumps(made.about, sort_keys=True)})
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        pq.write_table(table, file, compression="zstd")


def _lists(array: NDArray[Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])


def _read(source: Any, metadata: Metadata) -> RowMap | None:
    """Read a map; None where it is not one of these rows."""
    table = read_parquet(source)
    about = read_json((table.schema.metadata or {}).get(b"about", b"{}"))
    dataset = metadata.dataset
    assert dataset is not None
    if (
        len(table) != len(metadata)
        or about.get("content_id") != dataset.manifest.base(metadata.base).content_id
    ):
        return None
    wide = {
        name: table[name].combine_chunks().flatten().to_numpy().reshape(len(table), -1)
        for name in ("features", "neighbours", "distances")
    }
    xy = np.stack([table["x"].to_numpy(), table["y"].to_numpy()], axis=1)
    return RowMap(wide["features"], xy, wide["neighbours"], wide["distances"], about)
