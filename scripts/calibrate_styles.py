"""Set the strength of each style by how well a small network recognises what is painted in it.

    python scripts/calibrate_styles.py sma_glyphs          # 9 minutes of one core
    python scripts/calibrate_styles.py sma_glyphs --check  # measure what ships once more, with another seed

The rule; all but its second point was fixed before anything was measured:

1. A small network (`shiftdata.baselines`, from scratch) is trained on train-fold content, untouched and in
   all styles. The fidelity of a style is the network's accuracy on validation-fold content in that style over
   its accuracy on the same content untouched, with a 95 % interval (bootstrap over origins, paired).
2. The contrast of a style is the deviation of the pixels within a picture, mean over pictures and channels,
   of 255. A style whose contrast is below `CONTRAST` goes down one of the `STRENGTHS`, until none is.
   (Networks that normalise read outlines too faint for an eye: by fidelity alone every style of letters
   passed. The bar was set by a sheet of those: `pale_cream` 7, `mist` 13 and `pale_watercolour` 18 are faint,
   the next has 31.)
3. A style whose fidelity is below `BAR` goes down one strength, and everything is measured again
   with a new network, until all styles pass.
4. A style that fails at the lowest strength has to be replaced by another drawing.

The table `<recipe>.styles.tsv` beside the recipe, which the recipe reads, has a line a style: strength,
contrast, fidelity, its interval, the number of validation pictures, and two figures of a nuisance probe, the
same network trained to name the style: the share of the style's validation pictures that it names, at full
strength and now. A style has to remain one.

With `CONTENT` a label, the interval of a fidelity is some 0.05 wide.
`STEPS` are enough for nine letters in ten.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tqdm import tqdm

from builders.items import ItemTable
from builders.make import assign
from builders.recipe import Base, Recipe
from builders.recipe_files import load_recipe, recipe_path
from builders.sample import Item, Sample
from builders.shifts.steps import Stylize
from builders.shifts.styles.bank import read_strengths
from shiftdata.baselines import Training, fit
from shiftdata.baselines.sets import SIDE
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.schema import split_of_fold
from shiftdata.evaluation.metrics import bootstrap_rows
from shiftdata.stable import content_hash

STRENGTHS = (1.0, 0.8, 0.65, 0.5, 0.35)
BAR = 0.85
CONTENT = {"train": 30, "validation": 25}
CONTRAST = 20.0
STEPS = 800
UNTOUCHED = ""
PAINTED = Path("build/styles")


@dataclass(frozen=True)
class Fidelity:
    """What the table says of a style."""

    style: str
    strength: float
    contrast: float
    fidelity: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, eq=False)
class Content:
    """The content that is painted: its items and samples, each with its label and split."""

    recipe: Recipe
    items: tuple[Item, ...]
    train: NDArray[np.bool_]

    @staticmethod
    def of(recipe: Recipe) -> Content:
        every = ItemTable.of(recipe.album.items())
        fold_of = assign.folds(every)
        of_train, picked = list[bool](), list[Item]()
        for split, wanted in CONTENT.items():
            base = Base(name="", summary="", listed=True, per_group=round(wanted / assign.SHARES[split]))
            rows = assign.pick(every, fold_of, base)
            mine = [row for row in rows.tolist() if split_of_fold(fold_of[row]) == split]
            picked += every.take(np.array(mine))
            of_train += [split == "train"] * len(mine)
        return Content(recipe, tuple(picked), np.array(of_train))

    @cached_property
    def samples(self) -> list[Sample]:
        """The content as the recipe prepares it."""
        made = iter(
            Sample(item=item, key=item.key, example=self.recipe.album.load(item)) for item in self.items
        )
        for step in self.recipe.prepare:
            made = step(made)
        return list(made)

    @cached_property
    def labels(self) -> IntArray:
        return np.array([self.recipe.album.labels.index(item.label) for item in self.items])

    def painted(self, strengths: Mapping[str, float]) -> dict[str, NDArray[np.uint8]]:
        """Small pixels of all content in some styles."""
        places = {style: self._place(style, strength) for style, strength in strengths.items()}
        missing = {style: strengths[style] for style, place in places.items() if not place.exists()}
        step = self._step(missing) if missing else None

        def paint(sample: Sample) -> list[NDArray[np.uint8]]:
            return [small(one.image) for one in step(iter([sample]))] if step else []

        if step:
            with ThreadPoolExecutor(2) as pool:
                made = list(tqdm(pool.map(paint, self.samples), desc="painting", total=len(self.samples)))
            for style, pixels in zip(missing, np.stack(made, axis=1), strict=True):
                places[style].parent.mkdir(parents=True, exist_ok=True)
                np.save(places[style], pixels)
        return {style: np.load(place) for style, place in places.items()}

    def _step(self, strengths: Mapping[str, float]) -> Stylize:
        shift = self.recipe.shift
        assert isinstance(shift, Stylize)
        return replace(shift, styles=tuple(strengths), strengths=strengths)

    def _place(self, style: str, strength: float) -> Path:
        """The file of what is painted, so that a run which was stopped goes on."""
        made_of = content_hash(self.untouched.tobytes(), self._step({style: strength}).fingerprint())
        return PAINTED / self.recipe.name / f"{style}-{strength:g}-{made_of[:16]}.npy"

    @cached_property
    def untouched(self) -> NDArray[np.uint8]:
        return np.stack([small(sample.image) for sample in self.samples])


def small(picture: Image.Image) -> NDArray[np.uint8]:
    """As the network reads it."""
    return np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR))


class Pictures:
    """All content, untouched and in each style, in the strength that the style has now."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self.pixels = {UNTOUCHED: content.untouched}

    def paint(self, strengths: Mapping[str, float]) -> None:
        self.pixels |= self.content.painted(strengths)

    def predicted(self, targets: Mapping[str, IntArray], seed: int) -> dict[str, IntArray]:
        """What a network that learns some targets from train content says of the validation content."""
        train = np.tile(self.content.train, len(targets))
        x = np.concatenate([self.pixels[style] for style in targets])
        wanted = np.concatenate(list(targets.values()))
        model = fit(x, np.flatnonzero(train), wanted[train], training=Training(steps=STEPS), seed=seed)
        guesses = model.predict(np.flatnonzero(~train)).reshape(len(targets), -1)
        return dict(zip(targets, guesses, strict=True))

    def fidelities(self, strengths: Mapping[str, float], seed: int) -> list[Fidelity]:
        """How well a new network recognises content in each style."""
        labels = self.content.labels[~self.content.train]
        guesses = self.predicted(dict.fromkeys(self.pixels, self.content.labels), seed)
        right = {style: guess == labels for style, guess in guesses.items()}
        print(f"untouched: {right[UNTOUCHED].mean():.3f}")
        held_out = np.flatnonzero(~self.content.train)
        origins = [self.content.items[at].origin for at in held_out]
        measured = []
        for style, strength in strengths.items():
            ratio = partial(_ratio, right[style], right[UNTOUCHED])
            found = bootstrap_rows(ratio, len(origins), clusters=origins)
            figures = (self.contrast(style), found.estimate, found.low, found.high)
            measured.append(Fidelity(style, strength, *figures, len(origins)))
        return measured

    def contrast(self, style: str) -> float:
        """How much the pixels within a picture differ."""
        return float(self.pixels[style].std(axis=(1, 2)).mean())

    def recalls(self, seed: int) -> dict[str, float]:
        """How often a network names each style."""
        styles = [style for style in self.pixels if style != UNTOUCHED]
        of = {style: np.full(len(self.content.items), at) for at, style in enumerate(styles)}
        return {
            style: float((guess == of[style][0]).mean()) for style, guess in self.predicted(of, seed).items()
        }


