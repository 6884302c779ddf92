"""Terms of style pictures: in rows, in every description, in a filter, in what may be published."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from builders.make.build import build
from builders.make.check import check
from builders.publish.checks import refuse_withheld, rows_by_terms
from builders.publish.target import Source
from builders.recipe_files import load_recipe
from builders.shifts.steps import Stylize
from builders.shifts.styles.getting import get
from builders.terms import tool
from shiftdata.__main__ import main
from shiftdata.data.format.licenses import content_license, row_license
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError
from shiftdata.evaluation.verify import verify
from tests.builders.stylizers.made import texture
from tests.builders.stylizers.test_own_styles import table
from tests.tiny import edit_manifest, write_recipe

#: By style: its licence, its author, and the licence of a row that it painted, of content under CC0-1.0.
STYLES = {
    "free": ("CC0-1.0", "A. Giver", "CC0-1.0"),
    "named": ("CC-BY-4.0", "B. Painter", "CC0-1.0 AND CC-BY-4.0"),
    "paid": ("CC-BY-NC-4.0", "C. Seller", "CC0-1.0 AND CC-BY-NC-4.0"),
    "whole": ("CC-BY-ND-4.0", "D. Keeper", "CC0-1.0 AND CC-BY-ND-4.0"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe that paints in styles of four licences: `recipe.py`, `styles` and, built, `out`."""
    home = tmp_path_factory.mktemp("terms")
    recipe, listed = write_recipe(home), []
    for style, (licence, who, _) in STYLES.items():
        texture(style, 0).save(home / f"{style}.png")
        listed.append({"style": style, "file": f"{style}.png", "license": licence, "attribution": who})
    get(table(home / "list.csv", listed, "style file license attribution"), home / "styles")
    own = "Stylize(seed=0, dataset='tiny', styles=Path(__file__).parent / 'styles')"
    text = (
        recipe.read_text()
        .replace("import OnGround", "import OnGround, Stylize")
        .replace("Tint()", own)
        .replace("=20", "=10")
    )
    start, end = text.index("    protocols="), text.index("    seed=0")
    recipe.write_text(f"{text[:start]}    compilation='ODbL-1.0',\n{text[end:]}")
    build(str(recipe), home / "out", bases=["mini"], workers=1, quiet=True)
    return home


def licences(folder: Path) -> dict[str, set[str]]:
    """The licences of the rows of each style, as pandas reads the files."""
    names = Manifest.read(folder).nuisances
    rows = pq.read_table(folder / "metadata/mini").to_pandas().groupby("style")["license"].agg(set)
    return {names[style]: of_style for style, of_style in rows.items()}


