"""Licences: what an expression lets others do, and what becomes of each row's terms."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import mlcroissant
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.make.build import build
from builders.make.check import check
from builders.recipe_files import load_recipe
from shiftdata.data.exporting.webdataset import export
from shiftdata.data.format.front_matter import cell
from shiftdata.data.format.licenses import redistribution_problem, withheld
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import ATTRIBUTION
from tests.tiny import write_recipe

FREE = ["CC0-1.0", "CC-BY-4.0", "CC-BY-NC-SA-4.0", "MIT", "OFL-1.1", "LGPL-2.1+", "ODbL-1.0", "Unicode-3.0"]
NOT_KNOWN = ["LicenseRef-Mine", "NOASSERTION", "NONE", "BUSL-1.1", "CC-BY-ND-4.0", "Nonsense-1"]


@given(st.lists(st.sampled_from(FREE), min_size=1), st.lists(st.sampled_from(NOT_KNOWN)))
def test_and_needs_all(free, not_known):
    text = " AND ".join([*free, *not_known])
    assert (redistribution_problem(text) is None) == (not not_known)
    assert withheld(text) == tuple(sorted(set(not_known)))
    assert withheld(text, not_known) == ()


@pytest.mark.parametrize(
    "text", ["", "MIT OR NONE", "(MIT)", "MIT AND (MIT OR NONE)", "MIT MIT", "MIT WITH Font-exception-2.0"]
)
def test_another_expression_lets_nobody_unless_it_is_allowed(text):
    assert withheld(text)
    assert withheld(text, [text]) == ()


TERMS = [
    ("CC-BY-4.0", "A. | Painter"),
    ("MIT AND Unicode-3.0", "B. Writer"),
    ("LicenseRef-Mine", "C. *Owner*"),
    ("CC-BY-NC-4.0", "D. Photographer"),
]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recipe whose pictures have licences of their own, and its dataset."""
    home = tmp_path_factory.mktemp("mixed")
    recipe = write_recipe(home)
    pictures = sorted((home / "pictures").rglob("*.png"))
    with (home / "pictures/items.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["file", "label", "license", "attribution"])
        for number, path in enumerate(pictures):
            table.writerow([path.relative_to(home / "pictures"), path.parent.name, *TERMS[number % 4]])
    return recipe, build(str(recipe), home / "out", workers=1, quiet=True)


def rows_of(folder: Path) -> Counter[tuple[str, str]]:
    """The terms of every row of every base."""
    tables = [pq.read_table(path) for path in sorted((folder / "metadata").rglob("*.parquet"))]
    return Counter(
        pair
        for table in tables
        for pair in zip(table["license"].to_pylist(), table["attribution"].to_pylist(), strict=True)
    )


@pytest.mark.slow
def test_each_licence_and_attribution_is_in_the_file(mixed):
    recipe, folder = mixed
    counted = rows_of(folder)
    assert set(counted) == set(TERMS)
    text = (folder / ATTRIBUTION).read_text()
    for (licence, who), rows in counted.items():
        section = text.partition(f"## {licence}\n")[2].partition("\n## ")[0]
        assert f"| {cell(who)} | {rows:,} |" in section
    assert "<https://spdx.org/licenses/MIT.html>, <https://spdx.org/licenses/Unicode-3.0.html>" in text
    assert "licenses/LicenseRef" not in text
    assert ATTRIBUTION in Manifest.read(folder).files
    assert check(folder, load_recipe(str(recipe))) == []


def test_card_and_croissant_point_to_it_and_rows_have_their_own(mixed):
    _, folder = mixed
    assert f"[{ATTRIBUTION}]({ATTRIBUTION}) lists them all" in (folder / "README.md").read_text()
    said = json.loads((folder / "croissant.json").read_text())
    assert {"@id": ATTRIBUTION, "encodingFormat": "text/markdown"}.items() <= {
        name: value
        for entry in said["distribution"]
        if entry["@id"] == ATTRIBUTION
        for name, value in entry.items()
    }.items()
    name = "mini/train-00000-of-00001"
    row = next(iter(mlcroissant.Dataset(str(folder / "croissant.json")).records(name)))
    assert (row[f"{name}/license"].decode(), row[f"{name}/attribution"].decode()) in TERMS


def test_rows_that_may_not_be_passed_on_need_each_licence_named(publish, mixed, home, tmp_path):
    recipe, folder = mixed
    rows = rows_of(folder)[TERMS[2]]
    said = publish(folder, "--recipe", recipe, "--to", "place", fails=True)
    assert f"LicenseRef-Mine is not known to let others pass it on: {rows:,} rows, of C. *Owner*" in said
    assert "add: --allow-license LicenseRef-Mine\n" in said
    assert "CC-BY" not in said
    wrong = ["--allow-license", "licenseref-mine", "--allow-license", "LicenseRef"]
    assert "is not published" in publish(folder, "--recipe", recipe, "--to", "place", *wrong, fails=True)
    assert not (home / "place").exists()
    named = ["--allow-license", "LicenseRef-Mine"]
    said = publish(folder, "--recipe", recipe, "--to", "place", *named)
    assert "published on your word: LicenseRef-Mine" in said
    assert f"{rows_of(folder)[TERMS[3]]:,} rows may not be used commercially" in said


@pytest.mark.slow
def test_the_terms_of_tars_are_read_too(publish, mixed, home):
    recipe, folder = mixed
    tars = export(folder, home / "tiny_wds")
    said = publish(tars, "--recipe", recipe, "--to", "place", fails=True)
    assert f"{rows_of(folder)[TERMS[2]]:,} rows, of C. *Owner*" in said
