r"""Plant transformed copies of pictures as new origins in another split, and count what is found.

    python scripts/bench/planted_duplicates.py glyphs=build/shift/sma_glyphs_k8 \
        fashion=/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz tiles=FOLDER

A set is a built dataset, a file of IDX pictures, or a folder of photographs, which are cut into tiles.
Recall is the share of planted copies whose original is in a found pair. Precision counts every found pair
without a planted copy as false, unless both pictures have the same pixels.
"""

from __future__ import annotations

import argparse
import gzip
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance

from shiftdata.data.dataset import open_dataset
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.loading.encoders import FrozenFeatures
from shiftdata.data.metadata import read_metadata
from shiftdata.evaluation.duplicates import base_compared
from shiftdata.evaluation.duplicates.neighbours import neighbours
from shiftdata.evaluation.duplicates.pictures import (
    FAR,
    SIDE,
    Small,
    candidates,
    distances,
    sift,
    usual_thresholds,
)
from shiftdata.evaluation.duplicates.search import NEIGHBOURS

TILE = 96


def jpeg(picture: Image.Image) -> Image.Image:
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=60)
    return Image.open(stream).convert("RGB")


def resize(picture: Image.Image) -> Image.Image:
    return picture.resize(tuple(round(0.7 * side) for side in picture.size), Image.Resampling.LANCZOS)


def crop(picture: Image.Image) -> Image.Image:
    """Cut 5 % off the left and off the bottom."""
    across, down = (max(1, round(0.05 * side)) for side in picture.size)
    return picture.crop((across, 0, picture.width, picture.height - down))


def darker(picture: Image.Image) -> Image.Image:
    return ImageEnhance.Contrast(ImageEnhance.Brightness(picture).enhance(0.75)).enhance(0.9)


def caption(picture: Image.Image) -> Image.Image:
    """Cover the lowest 12 % with a dark band and a white text."""
    picture, top = picture.copy(), round(picture.height * 0.88)
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, top, *picture.size), fill=(20, 20, 20))
    draw.text((2, top - 1), "photo 12", fill=(255, 255, 255), font_size=max(6, round(picture.height * 0.1)))
    return picture


def border(picture: Image.Image) -> Image.Image:
    """Draw a red frame of 6 %."""
    picture = picture.copy()
    edge = (0, 0, picture.width - 1, picture.height - 1)
    ImageDraw.Draw(picture).rectangle(edge, outline=(200, 30, 30), width=max(1, round(0.06 * picture.width)))
    return picture


PLANTED: dict[str, Callable[[Image.Image], Image.Image]] = {
    "JPEG 60": jpeg,
    "resize 0.7": resize,
    "crop 5 %": crop,
    "brighter": lambda picture: ImageEnhance.Brightness(picture).enhance(1.25),
    "darker": darker,
    "mirrored": lambda picture: picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "caption": caption,
    "border": border,
}


def pictures_of(
    place: str, most: int, label: str = ""
) -> tuple[list[Image.Image], np.ndarray, np.ndarray, list[str]]:
    """Return pictures, their origins, splits and names."""
    path = Path(place)
    if path.suffix == ".gz":
        raw = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16).reshape(-1, 28, 28)
        pictures = [Image.fromarray(pixels).convert("RGB") for pixels in raw[:most]]
    elif (path / "manifest.json").is_file():
        dataset = open_dataset(path)
        metadata = read_metadata(dataset, base_compared(dataset.manifest))
        rows = np.flatnonzero(metadata.origin % max(1, round(len(metadata) / most)) == 0)
        if label:
            rows = np.flatnonzero(metadata.label == metadata.labels.index(label))
        data = ExampleReader(dataset, metadata.base).read(rows.tolist())
        pictures = [Image.open(io.BytesIO(each)).convert("RGB") for each in data]
        splits = metadata.columns["split"][rows].astype(int)
        return pictures, metadata.origin[rows].astype(int), splits, metadata.keys(rows).to_pylist()
    else:
        pictures = list(tiles(path))[:most]
    places = np.arange(len(pictures))
    return pictures, places, places % 3, [str(place) for place in places]


def tiles(folder: Path) -> Iterator[Image.Image]:
    for file in sorted(folder.iterdir()):
        whole = Image.open(file).convert("RGB")
        for top in range(0, whole.height - TILE + 1, TILE):
            for left in range(0, whole.width - TILE + 1, TILE):
                yield whole.crop((left, top, left + TILE, top + TILE))