def _ratio(right: NDArray[np.bool_], untouched: NDArray[np.bool_], rows: IntArray) -> float:
    return float(right[rows].mean() / untouched[rows].mean())


def show(measured: list[Fidelity]) -> list[str]:
    """Print what was measured; the styles below the bar."""
    failing = [measure.style for measure in measured if measure.fidelity < BAR]
    for measure in measured:
        shares = f"{measure.fidelity:.3f} [{measure.low:.3f}, {measure.high:.3f}]"
        mark = "  below the bar" if measure.style in failing else ""
        print(f"{measure.style:17} {measure.strength:4} {measure.contrast:5.1f} {shares}{mark}")
    return failing


def calibrate(pictures: Pictures, styles: tuple[str, ...]) -> list[Fidelity]:
    """The rule: what was measured when all styles passed."""
    strengths = dict.fromkeys(styles, STRENGTHS[0])
    pictures.paint(strengths)
    while faint := [style for style in styles if pictures.contrast(style) < CONTRAST]:
        pictures.paint(lower(strengths, faint))
    for turn in count():
        measured = pictures.fidelities(strengths, seed=turn)
        if not (failing := show(measured)):
            return measured
        pictures.paint(lower(strengths, failing))
    raise AssertionError("strengths end")


def lower(strengths: dict[str, float], styles: list[str]) -> dict[str, float]:
    """Take some styles one strength down, and return what they have now."""
    if lost := [style for style in styles if strengths[style] == STRENGTHS[-1]]:
        raise SystemExit(
            f"{', '.join(lost)}: below the bar at the lowest strength; replace these drawings in the bank"
        )
    now = {style: STRENGTHS[STRENGTHS.index(strengths[style]) + 1] for style in styles}
    strengths |= now
    print("lower:", now)
    return now


def write(path: Path, measured: list[Fidelity], recalls: Sequence[Mapping[str, float]]) -> None:
    """The table that the recipe reads; `recalls` are those at full strength and those now."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow([*(field.name for field in fields(Fidelity)), "recall_at_full", "recall"])
        for measure in measured:
            shares = (measure.fidelity, measure.low, measure.high)
            cells = [
                measure.style,
                f"{measure.strength:g}",
                f"{measure.contrast:.1f}",
                *(f"{part:.3f}" for part in shares),
            ]
            table.writerow([*cells, measure.n, *(f"{recall[measure.style]:.3f}" for recall in recalls)])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name", help="a recipe of stylized pictures")
    parser.add_argument("--check", action="store_true", help="measure the strengths that ship, write nothing")
    options = parser.parse_args()
    recipe = load_recipe(options.name)
    path = recipe_path(options.name).with_suffix(".styles.tsv")
    pictures = Pictures(Content.of(recipe))
    if options.check:
        strengths = read_strengths(path)
        pictures.paint(strengths)
        measured = pictures.fidelities(strengths, seed=100)
        show(measured)
        return int(any(measure.high < BAR for measure in measured))
    measured = calibrate(pictures, recipe.shift.nuisances)
    write(path, measured, [])
    now = pictures.recalls(seed=0)
    pictures.paint(dict.fromkeys(now, STRENGTHS[0]))
    recalls = [pictures.recalls(seed=0), now]
    print(
        "styles named at full strength, and now:",
        [f"{np.mean([*recall.values()]):.3f}" for recall in recalls],
    )
    write(path, measured, recalls)
    return 0


if __name__ == "__main__":
    sys.exit(main())
