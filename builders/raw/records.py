"""Texts and JSON files of raw datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builders.raw.tree import Tree
from shiftdata.errors import InputError
from shiftdata.untrusted.texts import read_json


def decoded(data: bytes) -> str:
    """The text of a file in UTF-8, or else, as older tools write it, in Latin-1."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def json_in(tree: Tree, file: str) -> Any:
    """Read a JSON file of a tree."""
    try:
        return read_json(decoded(tree.read(file)), file, limit="raw_json_bytes")
    except ValueError as error:
        raise InputError(f"{file} in {tree.place} is not whole JSON ({error}): get it again") from error


def lists_in(tree: Tree, file: str, *names: str) -> list[list[Mapping[str, Any]]]:
    """Some lists of records of a JSON file."""
    stored = json_in(tree, file)
    lists = [stored.get(name) if isinstance(stored, dict) else None for name in names]
    for name, records in zip(names, lists, strict=True):
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise InputError(f"{file} in {tree.place} has no list {name!r} of records: is it another file?")
    return [records or [] for records in lists]


def by_name(tree: Tree, below: str = "") -> dict[str, str]:
    """The path of each file below a folder by its name in lower case; of equal names the first."""
    files = [file for file in tree.files if not below or file.startswith(f"{below}/")]
    return {file.rpartition("/")[2].lower(): file for file in sorted(files, reverse=True)}