def measure(name: str, place: str, args: argparse.Namespace) -> None:
    pictures, origins, splits, keys = pictures_of(place, args.pictures, args.label)
    count = len(pictures)
    each = min(args.each, count // len(PLANTED))
    chosen = np.random.default_rng(0).permutation(count)[: each * len(PLANTED)].reshape(len(PLANTED), each)
    planted = [
        (kind, place) for kind, places in zip(PLANTED, chosen.tolist(), strict=True) for place in places
    ]
    pictures += [PLANTED[kind](pictures[place]) for kind, place in planted]
    origins = np.concatenate([origins, origins.max() + 1 + np.arange(len(planted))])
    splits = np.concatenate([splits, (splits[[place for _, place in planted]] + 1) % 3])
    sizes = Small.size, SIDE
    small, pixels = (
        np.stack(
            [np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR)) for picture in pictures]
        )
        for side in sizes
    )
    start = time.perf_counter()
    small = Small()(small)
    pairs = candidates(small, origins, splits)
    if args.features:
        large = [
            picture.resize((FrozenFeatures.size,) * 2, Image.Resampling.BILINEAR) for picture in pictures
        ]
        vectors = FrozenFeatures()([np.asarray(picture) for picture in large])
        pairs = np.unique(np.concatenate([pairs, neighbours(vectors, origins, splits, NEIGHBOURS)]), axis=0)
    proposed = {tuple(sorted(pair)) for pair in pairs.tolist()}
    sifted = sift(small, pairs)
    distance = distances(pixels, sifted)
    limits = usual_thresholds(len(pictures), sifted.rows, distance)
    seconds = time.perf_counter() - start
    pairs_of = [tuple(sorted(pair)) for pair in sifted.rows.tolist()]
    found = dict(
        zip(pairs_of, zip(distance.tolist(), (distance <= limits).tolist(), strict=True), strict=True)
    )
    print(f"\n{name}: {count:,} pictures, {len(planted)} planted; {len(pairs):,} candidates, {seconds:.0f} s")
    copies = {(place, count + at): kind for at, (kind, place) in enumerate(planted)}
    for kind in PLANTED:
        mine = [pair for pair, of in copies.items() if of == kind]
        values = sorted(found.get(pair, (FAR, False))[0] for pair in mine)
        recall = np.mean([pair in found and found[pair][1] for pair in mine])
        candidate = np.mean([pair in proposed for pair in mine])
        middle, high = values[len(values) // 2], values[int(len(values) * 0.95)]
        print(
            f"  {kind:12} recall {recall:.3f}, proposed {candidate:.3f}, distance {middle:.3f} to {high:.3f}"
        )
    others = {pair: of for pair, of in found.items() if max(pair) < count}
    differ = {pair: of for pair, of in others.items() if (pixels[pair[0]] != pixels[pair[1]]).any()}
    for step in (None, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.25):

        def near(value: float, usual: bool, step: float | None = step) -> bool:
            return usual if step is None else value <= step

        hits = sum(pair in found and near(*found[pair]) for pair in copies)
        false = sum(near(*of) for of in differ.values())
        precision = hits / max(1, hits + false)
        text = f"usual {limits.min():.3f} to {limits.max():.3f}" if step is None else f"{step:.2f}"
        print(
            f"  threshold {text}: recall {hits / len(planted):.3f}, precision {precision:.3f}, {false} others"
        )
    if args.show:
        show(
            pictures,
            keys,
            sorted((of[0], pair) for pair, of in others.items() if of[1]),
            args.show / f"{name}.png",
        )


def show(pictures: list[Image.Image], keys: list[str], others: list, file: Path) -> None:
    """Write the closest pairs that were not planted as a picture."""
    sheet = Image.new("RGB", (10 * 148, 6 * 84), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (value, pair) in enumerate(others[:60]):
        left, top = number % 10 * 148, number // 10 * 84
        for at, place in enumerate(pair):
            sheet.paste(pictures[place].resize((70, 70)), (left + at * 71, top))
        draw.text((left, top + 70), f"{value:.3f} {keys[pair[0]][:16]}", fill="black")
    sheet.save(file)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="+", metavar="NAME=PLACE")
    parser.add_argument("--pictures", type=int, default=6000)
    parser.add_argument("--features", action="store_true", help="EfficientNet-Lite0 proposes pairs too.")
    parser.add_argument("--label", default="", help="Pictures of this label alone: they are most alike.")
    parser.add_argument("--each", type=int, default=40, help="Planted copies of each transform.")
    parser.add_argument("--show", type=Path, help="A folder for pictures of the closest other pairs.")
    args = parser.parse_args()
    for name, _, place in (each.partition("=") for each in args.sets):
        measure(name, place, args)


if __name__ == "__main__":
    main()
