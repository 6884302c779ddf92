"""A dataset painted by AdaIN in styles of one's own: it checks, and a killed build ends in the same bytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from builders.cli.app import main
from builders.make.build import build
from builders.recipe_files import load_recipe
from builders.shifts.steps import Stylize
from builders.shifts.styles.bank import encode_folder, read_bank
from builders.shifts.stylizers import AdaIN
from tests.builders.stylizers.networks import picture, written

pytestmark = pytest.mark.slow

RECIPE = """
from pathlib import Path
from builders.albums.glyphs import GlyphAlbum
from builders.encode import ImageEncoding
from builders.recipe import Base, Recipe
from builders.shifts.steps import OnGround, Stylize
from builders.shifts.stylizers import AdaIN

HERE = Path({here!r})
RECIPE = Recipe(
    name="own_adain",
    family="stylized",
    version="1.0.0",
    released="2026-11-23",
    title="Letters by AdaIN",
    summary="Letters in two styles.",
    creators=("Tests",),
    citation="None.",
    album=GlyphAlbum(size=28, letters=("A", "B"), classes=("serif",)),
    nuisance="style",
    prepare=(OnGround(size=32),),
    shift=Stylize(
        seed=0,
        dataset="own_adain",
        styles=HERE / "{styles}",
        license="CC0-1.0",
        attribution="Tests",
        stylizer=AdaIN(encoder=HERE / "vgg19-0.safetensors", decoder=HERE / "vgg19-4-0.pth", style_side=32),
    ),
    encoding=ImageEncoding(format="png"),
    bases=(Base(name="mini", summary="Some.", per_group=20),),
    default_base="mini",
)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("adain")
    encoder, decoder = written(here, "vgg19")
    for style, seeds in (("clay", (1, 2, 3)), ("moss", (4, 5))):
        (here / "styles" / style).mkdir(parents=True)
        for seed in seeds:
            picture(50, 40, seed).save(here / "styles" / style / f"{seed}.png")
    adain = AdaIN(encoder=encoder, decoder=decoder, style_side=32)
    encode_folder(here / "styles", adain).write(here / "bank.parquet", adain)
    for name in ("styles", "bank.parquet"):
        (here / f"of_{name.partition('.')[0]}.py").write_text(RECIPE.format(here=str(here), styles=name))
    return here


@pytest.fixture(scope="module")
def built(place: Path) -> Path:
    return build(str(place / "of_styles.py"), out=place / "build", workers=2, quiet=True)


def test_it_is_a_dataset_that_checks(built: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(built), "--recipe", str(place / "of_styles.py")]) == 0, capsys.readouterr()
    rows = pq.read_table(built / "metadata/mini").to_pylist()
    assert len(rows) == 2 * 2 * 20
    assert len({row["sha256"] for row in rows}) == len(rows)


def test_a_bank_is_encoded_by_the_stylizer_of_a_recipe(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = [str(place / "styles"), str(place / "like.parquet"), "--like", str(place / "of_styles.py")]
    assert main(["styles", "encode", *here]) == 0
    recipe = load_recipe(str(place / "of_bank.py"))
    assert isinstance(recipe.shift, Stylize)
    made, bank = (read_bank(place / name, recipe.shift.stylizer) for name in ("like.parquet", "bank.parquet"))
    assert made.fingerprint() == bank.fingerprint()
    assert main(["styles", "encode", *here[:3], "cns_glyphs"]) == 1
    assert "the shift of cns_glyphs is Continuous, and --like needs one by Stylize" in capsys.readouterr().err
