"""An album from a raw dataset: a layout says which files there are, a tree reads them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import ClassVar, Protocol, Self, runtime_checkable

import pyarrow as pa
from PIL import Image, ImageFile

from builders.albums.folder import DIGITS_OF_MANY, ENDINGS, hash_digits, key_of, origin_of, picture_of, slug
from builders.albums.reading import RawFile, Reads, Repeated
from builders.items import ItemTable
from builders.raw.archives import RAW, RAW_VARIABLE
from builders.raw.found import Found, Odd, Results, Row
from builders.raw.rows import Rows, parquet_files
from builders.raw.sources import sources
from builders.raw.tree import Tree
from builders.sample import BadItem, Example, Item, Json, PictureFile
from shiftdata.data.format.records import UsedFile
from shiftdata.errors import InputError, IntegrityError
from shiftdata.stable import hash_of_parts
from shiftdata.threads import available_cores, in_threads
from shiftdata.untrusted.pictures import open_picture

#: What `params` say of a file without the name that its authors gave it: it has no place in their order.
NAMELESS = "nameless"
#: What `params` call the part of a file that an example is.
PART = "row"

#: How the digest of an example that cannot be used begins.
UNUSABLE = "unusable: "

_truncated = threading.Lock()


class Layout(Protocol):
    """The layout that the authors of a dataset gave its files."""

    #: Raise it whenever the same files make other rows.
    code_version: ClassVar[int]

    def rows(self, tree: Tree, /) -> Iterator[Found]:
        """Every example, and every file that was meant as one; reads no picture."""


@runtime_checkable
class InParts(Protocol):
    """A layout whose examples are parts of files."""

    def example(self, tree: Tree, file: str, part: int, /) -> Example:
        """The part of a file that a row names; raises `BadItem` where it cannot be used."""


@dataclass(frozen=True, kw_only=True)
class RawAlbum:
    """The examples of a raw dataset, as they are.

    `root` is a folder or an archive; without it `build/raw/<name>`, or `$SHIFTDATA_RAW/<name>`. It may be a
    copy as rows, a folder with Parquet files. `by_content` says that those have lost the names of the files.
    `allowed` fixes the allowed labels, and their order; without it they are those of the pictures.
    A picture whose file ends too soon is kept as far as it goes, as the papers' codes keep it.
    """

    code_version: ClassVar[int] = 2

    name: str
    layout: Layout
    license: str
    attribution: str
    allowed: tuple[str, ...] | None = None
    root: Path | None = None
    by_content: bool = False

    def at(self, place: Path) -> Self:
        return replace(self, root=place)

    @property
    def _place(self) -> Path:
        return self.root or Path(os.environ.get(RAW_VARIABLE, RAW)) / self.name

    @property
    def is_here(self) -> bool:
        return self._place.exists()

    @cached_property
    def tree(self) -> Tree:
        """The files."""
        place = self._place
        if not place.exists():
            raise InputError(
                f"the raw data of {self.name} is not at {place}: `shiftdata raw get {self.name}` "
                "says how to get it; if you have it, say where: --raw PLACE"
            )
        tree, shards = Tree(place), parquet_files(place)
        if self.by_content and not shards:
            raise InputError(
                f"{place} has no Parquet file, and this recipe reads rows without names: build {self.name}"
            )
        has_pictures = tree.archives or any(file.lower().endswith(ENDINGS) for file in tree.files)
        if shards and (self.by_content or not has_pictures):
            return Tree(place, Rows(place, by_content=self.by_content))
        return tree

    @property
    def labels(self) -> tuple[str, ...]:
        return self.allowed or tuple(self.items().names("label"))

    def found(self) -> Iterator[Found]:
        """Every example by the layout, and every file that was meant as one."""
        yield from (Odd(file=file, why=why) for file, why in self.tree.odd.items())
        yield from self.layout.rows(self.tree)

    def items(self) -> ItemTable:
        return self._listed[0]

    @property
    def left_out(self) -> Mapping[str, str]:
        return self._listed[1]

    def place(self, item: Item) -> str:
        return place_of(*_source(item))

    def load(self, item: Item) -> Example:
        file, part = _source(item)
        if part is not None:
            return self._example(file, part)
        return self.decoded(item, self.tree.read(file))

    def decoded(self, item: Item, data: bytes) -> PictureFile:
        """The picture that the bytes of an item's file are, as far as it goes."""
        try:
            return PictureFile(data, picture_of(io.BytesIO(data)))
        except BadItem:
            return PictureFile(b"", as_far_as_it_goes(data))

    def _example(self, file: str, part: int) -> Example:
        assert isinstance(self.layout, InParts)
        return self.layout.example(self.tree, file, part)

    def data(self, file: str, part: int | None) -> bytes:
        """Return what tells an example from another: the bytes of its file, or of the part that it is."""
        if part is None:
            return self.tree.read(file)
        example = self._example(file, part)
        if isinstance(example, PictureFile):
            return example.data
        if isinstance(example, Image.Image):
            return f"{example.mode} {example.size} ".encode() + example.tobytes()
        return example.encode() if isinstance(example, str) else json.dumps(dict(example)).encode()

    def files(self) -> Iterator[RawFile]:
        """The files whose bytes are items, archive by archive."""
        if not self._in_parts:
            yield from self.tree.as_they_lie(self.tree.files.named(self._found.files()))

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        return self.tree.read(name)

    def fault_of(self, data: bytes) -> str:
        """Every file that a layout names is an item."""
        return ""

    @cached_property
    def reads(self) -> Reads:
        """The results of reading all files: read here and now, unless a build has done so before."""
        return Reads.of(self)

    def _digest(self, item: Item) -> bytes:
        """Hash a part of a file."""
        try:
            return hashlib.sha256(self.data(*_source(item))).digest()
        except BadItem as error:
            return f"{UNUSABLE}{error}".encode()

    def fingerprint(self) -> str:
        """A hash of names, labels and files; where they lie, packed or not, does not count."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        described = map(self._described, self.items(), self.items().digests())
        return hash_of_parts(chain(self.labels, described))

    def used_files(self) -> list[UsedFile]:
        """Name the files of the authors' release, by the hashes that are known of them."""
        known = None if self.by_content else sources().get(self.name)
        files = [file for file in known.files if file.hash and not file.optional] if known else []
        return [UsedFile(name=file.name, hash=file.hash, url=file.url or None) for file in files]

    def _described(self, item: Item, digest: bytes | None) -> str:
        named = (item.key, item.label, item.nuisance or "", item.origin, item.license, *item.bases)
        named += () if item.severity is None else (f"{item.severity:g}",)
        more = {name: value for name, value in item.source.items() if name != "file"}
        return "\t".join([*named, json.dumps(more, sort_keys=True), _shown(digest or b"")])

    @property
    def _in_parts(self) -> bool:
        """True if examples are parts of files, which each process reads for itself: they are few."""
        return isinstance(self.layout, InParts)

    @cached_property
    def _found(self) -> Results:
        return Results(self.found())

    @cached_property
    def _listed(self) -> tuple[ItemTable, dict[str, str]]:
        rows, odd = self._found, self._found.odd
        if not len(rows):
            faults = "; ".join(f"{file}: {why}" for file, why in list(odd.items())[:3])
            raise InputError(
                f"{self.tree.place} has no example of {self.name}"
                f"{f' ({faults})' if faults else ''}: `shiftdata raw check {self.name} "
                f"--raw {self.tree.place}` says what it should have"
            )
        items = ItemTable.of(self._items(rows), self.reads.folder, None if self._in_parts else self.reads)
        if self._in_parts:
            digests = in_threads(self._digest, items, available_cores())
            items = items.with_column("digest", pa.array(digests, pa.binary()))
        del self.__dict__["_found"]  # of many files, a gigabyte that nobody needs any more
        return items, odd

    def _items(self, rows: Results) -> Iterator[Item]:
        """The items; a name that occurs twice in a group needs its ending in its key, or else its folders."""
        keys, files = Repeated(), Repeated()
        for row in rows:
            key = _key(row)
            keys.add(key)
            files.add(f"{key} {_name(row)}")
        for row in rows:
            stem, key = _stem(row), _key(row)
            if key in keys:
                name = row.file if f"{key} {_name(row)}" in files else _name(row)
                stem += f" {hash_digits(name, DIGITS_OF_MANY)}"
                key = key_of(row.label, stem, row.nuisance)
            shared = slug(row.origin, digits=DIGITS_OF_MANY) if row.across and row.origin else ""
            part: dict[str, Json] = {} if row.part is None else {PART: row.part}
            nameless: dict[str, Json] = {NAMELESS: True} if self.by_content else {}
            yield Item(
                key=key,
                label=row.label,
                origin=shared or origin_of(row.label, stem, row.nuisance, row.origin),
                license=self.license,
                attribution=self.attribution,
                nuisance=row.nuisance,
                severity=row.severity,
                bases=row.bases,
                source={"file": row.file, **part, **row.more, **nameless},
            )


def _shown(digest: bytes) -> str:
    """A hash in hexadecimal digits, or why there is none."""
    return digest.decode() if digest.startswith(UNUSABLE.encode()) else digest.hex()


def _stem(row: Row) -> str:
    if row.stem:
        return row.stem
    stem = PurePosixPath(row.file).stem
    return stem if row.part is None else f"{stem} {row.part}"


def _key(row: Row) -> str:
    """The key of a row whose stem no other in its group has."""
    return key_of(row.label, _stem(row), row.nuisance)


def _name(row: Row) -> str:
    return row.file.rpartition("/")[2]


def place_of(file: str, part: int | None) -> str:
    """The name of an example in messages."""
    return file if part is None else f"{file}, {PART} {part}"


def _source(item: Item) -> tuple[str, int | None]:
    """The file of an item, and its part there."""
    part = item.source.get(PART)
    return str(item.source["file"]), part if isinstance(part, int) else None


def as_far_as_it_goes(data: bytes) -> Image.Image:
    """A picture that is cut short; raises `BadItem` where nothing helps."""
    with _truncated:
        before, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, True
        try:
            with open_picture(data) as picture:
                return picture.convert("RGB")
        except IntegrityError as error:
            raise BadItem("not a readable picture") from error
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = before
