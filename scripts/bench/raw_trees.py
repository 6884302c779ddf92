"""Raw datasets as large as the real ones, with small pictures and texts of their own; `raw.py` reads them."""

from __future__ import annotations

import csv
import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.raw.breeds import breeds
from builders.raw.cifar import BATCHES
from builders.raw.civilcomments import IDENTITIES, TABLE
from builders.raw.imagenet import classes
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


def cifar10(raw: Path, files: int) -> None:
    """Pickles, three corruptions, CIFAR-10.1 and 10.2, each in its share; pixels of a noise."""
    test = files * 10 // 104

    def pixels(count: int) -> NDArray[np.uint8]:
        starts = np.arange(count) * 7919 % (len(NOISE) - 3072)
        return NOISE[starts[:, None] + np.arange(3072)]

    def labels(count: int) -> NDArray[np.int64]:
        return np.arange(count) % 10

    (raw / "cifar-10-batches-py").mkdir()
    for name in (*BATCHES, "test_batch"):
        stored = {b"data": pixels(test), b"labels": labels(test).tolist()}
        (raw / "cifar-10-batches-py" / name).write_bytes(pickle.dumps(stored, protocol=2))
    (raw / "CIFAR-10-C").mkdir()
    for name in ("frost", "pixelate", "saturate"):
        np.save(raw / f"CIFAR-10-C/{name}.npy", pixels(5 * test).reshape(-1, 32, 32, 3))
    np.save(raw / "CIFAR-10-C/labels.npy", np.tile(labels(test), 5).astype(np.uint8))
    np.save(raw / "cifar10.1_v6_data.npy", pixels(test // 5).reshape(-1, 32, 32, 3))
    np.save(raw / "cifar10.1_v6_labels.npy", labels(test // 5))
    for part, count in (("train", test), ("test", test // 5)):
        images = pixels(count).reshape(-1, 32, 32, 3)
        np.savez(raw / f"cifar102_{part}.npz", images=images, labels=labels(count))


def entity13(raw: Path, files: int) -> None:
    """ImageNet's training pictures of the classes of Entity-13 and of as many others, in folders."""
    used = {number for one in breeds("entity13") for number in (*one.source, *one.target)}
    nodes = [node for node, (number, _) in classes().items() if number in used or number % 4 == 0]
    for number in range(files):
        node = nodes[number % len(nodes)]
        folder = raw / "train" / node
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{node}_{number}.JPEG").write_bytes(picture(number, PATCH, 3, "JPEG"))


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
    "cifar10": cifar10,
    "entity13": entity13,
}
