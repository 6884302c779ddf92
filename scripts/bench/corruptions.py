"""Whether corruptions grow over their severities, on photographs and on emoji, and what each costs.

    python scripts/bench/corruptions.py [--side 128] [--photos FOLDER] [--public] [--continuous]

Parts of scikit-learn's two photographs and of those in FOLDER, and emoji. For each severity, means over them:

pixels      mean absolute difference to the untouched picture, of 255
shape       1 - SSIM of grey, over windows of 7 pixels
network     `perceptual` of severity.py, where the assets group of pyproject.toml is installed
sure        how much is left of EfficientNet-Lite0's confidence in its answer for the untouched picture
rising      the share of pictures and steps at which pixels, shape, network rise

`--public` measures the package imagecorruptions instead, which needs an environment of its own
(pip install 'setuptools<81' imagecorruptions==1.1.2); `--continuous` the shifts of CNS-Bench.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image, ImageOps
from sklearn.datasets import load_sample_image

from builders.albums.emoji import EmojiAlbum
from builders.shifts.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from builders.shifts.steps import OnGround
from builders.shifts.steps.continuous import SHIFTS
from builders.shifts.styles.sliders import Subject, slide, strength_at
from builders.shifts.weather import WEATHERS, render
from scripts.bench.severity import EfficientNetFeatures, Floats, perceptual
from tests.pictures import apart, unlike

Make: TypeAlias = Callable[[str, Image.Image, int, int], Image.Image]


def main() -> None:
    """Print a line a corruption, severity and set of pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--photos", type=Path, help="a folder of more photographs")
    parser.add_argument("--public", action="store_true")
    parser.add_argument("--continuous", action="store_true")
    parser.add_argument("--names", nargs="*")
    options = parser.parse_args()
    make: Make = _continuous if options.continuous else _public() if options.public else _corrupt
    names = options.names or (SHIFTS if options.continuous else CORRUPTIONS)
    sets = {
        "photographs": list(_photographs(options.side, options.photos)),
        "emoji": list(_emoji(options.side)),
    }
    network = _network()
    print({name: len(pictures) for name, pictures in sets.items()}, f"of {options.side} pixels")
    measures = ("pixels", "shape", "network", "sure")[: 4 if network else 2]
    print(f"{'':<30}" + "".join(f"{measure:^36}" for measure in measures) + "rising, ms of a core")
    for name in names:
        for which, pictures in sets.items():
            start = time.process_time()
            made = [[make(name, one, step, at) for step in SEVERITIES] for at, one in enumerate(pictures)]
            cost = (time.process_time() - start) * 1000 / len(pictures) / len(SEVERITIES)
            rows = np.array(
                [_distances(one, steps, network) for one, steps in zip(pictures, made, strict=True)]
            )
            cells = ["".join(f"{value:7.3g}" for value in row) for row in rows.mean(axis=0)]
            rising = (np.diff(rows[:, :3], axis=2) > 0).mean(axis=(0, 2))
            print(
                f"{name:<18}{which:<12}"
                + " ".join(cells)
                + "  "
                + " ".join(f"{share:.2f}" for share in rising)
                + f" {cost:6.1f}",
                flush=True,
            )


def _distances(untouched: Image.Image, made: list[Image.Image], network: Any) -> list[list[float]]:
    """Each measure at each severity."""
    rows = [
        [apart(untouched, one) for one in made],
        [unlike(untouched, one) for one in made],
    ]
    if network:
        answers, maps = network([untouched, *made])
        rows.append(perceptual(maps)[1:])
        rows.append((answers[1:, answers[0].argmax()] / answers[0].max()).tolist())
    return rows


def _network() -> Any:
    """A function from pictures to what EfficientNet-Lite0 answers, and its maps; None without it."""
    try:
        features = EfficientNetFeatures()
    except ImportError:
        return None
    last = features._model._fc
    weight, bias = last.weight.detach().numpy(), last.bias.detach().numpy()

    def answers(pictures: list[Image.Image]) -> tuple[Floats, list[Floats]]:
        pooled, maps = features([one.resize((128, 128), Image.Resampling.BICUBIC) for one in pictures])
        scores = np.exp(pooled @ weight.T + bias)
        return scores / scores.sum(axis=1, keepdims=True), maps

    return answers


def _corrupt(name: str, picture: Image.Image, severity: int, at: int) -> Image.Image:
    return corrupt(name, picture, severity, key=(at,))


def _continuous(name: str, picture: Image.Image, severity: int, at: int) -> Image.Image:
    if name in WEATHERS:
        return render(name, picture, severity / 2, key=(at,))
    return slide(Subject.of(picture), name, at % 8, strength_at(name, severity / 2), (at, name))


def _public() -> Make:
    """The public implementation."""
    np.float_ = np.float64  # its fog is older than numpy 2
    import imagecorruptions

    def made(name: str, picture: Image.Image, severity: int, at: int) -> Image.Image:
        np.random.seed(at)  # the package draws from the global generator
        return Image.fromarray(imagecorruptions.corrupt(np.asarray(picture), severity, name))

    return made


def _photographs(side: int, folder: Path | None) -> Iterator[Image.Image]:
    photos = [Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg")]
    photos += [Image.open(path).convert("RGB") for path in sorted(folder.iterdir())] if folder else []
    for photo in photos:
        short = min(photo.size)
        yield ImageOps.fit(photo, (side, side))
        for x, y in ((0, 0), (1, 0), (0, 1), (1, 1)):
            left, top = x * (photo.width - 0.6 * short), y * (photo.height - 0.6 * short)
            box = (left, top, left + 0.6 * short, top + 0.6 * short)
            yield photo.resize((side, side), Image.Resampling.LANCZOS, box=box)


def _emoji(side: int) -> Iterator[Image.Image]:
    album, ground = EmojiAlbum(size=side), OnGround(size=side, margin=0.08)
    for item in album.items()[::80]:
        yield ground.compose(album.load(item))


if __name__ == "__main__":
    main()
