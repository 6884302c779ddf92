"""Turn examples into the bytes that are spooled and published. A recipe names one encoding."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

from PIL import ExifTags, Image

from builders.cells import misfit, read_cell
from builders.sample import BadItem, PictureFile, Sample
from shiftdata.data.format.schema import FEATURE_TYPES, Feature, Modality, features_as_bytes
from shiftdata.errors import InputError
from shiftdata.untrusted.pictures import open_picture


class Encoding(Protocol):
    """The interface of an encoding: how examples of one modality are published.

    `shiftdata.data.format.writer` writes what `encode` gives: pictures as JPEG or PNG, texts as UTF-8,
    features as `features_as_bytes` writes them.
    """

    #: Raise it whenever equal examples become other bytes.
    code_version: ClassVar[int]

    @property
    def modality(self) -> Modality:
        """The kind of the examples."""

    @property
    def columns(self) -> Mapping[str, Feature]:
        """The columns of an example, in file order."""

    def encode(self, sample: Sample) -> bytes:
        """The example as bytes; equal examples give equal bytes. Their sha256 identifies it."""


@dataclass(frozen=True, kw_only=True)
class ImageEncoding:
    """The format of stored pictures: one for all bases, so that it does not give the nuisance away.

    JPEG and PNG bytes are equal over years of Pillow versions; those of WebP are not.

    `grey` stores one channel, for content that is grey throughout, which is smaller; colours that a
    step may add are lost. It counts for all pictures, since one that is grey among coloured ones would be
    known by its file. Loaders of shiftdata give three channels either way; plain `datasets` gives mode L.
    """

    code_version: ClassVar[int] = 1
    modality: ClassVar[Modality] = "image"
    columns: ClassVar[Mapping[str, Feature]] = {"image": "image"}

    format: Literal["jpeg", "png"] = "jpeg"
    quality: int = 92
    grey: bool = False

    def __post_init__(self) -> None:
        if self.format not in ("jpeg", "png"):
            raise InputError(f"the encoding must be 'jpeg' or 'png', got {self.format!r}")
        if not 1 <= self.quality <= 100:
            raise InputError(f"the quality must be between 1 and 100, got {self.quality}")

    def encode(self, sample: Sample) -> bytes:
        """The encoded picture, without metadata."""
        picture = sample.image.convert("L") if self.grey else sample.image
        # Pillow would write comments, profiles and dates that came with the picture.
        bare = Image.frombytes(picture.mode, picture.size, picture.tobytes())
        buffer = io.BytesIO()
        if self.format == "jpeg" and "A" in bare.mode:
            raise InputError(
                f"the picture of {sample.key} has transparent pixels, which a JPEG file cannot store: fill "
                "them by a step in the recipe's prepare, such as CropSquare, Pad or OnGround, or choose 'png'"
            )
        if self.format == "jpeg":
            # Full colour resolution: halved, it would wash out the fine colour texture that makes a style.
            bare.save(buffer, "JPEG", quality=self.quality, subsampling=0)
        else:
            bare.save(buffer, "PNG", compress_level=6)
        return buffer.getvalue()


@dataclass(frozen=True, kw_only=True)
class FileEncoding:
    """Pictures as their authors' files have them, byte for byte, so that whoever has the files gets the same.

    What a loader could not show as it is (CMYK, transparency, a palette, a turned photograph, another format,
    or pixels that a step has made) is stored as PNG, without loss.
    """

    code_version: ClassVar[int] = 1
    modality: ClassVar[Modality] = "image"
    columns: ClassVar[Mapping[str, Feature]] = {"image": "image"}

    def encode(self, sample: Sample) -> bytes:
        """The bytes of the file where they can be published, else of a PNG file."""
        if isinstance(sample.example, PictureFile) and _is_plain(sample.example.data):
            return sample.example.data
        return ImageEncoding(format="png").encode(replace(sample, example=sample.image.convert("RGB")))


def _is_plain(data: bytes) -> bool:
    """Return True for a file that every loader shows alike: an upright JPEG or PNG, grey or in colours."""
    if not data:
        return False
    with open_picture(data) as picture:
        if picture.format not in ("JPEG", "PNG") or picture.mode not in ("L", "RGB"):
            return False  # before `getexif`, which decodes a PNG
        turned = picture.getexif().get(ExifTags.Base.Orientation, 1) != 1
        return not turned and "transparency" not in picture.info


@dataclass(frozen=True, kw_only=True)
class TextEncoding:
    """Texts, stored as they are."""

    code_version: ClassVar[int] = 1
    modality: ClassVar[Modality] = "text"
    columns: ClassVar[Mapping[str, Feature]] = {"text": "string"}

    def encode(self, sample: Sample) -> bytes:
        """The text in UTF-8."""
        if not isinstance(sample.example, str):
            raise _misfit(sample, "texts")
        return sample.example.encode()


@dataclass(frozen=True, kw_only=True)
class TableEncoding:
    """The features of a table's rows: each column has a type, or the names of its categories.

    Each value is read as `builders.cells.read_cell` says; a row with one that cannot be is left out.
    """

    code_version: ClassVar[int] = 1
    modality: ClassVar[Modality] = "table"

    features: Mapping[str, Feature]

    def __post_init__(self) -> None:
        if not self.features:
            raise InputError("a table needs at least one feature column")
        allowed = sorted(set(FEATURE_TYPES) - {"image"})
        for name, feature in self.features.items():
            if isinstance(feature, str) and feature not in allowed:
                raise InputError(
                    f"the feature {name!r} has the type {feature!r}; allowed: {', '.join(allowed)}, "
                    "or a tuple with the names of its categories"
                )

    @property
    def columns(self) -> Mapping[str, Feature]:
        """One column a feature."""
        names = self.features
        return {name: names[name] if isinstance(names[name], str) else list(names[name]) for name in names}

    def encode(self, sample: Sample) -> bytes:
        """The features as JSON, in the order of the columns; a category as the integer of its name."""
        if not isinstance(sample.example, Mapping):
            raise _misfit(sample, "rows of a table")
        try:
            values = [_stored(name, feature, sample.example[name]) for name, feature in self.features.items()]
        except KeyError as error:
            raise InputError(f"{sample.key} has no feature {error}") from error
        return features_as_bytes(values)


def _misfit(sample: Sample, wanted: str) -> InputError:
    given = type(sample.example).__name__
    return InputError(f"{sample.key} is a {given}, and the recipe's encoding is for {wanted}")


def _stored(name: str, feature: Feature, value: Any) -> Any:
    """One feature as its column stores it; a value of another type drops the row."""
    try:
        read = read_cell(feature, value)
    except ValueError as error:
        raise BadItem(misfit(name, feature)) from error
    return read if read is None or isinstance(feature, str) else list(feature).index(str(read))
