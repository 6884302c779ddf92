"""The paths of the files of a dataset; nobody else spells them."""

from __future__ import annotations

from collections.abc import Iterable

from shiftdata.data.format.schema import SPLITS

MANIFEST = "manifest.json"
README = "README.md"
CROISSANT = "croissant.json"
BENCHMARK = "eval.yaml"
NAMES = "names.json"
ATTRIBUTION = "ATTRIBUTION.md"
#: Made from the manifest, which lists them: their text never depends on their own records in it.
RENDERINGS = (README, CROISSANT, BENCHMARK, NAMES)
DROPPED = "dropped.parquet"  # names what could not be used


def metadata_file(base: str, split: str) -> str:
    """Return the path of the rows of a split without pixels."""
    return f"metadata/{base}/{split}.parquet"


def data_prefix(base: str, split: str) -> str:
    """Return the prefix of a split's data files; in tars also of those of a task's set."""
    return f"data/{base}/{split}-"


def data_file(base: str, split: str, number: int, count: int, suffix: str = "parquet") -> str:
    """Return the path of one of a split's `count` data files."""
    return f"{data_prefix(base, split)}{number:05d}-of-{count:05d}.{suffix}"


def data_files(files: Iterable[str], base: str, split: str) -> list[str]:
    """Return the data files of a split, in order."""
    return sorted(path for path in files if path.startswith(data_prefix(base, split)))


def data_pattern(base: str, split: str) -> str:
    """Return the pattern by which a card names a split's data files."""
    return f"{data_prefix(base, split)}*.parquet"


def is_tar(path: str) -> bool:
    """Return True if a data file is in WebDataset format."""
    return path.endswith(".tar")


def index_file(tar: str) -> str:
    """Return the path of the index of a tar.

    >>> index_file("data/mini/train-00000-of-00002.tar")
    'index/mini/train-00000-of-00002.parquet'
    """
    return f"index/{tar.removeprefix('data/').removesuffix('.tar')}.parquet"


def row_files(files: Iterable[str], base: str, split: str) -> list[str]:
    """Return the files with a split's rows without examples: its metadata, or an index for each tar.

    >>> row_files(["data/mini/test-00000-of-00001.tar"], "mini", "test")
    ['index/mini/test-00000-of-00001.parquet']
    """
    tars = list(filter(is_tar, data_files(files, base, split)))
    return [index_file(tar) for tar in tars] or [metadata_file(base, split)]


def protocol_file(config: str) -> str:
    """Return the path of the frozen keys of a canonical split."""
    return f"protocols/{config}.parquet"


def in_order(splits: Iterable[str]) -> list[str]:
    """Sort splits in their canonical order, in which rows are counted; then other sets of a task."""
    order = list(SPLITS)
    return sorted(splits, key=lambda split: order.index(split) if split in order else len(order))
