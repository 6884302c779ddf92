"""Pictures for replicas: noise of a colour, by name."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from shiftdata.stable import rng

SIDE = 16
STRAY = (".DS_Store", "Thumbs.db")


def picture(name: str, *, mode: str = "RGB", kind: str = "JPEG", side: int = SIDE) -> bytes:
    """The bytes of a picture of its own for each name."""
    draw = rng(0, "replica", name)
    pixels = draw.integers(0, 60, (side, side, 3)) + draw.integers(0, 190, 3)
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).convert(mode).save(stream, kind, quality=90)
    return stream.getvalue()


def put(root: Path, file: str, data: bytes | str | None = None) -> None:
    """Write a file; without data a picture, PNG or JPEG by its name."""
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if data is None:
        data = picture(file, kind="PNG" if file.lower().endswith(".png") else "JPEG")
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def put_odd(root: Path, folder: str, ending: str = ".jpg") -> dict[str, str]:
    """A grey picture, one in CMYK, one that is cut short, and what systems leave; by what each is."""
    files = {what: f"{folder}/odd_{what}{ending}" for what in ("grey", "cmyk", "cut")}
    kind = "PNG" if ending == ".png" else "JPEG"
    put(root, files["grey"], picture(files["grey"], mode="L", kind=kind))
    other = "RGBA" if kind == "PNG" else "CMYK"
    put(root, files["cmyk"], picture(files["cmyk"], mode=other, kind=kind))
    whole = picture(files["cut"], kind=kind, side=64)
    put(root, files["cut"], whole[: len(whole) // 2])
    for name in STRAY:
        put(root, f"{folder}/{name}", b"\0\0\0\1Bud1")
    return files
