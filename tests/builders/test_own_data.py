"""docs/own_data.md: its recipes make datasets of made data."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

import shiftdata as sd
from builders.cli.app import main
from builders.filters import Stages, judged_rows
from builders.items import ItemTable
from builders.make import assign
from builders.make.build import build
from builders.make.check import check
from builders.make.render import plan_blocks, render_item
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError
from tests.paths import ROOT

DOC = (ROOT / "docs/own_data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
EVERY = {text.split()[1]: text for text in BLOCKS if text.startswith("# ")}
BIRDS = EVERY.pop("my_birds.py")  # painted: not built here
RECIPES = EVERY


def make_photos(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for domain in ("art", "photo", "sketch"):
        for label in ("cat", "dog"):
            if (domain, label) == ("sketch", "dog"):
                continue
            (folder / domain / label).mkdir(parents=True)
            for number in range(10):
                pixels = rng.integers(0, 255, (9, 12, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / domain / label / f"{number}.png")


def make_pets(folder: Path) -> None:
    """Discs and bars in many colours, so that corruptions have something to take away."""
    rng = np.random.default_rng(1)
    for label in ("cat", "dog"):
        (folder / label).mkdir(parents=True)
        for number in range(20):
            picture = Image.new("RGB", (64, 64), tuple(rng.integers(0, 256, 3).tolist()))
            shape = ImageDraw.Draw(picture).ellipse if label == "cat" else ImageDraw.Draw(picture).rectangle
            corner = rng.integers(4, 24, 2).tolist()
            shape([*corner, corner[0] + 30, corner[1] + 20], fill=tuple(rng.integers(0, 256, 3).tolist()))
            picture.save(folder / label / f"{number}.png")


def write_csv(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with the recipes of the page, and data of each kind beside them."""
    folder = tmp_path_factory.mktemp("own")
    for name, text in RECIPES.items():
        (folder / name).write_text(text, encoding="utf-8")
    make_photos(folder / "photos")
    make_pets(folder / "pets")
    Image.new("RGBA", (24, 24), (250, 20, 20, 200)).save(folder / "stamp.png")
    words = {"de": ("schlecht", "mäßig", "gut"), "en": ("bad", "fair", "good")}
    reviews = [
        [f"{words[language][stars]} {noun}", stars + 1, language, f"author{number % 20}-{stars}"]
        for language in words
        for stars in range(3)
        for number, noun in enumerate(f"thing {n}" for n in range(30))
    ]
    write_csv(folder / "reviews.csv", ["review", "stars", "language", "author"], reviews)
    patients = [
        [number, number / 8, ("no", "quit", "yes")[number % 3], ("ill", "well")[number % 2], clinic]
        for number, clinic in enumerate(["north"] * 40 + ["south"] * 40)
    ]
    write_csv(folder / "patients.csv", ["age", "dose", "smoker", "outcome", "clinic"], patients)
    return folder


@pytest.fixture
def at_home(home, monkeypatch) -> Path:
    monkeypatch.chdir(home)
    return home


def test_new_writes_the_first_recipe_of_the_page(at_home, tmp_path):
    flags = ["--license", "CC-BY-4.0", "--attribution", "Jane Doe", "--creator", "Jane Doe"]
    written = tmp_path / "photos.py"
    assert main(["new", "photos", "--size", "224", "--out", str(written), *flags]) == 0
    text = re.sub(r'released=".*"', 'released="2026-11-22"', written.read_text(encoding="utf-8"))
    text = re.sub(r"Photos[.] \d{4}[.]", "Photos. 2026.", text)
    text = text.replace(f'Path("{at_home / "photos"}")', 'HERE / "photos"')
    assert text.partition("RECIPE")[2] == RECIPES["photos.py"].partition("RECIPE")[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RECIPES if name != "pets.py"])
def test_a_recipe_of_the_page_makes_a_dataset(at_home, name):
    folder = build(name, workers=1, quiet=True)
    assert check(folder, load_recipe(name)) == []
    manifest = Manifest.read(folder)
    splits = manifest.base("all").splits
    assert sum(split.rows for split in splits.values()) == {"photos.py": 50, "reviews.py": 180}.get(name, 80)
    assert manifest.origins_shared == (name in ("reviews.py", "stamped.py"))  # authors write in both
    assert manifest.base("all").dropped == {}
    if name == "photos.py":
        assert splits["train"].groups == 5
        task = sd.task(folder, "leave-one-domain-out", test="sketch")
        assert [len(rows) for rows in task.sets.values()] == [32, 8, 10]
        with pytest.raises(InputError, match=r"1 groups of .* without a row .*dog / sketch"):
            sd.task(folder, "group-fairness", k=2, mu=0.5, seed=1)


@pytest.mark.slow
def test_the_filtered_recipe_of_the_page_keeps_whole_trajectories(at_home):
    folder = build("pets.py", workers=1, quiet=True)
    assert check(folder, load_recipe("pets.py")) == []
    manifest = Manifest.read(folder)
    judged = judged_rows(folder, "all")
    assert len(judged) == 40 * 2 * 6
    assert 0 < manifest.base("all").splits["train"].rows < 40 * 2 * 6 / 2
    assert manifest.base("all").splits["train"].rows % 6 == 0
    assert list(Stages.of(judged).severities) == [0, 1, 2, 3, 4, 5]
    assert sum(manifest.base("all").dropped.values()) > 0


def test_the_recipe_for_a_folder_of_classes_makes_a_dataset(tmp_path, monkeypatch):
    (tmp_path / "my_birds.py").write_text(BIRDS)
    rng = np.random.default_rng(0)
    for label in ("tit", "wren"):
        (tmp_path / "birds" / label).mkdir(parents=True)
        for number in range(24):
            photo = Image.fromarray(rng.integers(0, 255, (9, 12, 3), dtype=np.uint8)).resize((160, 120))
            photo.save(tmp_path / "birds" / label / f"{number}.jpg")
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("my_birds.py")
    items = ItemTable.of(recipe.album.items())
    assign.check_items(recipe, items)
    plan = plan_blocks(recipe, ["content", "mini"], items, assign.folds(items))
    assert {base: sum(b.weight for b in blocks) for base, blocks in plan.items()} == {
        "content": 48,
        "mini": 40 * 20,
    }
    painted = list(render_item(recipe, "shift", items[0]))
    assert [sample.nuisance for sample in painted] == list(recipe.shift.nuisances)
    assert {sample.image.size for sample in painted} == {(128, 128)}
