"""Keep the style pictures that are like those a person called good, by a support vector machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.curate.labelling import BAD, GOOD, read_labels
from builders.shifts.styles.bank import style_picture
from builders.shifts.styles.listed import StylePicture, read_listed, read_rows, write_rows
from builders.shifts.styles.network import STYLE_SIDE
from builders.shifts.stylizers import Arbitrary
from builders.shifts.stylizers.vgg import Vgg, middle_square
from builders.shifts.stylizers.weights import Place
from shiftdata.data.executors import Executor
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.stable import ranks


@dataclass(frozen=True)
class Codes:
    """The code of the stylizer that ships: needs no other weights."""

    name: str = "style codes of the stylizer that ships"

    def mean_activations(self, picture: Image.Image) -> NDArray[np.float32]:
        return Arbitrary().encode(picture)


class VggMeans:
    """The mean over places of conv1_1, conv2_1, conv3_1, conv4_1 and conv5_1 of a VGG: 1,472 numbers.

    It reads the middle square at 256 pixels, as the stylizer that ships does.
    """

    def __init__(self, weights: Place, layout: str) -> None:
        self.name = f"mean activations of {layout}"
        self.weights, self.layout = weights, layout
        self._vgg: Vgg | None = None

    def mean_activations(self, picture: Image.Image) -> NDArray[np.float32]:
        torch = require("torch", "the features of a VGG")
        if self._vgg is None:
            self._vgg = Vgg(self.weights, self.layout, "relu5_1")
        with torch.no_grad():
            return self._vgg.mean_activations(middle_square(picture, STYLE_SIDE))


SCORES = "scores.tsv"
COLUMNS = ("style", "file", "score", "label", "kept")
KEPT, LEFT = "yes", "no"
#: The fewest labels of each kind, and the parts of the cross-validation.
FEWEST, PARTS = 10, 5

Encoder: TypeAlias = Codes | VggMeans
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """A report; `balanced` is the cross-validated mean of the shares of each label that are right."""

    encoder: str
    labels: Counter[str]
    balanced: float
    error: float
    accuracy: float
    differ: int
    kept: int
    below: int
    few: dict[str, int]

    def __str__(self) -> str:
        (most, count), n = self.labels.most_common(1)[0], self.labels.total()
        differ = f"; {self.differ:,} left out, on which people differ" if self.differ else ""
        lines = [
            f"features: {self.encoder}",
            f"labels: n = {n}: {self.labels[GOOD]} {GOOD}, {self.labels[BAD]} {BAD}{differ}",
            f"{PARTS}-fold cross-validation: balanced accuracy {self.balanced:.3f} ± {self.error:.3f}, "
            f"accuracy {self.accuracy:.3f} (always {most}: 0.500 and {count / n:.3f})",
            f"kept: {self.kept:,} pictures; {self.below:,} of them score below 0: {BAD} to the machine",
        ]
        return "\n".join([*lines, *(f"{style}: only {count} pictures" for style, count in self.few.items())])


def filter_pictures(
    out: Path,
    labels: Path,
    encoder: Encoder,
    executor: Executor,
    *,
    keep: int = 40,
    on_done: Callable[[int], object] = lambda count: None,
) -> Filtered:
    """Score every picture by an SVM of the labelled ones, and write which `keep` of a style stay.

    A picture that a person called bad never stays.
    """
    require("sklearn", "the filter of style pictures")
    pictures = read_listed(out)
    known, differ = _labels(out, labels)
    x = _features(out, pictures, encoder, executor, on_done)
    y = np.array([known.get(picture.file, "") for picture in pictures])
    labelled = np.flatnonzero(y != "")
    good = y[labelled] == GOOD
    guessed = _cross_validated(x[labelled], good, [pictures[row].sha256 for row in labelled])
    scores = _machine().fit(x[labelled], good).decision_function(x)
    kept = _best(pictures, scores, y == BAD, keep)
    write_rows(
        out / SCORES,
        COLUMNS,
        [
            (picture.style, picture.file, round(score, 6), label, KEPT if stays else LEFT)
            for picture, score, label, stays in zip(
                pictures, scores.tolist(), y.tolist(), kept.tolist(), strict=True
            )
        ],
    )
    in_style = Counter(picture.style for picture, stays in zip(pictures, kept, strict=True) if stays)
    shares = np.array([np.mean(guessed[good == label] == label) for label in (True, False)])
    errors = shares * (1 - shares) / [good.sum(), (~good).sum()]
    styles = sorted({picture.style for picture in pictures})
    return Filtered(
        encoder=encoder.name,
        labels=Counter(known.values()),
        balanced=float(shares.mean()),
        error=float(np.sqrt(errors.sum()) / 2),
        accuracy=float(np.mean(guessed == good)),
        differ=len(differ),
        kept=int(kept.sum()),
        below=int((scores[kept] < 0).sum()),
        few={style: in_style[style] for style in styles if in_style[style] < keep},
    )


def _labels(out: Path, file: Path) -> tuple[dict[str, str], list[str]]:
    """Return the label of each picture that has one, and those on which people differ; refuse too few."""
    known, differ = read_labels(out, file)
    counts = Counter(known.values())
    if min(counts[GOOD], counts[BAD]) < FEWEST:
        raise InputError(
            f"{file} has {counts[GOOD]} labels {GOOD} and {counts[BAD]} {BAD}; at least {FEWEST} of each "
            "are needed: label more pictures, `styles sample` draws them"
        )
    return known, differ


def read_kept(out: Path, scores: Path) -> list[StylePicture]:
    """Return the pictures of a folder that a table of scores keeps."""
    pictures = {picture.file: picture for picture in read_listed(out)}
    kept = {row["file"]: row["kept"] == KEPT for _, row in read_rows(scores, COLUMNS)}
    if different := sorted(pictures.keys() ^ kept.keys()):
        raise InputError(
            f"{scores} is not of {out}: {len(different):,} pictures differ, such as {different[0]}: run "
            "`styles filter`"
        )
    return sorted(pictures[file] for file, stays in kept.items() if stays)


def _best(pictures: Sequence[StylePicture], scores: Floats, bad: Mask, keep: int) -> Mask:
    """Return a mask of the best pictures of each style that nobody called bad."""
    taken: Counter[str] = Counter()
    kept = np.zeros(len(pictures), bool)
    for row in sorted(range(len(pictures)), key=lambda row: (-scores[row], pictures[row].sha256)):
        style = pictures[row].style
        if not bad[row] and taken[style] < keep:
            taken[style] += 1
            kept[row] = True
    return kept


def _machine() -> Any:
    """A support vector machine on standardised features, to which both labels weigh the same."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), SVC(kernel="rbf", class_weight="balanced"))


