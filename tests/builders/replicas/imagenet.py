"""ImageNet and its family in small: folders of WordNet ids and of numbers, flat validation, odd files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from builders.raw.imagenet import breeds, nodes
from tests.builders.replicas.drawing import put, put_odd

NODES = {number: node for node, number in nodes().items()}
SECOND = "imagenetv2-matched-frequency-format-val"
TRAINED, VALIDATED, ANEW = 6, 2, 6
#: String order: 0, 10, 2.
FEW = (0, 2, 10, 517)
RENDERED = ("art_0", "art_12", "videogame_1", "sketch_3")
SEVERITIES = (1, 2, 3, 4, 5)


def make(name: str, root: Path) -> Mapping[str, int]:
    """The pictures of one class of each half of each superclass; give the rows of each domain."""
    counts, solution = Counter[str](), ["ImageId,PredictionString"]
    for one in breeds()[name]:
        for half, number in ((1, one["source"][0]), (2, one["target"][-1])):
            node = NODES[number]
            for picture in range(TRAINED):
                put(root, f"train/{node}/{node}_{picture * 7}.JPEG")
            for picture in range(VALIDATED):
                image = f"ILSVRC2012_val_{number * 50 + picture:08}"
                put(root, f"val/{image}.JPEG")
                solution.append(f"{image},{node} 85 1 499 272 ")
            for picture in range(ANEW):
                digest = hashlib.sha1(f"{number} {picture}".encode()).hexdigest()
                put(root, f"{SECOND}/{number}/{digest}.jpeg")
            counts[f"imagenet_{half}"] += TRAINED + VALIDATED
            counts[f"imagenetv2_{half}"] += ANEW
    node = NODES[breeds()[name][0]["source"][0]]
    for place, file in enumerate(put_odd(root, f"train/{node}", ".jpg").values()):
        (root / file).replace(root / f"train/{node}/{node}_{place * 7}.JPEG")
    put(root, "LOC_val_solution.csv", "\n".join(solution) + "\n")
    put_not_classes(root, node)
    used = {number for breed in breeds()[name] for number in (*breed["source"], *breed["target"])}
    outside = NODES[min({*NODES} - used)]
    put(root, f"train/{outside}/{outside}_3.JPEG")  # a class of no superclass
    return counts


def put_not_classes(root: Path, node: str) -> None:
    """What is in the tree and is not of a class."""
    put(root, "val/ILSVRC2012_val_00099999.JPEG")
    put(root, "train/n99999999/n99999999_1.JPEG")
    put(root, f"train/n99999999/{node}_77.JPEG")
    put(root, f"{SECOND}/README/1.jpeg")
    put(root, f"fog/3/{node}/ILSVRC2012_val_00000001.JPEG")
    put(root, f"train/{node}/copy.JPEG")
    put(root, "synset_words.txt", "n01440764 tench\n")


def validation(root: Path) -> Mapping[str, int]:
    """ImageNetV2 and validation pictures in folders of their classes."""
    for number in FEW:
        for picture in range(3):
            put(root, f"val/{NODES[number]}/ILSVRC2012_val_{number * 50 + picture:08}.JPEG")
            put(root, f"{SECOND}/{number}/{number}{picture}af.jpeg")
    put(root, f"train/{NODES[0]}/{NODES[0]}_1.JPEG")
    return {"imagenet_val": 12, "imagenetv2": 12}


def renditions(root: Path) -> Mapping[str, int]:
    """Three classes of ImageNet-R, one with a file in its root."""
    for number in FEW[:3]:
        for stem in RENDERED:
            put(root, f"imagenet-r/{NODES[number]}/{stem}.jpg")
    put(root, "imagenet-r/README.txt", "ImageNet-R")
    put(root, "imagenet-r/art_5.jpg")
    put(root, f"imagenet-r/{NODES[0]}/hologram_1.jpg")
    return {"art": 6, "sketch": 3, "videogame": 3}


def corrupted(root: Path) -> Mapping[str, int]:
    """Two corruptions of ImageNet-C; some pictures lack a severity, and a third corruption has two alone."""
    for corruption in ("fog", "gaussian_noise"):
        for severity in SEVERITIES:
            for number in FEW:
                for picture in range(5 + (corruption == "fog" and severity != 3)):
                    name = f"ILSVRC2012_val_{number * 50 + picture:08}.JPEG"
                    put(root, f"{corruption}/{severity}/{NODES[number]}/{name}")
    for severity in (1, 5):
        put(root, f"snow/{severity}/{NODES[0]}/ILSVRC2012_val_00000001.JPEG")
    number, name = FEW[0], f"ILSVRC2012_val_{FEW[0] * 50:08}.JPEG"
    put(root, f"snow_copy/fog/1/{NODES[number]}/{name}")
    put(root, f"fog/6/{NODES[0]}/ILSVRC2012_val_00000001.JPEG")
    return {"fog": 100, "gaussian_noise": 100}


REPLICAS: Mapping[str, Callable[[Path], Mapping[str, int]]] = {
    **{name: partial(make, name) for name in breeds()},
    "imagenet_v2": validation,
    "imagenet_r": renditions,
    "imagenet_c": corrupted,
}
