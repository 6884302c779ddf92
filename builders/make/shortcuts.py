"""Measure how well trivial traces of a picture predict its label and its nuisance: part of every build.

A small decision tree learns from some rows of the train folds, and is judged on rows of the test folds, so on
other origins. Only names and pixels count: the result is the same for any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.albums import Album, Files
from builders.describe.written import batches, picked
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import data_prefix, metadata_file
from shiftdata.data.format.records import Shortcuts, Trace
from shiftdata.data.metadata.folds import hashes64
from shiftdata.stable import hash64
from shiftdata.untrusted.parquet import read_parquet
from shiftdata.untrusted.pictures import open_picture
from shiftdata.untrusted.texts import read_json

ROWS = 1000  # of each of the two splits
DEPTH = 8
CORNER = 3
ENDS = (slice(None, CORNER), slice(-CORNER, None))
DIGITS = 4

Numbers: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]
#: By the name of a trace, its numbers for each row.
Traces: TypeAlias = Mapping[str, Numbers]
Target: TypeAlias = Literal["label", "nuisance"]


@dataclass(frozen=True)
class Drawn:
    """Rows of a split: what is to be predicted of each, its example, and the item that it was made from."""

    answers: Mapping[Target, Whole]
    examples: Sequence[bytes]
    items: Sequence[str]


def measure(folder: Path, manifest: Manifest, album: Album | None = None) -> Shortcuts | None:
    """Measure the traces in the default base of a packed dataset, and in the files of its album.

    Without the album, what depends on it is taken from the manifest.
    """
    if manifest.roles.modality != "image" or manifest.is_webdataset or manifest.withheld:
        return None
    if manifest.hidden is not None:  # the test's labels
        return None
    stated = manifest.shortcuts
    fit, test = (_drawn(folder, manifest, split) for split in ("train", "test"))
    items = {item.key: item for item in album.items()} if album else {}
    made = all(item.nuisance is None for item in items.values()) if album else bool(stated and stated.made)
    seen = [_table([_traces(example) for example in rows.examples]) for rows in (fit, test)]
    files = list(stated.files) if stated and album is None else []
    if isinstance(album, Files):
        raw = [
            _table([_traces_of_file(album.file(items[key])) for key in rows.items]) for rows in (fit, test)
        ]
        files = [one for one in _given_away(manifest, fit, test, *raw) if one.target == "label" or not made]
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


def _traces(example: bytes) -> dict[str, list[float]]:
    """The traces of a picture as it is published."""
    with open_picture(example) as picture:
        of_file = _file_traces(picture, len(example))
        pixels = np.asarray(picture.convert("RGB"))
    corners = np.stack([pixels[y, x].reshape(-1, 3) for y in ENDS for x in ENDS])
    outermost = [part for y in (0, -1) for x in (0, -1) for part in pixels[y, x].tolist()]
    lines = pixels[[0, -1]], pixels[:, [0, -1]].transpose(1, 0, 2)
    return {
        "border": [number for both in lines for number in _means_and_spreads(both)],
        "3x3 corner": [*_means_and_spreads(corners), *outermost],
        "mean colour": (pixels.sum(axis=(0, 1), dtype=np.int64) / (pixels.size // 3)).tolist(),
        **of_file,
    }


def _means_and_spreads(parts: NDArray[np.uint8]) -> list[float]:
    """For each part of some pixels, the mean of each channel and the variance of all."""
    wide = parts.astype(np.int64)
    mean = wide.sum(axis=1) / parts.shape[1]
    spread = (wide * wide).sum(axis=(1, 2)) / parts.shape[1] - (mean * mean).sum(axis=1)
    numbers: list[float] = np.column_stack([mean, spread]).ravel().tolist()
    return numbers


def _traces_of_file(file: Path) -> dict[str, list[float]]:
    """The traces of a file on disk that need no pixel; only its beginning is read."""
    with open_picture(file) as picture:
        return _file_traces(picture, file.stat().st_size)


def _file_traces(picture: Image.Image, length: int) -> dict[str, list[float]]:
    """The traces of an opened picture and its file that need no pixel."""
    kind = (picture.format or "", picture.mode, str("transparency" in picture.info))
    tables = getattr(picture, "quantization", {})
    return {
        "size in pixels": [*picture.size, picture.width / picture.height],
        "size in bytes": [length],
        "type of file": [hash64(one) % 1000 for one in kind],
        "JPEG table": [sum(tables.get(number, ())) for number in range(2)],
    }


def _table(rows: Sequence[Mapping[str, Sequence[float]]]) -> Traces:
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
