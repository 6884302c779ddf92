"""Scorers: one number a picture, by which samples of a continuous shift are kept or left out.

Those that ship use an *encoder*, from pictures (and texts) to rows of numbers: `Sketch` needs no network, an
embedding takes its place by the same two methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shiftdata.errors import InputError
from shiftdata.stable import content_hash, hash64

Floats = NDArray[np.float64]
PARTS = 5  # of the content: a picture is judged by what was learned from the other four


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A sample as a scorer sees it: decoded as published, with the picture at severity 0 of its trajectory.

    Untouched content has no nuisance, and is its own `start`.
    """

    key: str
    picture: Image.Image
    start: Image.Image
    label: str
    origin: str
    nuisance: str | None = None
    severity: float = 0.0


class Scorer(Protocol):
    """A number for each view; equal views must give equal numbers, whatever else is in the call."""

    @property
    def name(self) -> str:
        """The name in reports, columns and errors: made of [a-z0-9_-]."""

    def fingerprint(self) -> str:
        """Return a hash of name, settings, weights and code: whatever changes a score. It keys the scores."""

    def __call__(self, views: Sequence[View], /) -> Any:
        """One finite number a view, as an array of them."""


@runtime_checkable
class Learner(Protocol):
    """A scorer that learns from the untouched content first."""

    def fit(self, content: Iterable[View], /) -> Scorer:
        """The scorer that learned from this content."""


class Encoder(Protocol):
    """Pictures as rows of numbers, such as the image half of CLIP, or DINO."""

    def fingerprint(self) -> str:
        """Return a hash that changes whenever an embedding could."""

    def pictures(self, pictures: Sequence[Image.Image], /) -> Floats:
        """A row for each picture."""


class TextEncoder(Encoder, Protocol):
    """An encoder with texts in the same space, such as CLIP."""

    def texts(self, texts: Sequence[str], /) -> Floats:
        """A row for each text."""


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """A picture as 8 x 8 mean colours and, in 4 x 4 cells, how strong its edges are in 8 directions.

    No network: it separates shapes, layouts and colours, and knows nothing of what they mean.
    """

    code_version: ClassVar[int] = 1

    edges: float = 2.0

    def fingerprint(self) -> str:
        return f"sketch-{self.code_version} {self.edges}"

    def pictures(self, pictures: Sequence[Image.Image]) -> Floats:
        return np.stack([self._row(picture) for picture in pictures])

    def _row(self, picture: Image.Image) -> Floats:
        small = picture.convert("RGB").resize((34, 34), Image.Resampling.BOX)
        pixels = np.asarray(small, dtype=np.float64) / 127.5 - 1
        colours = pixels[1:-1, 1:-1].reshape(8, 4, 8, 4, 3).mean(axis=(1, 3))
        grey = pixels.mean(axis=2)
        down, right = grey[2:, 1:-1] - grey[:-2, 1:-1], grey[1:-1, 2:] - grey[1:-1, :-2]
        direction = np.floor(np.arctan2(down, right) / np.pi * 4 + 4).astype(int) % 8
        cell = np.arange(32) // 8
        place = (cell[:, None] * 4 + cell) * 8 + direction
        strength = np.bincount(place.ravel(), np.hypot(down, right).ravel(), minlength=128) / 64
        return np.concatenate([colours.ravel(), self.edges * np.sqrt(strength)])


@dataclass(frozen=True, kw_only=True)
class RightClass:
    """The probability of a picture's own class, by linear discriminant analysis of an encoder's rows.

    It learns from the untouched content, in five parts by origin: no picture is judged by what was learned
    from its own origin. `shrinkage` draws the covariance towards a sphere: more for less content.
    """

    code_version: ClassVar[int] = 1

    encoder: Encoder = field(default_factory=Sketch)
    shrinkage: float = 0.5
    name: str = "right-class"
    models: tuple[LinearClassifier, ...] = field(default=(), repr=False, compare=False)

    def fingerprint(self) -> str:
        # What is learned follows from the album, as the spool does.
        parts = (str(self.code_version), self.name, self.encoder.fingerprint(), repr(self.shrinkage))
        return content_hash(*parts)

    def fit(self, content: Iterable[View]) -> RightClass:
        rows, labels, part = [], [], []
        for view in content:
            rows.append(self.encoder.pictures([view.picture])[0])
            labels.append(view.label)
            part.append(_part(view.origin))
        x, y, of = np.array(rows), np.array(labels), np.array(part)
        for left_out in range(PARTS):
            lacking = sorted(set(labels) - set(y[of != left_out].tolist()))
            if lacking:
                raise InputError(
                    f"{self.name} has too little content of {lacking[0]!r}: it learns from four of five "
                    "parts of the origins, and these lack it; add content, or use a scorer that needs none"
                )
        fitted = (linear_classifier(x[of != part], y[of != part], self.shrinkage) for part in range(PARTS))
        return replace(self, models=tuple(fitted))

    def __call__(self, views: Sequence[View]) -> Floats:
        if not self.models:
            raise InputError(f"{self.name} has learned nothing yet: give it the untouched content by fit()")
        rows, scores = self.encoder.pictures([view.picture for view in views]), []
        for row, view in zip(rows, views, strict=True):
            model = self.models[_part(view.origin)]
            scores.append(model(row)[model.labels.index(view.label)])
        return np.array(scores)


