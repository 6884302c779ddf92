"""The README and the pages of the three roles run from top to bottom, as a reader types them."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.paths import ROOT
from tests.running_pages import blocks, run_page

ROLES = ("researcher", "publisher", "auditor")
#: What is trained for fewer steps here than a page says.
SHORTER = {
    "steps=300": "steps=3",
    "steps=100": "steps=3",
    "steps = 100": "steps = 3",
    "--steps 300": "--steps 3",
    "build sma_glyphs_k8 ": "build scripts/sma_glyphs_k8.py ",  # the small demo's recipe
}


@pytest.fixture
def checkout(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a checkout after `make demo`, with a small copy of the demo's dataset."""
    shutil.copytree(demo / "out", tmp_path / "build")
    shutil.copytree(demo / "scripts", tmp_path / "scripts")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHIFTDATA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.mark.slow
def test_the_readme_runs(checkout: Path) -> None:
    for number in range(24):
        folder = checkout / "photos" / ("day", "night")[number % 2] / ("cat", "dog")[number % 3 % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.radial_gradient("L").rotate(15 * number).resize((32, 32)).save(folder / f"{number}.png")
    names = run_page(ROOT / "README.md", SHORTER)
    assert names["run"].evaluate().n == len(names["task"].keys("test"))
    assert not (checkout / "published").exists()
    assert (checkout / "shift" / "sma_glyphs_k8-amber-midnight" / "manifest.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_the_page_of_a_role_runs(role: str, checkout: Path) -> None:
    names = run_page(ROOT / f"docs/{role}.md", SHORTER)
    if role == "researcher":
        assert names["mine"].n == len(names["task"].keys("test"))


def test_the_pages_are_short_and_skip_little() -> None:
    words = {
        name: len((ROOT / name).read_text(encoding="utf-8").split())
        for name in ("README.md", "CONTRIBUTING.md")
    }
    assert words["README.md"] <= 550
    assert words["CONTRIBUTING.md"] <= 1500
    for role in ROLES:
        page = ROOT / f"docs/{role}.md"
        assert len(page.read_text(encoding="utf-8").split()) <= 1000
        assert sum(block.comment.startswith("not run") for block in blocks(page)) <= 2


def test_the_places_of_lines_exist() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Where a line belongs")[2]
    paths = re.findall(r"`((?:shiftdata|builders|scripts|tests|docs|cards)/[\w/.]+)`", table)
    assert len(paths) > 50
    assert [path for path in paths if not (ROOT / path).exists()] == []
