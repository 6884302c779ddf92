"""The house rules that a reader relies on: light import, exported names, closed doors, a clean wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile

import pytest

import shiftdata
from tests.paths import ROOT

HEAVY = ["datasets", "huggingface_hub", "numpy", "onnxruntime", "pandas", "PIL", "pyarrow", "torch"]


def test_import_shiftdata_loads_nothing_heavy():
    code = (
        "import sys; before = set(sys.modules); import shiftdata; print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.check_output([sys.executable, "-I", "-c", code], text=True).split()
    assert [name for name in loaded if name.split(".")[0] in HEAVY] == []
    assert [name for name in loaded if name.startswith("shiftdata")] == ["shiftdata"]


@pytest.mark.parametrize(
    ("verb", "unwanted"), [("--help", HEAVY), ("list", ["torch", "datasets", "huggingface_hub"])]
)
def test_the_command_line_loads_what_it_needs(verb, unwanted, tmp_path):
    code = (
        f"import sys, shiftdata.cli.app; shiftdata.cli.app.main([{verb!r}])\n"
        f"assert not set(sys.modules) & set({unwanted})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)


def test_the_public_names_are_few_and_there():
    assert len(shiftdata.__all__) <= 20
    for name in shiftdata.__all__:
        assert getattr(shiftdata, name).__name__.rpartition(".")[2] == name
    assert set(shiftdata.__all__) <= set(dir(shiftdata))
    with pytest.raises(AttributeError, match=r"No shiftdata attribute laod_dataset"):
        shiftdata.laod_dataset  # noqa: B018


@pytest.mark.parametrize(
    ("place", "line", "refused"),
    [
        ("shiftdata/planted.py", "import builders", True),
        ("builders/planted.py", "import builders", False),
    ],
)
def test_a_planted_import_is_refused(place, line, refused):
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename", str(ROOT / place), "-"]
    text = f'"""Planted."""\n\n{line}\n\nprint({line.split()[1]})\n'
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True)
    assert ("TID251" in done.stdout) == refused, done.stdout


def test_the_wheel_is_for_consumers_only(tmp_path):
    build = f"from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"shiftdata", f"shiftdata-{shiftdata.__version__}.dist-info"}


def test_the_pins_cover_every_dependency():
    def name(requirement: str) -> str:
        return re.split(r"[\[><=]", requirement)[0].lower().replace("_", "-")

    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = [config["project"]["dependencies"], *config["project"]["optional-dependencies"].values()]
    named = {name(line) for part in [*parts, *config["dependency-groups"].values()] for line in part}
    pinned = {name(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    assert named <= pinned
