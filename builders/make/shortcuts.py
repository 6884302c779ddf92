"""Measure how well trivial traces of a picture predict its label and its nuisance: part of every build.

A small decision tree learns from some rows of the train folds, and is judged on rows of the test folds, so on
other origins. Only names and pixels count: the result is the same for any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from builders.albums import Album, Files
from builders.albums.reading import OfFiles, contents
from builders.describe.written import batches, picked
from builders.items import ItemTable
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import data_prefix, metadata_file
from shiftdata.data.format.records import Shortcuts, Trace
from shiftdata.data.metadata.folds import hashes64
from shiftdata.stable import hash64
from shiftdata.threads import available_cores, in_threads
from shiftdata.untrusted.parquet import read_parquet
from shiftdata.untrusted.pictures import open_picture
from shiftdata.untrusted.texts import read_json

ROWS = 1000  # of each of the two splits
DEPTH = 8
CORNER = 3
ENDS = (slice(None, CORNER), slice(-CORNER, None))
DIGITS = 4
#: The traces of a built picture, in the order of the card.
NAMES = (
    "border",
    "3x3 corner",
    "mean colour",
    "size in pixels",
    "size in bytes",
    "type of file",
    "JPEG table",
)
#: Of decoded pictures.
BYTES_AT_ONCE = 64 << 20

Numbers: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]
#: By the name of a trace, its numbers for each row.
Traces: TypeAlias = Mapping[str, Numbers]
Target: TypeAlias = Literal["label", "nuisance"]
Pixels: TypeAlias = NDArray[np.uint8]
#: By the name of a trace of a file, its numbers.
FileTraces: TypeAlias = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Drawn:
    """Rows of a split: what is to be predicted of each, its example, and the item that it was made from."""

    answers: Mapping[Target, Whole]
    examples: Sequence[bytes]
    items: Sequence[str]


def measure(
    folder: Path, manifest: Manifest, album: Album | None = None, items: ItemTable | None = None
) -> Shortcuts | None:
    """Measure the traces in the default base of a packed dataset, and in the files of its album.

    `items` are those of the album, if they are listed already. Without the album, what depends on it is taken
    from the manifest.
    """
    if manifest.roles.modality != "image" or manifest.is_webdataset or manifest.withheld:
        return None
    if manifest.hidden is not None:  # the test's labels
        return None
    stated = manifest.shortcuts
    fit, test = (_drawn(folder, manifest, split) for split in ("train", "test"))
    seen = list(in_threads(_traces, (fit.examples, test.examples), available_cores()))
    made, files = bool(stated and stated.made), list(stated.files) if stated else []
    if album is not None:
        items = ItemTable.of(album.items()) if items is None else items
        made, files = not (items.codes("nuisance") >= 0).any(), []
        if isinstance(album, Files) and isinstance(album, OfFiles):
            raw = [_of_files(album, items.take(items.rows_of(pa.array(of.items)))) for of in (fit, test)]
            files = [
                trace
                for trace in _given_away(manifest, fit, test, *raw)
                if trace.target == "label" or not made
            ]
    return Shortcuts(
        base=manifest.default_base,
        fit=len(fit.items),
        tested=len(test.items),
        made=made,
        traces=list(_given_away(manifest, fit, test, *seen)),
        files=files,
    )


def _drawn(folder: Path, manifest: Manifest, split: str) -> Drawn:
    """Rows by stable hash, of each group as many as of any other while there are."""
    nuisance, base = manifest.roles.nuisance, manifest.default_base
    file = folder / metadata_file(base, split)
    rows = read_parquet(file, ["label", nuisance])
    answers: dict[Target, Whole] = {"label": rows["label"].to_numpy().astype(np.int64)}
    if not rows[nuisance].null_count:
        answers["nuisance"] = rows[nuisance].to_numpy().astype(np.int64)
    group = answers["label"] * len(manifest.nuisances) + answers.get("nuisance", 0)
    hashes = [hashes64(batch["key"].to_pylist(), "shortcuts") for batch in batches(file, ["key"])]
    drawn = np.concatenate(hashes)
    order = np.lexsort((drawn, group))
    start = np.searchsorted(group[order], group[order])
    place = np.arange(len(order)) - start  # of each row in its group
    chosen = order[np.lexsort((drawn[order], place))[:ROWS]]
    listed = picked(file, ["params", "shard", "offset", "length"], chosen).to_pylist()
    examples = []
    with ExitStack() as stack:
        paths = sorted(folder.glob(f"{data_prefix(base, split)}*.parquet"))
        shards = [stack.enter_context(path.open("rb")) for path in paths]
        for row in listed:
            shards[row["shard"]].seek(row["offset"])
            examples.append(shards[row["shard"]].read(row["length"]))
    return Drawn(
        answers={target: of[chosen] for target, of in answers.items()},
        examples=examples,
        items=[read_json(row["params"])["content"] for row in listed],
    )


def _of_files(album: OfFiles, items: ItemTable) -> Traces:
    """The traces of the raw files of items that need no pixel."""
    traces = []
    for data in contents(album, items):
        with open_picture(data) as picture:
            traces.append(_file_traces(picture, len(data)))
    return _table(traces)


def _traces(examples: Sequence[bytes]) -> Traces:
    """The traces of pictures as they are published."""
    parts = [_of_pixels(pictures) | _table(files) for pictures, files in _decoded(examples)]
    return {name: np.concatenate([part[name] for part in parts]) for name in NAMES}


def _decoded(examples: Sequence[bytes]) -> Iterator[tuple[list[Pixels], list[FileTraces]]]:
    """Yield as many pictures at once as fit in `BYTES_AT_ONCE`, and the traces of their files."""
    pictures, files, held = list[Pixels](), list[FileTraces](), 0
    for example in examples:
        with open_picture(example) as picture:
            files.append(_file_traces(picture, len(example)))
            pictures.append(np.asarray(picture.convert("RGB")))
        held += pictures[-1].nbytes
        if held >= BYTES_AT_ONCE:
            yield pictures, files
            pictures, files, held = [], [], 0
    if pictures:
        yield pictures, files


def _of_pixels(pictures: Sequence[Pixels]) -> dict[str, Numbers]:
    """The traces of pixels, computed at once for the pictures of each size."""
    of_size: dict[tuple[int, ...], list[int]] = {}
    for number, picture in enumerate(pictures):
        of_size.setdefault(picture.shape, []).append(number)
    order = np.argsort(np.concatenate([*of_size.values()]))
    parts = [_of_stack(np.stack([pictures[number] for number in numbers])) for numbers in of_size.values()]
    return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}


def _of_stack(pixels: Pixels) -> dict[str, Numbers]:
    """The traces of pixels of pictures of one size."""
    count, height, width, _ = pixels.shape
    corners = [pixels[:, y, x].reshape(count, -1, 3) for y in ENDS for x in ENDS]
    outermost = [pixels[:, y, x] for y in (0, -1) for x in (0, -1)]
    lines = pixels[:, [0, -1]], pixels[:, :, [0, -1]].transpose(0, 2, 1, 3)
    return {
        "border": np.concatenate([_means_and_spreads(part) for part in lines], axis=1),
        "3x3 corner": np.concatenate([_means_and_spreads(np.stack(corners, axis=1)), *outermost], axis=1),
        # First over lines, whose pixels lie together: numpy adds all of a line at once.
        "mean colour": pixels.sum(axis=1, dtype=np.uint32).sum(axis=1, dtype=np.int64) / (height * width),
    }


def _means_and_spreads(parts: Pixels) -> Numbers:
    """For each picture, and each part of it, the mean of each channel and the variance of all."""
    wide = parts.astype(np.int64)
    mean = wide.sum(axis=2) / parts.shape[2]
    spread = (wide * wide).sum(axis=(2, 3)) / parts.shape[2] - (mean * mean).sum(axis=2)
    numbers: Numbers = np.concatenate([mean, spread[:, :, None]], axis=2).reshape(len(parts), -1)
    return numbers


def _file_traces(picture: Image.Image, length: int) -> FileTraces:
    """The traces of an opened picture and its file that need no pixel."""
    kind = (picture.format or "", picture.mode, str("transparency" in picture.info))
    tables = getattr(picture, "quantization", {})
    return {
        "size in pixels": [*picture.size, picture.width / picture.height],
        "size in bytes": [length],
        "type of file": [_number(text) for text in kind],
        "JPEG table": [sum(tables.get(number, ())) for number in range(2)],
    }


@cache
def _number(text: str) -> int:
    return hash64(text) % 1000


def _table(rows: Sequence[FileTraces]) -> dict[str, Numbers]:
    return {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}


def _given_away(manifest: Manifest, fit: Drawn, test: Drawn, seen: Traces, unseen: Traces) -> Iterator[Trace]:
    """Measure each trace that has more than one value."""
    names: dict[Target, Sequence[str]] = {"label": manifest.labels, "nuisance": manifest.nuisances}
    for name in seen:
        for target, of in names.items():
            if target not in fit.answers or target not in test.answers:
                continue
            answers = fit.answers[target]
            counts = np.bincount(answers, minlength=len(of))
            weights = np.eye(len(of)) / np.maximum(counts, 1)
            predicted = _predicted(seen[name], weights[answers], unseen[name], DEPTH)
            trace = _judged(name, target, of, test.answers[target], predicted)
            if trace is not None:
                yield trace


def _predicted(seen: Numbers, weights: Numbers, unseen: Numbers, depth: int) -> Whole:
    """Predict unseen rows by a decision tree; a seen row has its weight in the column of its class."""
    total = weights.sum(axis=0)
    predicted = np.full(len(unseen), int(total.argmax()))
    if not depth or not len(unseen) or (total > 0).sum() < 2:
        return predicted
    best, chosen = float((total**2).sum() / total.sum()) + 1e-9, None  # the purity to beat
    for column, values in enumerate(seen.T):
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        cuts = np.flatnonzero(ordered[1:] > ordered[:-1])
        if not len(cuts):
            continue
        left = np.cumsum(weights[order], axis=0)[cuts]
        right = total - left
        purity = (left**2).sum(axis=1) / left.sum(axis=1) + (right**2).sum(axis=1) / right.sum(axis=1)
        first = int(purity.argmax())
        if purity[first] > best:
            best = float(purity[first])
            chosen = column, (ordered[cuts[first]] + ordered[cuts[first] + 1]) / 2
    if chosen is None:
        return predicted
    column, bound = chosen
    below, under = seen[:, column] <= bound, unseen[:, column] <= bound
    predicted[under] = _predicted(seen[below], weights[below], unseen[under], depth - 1)
    predicted[~under] = _predicted(seen[~below], weights[~below], unseen[~under], depth - 1)
    return predicted


def _judged(name: str, target: Target, names: Sequence[str], true: Whole, predicted: Whole) -> Trace | None:
    """Judge predictions: the mean accuracy over classes, and that of the class given away most."""
    classes, place, counts = np.unique(true, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        return None
    rates = np.zeros((len(classes), len(names)))
    np.add.at(rates, (place, predicted), 1 / counts[place])
    rates = rates[:, classes]
    right = rates.diagonal()
    alone = (right + 1 - (rates.sum(axis=0) - right) / (len(classes) - 1)) / 2
    most = int(alone.argmax())
    noise = np.sqrt(1 / counts[most] + 1 / (len(true) - counts[most])) / 4
    return Trace(
        name=name,
        target=target,
        accuracy=round(float(right.mean()), DIGITS),
        chance=round(1 / len(classes), DIGITS),
        plainest=names[int(classes[most])],
        alone=round(float(alone[most]), DIGITS),
        noise=round(float(noise), DIGITS),
    )
