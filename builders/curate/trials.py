"""One trial of fidelity: three styles, three classes, classifiers of stylized and of untouched pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.curate.content import Content
from builders.filters.scorers import Sketch, linear_classifier
from builders.sample import Item
from builders.shifts.styles.bank import style_picture
from builders.shifts.styles.listed import StylePicture
from builders.shifts.stylizers import Stylizer
from builders.shifts.stylizers.stylizer import FloatArray
from shiftdata.errors import InputError
from shiftdata.files import write_text
from shiftdata.stable import hash64, rng

#: What a trial draws, and the most pictures of a class in training and in test.
STYLES, CLASSES, MOST = 3, 3, 20
#: The fewest origins of a class: two to learn from and two to test on.
FEWEST = 4
SHRINKAGE = 0.5
#: Raised when the same pictures give other numbers.
TRIAL_VERSION = 1

Describe: TypeAlias = Callable[[Sequence[Image.Image]], Any]


def describer() -> tuple[str, str, Describe]:
    """Frozen features, or a sketch where their libraries are not installed: name, fingerprint, function."""
    try:
        from shiftdata.data.loading.frozen import FEATURES, FrozenFeatures

        features = FrozenFeatures()
        return FEATURES, features.fingerprint, features
    except ImportError:
        sketch = Sketch()
        return (
            "a sketch of colours and edges (pip install 'shiftdata[baselines]': frozen features)",
            (sketch.fingerprint()),
            sketch.pictures,
        )


@dataclass(frozen=True)
class Plan:
    """What trials draw from."""

    out: Path
    pictures: tuple[StylePicture, ...]
    content: Content
    stylizer: Stylizer

    @property
    def styles(self) -> list[str]:
        return sorted({one.style for one in self.pictures})

    @property
    def classes(self) -> dict[str, list[Item]]:
        """The items of each label that has enough origins."""
        of: dict[str, list[Item]] = {}
        for item in self.content.items:
            of.setdefault(item.label, []).append(item)
        return {label: of[label] for label in sorted(of) if len({one.origin for one in of[label]}) >= FEWEST}

    def check(self) -> None:
        if len(self.styles) < STYLES:
            raise InputError(
                f"{self.out} has {len(self.styles)} styles to measure, and a trial draws {STYLES}: get more"
            )
        if len(self.classes) < CLASSES:
            raise InputError(
                f"{self.content.reference} has {len(self.classes)} labels with {FEWEST} or more origins, and "
                f"a trial draws {CLASSES}: give other content"
            )


@dataclass(frozen=True)
class _Half:
    """Pictures to learn from or to test on, and the label of each."""

    keys: list[str]
    pictures: list[Image.Image]
    labels: NDArray[np.str_]


def trial_of(plan: Plan, folder: Path) -> Callable[[int], None]:
    """What makes a trial, in a process."""
    classes, styles, stylizer = plan.classes, plan.styles, plan.stylizer
    describe = describer()[2]

    @cache
    def code(picture: StylePicture) -> FloatArray:
        return stylizer.encode(style_picture(plan.out / picture.file))

    def painted(number: int, half: _Half, drawn: Sequence[str]) -> list[list[Image.Image]]:
        """Every picture in every style."""
        of = {style: [one for one in plan.pictures if one.style == style] for style in drawn}
        made = []
        for key, picture in zip(half.keys, half.pictures, strict=True):
            some = [own[hash64("fidelity", number, style, key) % len(own)] for style, own in of.items()]
            made.append(stylizer.stylize(picture, [code(one) for one in some], [1.0] * len(some)))
        return made

    def trial(number: int) -> None:
        draw = rng("fidelity", number)
        drawn = sorted(draw.choice(styles, STYLES, replace=False).tolist())
        labels = sorted(draw.choice(list(classes), CLASSES, replace=False).tolist())
        train, test = _halves(plan.content, number, {label: classes[label] for label in labels})
        original = _accuracy(describe, train.pictures, train.labels, [test.pictures], test.labels)[0]
        rows, tested = painted(number, train, drawn), painted(number, test, drawn)
        found = _accuracy(
            describe,
            [one for row in rows for one in row],
            np.repeat(train.labels, STYLES),
            [list(column) for column in zip(*tested, strict=True)],
            test.labels,
        )
        outcome = {
            "original": original,
            "styles": dict(zip(drawn, found, strict=True)),
            "n": len(test.labels),
        }
        write_text(folder / f"{number:05}.json", json.dumps(outcome) + "\n")

    return trial


def _halves(content: Content, number: int, classes: dict[str, list[Item]]) -> tuple[_Half, _Half]:
    """Content of some classes to learn from and to test on; no origin is in both."""
    halves: tuple[list[tuple[Item, Image.Image]], ...] = ([], [])
    for label, items in classes.items():
        origins = sorted(
            {item.origin for item in items}, key=lambda one: (hash64("fidelity", number, one), one)
        )
        train = set(origins[: len(origins) // 2])
        order = sorted(items, key=lambda item: (hash64("fidelity", number, item.key), item.key))
        for half, inside in zip(halves, (True, False), strict=True):
            own = content.pictures(item for item in order if (item.origin in train) == inside)
            some = [one for one, _ in zip(own, range(MOST), strict=False)]
            if not some:
                raise InputError(f"no picture of {label!r} of {content.reference} can be used: look at them")
            half += some
    train_half, test_half = (
        _Half(
            [item.key for item, _ in half],
            [picture for _, picture in half],
            np.array([item.label for item, _ in half]),
        )
        for half in halves
    )
    return train_half, test_half


def _accuracy(
    describe: Describe,
    pictures: Sequence[Image.Image],
    labels: NDArray[np.str_],
    tests: Sequence[Sequence[Image.Image]],
    wanted: NDArray[np.str_],
) -> list[float]:
    """The accuracies, on some tests, of a linear classifier that learned from some pictures."""
    model = linear_classifier(np.asarray(describe(pictures), np.float64), labels, SHRINKAGE)
    names = np.array(model.labels)
    scores = [np.asarray(describe(test), np.float64) @ model.weights + model.bias for test in tests]
    return [float(np.mean(names[one.argmax(axis=1)] == wanted)) for one in scores]
