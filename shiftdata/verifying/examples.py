"""Check examples: images, texts or features against their hashes, images also by their byte offsets."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from shiftdata.format.schema import Roles, example_hashes
from shiftdata.verifying.align import Tally
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.tables import first_line

POINTER = ["key", "offset", "length", "sha256"]


@dataclass(frozen=True)
class Examples:
    """The examples of a data file; `metadata` is the file that says where they lie, for messages."""

    path: str
    file: Path
    roles: Roles
    metadata: str

    @property
    def images(self) -> bool:
        """Whether they are images."""
        return self.roles.modality == "image"

    def compare(self, data: pa.Table, meta: pa.Table, tally: Tally) -> None:
        """Every example against its hash; of an image also where it lies, and whether it can be decoded."""
        images = self._encoded(data)
        hashes = self._hashes(data, images, tally)
        with self._opened() as stream:
            rows = zip(hashes, images, meta.select(POINTER).to_pylist(), strict=True)
            for digest, image, pointer in rows:
                if digest is None:
                    continue
                if digest != pointer["sha256"]:
                    told = pointer["sha256"].hex() if pointer["sha256"] else "none"
                    what = f"has an example of sha256 {digest.hex()}, {self.metadata} says {told}"
                    tally.others.append(self._problem(pointer["key"], what, "example"))
                elif image is not None:
                    tally.offsets += self._misplaced(stream, image, pointer)
                    tally.others += self._decoded(pointer["key"], image)

    def by_offset(self, meta: pa.Table) -> Iterator[Problem]:
        """Images by their offsets alone, where the file's own rows cannot be read."""
        with self._opened() as stream:
            for pointer in meta.select(POINTER).to_pylist() if self.images else ():
                image = _read(stream, pointer)
                if hashlib.sha256(image).digest() == pointer["sha256"]:
                    yield from self._decoded(pointer["key"], image)
                    continue
                short = "the file ends before" if len(image) != pointer["length"] else "they are damaged"
                what = (
                    f"has other bytes at offset {pointer['offset']} with length {pointer['length']} "
                    f"than {self.metadata} says: {short}"
                )
                yield self._problem(pointer["key"], what, "example")

    def alone(self, data: pa.Table, tally: Tally) -> None:
        """Examples of which no metadata is there: whether there is one, and images can be decoded."""
        images = self._encoded(data)
        self._hashes(data, images, tally)
        for key, image in zip(data["key"].to_pylist(), images, strict=True):
            if image is not None:
                tally.others += self._decoded(key, image)

    def hashes(self, data: pa.Table) -> list[bytes | None]:
        """The hash of each example; None where there is none."""
        return self._hashes(data, self._encoded(data), Tally())

    def _hashes(self, data: pa.Table, images: list[bytes | None], tally: Tally) -> list[bytes | None]:
        """The hash of each example; None, and a problem, where a row has none that can be hashed."""
        if self.images and None not in images:
            return [hashlib.sha256(image).digest() for image in images if image is not None]
        try:
            return list(example_hashes(data, self.roles))
        except Exception as error:  # an empty cell, or what stands in the place of one
            if len(data) > 1:
                rows = [(data.slice(row, 1), images[row : row + 1]) for row in range(len(data))]
                return [self._hashes(*row, tally)[0] for row in rows]
            what = f"has no example, or none that can be hashed ({first_line(error)})"
            tally.others.append(self._problem(data["key"][0].as_py(), what, "example"))
            return [None]

    def _opened(self) -> BinaryIO:
        return self.file.open("rb", buffering=0)

    def _encoded(self, data: pa.Table) -> list[bytes | None]:
        if not self.images:
            return [None] * len(data)
        (name,) = self.roles.example
        found: list[bytes | None] = pc.struct_field(data[name], "bytes").to_pylist()
        return found

    def _misplaced(self, stream: BinaryIO, image: bytes, pointer: dict[str, Any]) -> Iterator[Problem]:
        if _read(stream, pointer) != image:
            what = (
                f"is not at byte offset {pointer['offset']} with length {pointer['length']}, "
                f"as {self.metadata} says"
            )
            yield self._problem(pointer["key"], what, "offset")

    def _decoded(self, key: str | None, image: bytes) -> Iterator[Problem]:
        try:
            with Image.open(io.BytesIO(image)) as picture:
                picture.load()
        except Exception as error:  # Pillow raises many kinds for bad pictures
            said = re.sub("<.*?>", "it", first_line(error))  # not where it lies in memory
            yield self._problem(key, f"has an image that cannot be decoded: {said}", "decode")

    def _problem(self, key: str | None, what: str, kind: str) -> Problem:
        return Problem(path=self.path, what=what, key=key, kind=kind)


def _read(stream: BinaryIO, pointer: dict[str, Any]) -> bytes:
    """The bytes that a pointer leads to; none where it leads nowhere."""
    offset, length = pointer["offset"], pointer["length"]
    if offset is None or length is None or offset < 0 or length < 0:
        return b""
    try:
        stream.seek(offset)
        return stream.read(length)
    except (OSError, OverflowError):  # no file is as long as that
        return b""
