"""CIFAR and its corruptions in small: pickles with keys of bytes, arrays, labels of several types."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftdata.stable import rng
from tests.builders.replicas.drawing import put

EACH = 40
#: Of a batch: labels repeat, and not every batch has as many of each.
CLASSES = {10: "cifar-10-batches-py", 100: "cifar-100-python"}


def pictures(name: str, count: int) -> NDArray[np.uint8]:
    """Pictures of a colour each."""
    draw = rng(0, "cifar", name)
    noise = draw.integers(0, 60, (count, 32, 32, 3)) + draw.integers(0, 190, (count, 1, 1, 3))
    return noise.astype(np.uint8)


def labels(name: str, count: int, classes: int) -> NDArray[np.int64]:
    """Labels among ten, shuffled by the name."""
    order = rng(0, "labels", name).permutation(count)
    return (np.arange(count) % 10)[order] * (classes // 10)


def pickled(name: str, count: int, classes: int) -> bytes:
    """A batch as the authors pickle it: rows of 3,072 bytes, red first."""
    data = pictures(name, count).transpose(0, 3, 1, 2).reshape(count, -1)
    key = b"labels" if classes == 10 else b"fine_labels"
    named = {b"data": data, key: labels(name, count, classes).tolist(), b"filenames": [b"x.png"] * count}
    return pickle.dumps(named | ({b"coarse_labels": [0] * count} if classes == 100 else {}), protocol=2)


def array(of: NDArray[np.generic]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, of)
    return stream.getvalue()


def python(root: Path, classes: int) -> None:
    """The pickles."""
    folder = CLASSES[classes]
    if classes == 10:
        for number in range(1, 6):
            put(root, f"{folder}/data_batch_{number}", pickled(f"data_batch_{number}", EACH, 10))
        put(root, f"{folder}/test_batch", pickled("test", 2 * EACH, 10))
        put(root, f"{folder}/readme.html", "<html></html>")
    else:
        put(root, f"{folder}/train", pickled("train", 4 * EACH, 100))
        put(root, f"{folder}/test", pickled("test", 2 * EACH, 100))
        put(root, f"{folder}/meta", pickle.dumps({b"fine_label_names": [b"apple"]}))


def corruptions(root: Path, classes: int, names: tuple[str, ...]) -> None:
    """Some corruptions, of all test pictures in five severities."""
    folder, known = f"CIFAR-{classes}-C", labels("test", 2 * EACH, classes)
    for name in names:
        put(root, f"{folder}/{name}.npy", array(pictures(name, 10 * EACH)))
    put(root, f"{folder}/labels.npy", array(np.tile(known, 5).astype(np.uint8)))


def cifar10(root: Path) -> Mapping[str, int]:
    python(root, 10)
    corruptions(root, 10, ("frost", "pixelate", "saturate"))
    put(root, "cifar10.1_v6_data.npy", array(pictures("v6", EACH)))
    put(root, "cifar10.1_v6_labels.npy", array(labels("v6", EACH, 10).astype(np.int32)))
    for part, count in (("train", 2 * EACH), ("test", EACH)):
        stream = io.BytesIO()
        known = {"images": pictures(part, count), "labels": labels(part, count, 10)}
        np.savez(stream, **known, label_names=np.array(["airplane"]))
        put(root, f"cifar102_{part}.npz", stream.getvalue())
    counts = dict.fromkeys(("test", "frost_4", "pixelate_5", "saturate_5"), 2 * EACH)
    return {"train": 5 * EACH, "cifar10_1": EACH, "cifar10_2": 3 * EACH, **counts}


def cifar100(root: Path) -> Mapping[str, int]:
    python(root, 100)
    corruptions(root, 100, ("fog", "motion_blur", "contrast", "spatter"))
    counts = dict.fromkeys(("test", "fog_4", "motion_blur_2", "contrast_4", "spatter_2"), 2 * EACH)
    return {"train": 4 * EACH, **counts}


def cifar_c(classes: int, root: Path) -> Mapping[str, int]:
    corruptions(root, classes, ("fog", "gaussian_noise"))
    return {"fog": 10 * EACH, "gaussian_noise": 10 * EACH}


REPLICAS: Mapping[str, Callable[[Path], Mapping[str, int]]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "cifar10_c": partial(cifar_c, 10),
    "cifar100_c": partial(cifar_c, 100),
}
