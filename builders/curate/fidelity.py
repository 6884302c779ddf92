"""How much of what is painted stays recognisable in each style: fidelity, as Stylized Meta-Album defines it.

A trial draws three styles and three classes. A linear classifier of frozen features learns the classes from
stylized pictures; its accuracy on others, over that of one for the untouched pictures, is the fidelity of a
style in this trial.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from builders.curate.content import Content
from builders.curate.filtering import KEPT, LEFT, SCORES, read_kept
from builders.filters.scorers import linear_classifier
from builders.sample import Item
from builders.shifts.styles.bank import style_picture
from builders.shifts.styles.listed import StylePicture, read_listed, read_rows, write_rows
from builders.shifts.stylizers import Stylizer
from builders.shifts.stylizers.stylizer import FloatArray
from shiftdata.data.executors import Executor
from shiftdata.errors import InputError
from shiftdata.files import write_text
from shiftdata.stable import content_hash, hash64, rng
from shiftdata.untrusted.texts import read_json

TABLE, TRIALS = "fidelity.tsv", ".trials"
COLUMNS = ("style", "fidelity", "sem", "n", "kept")
#: Styles and classes of a trial, and the most pictures of a class in training and in test.
STYLES, CLASSES, MOST = 3, 3, 20
#: The fewest origins of a class: two to learn from and two to test on.
FEWEST = 4
SHRINKAGE = 0.5
#: Raised when the same pictures give other numbers.
TRIAL_VERSION = 1

#: Pictures as rows of features.
Describe: TypeAlias = Callable[[Sequence[Image.Image]], Any]
#: Labelled pictures to learn from or to test on.
Half: TypeAlias = list[tuple[Item, Image.Image]]


@dataclass(frozen=True)
class StyleFidelity:
    """Fidelity of one style: the mean over `n` trials, and its standard error where there are several."""

    style: str
    fidelity: float
    sem: float
    n: int
    kept: bool

    def __str__(self) -> str:
        if not self.n:
            return f"{self.style}: in no trial, left out: more --trials"
        error = f" ± {self.sem:.3f}" if self.n > 1 else ""
        return f"{self.style}: {self.fidelity:.3f}{error} (n = {self.n}){'' if self.kept else ', left out'}"


@dataclass(frozen=True)
class Fidelity:
    """Fidelity of all styles, the best first. `original` is the mean accuracy on untouched pictures."""

    styles: tuple[StyleFidelity, ...]
    features: str
    trials: int
    original: float

    def __str__(self) -> str:
        original = f"untouched pictures: accuracy {self.original:.3f}, {self.trials} trials"
        if self.original < 0.6:
            original += f", not far from chance ({1 / CLASSES:.3f}): fidelity says little, give other content"
        return "\n".join([*map(str, self.styles), f"features: {self.features}", original])


def measure(
    out: Path,
    content: Content,
    executor: Executor,
    stylizer: Stylizer,
    *,
    trials: int = 100,
    keep: int = 20,
    on_done: Callable[[int], object] = lambda count: None,
) -> Fidelity:
    """Measure the styles of a folder in trials, and write which `keep` stay.

    Where the folder has scores, only pictures that they keep take part. Trials that were made stay, for a
    call that was killed or one with more of them.
    """
    pictures = read_kept(out, out / SCORES) if (out / SCORES).is_file() else list(read_listed(out))
    plan = Plan(out, tuple(pictures), content, stylizer)
    plan.check()
    name, about, _ = describer()
    identity = content_hash(
        *(f"{picture.style} {picture.sha256}" for picture in pictures),
        content.fingerprint(), stylizer.fingerprint(), about, str(TRIAL_VERSION),
    )  # fmt: skip
    folder = out / TRIALS / identity[:16]
    files = [folder / f"{number:05}.json" for number in range(trials)]
    missing = [number for number, file in enumerate(files) if not file.is_file()]
    on_done(trials - len(missing))
    for _ in executor.run(partial(trial_of, plan, folder), missing):
        on_done(1)
    done = [read_json(file) for file in files]
    result = summed(plan.styles, done, name, keep)
    rows = [
        (row.style, _number(row.fidelity), _number(row.sem), row.n, KEPT if row.kept else LEFT)
        for row in result.styles
    ]
    write_rows(out / TABLE, COLUMNS, rows)
    return result


def read_kept_styles(file: Path) -> set[str]:
    """Return the styles that a table of fidelity keeps."""
    return {row["style"] for _, row in read_rows(file, COLUMNS) if row["kept"] == KEPT}


def summed(styles: Sequence[str], done: Sequence[dict[str, Any]], features: str, keep: int) -> Fidelity:
    """Average the ratios of each style. A trial whose untouched pictures were all mistaken has none."""
    ratios: dict[str, list[float]] = {style: [] for style in styles}
    for trial in done:
        for style, accuracy in trial["styles"].items():
            if trial["original"] > 0:
                ratios[style].append(accuracy / trial["original"])
    means = {style: float(np.mean(of)) if of else float("nan") for style, of in ratios.items()}
    order = sorted(styles, key=lambda style: (not ratios[style], -np.nan_to_num(means[style]), style))
    rows = []
    for place, style in enumerate(order):
        of = ratios[style]
        sem = float(np.std(of, ddof=1) / np.sqrt(len(of))) if len(of) > 1 else float("nan")
        rows.append(StyleFidelity(style, means[style], sem, len(of), kept=bool(of) and place < keep))
    original = float(np.mean([trial["original"] for trial in done]))
    return Fidelity(tuple(rows), features, len(done), original)


def _number(value: float) -> str:
    return f"{value:.6f}" if np.isfinite(value) else ""


def describer() -> tuple[str, str, Describe]:
    """Return the name, the fingerprint and the function of frozen features."""
    from shiftdata.data.loading.encoders import FEATURES, FrozenFeatures

    features = FrozenFeatures()
    return FEATURES, features.fingerprint, features


@dataclass(frozen=True)
class Plan:
    """Pictures of styles and of content that trials draw from."""

    out: Path
    pictures: tuple[StylePicture, ...]
    content: Content
    stylizer: Stylizer

    @property
    def styles(self) -> list[str]:
        return sorted({picture.style for picture in self.pictures})

    @property
    def classes(self) -> dict[str, list[Item]]:
        """The items of each label that has enough origins."""
        of: dict[str, list[Item]] = {}
        for item in self.content.items:
            of.setdefault(item.label, []).append(item)
        return {
            label: of[label] for label in sorted(of) if len({item.origin for item in of[label]}) >= FEWEST
        }

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


def trial_of(plan: Plan, folder: Path) -> Callable[[int], None]:
    """Return a function that makes a trial; made in the process that runs it."""
    classes, styles, stylizer = plan.classes, plan.styles, plan.stylizer
    describe = describer()[2]

    @cache
    def code(picture: StylePicture) -> FloatArray:
        return stylizer.encode(style_picture(plan.out / picture.file))

    def painted(number: int, half: Half, drawn: Sequence[str]) -> list[list[Image.Image]]:
        """Paint every picture in every style."""
        of = {style: [picture for picture in plan.pictures if picture.style == style] for style in drawn}
        rows = []
        for item, picture in half:
            chosen = [
                own[hash64("fidelity", number, style, item.key) % len(own)] for style, own in of.items()
            ]
            rows.append(stylizer.stylize(picture, [code(choice) for choice in chosen], [1.0] * len(chosen)))
        return rows

    def trial(number: int) -> None:
        draw = rng("fidelity", number)
        drawn = sorted(draw.choice(styles, STYLES, replace=False).tolist())
        labels = sorted(draw.choice(list(classes), CLASSES, replace=False).tolist())
        train, test = halves(plan.content, number, {label: classes[label] for label in labels})
        learned, wanted = ([item.label for item, _ in half] for half in (train, test))
        plain = [[picture for _, picture in half] for half in (train, test)]
        original = _accuracy(describe, plain[0], learned, [plain[1]], wanted)[0]
        rows, tested = painted(number, train, drawn), painted(number, test, drawn)
        flat, by_style = (
            [picture for row in rows for picture in row],
            list(map(list, zip(*tested, strict=True))),
        )
        ratios = _accuracy(describe, flat, np.repeat(learned, STYLES).tolist(), by_style, wanted)
        outcome = {"original": original, "styles": dict(zip(drawn, ratios, strict=True)), "n": len(wanted)}
        write_text(folder / f"{number:05}.json", json.dumps(outcome) + "\n")

    return trial


def halves(content: Content, number: int, classes: dict[str, list[Item]]) -> tuple[Half, Half]:
    """Split content of some classes to learn from and to test on; no origin is in both."""
    train: Half = []
    test: Half = []
    for label, items in classes.items():

        def stable(text: str) -> tuple[int, str]:
            return hash64("fidelity", number, text), text

        origins = sorted({item.origin for item in items}, key=stable)
        learned = set(origins[: len(origins) // 2])
        order = sorted(items, key=lambda item: stable(item.key))
        for half, inside in ((train, True), (test, False)):
            own = content.pictures(item for item in order if (item.origin in learned) == inside)
            usable = [pair for pair, _ in zip(own, range(MOST), strict=False)]
            if not usable:
                raise InputError(f"no picture of {label!r} of {content.reference} can be used: look at them")
            half += usable
    return train, test


def _accuracy(
    describe: Describe,
    pictures: Sequence[Image.Image],
    labels: Sequence[str],
    tests: Sequence[Sequence[Image.Image]],
    wanted: Sequence[str],
) -> list[float]:
    """Return the accuracies, on some tests, of a linear classifier that learned from some pictures."""
    model = linear_classifier(np.asarray(describe(pictures), np.float64), np.array(labels), SHRINKAGE)
    names = np.array(model.labels)
    logits = [np.asarray(describe(test), np.float64) @ model.weights + model.bias for test in tests]
    return [float(np.mean(names[rows.argmax(axis=1)] == np.array(wanted))) for rows in logits]
