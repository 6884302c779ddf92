"""Banks of styles: the codes that a stylizer computed of some pictures of each style.

The bank that ships has 20 styles of generative art with 40 pictures each, as codes alone:
`scripts/regenerate_style_bank.py` draws and encodes the pictures again from their seeds. Your own bank is a
folder of pictures, or a file of their codes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from builders.albums.folder import ENDINGS, picture_of, slug
from builders.sample import BadItem
from builders.shifts.styles.listed import LISTED, read_listed
from builders.shifts.styles.network import ASSETS
from builders.shifts.stylizers import Arbitrary, Stylizer
from builders.shifts.stylizers.stylizer import FloatArray
from shiftdata.data.format.names import check_names
from shiftdata.errors import InputError, IntegrityError
from shiftdata.files import whole_file
from shiftdata.stable import content_hash
from shiftdata.untrusted.parquet import read_parquet
from shiftdata.untrusted.texts import read_csv

BANK = ASSETS / "bank.parquet"
SLUG_LENGTH = 39  # behind the longest key of content and a hyphen it makes the longest key
EXPECTED = "<style>/<picture>, one folder a style"


#: As many pairs of source and target style as Stylized Meta-Album has, whose styles these are not.
PAIRS = tuple(
    (source, target)
    for source, targets in {
        "green_hatching": ("green_etching",),
        "pale_watercolour": ("pale_cream",),
        "terracotta": ("amber", "deep_blue"),
        "dark_olive": ("green_hatching",),
        "glossy_red": ("emerald_woodcut", "rainbow_outlines"),
        "green_etching": ("ink_on_sand",),
        "rainbow_outlines": ("bright_crayon",),
        "ink_on_sand": ("black_ink",),
        "embers": ("orange_and_teal", "mist"),
        "midnight": ("deep_blue", "pale_cream"),
        "amber": ("terracotta",),
        "black_ink": ("pale_watercolour",),
        "crimson_print": ("charcoal",),
        "deep_blue": ("embers",),
        "mist": ("midnight",),
        "pale_cream": ("bright_crayon",),
        "charcoal": ("emerald_woodcut",),
        "orange_and_teal": ("green_etching", "green_hatching"),
        "emerald_woodcut": ("crimson_print",),
        "bright_crayon": ("glossy_red",),
    }.items()
    for target in targets
)


@dataclass(frozen=True, eq=False)
class StyleBank:
    """By name of a style, a code for each of its pictures: picture x numbers, all of one length."""

    codes: Mapping[str, NDArray[np.float32]]

    def __post_init__(self) -> None:
        length = next(iter(self.codes.values())).shape[-1]
        for name, codes in self.codes.items():
            if codes.ndim != 2 or codes.shape[1] != length or not len(codes) or not np.isfinite(codes).all():
                raise InputError(f"the style {name!r} needs rows of {length} finite numbers")

    @staticmethod
    @cache
    def load() -> StyleBank:
        return read_bank(BANK, Arbitrary())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.codes)

    @property
    def size(self) -> int:
        """The smallest number of pictures of a style."""
        return min(map(len, self.codes.values()))

    def count(self, style: str) -> int:
        return len(self.codes[style])

    def code(self, style: str, index: int) -> FloatArray:
        return np.array(self.codes[style][index])

    def fingerprint(self) -> str:
        little_endian = [np.ascontiguousarray(codes, dtype="<f4").tobytes() for codes in self.codes.values()]
        return content_hash(*self.names, *little_endian)

    def write(
        self, path: Path, stylizer: Stylizer, provenance: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Write a file of codes, which `read_bank` reads; `Stylize` makes the same pictures from it.

        `provenance` has more columns, such as the source of each picture.
        """
        rows = [(style, index) for style, codes in self.codes.items() for index in range(len(codes))]
        flat = pa.array(np.concatenate(list(self.codes.values())).astype(np.float32).ravel())
        columns = {
            "style": pa.array([style for style, _ in rows]),
            "index": pa.array([index for _, index in rows], pa.int32()),
            "code": pa.FixedSizeListArray.from_arrays(flat, len(flat) // len(rows)),
            **{name: pa.array(cells, pa.string()) for name, cells in (provenance or {}).items()},
        }
        named = {"stylizer": stylizer.name, "network": stylizer.codes_id()}
        table = pa.table(columns).replace_schema_metadata(named)
        with whole_file(path) as temporary:
            pq.write_table(table, temporary, compression="zstd", use_dictionary=["style"])


def read_bank(path: Path, stylizer: Stylizer) -> StyleBank:
    """Read a file of codes: one row a style picture, sorted by style and index, of one stylizer's network."""
    try:
        table = read_parquet(path)
        rows = table.select(["style", "index"]).to_pylist()
        codes = np.array(table["code"].to_pylist(), dtype=np.float32)
    except (IntegrityError, KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} is not a file of style codes (columns style, index and code): {error}; "
            f"write one by `shiftdata styles encode FOLDER {path.name}`"
        ) from error
    sizes = {row["style"]: 0 for row in rows}
    for row in rows:
        sizes[row["style"]] += 1
    expected = [(name, index) for name in sorted(sizes) for index in range(sizes[name])]
    if not rows or [(row["style"], row["index"]) for row in rows] != expected:
        raise InputError(f"{path}: its rows are not the pictures 0, 1, 2 and so on of each style, in order")
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    if metadata.get("network") != stylizer.codes_id():
        raise InputError(
            f"{path} has codes of another network ({metadata.get('stylizer', Arbitrary.name)}) than that of "
            f"the stylizer {stylizer.name}, or of other weights: encode the style pictures again"
        )
    check_style_names(list(sizes), str(path))
    ends = np.cumsum(list(sizes.values()))[:-1]
    return StyleBank(dict(zip(sizes, np.split(codes, ends), strict=True)))


