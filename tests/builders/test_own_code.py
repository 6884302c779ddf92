"""The code of a step outside the package is part of its identity, and a raised version is not."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from builders.make.build import build
from builders.make.check import check
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError
from tests.builders.test_own_steps import write

HELPERS = '''
from collections.abc import Callable

import beside
from beside_too import *

LEVEL = 40  # of the tint
UNUSED = 1
TABLE = {"red": (255, 0, 0)}
TABLE["blue"] = (0, 0, 255)


def blended(picture, name):
    """Tint a picture."""
    return Image.blend(picture, Image.new("RGB", picture.size, TABLE[name]), strength())


def strength():
    return LEVEL / 100


def twice(call):
    def both(self, samples):
        return call(self, call(self, samples))

    return both

'''
EDITS = {
    "\n@dataclass(frozen=True)\nclass Flip:": HELPERS + "\n@dataclass(frozen=True)\nclass Flip:",
    "    def __call__(self, samples):\n        for sample in samples:\n            yield": (
        "    function: Callable = ImageOps.invert\n\n    @twice\n"
        "    def __call__(self, samples):\n        for sample in samples:\n            yield"
    ),
    "ImageOps.flip(sample.image)": "darker(beside.lighter(ImageOps.flip(self.function(sample.image))))",
    "Flip())": "Flip(lambda picture: picture.point(lambda value: value // 2)))",
    'Image.blend(sample.image, Image.new("RGB", sample.image.size, name), 0.5)': (
        "blended(sample.image, name)"
    ),
}
BESIDE = '''
"""A module beside the recipe."""
FACTOR = 2


def lighter(picture):
    return picture.point(lambda value: min(255, FACTOR * value))
'''
BESIDE_TOO = """
from beside import FACTOR as LIGHT

DARK = LIGHT + 1


def darker(picture):
    return picture.point(lambda value: value // DARK)
"""


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an edit within a second would leave it stale
    write(tmp_path, *EDITS.items())
    (tmp_path / "beside.py").write_text(BESIDE, encoding="utf-8")
    (tmp_path / "beside_too.py").write_text(BESIDE_TOO, encoding="utf-8")
    yield tmp_path
    _forget()


def _forget() -> None:
    """Import what lies beside the recipe again, as a new process does."""
    for name in ("beside", "beside_too"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new), encoding="utf-8")
    _forget()


def ids(folder: Path) -> tuple[str, str]:
    recipe = load_recipe(str(folder / "own.py"))
    return recipe.recipe_id(), recipe.pixels_id()


CHANGES = {
    "the step": ("own.py", "ImageOps.flip(", "ImageOps.mirror("),
    "a helper": ("own.py", "TABLE[name]), strength())", "TABLE[name]), strength() / 2)"),
    "a constant": ("own.py", "LEVEL = 40", "LEVEL = 41"),
    "a table that is filled later": ("own.py", '"] = (0, 0, 255)', '"] = (0, 255, 255)'),
    "a lambda in a field": ("own.py", "value // 2", "value // 3"),
    "a module beside": ("beside.py", "min(255", "min(254"),
    "a function from a module beside": ("beside_too.py", "value // DARK", "value // (DARK + 1)"),
    "what a module beside imports": ("beside_too.py", "LIGHT + 1", "LIGHT + 2"),
}  # fmt: skip

KEPT = {
    "title": ("own.py", 'title="Tinted"', 'title="Tinted shapes"'),
    "version": ("own.py", 'version="1.0.0"', 'version="1.1.0"'),
    "a comment": ("own.py", "# of the tint", "# how strong it is"),
    "a docstring": ("own.py", '"""Tint a picture."""', '"""Tint it."""'),
    "what no step uses": ("own.py", "UNUSED = 1", "UNUSED = 2"),
    "form": ("own.py", "return LEVEL / 100", "return (\n        LEVEL / 100\n    )"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_code_is_another_recipe(own, change):
    before = ids(own)
    assert ids(own) == before
    edit(own, *change)
    assert all(now != then for now, then in zip(ids(own), before, strict=True))


@pytest.mark.parametrize("change", KEPT.values(), ids=KEPT)
def test_what_makes_no_pixel_is_not(own, change):
    before = ids(own)
    edit(own, *change)
    assert ids(own) == before


def test_code_that_was_changed_is_never_built_stale(own):
    recipe = str(own / "own.py")
    folder = build(recipe, own / "out", workers=1, quiet=True, keep_spool=True)
    first = Manifest.read(folder)
    edit(own, *CHANGES["a helper"])
    assert any("was built from recipe" in problem.what for problem in check(folder, load_recipe(recipe)))
    with pytest.raises(InputError, match=r"version 1\.0\.0: raise the version in the recipe"):
        build(recipe, own / "out", workers=1, quiet=True)
    edit(own, *KEPT["version"])
    second = Manifest.read(build(recipe, own / "out", workers=1, quiet=True))
    assert (second.version, second.content_id == first.content_id) == ("1.1.0", False)


def test_a_raised_version_renders_nothing(own, monkeypatch):
    recipe = str(own / "own.py")
    folder = build(recipe, own / "out", workers=1, quiet=True)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    keys = pq.read_table(folder / "metadata/all", columns=["key"])["key"].to_pylist()
    edit(own, *KEPT["version"])
    monkeypatch.setattr("builders.make.build.render", None)
    build(recipe, own / "out", workers=1, quiet=True)
    manifest = Manifest.read(folder)
    assert manifest.version == "1.1.0"
    assert "| **version** | 1.1.0," in (folder / "README.md").read_text(encoding="utf-8")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == before
    assert len(keys) == manifest.rows
    assert check(folder, load_recipe(recipe)) == []