class LinearClassifier(NamedTuple):
    """softmax(x weights + bias): a probability for each label."""

    labels: tuple[str, ...]
    weights: Floats
    bias: Floats

    def __call__(self, row: Floats) -> Floats:
        logits = row @ self.weights + self.bias
        odds: Floats = np.exp(logits - logits.max())
        odds /= odds.sum()
        return odds


def linear_classifier(x: Floats, y: NDArray[np.str_], shrinkage: float) -> LinearClassifier:
    """Linear discriminant analysis with a shrunk covariance that all classes share."""
    names, code, counts = np.unique(y, return_inverse=True, return_counts=True)
    means = np.stack([x[code == number].mean(axis=0) for number in range(len(names))])
    inner = x - means[code]
    covariance = inner.T @ inner / len(x)
    sphere = np.eye(len(covariance)) * max(np.trace(covariance) / len(covariance), 1e-12)
    weights = np.linalg.solve((1 - shrinkage) * covariance + shrinkage * sphere, means.T)
    bias = np.log(counts / len(x)) - (means.T * weights).sum(axis=0) / 2
    return LinearClassifier(labels=tuple(names.tolist()), weights=weights, bias=bias)


@dataclass(frozen=True, kw_only=True)
class ToStart:
    """The distance of a picture from severity 0: 1 minus the cosine of the two in an encoder.

    CNS-Bench wants a cosine of at least 0.806 (CLIP) or 0.781 (DINOv2): a distance of at most 0.194, 0.219.
    """

    code_version: ClassVar[int] = 1

    encoder: Encoder = field(default_factory=Sketch)
    name: str = "to-start"

    def fingerprint(self) -> str:
        return content_hash(str(self.code_version), self.name, self.encoder.fingerprint())

    def __call__(self, views: Sequence[View]) -> Floats:
        pictures = [*(view.picture for view in views), *(view.start for view in views)]
        different = {id(picture): picture for picture in pictures}  # one start serves its whole trajectory
        rows = self.encoder.pictures(list(different.values()))
        place = {known: number for number, known in enumerate(different)}
        here, start = np.split(rows[[place[id(picture)] for picture in pictures]], 2)
        return 1 - cosines(here, start)


@dataclass(frozen=True, kw_only=True)
class TextAlignment:
    """The match of a picture and a sentence: 100 times the cosine of the two in an encoder of both.

    `{label}` and `{nuisance}` in the sentence are filled in, underscores as spaces. CNS-Bench reports
    "A picture of a {label}" and "A picture in {nuisance}", in these units.
    """

    code_version: ClassVar[int] = 1

    encoder: TextEncoder
    sentence: str = "A picture of a {label}"
    name: str = "text-alignment"

    def fingerprint(self) -> str:
        return content_hash(str(self.code_version), self.name, self.encoder.fingerprint(), self.sentence)

    def __call__(self, views: Sequence[View]) -> Floats:
        named = [(view.label.replace("_", " "), (view.nuisance or "").replace("_", " ")) for view in views]
        sentences = [self.sentence.format(label=label, nuisance=nuisance) for label, nuisance in named]
        different, number = np.unique(sentences, return_inverse=True)
        texts = self.encoder.texts(different.tolist())[number]
        return 100 * cosines(self.encoder.pictures([view.picture for view in views]), texts)


def cosines(a: Floats, b: Floats) -> Floats:
    """The cosine of each row of `a` with that of `b`; 0 where a row is all zeros.

    >>> cosines(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[2.0, 0.0], [1.0, 0.0]])).tolist()
    [1.0, 0.0]
    """
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products: Floats = (np.asarray(a, np.float64) * b).sum(axis=1)
    return products / np.where(lengths > 0, lengths, 1.0)


def identity(scorer: Scorer) -> str:
    """Return the name that separates a scorer from others of the same fingerprint."""
    return content_hash(type(scorer).__qualname__, scorer.fingerprint())


def _part(origin: str) -> int:
    return hash64("right-class", origin) % PARTS
