"""How far the embedded sets lie apart: covariate and concept shift, as table 1 of the NICO++ paper.

    python scripts/bench/meters.py [--concepts 12] [--draws 3] [--train]

Pictures are made in memory from the emoji album and the style bank. As in the paper two domains are the
source and two the target, drawn at random several times; labels are the 20 classes. No origin is both fitted
on and measured on, and origins count together for the intervals. Covariate shift is a lower bound.

    i.i.d.      untouched pictures of all vendors, the origins of each class dealt to two sides
    styles      the same pictures in other styles
    vendors     the same concepts by other vendors
    contexts    the same drawings in other common domains of nico_emoji
    both        other vendors and other styles

Features are those of EfficientNet-Lite0 (ImageNet weights, the assets group of pyproject.toml) where it is
installed; else means and deviations of colours over a grid, which know little of classes. With --train, the
paper's procedure runs as well: its small network, from scratch, on the pictures at 28 pixels.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.albums.emoji import VENDORS, EmojiAlbum
from builders.sample import Item
from builders.shifts.contexts.domains import COMMON
from builders.shifts.contexts.scene import Stage, in_context
from builders.shifts.steps import OnGround
from builders.shifts.styles import network
from builders.shifts.styles.bank import StyleBank
from shiftdata.baselines.frozen import FrozenFeatures
from shiftdata.evaluation.meters import (
    concept_shift_on_features,
    covariate_shift,
    covariate_shift_by_training,
)
from shiftdata.evaluation.metrics import Interval
from shiftdata.stable import hash64, ranks, rng

SIDE = 128
SMALL = 28
Features: TypeAlias = NDArray[np.float64]
#: A vendor, and a style or a context; without either it is the untouched picture.
Domain: TypeAlias = tuple[str, str | None]


@dataclass(frozen=True)
class Side:
    """Rows of one side: features, small pictures, labels, origins."""

    features: Features
    small: NDArray[np.uint8]
    labels: list[str]
    origins: list[str]


class Pictures:
    """The features of emoji in any domain, made once each."""

    def __init__(self, concepts: int, describe: Callable[[list[Image.Image]], NDArray[np.float32]]) -> None:
        self._describe, self._album, self._ground = describe, EmojiAlbum(size=SIDE), OnGround(size=SIDE)
        self._bank = StyleBank.load()
        self._items = {vendor: self._chosen(vendor, concepts) for vendor in VENDORS}
        self._made = cache(self._make)

    def side(self, domains: Sequence[Domain], origins: Callable[[str], bool] = lambda origin: True) -> Side:
        """All pictures of some domains whose origin is wanted."""
        items = [(item, place) for place in domains for item in self._items[place[0]]]
        wanted = np.array([origins(item.origin) for item, _ in items])
        kept = [item for (item, _), keep in zip(items, wanted, strict=True) if keep]
        made = [self._made(place) for place in domains]
        features, small = (np.concatenate(parts)[wanted] for parts in zip(*made, strict=True))
        return Side(features, small, [item.label for item in kept], [item.origin for item in kept])

    def _chosen(self, vendor: str, concepts: int) -> list[Item]:
        """The same concepts of every class by each vendor."""
        chosen = []
        for label in self._album.labels:
            mine = [i for i in self._album.items() if i.label == label and i.source["vendor"] == vendor]
            order = ranks([str(item.source["concept"]) for item in mine], "meters")
            chosen += [item for item, rank in zip(mine, order, strict=True) if rank < concepts]
        return chosen

    def _make(self, domain: Domain) -> tuple[Features, NDArray[np.uint8]]:
        vendor, style = domain
        images = [self._picture(item, style) for item in self._items[vendor]]
        print(f"{vendor}, {style or 'untouched'}: {len(images)} pictures", file=sys.stderr)
        small = [np.asarray(image.resize((SMALL, SMALL), Image.Resampling.BOX)) for image in images]
        return self._describe(images).astype(np.float64), np.stack(small)

    def _picture(self, item: Item, style: str | None) -> Image.Image:
        if style in COMMON:
            random = rng("meters", style, item.key)
            make = COMMON[style][int(random.integers(len(COMMON[style])))]
            return in_context(self._album.load(item), make, Stage(SIDE, random))
        image = self._ground.compose(self._album.load(item))
        if style is None:
            return image
        code = self._bank.code(style, hash64("meters", style, item.key) % self._bank.size)
        return network.paint(network.features(image), code, image.size)


def grid_features(images: list[Image.Image], cells: int = 8) -> NDArray[np.float32]:
    """Mean and deviation of each colour in each cell of a grid."""
    step = SIDE // cells
    pixels = np.stack([np.asarray(image, dtype=np.float32) for image in images])
    parts = pixels.reshape(len(images), cells, step, cells, step, 3)
    both = np.concatenate([parts.mean((2, 4)), parts.std((2, 4))], axis=-1)
    return both.reshape(len(images), -1)


def comparisons(pictures: Pictures, draws: int) -> list[tuple[str, list[tuple[Side, Side]]]]:
    """What is compared, by name: `draws` pairs of sides each."""
    styles = StyleBank.load().names
    names = ("i.i.d.", "styles", "vendors", "contexts", "both")
    found: dict[str, list[tuple[Side, Side]]] = {name: [] for name in names}
    for draw in range(draws):
        generator = rng("meters", draw)
        a, b, c, d = generator.permutation(VENDORS).tolist()
        k, m, p, q = generator.permutation(styles)[:4].tolist()
        w, x, y, z = generator.permutation(list(COMMON))[:4].tolist()
        dealt = cache(lambda origin, draw=draw: hash64("meters", draw, origin) % 2)
        untouched: list[Domain] = [(vendor, None) for vendor in VENDORS]
        found["i.i.d."].append(
            (
                pictures.side(untouched, lambda origin, dealt=dealt: dealt(origin) == 0),
                pictures.side(untouched, lambda origin, dealt=dealt: dealt(origin) == 1),
            )
        )
        plans: dict[str, tuple[list[Domain], list[Domain]]] = {
            "styles": ([(a, k), (a, m)], [(a, p), (a, q)]),
            "vendors": ([(a, None), (b, None)], [(c, None), (d, None)]),
            "contexts": ([(a, w), (a, x)], [(a, y), (a, z)]),
            "both": ([(a, k), (b, m)], [(c, p), (d, q)]),
        }
        for name, (source, target) in plans.items():
            found[name].append((pictures.side(source), pictures.side(target)))
    return list(found.items())


def line(name: str, source: Side, target: Side, *, train: bool) -> str:
    """One row of the table."""
    both = source.features, target.features
    origins = source.origins, target.origins
    covariate = covariate_shift(*both, origins=origins)
    concept = concept_shift_on_features(
        source.features, source.labels, target.features, target.labels, origins=origins
    )
    cells = map(shown, (covariate.interval, concept.minimum, concept.maximum))
    sizes = f"{len(source.labels):,}+{len(target.labels):,}"
    trained = ""
    if train:
        trained = "  " + shown(
            covariate_shift_by_training(source.small, target.small, origins=origins).interval
        )
    return f"{name:<10}{sizes:>10}  {'  '.join(cells)}  {concept.floor:.3f}{trained}"


def shown(interval: Interval) -> str:
    return f"{interval.estimate:6.3f} [{interval.low:6.3f}, {interval.high:6.3f}]"


def main() -> None:
    """Print a line for each comparison and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--concepts", type=int, default=12, help="of each class, by each vendor (default: 12)"
    )
    parser.add_argument("--draws", type=int, default=3, help="of source and target domains (default: 3)")
    parser.add_argument("--train", action="store_true", help="the paper's procedure too; needs torch")
    options = parser.parse_args()
    frozen = importlib.util.find_spec("efficientnet_lite_pytorch") is not None
    describe = FrozenFeatures() if frozen else grid_features
    print(f"features: {'EfficientNet-Lite0' if frozen else 'a grid of colours'}; intervals of 95 %")
    heads = ("covariate, at least", "concept shift, min", "concept shift, max")
    last = "floor  by training" if options.train else "floor"
    print(f"{'':<10}{'n':>10}  {'  '.join(f'{head:<23}' for head in heads)}  {last}")
    for name, pairs in comparisons(Pictures(options.concepts, describe), options.draws):
        for source, target in pairs:
            print(line(name, source, target, train=options.train), flush=True)


if __name__ == "__main__":
    main()
