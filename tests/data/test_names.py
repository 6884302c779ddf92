"""Names of labels, nuisances, bases, columns and files: none misleads a line, a page, a path or a sheet."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import shiftdata as sd
from builders.albums.folder import FolderAlbum
from builders.items import ItemTable
from builders.make.assign import check_items
from builders.recipe import Base
from builders.recipe_files import load_recipe
from shiftdata.cli.app import main
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError, IntegrityError
from shiftdata.tables import csv_cell, from_csv_cell
from tests.data.exporting.readers import read, rows_of
from tests.data.test_faults import own_recipe
from tests.tiny import edit_manifest

BAD = ["two\nlines", "\x1b[2Jclear", "nul\0", "back\u202espelled", "para\u2029graph", "c1\x9bx", " "]
FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "'=1", "'plain", "\uff1dfull"]


@pytest.mark.parametrize("bad", BAD)
def test_an_album_with_such_a_label_is_refused_before_anything_is_built(tmp_path, bad):
    recipe = load_recipe(own_recipe(tmp_path, {"a": 2, "b": 2}))
    album = replace(recipe.album, allowed=("a", "b", bad))
    with pytest.raises(InputError, match=r"the label .* of the album of own .*: rename it"):
        check_items(replace(recipe, album=album), ItemTable.of(recipe.album.items()))
    first = recipe.album.items()[0]
    with pytest.raises(InputError, match="the attribution "):
        check_items(recipe, ItemTable.of([replace(first, attribution=f"{bad}x\n")]))
    with pytest.raises(InputError, match=r"the licence .* is not an SPDX identifier"):
        replace(first, license=f"{bad}x\n")


@pytest.mark.parametrize(
    "changes",
    [
        {"bases": (Base(name="../up", summary="x"),), "default_base": "../up"},
        {"bases": (Base(name="a\nb", summary="x"),), "default_base": "a\nb"},
        {"version": "1/2"},
        {"title": "two\nlines"},
        {"summary": "\x1b[31mred"},
        {"creators": ("A. Maker", "A. Maker")},
        {"seed": -1},
    ],
)
def test_a_recipe_with_such_texts_is_refused(tmp_path, changes):
    recipe = load_recipe(own_recipe(tmp_path, {"a": 2, "b": 2}))
    with pytest.raises(InputError):
        replace(recipe, **changes)


@pytest.mark.parametrize("where", ["label", "z", "name", "column"])
def test_your_own_table_with_such_a_name_is_refused(where):
    for bad in BAD:
        column = bad if where == "column" else "z"
        table = pa.table({"key": ["a", "b"], "label": ["x", "y"], column: ["p", "q"]})
        if where in ("label", "z"):
            table = table.set_column(table.column_names.index(where), where, pa.array(["x", bad]))
        with pytest.raises(InputError, match="rename it"):
            sd.metadata_from_table(table, nuisance=column, name=bad if where == "name" else "rows")


@pytest.mark.parametrize(
    "path",
    ["title", "labels.0", "nuisances.0", "creators.0", "license", "versions.numpy", "credits.0.license"],
)
def test_a_manifest_with_such_a_name_is_refused_by_every_reader(copy, path, capsys):
    for bad in BAD:

        def change(raw: dict[str, object], bad: str = bad) -> None:
            *parts, last = [int(part) if part.isdigit() else part for part in path.split(".")]
            at: Any = raw
            for part in parts:
                at = at[part]
            at[last] = bad

        edit_manifest(copy, change)
        with pytest.raises(IntegrityError):
            Manifest.read(copy)
        assert main(["info", str(copy)]) == 1
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err


def test_a_folder_or_file_whose_name_is_not_utf8_is_refused_in_plain_words(tmp_path):
    for name in (b"caf\xe9/a.png", b"good/caf\xe9.png"):
        root = tmp_path / f"album{len(name)}"
        path = os.fsencode(root) + b"/" + name
        os.makedirs(os.path.dirname(path))
        Image.new("RGB", (16, 16)).save(root / "x.png")
        (root / "x.png").rename(os.fsdecode(path))
        with pytest.raises(InputError, match="rename it"):
            FolderAlbum(root, license="MIT", attribution="A. Maker").items()


@pytest.mark.parametrize("file", [b"caf\xe9.png", b"a\0.png", b""])
def test_a_table_of_such_files_is_refused(tmp_path, file):
    Image.new("RGB", (16, 16)).save(tmp_path / "a.png")
    (tmp_path / "items.csv").write_bytes(b"file,label\n%s,a\n" % file)
    with pytest.raises(InputError, match=r"items\.csv"):
        FolderAlbum(tmp_path, license="MIT", attribution="A. Maker").items()


def test_a_stray_file_of_any_name_is_one_line_of_a_report(copy, capsys):
    for name in (b"\x1b[2Jx", b"two\nlines", b"caf\xe9"):
        Path(os.fsdecode(os.fsencode(copy) + b"/data/" + name)).write_bytes(b"x")
    assert main(["verify", str(copy), "--files-only", "--quiet"]) == 1
    printed = capsys.readouterr().out
    assert printed.encode("utf-8")
    assert "\x1b" not in printed
    assert sum("is not in the manifest" in line for line in printed.splitlines()) == 3


@given(st.one_of(st.sampled_from(FORMULAS), st.text()))
def test_no_cell_is_a_formula_and_every_text_comes_back(text):
    cell = csv_cell(text)
    assert from_csv_cell(cell) == text
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"))


@pytest.mark.parametrize("layout", ["imagefolder", "wilds", "domainbed", "lists"])
def test_an_export_has_no_formula_and_reads_back(copy, layout, tmp_path):
    import pandas as pd

    def change(raw: dict[str, object]) -> None:
        raw["labels"], raw["nuisances"] = FORMULAS[:4], ["=a", "-b", "'=a", "@c", "+d"]

    edit_manifest(copy, change)
    task = sd.task(copy)
    record = sd.export(task, layout, tmp_path / "out").record
    assert read(layout, tmp_path / "out", record) == rows_of(task, nuisance=layout != "imagefolder")
    for path in (tmp_path / "out").rglob("*.csv"):
        table = pd.read_csv(path, keep_default_na=False)
        texts = [
            text for column in table.select_dtypes(include=["object", "string"]) for text in table[column]
        ]
        assert not [text for text in texts if str(text).startswith(("=", "+", "-", "@"))]
    assert {entry["name"] for entry in record["class_to_label"]} == set(FORMULAS[:4])
