"""MNIST, MNIST-M and USPS in small, in the forms in which they are handed on."""

from __future__ import annotations

import bz2
import gzip
import io
import struct
from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from shiftdata.stable import rng
from tests.builders.replicas.drawing import put

SIZES = {"train": 40, "test": 20}


def digit_of(part: str, number: int) -> int:
    """Digits come in no order."""
    return (3 * number + len(part)) % 10


def pixels(part: str, number: int, side: int = 28) -> np.ndarray:
    """A grey picture of its own for each part and number."""
    return rng(0, "digits", f"{side}", part, f"{number}").integers(0, 256, (side, side)).astype(np.uint8)


def png(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, "PNG")
    return stream.getvalue()


def make(root: Path) -> Mapping[str, int]:
    """MNIST in folders, its test numbered from 60,000; MNIST-M, without the last, by lists; USPS in HDF5."""
    for part, size in SIZES.items():
        lines = []
        for number in range(size):
            name = number + 60_000 if part == "test" else number
            put(root, f"mnist/{part}/{digit_of(part, number)}/{name}.png", png(pixels(part, number)))
            if number < size - 1:
                coloured = np.stack([255 - pixels(part, number)] * 3, axis=-1)
                put(root, f"mnist_m/mnist_m_{part}/{number:08}.png", png(coloured))
                lines.append(f"{number:08}.png {digit_of(part, number)}")
        put(root, f"mnist_m/mnist_m_{part}_labels.txt", "\n".join(lines) + "\n")
    (root / "usps").mkdir()
    with h5py.File(root / "usps/usps.h5", "w") as stored:
        for part, size in SIZES.items():
            values = np.stack([pixels(part, number, 16).ravel() for number in range(size)])
            stored[f"{part}/data"] = (values / 255).astype(np.float32)
            stored[f"{part}/target"] = np.array([digit_of(part, number) for number in range(size)], np.int32)
    return {"mnist": 60, "mnist_m": 58, "usps": 60}


def mnist_of_torchvision(root: Path, ending: str = ".gz") -> None:
    """MNIST's own files, in which pictures have no names."""
    for name, (part, size) in zip(("train", "t10k"), SIZES.items(), strict=True):
        pictures = np.stack([pixels(part, number) for number in range(size)]).tobytes()
        digits = bytes(digit_of(part, number) for number in range(size))
        for kind, header, data in (
            ("images-idx3", struct.pack(">HBBIII", 0, 8, 3, size, 28, 28), pictures),
            ("labels-idx1", struct.pack(">HBBI", 0, 8, 1, size), digits),
        ):
            packed = gzip.compress(header + data, mtime=0) if ending else header + data
            put(root, f"MNIST/raw/{name}-{kind}-ubyte{ending}", packed)


def usps_of_libsvm(root: Path) -> None:
    """USPS as torchvision gets it: the digit plus 1, and values from -1 to 1."""
    for name, (part, size) in zip(("usps.bz2", "usps.t.bz2"), SIZES.items(), strict=True):
        lines = []
        for number in range(size):
            values = pixels(part, number, 16).ravel() / 255 * 2 - 1
            pairs = " ".join(f"{at}:{value:.6f}" for at, value in enumerate(values, 1))
            lines.append(f"{digit_of(part, number) + 1} {pairs}")
        put(root, name, bz2.compress("\n".join(lines).encode()))


def digit_five(root: Path, name: str = "{domain}/{part}_images/{number:06}_{digit}.jpg") -> None:
    """Pictures of four domains with the digit in the name, or in a folder as in Digits-DG."""
    for domain in ("mnist", "mnist_m", "usps", "svhn"):
        for part, size in SIZES.items():
            for number in range(size):
                put(root, name.format(domain=domain, part=part, number=number, digit=digit_of(part, number)))


def of_tllib(root: Path) -> None:
    """MNIST and USPS as CDAN and TLlib have them: a flat folder for each part, and lists with the digits."""
    for domain in ("mnist", "usps"):
        for part, size in SIZES.items():
            lines = [f"/data/{domain}_{part}_image/{at}.jpg {digit_of(part, at)}\n" for at in range(size)]
            put(root, f"image_list/{domain}_{part}.txt", "".join(lines))
            for at in range(size):
                put(
                    root,
                    f"{domain}_{part}_image/{at}.jpg",
                    png(pixels(part, at, 16 if domain == "usps" else 28)),
                )
