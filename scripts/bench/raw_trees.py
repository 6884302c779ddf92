"""Raw datasets as large as the real ones, with small pictures and texts of their own; `raw.py` reads them."""

from __future__ import annotations

import csv
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from builders.raw.civilcomments import IDENTITIES, TABLE
from builders.raw.sources import source
from builders.recipe_files import load_recipe

SIDE = 32  # of a picture of DomainNet
PATCH = 12  # of a patch of Camelyon17
WORDS = 60  # of a comment
NOISE = np.random.default_rng(0).integers(0, 255, 1 << 22, dtype=np.uint8)


def domainnet(raw: Path, files: int) -> None:
    """Zips and lists, the domains as large to each other as in DomainNet."""
    counts, classes = source("domainnet").counts[0].domains, load_recipe("domainnet").album.labels
    made = 0
    for domain, of_domain in counts.items():
        total = max(2 * len(classes), round(of_domain * files / sum(counts.values())))
        lists: dict[str, list[str]] = {"train": [], "test": []}
        with zipfile.ZipFile(raw / f"{domain}.zip", "w") as packed:
            for number in range(total):
                label = number % len(classes)
                ending = "png" if domain == "quickdraw" else "jpg"
                file = f"{domain}/{classes[label]}/{domain}_{label + 1:03d}_{number:06d}.{ending}"
                packed.writestr(file, picture(made, SIDE, 3, "PNG" if ending == "png" else "JPEG"))
                lists["test" if number // len(classes) % 10 > 6 else "train"].append(f"{file} {label}\n")
                made += 1
        for part, lines in lists.items():
            (raw / f"{domain}_{part}.txt").write_text("".join(lines))


def camelyon17(raw: Path, files: int) -> None:
    """A tar of transparent patches, 50 slides of five hospitals, and the table of all."""
    with (
        tarfile.open(raw / "camelyon17_v1.0.tar", "w") as packed,
        (raw / "metadata.csv").open("w", newline="") as table,
    ):
        rows = csv.writer(table)
        rows.writerow(("", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split"))
        for number in range(files):
            slide = number * 50 // files
            patient, node, x, y = f"{4 + slide:03}", slide % 5, 32 * (number % 1000), 32 * (number // 1000)
            rows.writerow(
                (number, patient, node, x, y, number % 2, slide, slide // 10, int(number % 10 == 0))
            )
            folder, data = f"patient_{patient}_node_{node}", picture(number, PATCH, 4, "PNG")
            member = tarfile.TarInfo(f"patches/{folder}/patch_{folder}_x_{x}_y_{y}.png")
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))


def civilcomments(raw: Path, files: int) -> None:
    """A table of comments, each with a number of its own, one in nine toxic."""
    vocabulary = [f"w{number:x}" for number in range(20_000)] + ["ü😀", '"so"', "line\nbreak", "a, b"]
    with (raw / TABLE).open("w", newline="", encoding="utf-8") as table:
        rows = csv.writer(table, lineterminator="\n")
        rows.writerow(("", "id", "comment_text", "toxicity", "split", *IDENTITIES))
        for number, text in enumerate(_texts(vocabulary, files)):
            split = ("train", "train", "train", "val", "test")[number % 5]
            rows.writerow((number, number, text, 0.5 if number % 9 == 0 else 0.1, split, *[""] * 7, 0.6))


def _texts(vocabulary: list[str], files: int) -> Iterator[str]:
    draw = np.random.default_rng(0)
    for number in range(files):
        chosen = draw.integers(len(vocabulary), size=WORDS)
        yield f"{number} {' '.join(vocabulary[one] for one in chosen)}"


def picture(number: int, side: int, channels: int, kind: str) -> bytes:
    """A picture that no other number has."""
    size = channels * side * side
    start = number * 7 % (len(NOISE) - size)
    pixels = NOISE[start : start + size].reshape(side, side, channels) // 4
    stream = io.BytesIO()
    Image.fromarray(pixels + np.uint8(number % 191)).save(stream, kind)
    return stream.getvalue()


#: What makes the raw files of a recipe.
TREES: Mapping[str, Callable[[Path, int], None]] = {
    "domainnet": domainnet,
    "camelyon17": camelyon17,
    "civilcomments": civilcomments,
}
