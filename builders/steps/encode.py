"""Turn a picture into the bytes that are published."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal

from PIL import Image

from shiftdata.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How pictures are stored. One encoding for all layers, so that it is no cue for the nuisance.

    JPEG and PNG bytes are equal over years of Pillow versions; those of WebP are not.
    """

    format: Literal["jpeg", "png"] = "jpeg"
    quality: int = 92

    def __post_init__(self) -> None:
        if self.format not in ("jpeg", "png"):
            raise InputError(f"the encoding must be 'jpeg' or 'png', got {self.format!r}")
        if not 1 <= self.quality <= 100:
            raise InputError(f"the quality must be between 1 and 100, got {self.quality}")

    @property
    def suffix(self) -> str:
        """The file ending of the format."""
        return {"jpeg": ".jpg", "png": ".png"}[self.format]

    def encode(self, picture: Image.Image) -> bytes:
        """The encoded picture, without metadata; equal pictures give equal bytes."""
        # Pillow would write comments, profiles and dates that came with the picture.
        bare = Image.frombytes(picture.mode, picture.size, picture.tobytes())
        buffer = io.BytesIO()
        if self.format == "jpeg":
            # Full colour resolution: halved, it would wash out the fine colour texture that makes a style.
            bare.save(buffer, "JPEG", quality=self.quality, subsampling=0)
        else:
            bare.save(buffer, "PNG", compress_level=6)
        return buffer.getvalue()