def test_each_part_is_named_with_its_terms_wherever_they_are_read(place, capsys) -> None:
    folder = place / "out/shift/tiny"
    assert licences(folder) == {style: {row} for style, (*_, row) in STYLES.items()}
    manifest, text = Manifest.read(folder), (folder / "ATTRIBUTION.md").read_text()
    assert manifest.license == "CC-BY-4.0 AND CC-BY-NC-4.0 AND CC-BY-ND-4.0 AND CC0-1.0 AND ODbL-1.0"
    content, rest = text.partition("## Content")[2].split("## Pictures")
    assert "| made here | " in content
    pictures, tools = rest.split("## Tools")
    network = "| Arbitrary image stylization | Apache-2.0 |"
    card = (folder / "README.md").read_text()
    croissant = json.loads((folder / "croissant.json").read_text())
    sources = {source["prov:label"]: source["license"] for source in croissant["prov:wasDerivedFrom"]}
    for style, (licence, who, _) in STYLES.items():
        assert who not in content
        assert f"| Style pictures | {licence} | {who} |" in pictures
        assert f"| {style} | " in pictures
        commercial = "no" if "NC" in licence else "yes"
        assert f"| {style} | picture: Style pictures | {licence} | {commercial} | {who} |" in card
        assert sources[f"Style pictures: {who}"] == [f"https://spdx.org/licenses/{licence}.html"]
    assert network in tools
    assert "Selection and arrangement: ODbL-1.0." in tools
    assert "https://spdx.org/licenses/ODbL-1.0.html" in croissant["license"]
    assert verify(folder) == []
    assert main(["info", str(folder), "--licences"]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    answers = {line[0]: [cell.strip() for cell in line[1:] if cell] for line in lines}
    assert answers["paid"] == [STYLES["paid"][2], "no", "yes", "no", "40"]
    assert answers["whole"] == [STYLES["whole"][2], "yes", "no", "no", "40"]


def test_a_part_for_commercial_use_has_and_names_nothing_else(place, tmp_path) -> None:
    folder = place / "out/shift/tiny"
    part = sd.fetch(folder, select="use=commercial", out=tmp_path / "part")
    assert set(licences(part)) == {"free", "named", "whole"}
    both = sd.fetch(folder, select=["use=commercial", "use=derivatives"], out=tmp_path / "both")
    assert set(licences(both)) == {"free", "named"}
    assert verify(both) == []
    for name in ("README.md", "ATTRIBUTION.md", "manifest.json"):
        text = (both / name).read_text()
        assert "CC-BY-4.0" in text
        assert not [word for word in ("NC-4.0", "ND-4.0", "C. Seller", "D. Keeper") if word in text]


@pytest.mark.slow
def test_it_is_what_its_recipe_says(place) -> None:
    assert check(place / "out/shift/tiny", load_recipe(str(next(place.glob("*.py"))))) == []


def test_a_style_that_forbids_derivatives_is_not_published_and_its_author_is_named(place) -> None:
    source = Source.read(place / "out/shift/tiny")
    rows, forbidden = rows_by_terms(source), "CC-BY-ND-4.0 forbids passing on works made from it"
    with pytest.raises(InputError, match=f"{forbidden}: 40 rows, of D. Keeper\n"):
        refuse_withheld(source.manifest, rows, ())
    mine = replace(source.manifest, compilation="LicenseRef-Mine")
    with pytest.raises(InputError, match=r"LicenseRef-Mine is not known .*: 160 rows, of the publisher"):
        refuse_withheld(mine, rows, ["CC-BY-ND-4.0"])
    notes = refuse_withheld(source.manifest, rows, ["CC-BY-ND-4.0"])
    assert notes[1] == "40 rows may not be used commercially (NC); the card says so"


def test_a_manifest_that_forgets_a_licence_of_its_styles_is_not_verified(place, tmp_path) -> None:
    copy = Path(shutil.copytree(place / "out/shift/tiny", tmp_path / "shift/tiny"))
    edit_manifest(copy, lambda raw: raw["materials"][0].update(license="LicenseRef-Mine"))
    problems = [str(problem) for problem in verify(copy)]
    assert any("has rows of named under CC0-1.0 AND CC-BY-4.0, which lacks" in line for line in problems)


@pytest.mark.parametrize("codes", [False, True])
def test_styles_of_ones_own_without_terms_are_an_error_that_asks_for_them(place, tmp_path, codes) -> None:
    (tmp_path / "styles/dawn").mkdir(parents=True)
    texture("dawn", 0).save(tmp_path / "styles/dawn/0.png")
    styles = tmp_path / "styles"
    if codes:
        step = Stylize(seed=0, dataset="d", styles=styles)
        step._bank.write(tmp_path / "bank.parquet", step.stylizer)
        styles = tmp_path / "bank.parquet"
    with pytest.raises(InputError, match=r"terms the pictures of 'dawn' .* license='CC-BY-4.0', attribution"):
        _ = Stylize(seed=0, dataset="d", styles=styles).materials
    work = Stylize(seed=0, dataset="d", styles=styles, license="MIT", attribution="me").materials[0]
    assert (work.license, work.attribution, work.nuisances) == ("MIT", "me", ["dawn"])


NAMES = st.sampled_from(["CC0-1.0", "CC-BY-4.0", "MIT OR ISC", "LicenseRef-a", "(MIT OR ISC)"])


@given(NAMES, st.lists(st.sampled_from(["CC-BY-4.0", "(MIT OR ISC)", "LicenseRef-a", "ODbL-1.0"])))
def test_the_licence_of_the_content_is_read_from_that_of_the_row(content, added) -> None:
    read = content_license(row_license(content, added), added)
    assert read == content if not added else read.strip("()") == content.strip("()")


def test_only_a_licence_that_restricts_output_goes_from_a_tool_to_rows() -> None:
    rail = "LicenseRef-CreativeML-Open-RAIL-M"
    assert tool("Model", rail, "Somebody", "It draws.", ["fog"], []).adds == [rail]
    assert tool("Model", "Apache-2.0", "Somebody", "It draws.", ["fog"], []).adds == []
