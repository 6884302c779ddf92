"""Pixels that move need a higher code_version: every step and part has a golden picture."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from builders.shifts.contexts import scene as compose
from builders.shifts.contexts.domains import DOMAINS
from builders.shifts.contexts.scenery import MATERIALS, PATTERNS
from builders.shifts.corruptions import CORRUPTIONS
from builders.shifts.steps import Contexts
from builders.shifts.styles.sliders import SLIDERS
from builders.shifts.weather import WEATHERS
from shiftdata.errors import InputError
from tests import golden_pictures
from tests.golden_pictures import FOLDER, Golden, made_now, problem, record, recorded


@pytest.fixture(scope="module")
def made() -> dict[str, Golden]:
    return made_now()


@pytest.fixture
def folder(tmp_path):
    """A copy that may be written."""
    return shutil.copytree(FOLDER, tmp_path / "golden")


def contexts() -> dict[str, Golden]:
    return dict(golden_pictures._contexts())


def problems(pictures: dict[str, Golden], folder=FOLDER) -> dict[str, str]:
    known = recorded(folder)
    found = {name: problem(one, known.get(name), folder) for name, one in pictures.items()}
    return {name: why for name, why in found.items() if why}


def test_no_pixel_moved_without_a_new_code_version(made):
    assert problems(made) == {}


def test_every_part_has_a_golden_picture_and_none_is_left_over(made):
    parts = [f"contexts/{domain}" for domain in DOMAINS]
    parts += [f"contexts/material-{name}" for name in (*MATERIALS, *PATTERNS)]
    parts += [f"continuous/{shift}" for shift in (*SLIDERS, *WEATHERS)]
    parts += [f"corrupt/{name}" for name in CORRUPTIONS]
    assert set(parts) <= set(made) == set(recorded())
    pngs = {path.stem for path in (FOLDER / "pictures").iterdir()}
    assert pngs == {name.replace("/", "-") for name, one in made.items() if one.network}
    assert sum(path.stat().st_size for path in FOLDER.glob("pictures*/**/*")) < 300_000


def test_a_moved_constant_fails_until_the_version_is_raised_and_the_picture_recorded(monkeypatch, folder):
    few = {name: DOMAINS[name] for name in ("grass", "dim", "road")}
    version = Contexts.code_version
    monkeypatch.setattr(golden_pictures, "DOMAINS", few)
    monkeypatch.setattr(golden_pictures, "MATERIALS", {})
    monkeypatch.setattr(golden_pictures, "PATTERNS", {})
    monkeypatch.setattr(compose, "FILLED", 0.8)
    moved = contexts()
    assert set(problems(moved)) == {"contexts/grass", "contexts/dim", "contexts/road"}
    assert f"pixels changed and code_version is still {version}" in problems(moved)["contexts/grass"]
    before = (folder / "pictures.tsv").read_text()
    with pytest.raises(
        InputError, match="nothing was written: pixels changed, and code_version was not raised"
    ):
        record(moved, folder)
    assert (folder / "pictures.tsv").read_text() == before

    monkeypatch.setattr(Contexts, "code_version", version + 1)
    raised = contexts()
    assert f"code_version is {version + 1}, recorded is {version}" in problems(raised, folder)["contexts"]
    record(raised, folder)
    assert problems(raised, folder) == {}
    with pytest.raises(InputError, match=f"code_version {version}, recorded {version + 1}"):
        record(moved, folder)


def test_a_network_may_differ_a_little_on_another_cpu_only(monkeypatch, made, folder):
    name = "stylize/0.5"
    monkeypatch.setattr(golden_pictures, "cpu", lambda: recorded()[name].cpu)  # whatever this machine has
    nudged = np.asarray(made[name].picture).copy()
    nudged[0, 0, 0] ^= 1
    near = replace(made[name], picture=Image.fromarray(nudged))
    assert name in problems({name: near})
    monkeypatch.setattr(golden_pictures, "cpu", lambda: "another")
    assert problems({name: near}) == {}
    record(made | {name: near}, folder)
    assert recorded(folder) == recorded()  # the picture of the recorded CPU stays
    far = replace(made[name], picture=Image.fromarray(nudged ^ 2))
    assert name in problems({name: far})
    nudged[0, 0, 0] ^= 4
    assert name in problems({name: replace(made[name], picture=Image.fromarray(nudged))})
