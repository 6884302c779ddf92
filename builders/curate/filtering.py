"""Which style pictures are like those that a person called good: a support vector machine on features."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from builders.curate.encoders import Encoder
from builders.curate.labelling import BAD, GOOD, read_labels
from builders.shifts.styles.bank import style_picture
from builders.shifts.styles.listed import StylePicture, read_listed, read_rows, write_rows
from shiftdata.data.executors import Executor
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.files import whole_file
from shiftdata.stable import content_hash, ranks

SCORES = "scores.tsv"
COLUMNS = ("style", "file", "score", "label", "kept")
KEPT, LEFT = "yes", "no"
FEATURES = ".features"
#: Pictures whose features are one file.
PER_FILE = 32
#: The fewest labels of each kind, and the parts of the cross-validation.
FEWEST, PARTS = 10, 5

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """What the filter did. `balanced` is the cross-validated mean of the shares of each label that it got."""

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
    """Score every picture by what was learned from the labelled ones, and write which `keep` of a style stay.

    A picture that a person called bad never stays.
    """
    svm = require("sklearn.svm", "the filter of style pictures")
    pictures = read_listed(out)
    known, differ = _labels(out, labels)
    x = _features(out, pictures, encoder, executor, on_done)
    place = {one.file: number for number, one in enumerate(pictures)}
    rows = np.array([place[name] for name in sorted(known)])
    y = np.array([known[name] == GOOD for name in sorted(known)])
    guessed = _cross_validated(svm, x[rows], y, [pictures[row].sha256 for row in rows])
    scores = _fitted(svm, x[rows], y)(x)
    kept = _best(pictures, scores, known, keep)
    table = [
        (one.style, one.file, round(score, 6), known.get(one.file, ""), KEPT if one.file in kept else LEFT)
        for one, score in zip(pictures, scores.tolist(), strict=True)
    ]
    write_rows(out / SCORES, COLUMNS, table)
    counts, in_style = Counter(known.values()), Counter(one.style for one in pictures if one.file in kept)
    shares = np.array([np.mean(guessed[y == of] == of) for of in (True, False)])
    errors = shares * (1 - shares) / [counts[GOOD], counts[BAD]]
    styles = sorted({one.style for one in pictures})
    return Filtered(
        encoder=encoder.name,
        labels=counts,
        balanced=float(shares.mean()),
        error=float(np.sqrt(errors.sum()) / 2),
        accuracy=float(np.mean(guessed == y)),
        differ=len(differ),
        kept=len(kept),
        below=sum(scores[place[name]] < 0 for name in kept),
        few={style: in_style[style] for style in styles if in_style[style] < keep},
    )


def _labels(out: Path, file: Path) -> tuple[dict[str, str], list[str]]:
    """The label of each picture that has one, and those on which people differ; too few are refused."""
    known, differ = read_labels(out, file)
    counts = Counter(known.values())
    if min(counts[GOOD], counts[BAD]) < FEWEST:
        raise InputError(
            f"{file} has {counts[GOOD]} labels {GOOD} and {counts[BAD]} {BAD}; at least {FEWEST} of each "
            "are needed: label more pictures, `styles sample` draws them"
        )
    return known, differ


def read_kept(out: Path, scores: Path) -> list[StylePicture]:
    """The pictures of a folder that a table of scores keeps."""
    pictures, known, kept = {one.file: one for one in read_listed(out)}, set(), []
    for place, row in read_rows(scores, COLUMNS):
        if row["file"] not in pictures:
            raise InputError(
                f"{scores}, {place}: {row['file']!r} is not a picture of {out}: run `styles filter`"
            )
        known.add(row["file"])
        if row["kept"] == KEPT:
            kept.append(pictures[row["file"]])
    if missing := sorted(pictures.keys() - known):
        raise InputError(
            f"{scores} has no score of {len(missing):,} pictures of {out}, such as {missing[0]}: run "
            "`styles filter`"
        )
    return sorted(kept)


def _best(pictures: Sequence[StylePicture], scores: Floats, known: dict[str, str], keep: int) -> set[str]:
    """The files of the best pictures of each style."""
    taken: Counter[str] = Counter()
    best = set()
    for one, _ in sorted(
        zip(pictures, scores.tolist(), strict=True), key=lambda one: (-one[1], one[0].sha256)
    ):
        if known.get(one.file) != BAD and taken[one.style] < keep:
            taken[one.style] += 1
            best.add(one.file)
    return best


def _fitted(svm: Any, x: Floats, y: NDArray[np.bool_]) -> Callable[[Floats], Floats]:
    """What gives the decision values of rows: above 0 is good. Both labels weigh the same."""
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    deviation[deviation == 0] = 1
    model = svm.SVC(kernel="rbf", class_weight="balanced").fit((x - mean) / deviation, y)

    def decide(rows: Floats) -> Floats:
        values: Floats = model.decision_function((rows - mean) / deviation)
        return values

    return decide


def _cross_validated(svm: Any, x: Floats, y: NDArray[np.bool_], names: Sequence[str]) -> NDArray[np.bool_]:
    """What each picture is called by a machine that learned from the other parts."""
    part = np.empty(len(y), np.int64)
    for of in (True, False):
        part[y == of] = ranks([name for name, own in zip(names, y, strict=True) if own == of], "part") % PARTS
    guessed = np.empty(len(y), bool)
    for number in range(PARTS):
        inside = part == number
        guessed[inside] = _fitted(svm, x[~inside], y[~inside])(x[inside]) > 0
    return guessed


def _features(
    out: Path,
    pictures: Sequence[StylePicture],
    encoder: Encoder,
    executor: Executor,
    on_done: Callable[[int], object],
) -> Floats:
    """A row for each picture. They are kept: labels change more often than pictures."""
    folder = out / FEATURES / hashlib.sha256(encoder.fingerprint().encode()).hexdigest()[:16]
    by_hash = sorted({one.sha256: one.file for one in pictures}.items())
    blocks = [tuple(by_hash[at : at + PER_FILE]) for at in range(0, len(by_hash), PER_FILE)]
    files = {block: folder / f"{content_hash(*(sha for sha, _ in block))[:20]}.npy" for block in blocks}
    missing = [block for block in blocks if not files[block].is_file()]
    on_done(len(by_hash) - sum(map(len, missing)))
    jobs = [(files[block], [out / file for _, file in block]) for block in missing]
    for (_, done), _ in executor.run(partial(_encoding, encoder), jobs):
        on_done(len(done))
    rows = np.concatenate([np.load(files[block]) for block in blocks]).astype(np.float64)
    if not np.isfinite(rows).all():
        raise InputError(f"{encoder.name}: not every feature is a finite number: give other weights")
    place = {sha256: number for number, (sha256, _) in enumerate(by_hash)}
    return rows[[place[one.sha256] for one in pictures]]


def _encoding(encoder: Encoder) -> Callable[[tuple[Path, list[Path]]], None]:
    """What writes the features of some pictures, in a process."""

    def encode(job: tuple[Path, list[Path]]) -> None:
        file, pictures = job
        rows = np.stack([encoder.mean_activations(style_picture(picture)) for picture in pictures])
        with whole_file(file) as temporary, temporary.open("wb") as stream:
            np.save(stream, rows)

    return encode