def _cross_validated(x: Floats, good: Mask, hashes: Sequence[str]) -> Mask:
    """Return what each picture is called by a machine that learned from the other parts."""
    from sklearn.model_selection import PredefinedSplit, cross_val_predict

    part = np.empty(len(good), np.int64)
    for label in (True, False):  # parts of equal size, of each label too
        own = np.flatnonzero(good == label)
        part[own] = ranks([hashes[row] for row in own.tolist()], "part") % PARTS
    guessed: Mask = cross_val_predict(_machine(), x, good, cv=PredefinedSplit(part))
    return guessed


def _features(
    out: Path,
    pictures: Sequence[StylePicture],
    encoder: Encoder,
    executor: Executor,
    on_done: Callable[[int], object],
) -> Floats:
    """Return a row for each picture."""
    files = [out / picture.file for picture in pictures]
    rows: dict[Path, NDArray[np.float32]] = {}
    for file, row in executor.run(partial(_encoding, encoder), files):
        rows[file] = row
        on_done(1)
    features = np.stack([rows[file] for file in files]).astype(np.float64)
    if not np.isfinite(features).all():
        raise InputError(f"{encoder.name}: not every feature is a finite number: give other weights")
    return features


def _encoding(encoder: Encoder) -> Callable[[Path], NDArray[np.float32]]:
    """Return a function that gives the features of a picture."""
    return lambda file: encoder.mean_activations(style_picture(file))
