"""Our corruptions beside those of the public package `imagecorruptions`: how far and which way each goes.

    python scripts/bench/corruptions.py [side]

Two photographs of scikit-learn and two emoji. For each severity: PSNR in dB, mean absolute difference, and
what is added to the mean, the contrast (standard deviation of grey) and the saturation, of 255; means over
the pictures, ours first. The package needs an environment of its own: see `HOW`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image, ImageOps
from sklearn.datasets import load_sample_image

from builders.albums.emoji import EmojiAlbum
from builders.shifts.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from builders.shifts.steps import OnGround

HOW = (
    "imagecorruptions is not installed, so there is nothing to compare with. Into an environment of its own: "
    "pip install 'setuptools<81' imagecorruptions==1.1.2 scikit-learn resvg-py, and PYTHONPATH=. to run this"
)
EMOJI = ("mammal_dog-fluent-3d", "ground_transport_bus-noto")


def main() -> None:
    """Print one line a corruption and severity."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("side", nargs="?", type=int, default=224)
    pictures = list(_pictures(parser.parse_args().side))
    public = _public()
    print(f"{'ours, public':<14}{'PSNR':>13}{'MAE':>13}{'mean':>13}{'contrast':>13}{'saturation':>13}")
    for name in CORRUPTIONS:
        for severity in SEVERITIES:
            made = [corrupt(name, picture, severity, key=(at,)) for at, picture in enumerate(pictures)]
            figures = [_figures(pictures, made)]
            if public:
                np.random.seed(0)  # the package draws from the global generator
                figures.append(_figures(pictures, [public(name, picture, severity) for picture in pictures]))
            cells = (" ".join(f"{value:6.1f}" for value in pair) for pair in zip(*figures, strict=True))
            print(f"{name:<12}{severity:>2}" + "".join(f"{cell:>13}" for cell in cells))
    if not public:
        print(HOW)


def _public() -> Callable[[str, Image.Image, int], Image.Image] | None:
    """The public implementation, if it is installed."""
    if not hasattr(np, "float_"):
        np.float_ = np.float64  # its fog is older than numpy 2
    try:
        import imagecorruptions
    except ImportError:
        return None
    return lambda name, picture, severity: Image.fromarray(
        imagecorruptions.corrupt(np.asarray(picture), corruption_name=name, severity=severity)
    )


def _pictures(side: int) -> Iterator[Image.Image]:
    for name in ("china.jpg", "flower.jpg"):
        yield ImageOps.fit(Image.fromarray(load_sample_image(name)), (side, side))
    album = EmojiAlbum(size=side)
    items = {item.key: item for item in album.items()}
    for key in EMOJI:
        yield OnGround(size=side, margin=0.08).compose(album.load(items[key]))


def _figures(before: list[Image.Image], after: list[Image.Image]) -> list[float]:
    """PSNR, mean absolute difference, and what is added to mean, contrast and saturation."""
    rows = []
    for picture, changed in zip(before, after, strict=True):
        difference = np.asarray(changed, dtype=np.float64) - np.asarray(picture, dtype=np.float64)
        distance = 20 * np.log10(255 / np.sqrt(np.mean(difference**2)))
        own = np.subtract(_look(changed), _look(picture))
        rows.append([distance, np.abs(difference).mean(), *own])
    return np.mean(rows, axis=0).tolist()


def _look(picture: Image.Image) -> tuple[float, float, float]:
    """Mean, contrast and saturation."""
    grey, saturation = np.asarray(picture.convert("L")), np.asarray(picture.convert("HSV"))[..., 1]
    return float(grey.mean()), float(grey.std()), float(saturation.mean())


if __name__ == "__main__":
    main()
