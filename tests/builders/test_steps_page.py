"""docs/steps.md names every step, option and nuisance, and its examples run."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from PIL import Image

from builders.shifts import steps
from builders.shifts.diffusion import Diffusion
from builders.shifts.steps import Continuous, Corrupt, Stylize
from tests.paths import ROOT

DOCS = ROOT / "docs"
PAGE = (DOCS / "steps.md").read_text(encoding="utf-8")
FRAMES = ("Resize", "CropSquare", "Pad", "OnGround")


def section(name: str) -> str:
    title = "Framing" if name in FRAMES else name
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


@pytest.mark.parametrize("name", steps.__all__)
def test_the_page_has_every_option_and_default_of_a_step(name):
    rows = re.findall(r"^\| `(\w+)` \|(.*)$", section(name), re.MULTILINE)
    fields = {field.name: field for field in dataclasses.fields(getattr(steps, name))}
    documented = {option for option, _ in rows} | {"dataset", "seed"}  # these are explained once, at the top
    assert set(fields) <= documented, name
    assert name in FRAMES or documented <= set(fields) | {"dataset", "seed"}
    for option, row in rows:
        default = fields[option].default if option in fields else dataclasses.MISSING
        if default is not dataclasses.MISSING and option != "names":
            shown = f'"{default}"' if isinstance(default, str) else str(default)
            assert f"`{shown}`" in row, (name, option)


@pytest.mark.parametrize("name", sorted(set(steps.__all__) - set(FRAMES)))
def test_the_example_of_a_step_runs(name, tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\nshift = (.*)\n```", section(name))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sliders/fog").mkdir(parents=True)
    (tmp_path / "sliders/fog/fox.safetensors").touch()
    names = {one: getattr(steps, one) for one in steps.__all__}
    made = eval(code, names | {"Path": Path, "Diffusion": Diffusion})
    assert type(made).__name__ == name
    assert made.nuisances


def test_counts_on_the_page_are_those_of_the_steps():
    for step, count in (
        (Corrupt(seed=0, dataset="d"), "19 corruptions"),
        (Continuous(dataset="d", seeds=(0,)), "14 styles and weathers"),
        (Stylize(seed=0, dataset="d"), "20 painted styles"),
    ):
        assert count in PAGE
        assert len(step.nuisances) == int(count.split()[0])


def test_every_picture_of_the_page_is_there_and_small():
    shown = re.findall(r"!\[[^\]]+\]\((.+?)\)", PAGE)
    assert {DOCS / path for path in shown} == set((DOCS / "steps").iterdir())
    for path in shown:
        assert (DOCS / path).stat().st_size < 120_000
        with Image.open(DOCS / path) as picture:
            picture.verify()
