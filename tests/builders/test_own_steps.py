"""Steps of your own: what they need, and what is said of each mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders.make.build import build
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError

RECIPE = """
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from PIL import Image, ImageOps

from builders.albums.folder import FolderAlbum
from builders.encode import ImageEncoding
from builders.recipe import Base, Recipe
from builders.sample import BadItem
from builders.shifts.steps import OnGround


@dataclass(frozen=True)
class Flip:
    code_version: ClassVar[int] = 1

    def __call__(self, samples):
        for sample in samples:
            yield replace(sample, example=ImageOps.flip(sample.image))


@dataclass(frozen=True)
class Tint:
    code_version: ClassVar[int] = 1
    nuisances: tuple[str, ...] = ("red", "blue")

    def __call__(self, samples):
        for sample in samples:
            for name in self.nuisances:
                tinted = Image.blend(sample.image, Image.new("RGB", sample.image.size, name), 0.5)
                yield replace(sample, key=f"{sample.key}-{name}", example=tinted, nuisance=name)


RECIPE = Recipe(
    name="own",
    family="stylized",
    version="1.0.0",
    released="2026-11-21",
    creators=("A. Maker",),
    title="Tinted",
    summary="Made shapes, tinted.",
    citation="None.",
    album=FolderAlbum(Path(__file__).parent / "pictures", license="CC0-1.0", attribution="A. Maker"),
    nuisance="tint",
    prepare=(OnGround(size=16), Flip()),
    shift=Tint(),
    encoding=ImageEncoding(format="png"),
    bases=(Base(name="all", summary="Every picture in every tint."),),
    default_base="all",
)
"""


def write(folder: Path, *changes: tuple[str, str]) -> str:
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    if not (folder / "pictures").exists():
        draw = np.random.default_rng(0)
        for label in ("a", "b"):
            (folder / "pictures" / label).mkdir(parents=True)
            for number in range(5):
                pixels = draw.integers(0, 255, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / "pictures" / label / f"{number}.png")
    (folder / "own.py").write_text(text, encoding="utf-8")
    return str(folder / "own.py")


def test_a_step_needs_a_call_and_a_version_and_a_shift_its_nuisances(tmp_path):
    folder = build(write(tmp_path), tmp_path / "out", workers=1, quiet=True)
    manifest = Manifest.read(folder)
    assert manifest.severities == []
    assert sum(split.rows for split in manifest.base("all").splits.values()) == 20


TINT = '    nuisances: tuple[str, ...] = ("red", "blue")\n'
REPLACE = 'yield replace(sample, key=f"{sample.key}-{name}", example=tinted, nuisance=name)'

MISTAKES = {
    "no comma": (
        ("prepare=(OnGround(size=16), Flip())", "prepare=(OnGround(size=16))"),
        r"prepare is a tuple, got OnGround\(.*: write prepare=\(\.\.\., \) with a comma",
    ),
    "the class": (
        ("shift=Tint()", "shift=Tint"),
        r"the shift of the recipe is the class Tint: write Tint\(\.\.\.\)",
    ),
    "a function": (
        ("Flip())", "lambda samples: samples)"),
        r"the step of the recipe is the function <lambda>: write a frozen dataclass with `code_version",
    ),
    "no call": (
        (
            "def __call__(self, samples):\n        for sample in samples:\n            yield replace",
            "def apply(self, samples):\n        for sample in samples:\n            yield replace",
        ),
        "class Flip is not a step: it needs `__call__",
    ),
    "no nuisances": (
        (TINT, "    names: tuple[str, ...] = ('red',)\n"),
        "class Tint is not a shift: it needs `nuisances",
    ),
    "no version": (
        ("    code_version: ClassVar[int] = 1\n    nuisances", "    nuisances"),
        "class Tint needs `code_version: ClassVar",
    ),
    "nuisances as a text": (
        (TINT, '    nuisances: str = "red"\n'),
        "the tint names 'red': give a tuple of names",
    ),
    "a path": (
        (TINT, TINT + '    file: Path = Path("a.png")\n'),
        r"the field 'file' of class Tint is a path, .* write `def fingerprint",
    ),
    "no own key": (
        ('key=f"{sample.key}-{name}", ', ""),
        r"a_0 has two samples with the key 'a_0' \(of the nuisances red and blue\): give each its own",
    ),
    "no nuisance": (
        (", nuisance=name)", ")"),
        r"Tint gives a_0-red no nuisance: yield replace\(sample, nuisance=",
    ),
    "a severity": (
        ("nuisance=name)", "nuisance=name, severity=2.0)"),
        r"has the severity 2\.0; the shift lists none",
    ),
    "no trajectory": (
        (TINT, TINT + "    severities: tuple[float, ...] = (0.0, 1.0)\n"),
        r"a_0-red has no trajectory: yield replace\(sample, trajectory=",
    ),
    "nothing yielded": ((REPLACE, "pass"), "Tint gave None: its `__call__` must yield the samples"),
    "a picture yielded": ((REPLACE, "yield tinted"), r"Tint gave <PIL.Image.Image .*yield replace\(sample"),
    "an exception": (
        ("ImageOps.flip(sample.image)", "ImageOps.turn(sample.image)"),
        r"own\.py, line 23, on the item a_0: AttributeError: .*; correct it, or raise .*BadItem\('why'\)",
    ),
    "chance": (
        ("sample.image.size, name), 0.5)", "sample.image.size, name), random.random())"),
        r"the examples of a_0 differ when they are made again \(own code: Flip, Tint\): draw with shiftdata",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_step_is_named_with_what_to_do(mistake, tmp_path):
    change, message = MISTAKES[mistake]
    with pytest.raises(InputError, match=message):
        build(write(tmp_path, change), tmp_path / "out", workers=1, quiet=True)


def test_an_item_may_be_left_out_by_a_step_with_a_reason_or_without(tmp_path):
    """Both are counted and named, never lost in silence."""
    lines = "        for sample in samples:\n            yield replace"
    left = lines.replace(
        "            yield",
        "            if sample.key == 'a_1':\n                raise BadItem('too dark')\n"
        "            if sample.key == 'a_2':\n                continue\n            yield",
    )
    folder = build(write(tmp_path, (lines, left)), tmp_path / "out", workers=1, quiet=True)
    assert Manifest.read(folder).base("all").dropped == {"no step gave a sample of it": 1, "too dark": 1}


def test_a_path_counts_by_its_fingerprint_and_not_by_its_place(tmp_path):
    own = TINT + (
        "    file: Path = Path('{}')\n    def fingerprint(self):\n        return self.file.read_text()\n"
    )
    ids = []
    for name, text in (("x.txt", "1"), ("y.txt", "1"), ("z.txt", "2")):
        (tmp_path / name).write_text(text)
        ids.append(load_recipe(write(tmp_path, (TINT, own.format(tmp_path / name)))).recipe_id())
    assert ids[0] == ids[1] != ids[2]