def read_strengths(path: Path) -> dict[str, float]:
    """The strength of each style, for `Stylize`, from a table of `scripts/calibrate_styles.py`."""
    return {row["style"]: float(row["strength"]) for row in read_csv(path, delimiter="\t")}


def style_pictures(folder: Path) -> dict[str, list[Path]]:
    """The pictures of each style in `<folder>/<style>/<picture>`, sorted by name; no picture is read.

    Of a folder with a table `styles.tsv`, those that it lists.
    """
    styles: dict[str, list[Path]] = {}
    if (folder / LISTED).is_file():
        for one in read_listed(folder):
            styles.setdefault(one.style, []).append(folder / one.file)
        check_style_names(list(styles), str(folder))
        return styles
    for at, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        levels = Path(at).relative_to(folder).parts
        pictures = [
            Path(at, name)
            for name in sorted(files)
            if name.lower().endswith(ENDINGS) and not name.startswith(".")
        ]
        if pictures and len(levels) != 1:
            raise InputError(f"{pictures[0]} is not in the folder of a style: expected {folder}/{EXPECTED}")
        if len(levels) == 1:
            styles[levels[0]] = pictures
    if not styles:
        raise InputError(f"{folder} has no style: expected {folder}/{EXPECTED}")
    for style, pictures in styles.items():
        if not pictures:
            raise InputError(
                f"{folder / style} has no picture ({', '.join(ENDINGS)}): add some, or remove the folder"
            )
    check_style_names(list(styles), str(folder))
    return dict(sorted(styles.items()))


def encode_folder(
    folder: Path, stylizer: Stylizer, *, on_done: Callable[[int], object] = lambda count: None
) -> StyleBank:
    """The codes of a folder's style pictures; a picture that cannot be used is an error that names it."""
    codes = {}
    for style, pictures in style_pictures(folder).items():
        rows = []
        for picture in pictures:
            rows.append(stylizer.encode(style_picture(picture)))
            on_done(1)
        codes[style] = np.stack(rows)
    return StyleBank(codes)


def check_style_names(names: Sequence[str], where: str) -> None:
    """Refuse names that cannot stand in a line, and those that keys cannot tell apart."""
    check_names("style", names, where)
    known: dict[str, str] = {}
    for name in names:
        if (other := known.setdefault(slug(name, SLUG_LENGTH), name)) != name:
            raise InputError(
                f"keys cannot keep the styles {other!r} and {name!r} of {where} apart: rename one"
            )


def on_white(picture: Image.Image) -> Image.Image:
    """Return a picture in RGB, on white where it is transparent."""
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture.convert("RGBA")).convert("RGB")


def style_picture(file: Path) -> Image.Image:
    """A style picture on white; refused where nobody could use it."""
    try:
        picture = picture_of(file)
    except BadItem as error:
        raise InputError(f"the style picture {file} cannot be used: {error}; replace or remove it") from error
    return on_white(picture)
