"""What a style picture must be, and when two are nearly the same."""

from __future__ import annotations

import hashlib
import io
import warnings
from dataclasses import dataclass
from threading import Lock

from PIL import Image, UnidentifiedImageError

from builders.albums.folder import MAX_PIXELS, MOST_PIXELS, picture_of
from builders.sample import BadItem
from shiftdata.data.look_alikes import difference_hash

MOST_BYTES = 20_000_000
LEAST_SIDE = 64
#: What Pillow calls the content, and how the name of the file ends. A photograph of a phone may be an MPO: a
#: JPEG with more of them, such as a preview, behind it.
ENDING_OF = {"JPEG": "jpg", "MPO": "jpg", "PNG": "png", "WEBP": "webp"}
#: One picture is decoded at a time: each may take some hundred MB, and threads share what is warned of.
_decoding = Lock()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of the bytes of a picture; `difference` is its difference hash."""

    sha256: str
    ending: str
    width: int
    height: int
    bytes: int
    difference: int

    @property
    def name(self) -> str:
        """How the file is called in the folder of its style."""
        return f"{self.sha256[:16]}.{self.ending}"


def examine(data: bytes) -> Facts:
    """What a picture is; raises `BadItem` where it cannot be a style picture."""
    if len(data) > MOST_BYTES:
        raise BadItem(f"more than {MOST_BYTES:,} bytes")
    with _decoding, warnings.catch_warnings(action="ignore"):  # what Pillow thinks of a header
        ending = _header(data)
        picture = picture_of(io.BytesIO(data))
    return Facts(
        sha256=hashlib.sha256(data).hexdigest(),
        ending=ending,
        width=picture.width,
        height=picture.height,
        bytes=len(data),
        difference=difference_hash(picture),
    )


def _header(data: bytes) -> str:
    """How the name of the file ends; nothing is decoded of what is too large, too small or animated."""
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG", "WEBP")) as picture:
            ending, (width, height) = ENDING_OF[picture.format or ""], picture.size
            frames = 1 if ending == "jpg" else getattr(picture, "n_frames", 1)
    except Image.DecompressionBombError as error:
        raise BadItem(f"too many pixels (the most is {MOST_PIXELS})") from error
    except UnidentifiedImageError as error:
        raise BadItem("not a JPEG, PNG or WebP by its content") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise BadItem("not a readable picture") from error
    if width * height > MAX_PIXELS:
        raise BadItem(f"too many pixels ({width} x {height}; the most is {MOST_PIXELS})")
    if min(width, height) < LEAST_SIDE:
        raise BadItem(f"a side below {LEAST_SIDE} pixels ({width} x {height})")
    if frames > 1:
        raise BadItem(f"it is animated ({frames} frames)")
    return ending
