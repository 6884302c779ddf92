"""What is released: the wheel and the source, what works with them alone, the conda recipe, the container."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import shiftdata
from shiftdata.cli.app import APP
from tests.paths import ROOT
from tests.running_pages import blocks
from tests.serve.serving import Process
from tests.shared import SMALL_DEMO, made_once

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGING = ROOT / "scripts" / "packaging"


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make(kind: str, folder: Path, source: Path = ROOT) -> Path:
    """Build the wheel or the sdist of a source."""
    run(sys.executable, "-c", f"from hatchling.build import *; build_{kind}({str(folder)!r})", cwd=source)
    (file,) = folder.glob("*.whl" if kind == "wheel" else "*.gz")
    return file


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (file,) = made_once(tmp_path_factory, "wheel", lambda folder: make("wheel", folder)).glob("*.whl")
    return file


def test_the_wheel_has_both_packages_and_all_that_they_read(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    about = f"shiftdata-{shiftdata.__version__}.dist-info"
    here = [path for of in ("shiftdata", "builders") for path in (ROOT / of).rglob("*") if path.is_file()]
    files = {path.relative_to(ROOT).as_posix() for path in here if path.suffix != ".pyc"}
    files |= {"builders/describe/dataset.md.jinja"}
    assert {name for name in names if not name.startswith(about)} == files


@pytest.mark.slow
def test_source_and_wheel_repeat_to_the_byte(wheel, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1600000000")
    first, second = (make("sdist", tmp_path / name) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    with tarfile.open(first) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("shiftdata-*")
    assert {"tests", "docs", "scripts"}.isdisjoint(path.name for path in source.iterdir())
    assert make("wheel", tmp_path, source).read_bytes() == wheel.read_bytes()


@pytest.mark.slow
def test_the_wheel_alone_builds_publishes_and_is_read(wheel, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("SHIFTDATA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    run(sys.executable, "-m", "venv", "--without-pip", "venv")
    (site,) = tmp_path.glob("venv/lib/python*/site-packages")
    # What the wheel needs, and not this checkout: of a folder that a .pth file names, none is read.
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"))
    into = ["--python", "venv/bin/python", "install", "--no-deps", "--no-index"]
    run(sys.executable, "-m", "pip", *into, wheel)
    assert run("venv/bin/python", "-c", "import builders; print(builders.__file__)").startswith(str(site))
    small = SMALL_DEMO.replace('("mono",)', '("mono",), letters=("B", "E")')
    Path("small.py").write_text(small.replace("expected=()", "expected=(), protocols=()"))
    command = "venv/bin/shiftdata"
    run(command, "build", "small.py", "--quiet")
    load = (
        "import sys; from datasets import load_dataset\n"
        "rows = load_dataset('build/shift/sma_glyphs_k8', 'extended', split='test')\n"
        "assert not {'shiftdata', 'builders'} & set(sys.modules); print(rows[0]['image'].size)"
    )
    assert run("venv/bin/python", "-c", load) == "(64, 64)\n"
    run(command, "publish", "sma_glyphs_k8", "--recipe", "small.py", "--to", "published", "--quiet")
    assert run(command, "verify", "published/sma_glyphs_k8", "--quiet").endswith("all well\n")


#: Packages of the extras, which nobody needs to find, load and evaluate.
EXTRAS = ("torch", "starlette", "minisign", "jinja2", "matplotlib", "sklearn", "scipy")
#: A finder that does not find them.
WITHOUT_EXTRAS = """
import importlib.machinery, sys

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {extras} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Finder
"""


@pytest.mark.slow
def test_the_wheel_without_extras_runs_the_readme(wheel, demo, tmp_path):
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    (tmp_path / "build").symlink_to(demo / "out")
    python = [block for block in blocks(ROOT / "README.md") if block.kind == "python"]
    code = [block.text for block in python if block.comment != "needs torch"]
    assert (len(code), len(python)) == (2, 4)
    check = (
        f"import shiftdata; assert shiftdata.__file__.startswith({str(installed)!r}), shiftdata.__file__\n"
    )
    check += f"assert not set(sys.modules) & set({EXTRAS})\n"
    program = tmp_path / "readme.py"
    program.write_text("\n".join([WITHOUT_EXTRAS.format(extras=EXTRAS), *code, check]), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(installed)}
    environment.pop("SHIFTDATA_HOME", None)
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "worst" in done.stdout


def test_the_conda_recipe_says_what_pyproject_says():
    recipe = yaml.safe_load((PACKAGING / "recipe.yaml").read_text(encoding="utf-8"))
    names = {"python-xxhash": "xxhash", "matplotlib-base": "matplotlib"}

    def requirements(lines: list[str]) -> set[str]:
        pairs = (line.split(" ") for line in lines if "${{" not in line)
        return {str(Requirement(f"{names.get(name, name)}{version}")) for name, version in pairs}

    def declared(*groups: list[str]) -> set[str]:
        return {str(Requirement(line)) for group in groups for line in group}

    extras = PROJECT["optional-dependencies"]
    needs = recipe["requirements"]
    assert requirements(needs["run"]) == declared(PROJECT["dependencies"])
    assert requirements(needs["run_constraints"]) == declared(extras["build"], extras["serve"])
    assert recipe["context"]["version"] == shiftdata.__version__
    about = recipe["about"]
    assert about["license"] == PROJECT["license"]
    assert {*about["license_file"]} == {
        path.relative_to(ROOT).as_posix() for of in PROJECT["license-files"] for path in ROOT.glob(of)
    }


DOCKERFILE = (PACKAGING / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")


@pytest.mark.slow
def test_the_container_is_built_from_what_it_copies(wheel, tmp_path):
    for words in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.M):
        *sources, target = words.split()
        for source in sources:
            into = tmp_path / target / (Path(source).name if target.endswith("/") else "")
            into.parent.mkdir(exist_ok=True)
            into.symlink_to(ROOT / source)
    assert make("wheel", tmp_path, tmp_path).read_bytes() == wheel.read_bytes()
    (code,) = re.findall(r'python -c "(.+?)"', DOCKERFILE)
    asked = run(sys.executable, "-c", code, cwd=tmp_path).splitlines()
    assert {*asked} > {*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["serve"]}


def test_the_container_serves_and_knows_whether_it_is_well(tiny):
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.M)
    program, verb, *words = json.loads(entry)
    assert Path(program).name == "shiftdata"
    options = APP.find(verb).load(verb).make_context(verb, words).params
    assert (str(options["folder"]), options["host"], options["port"]) == ("/data", "0.0.0.0", 8000)
    (_, _, code) = json.loads(re.search(r"^HEALTHCHECK .*CMD (.+)$", DOCKERFILE, re.M)[1])
    server = Process(tiny.parent, env={"SHIFTDATA_MIRROR_TOKEN": "secret"})
    check = [sys.executable, "-c", code.replace("8000", str(server.port))]
    assert subprocess.run(check).returncode == 0
    server.kill()
    assert subprocess.run(check, capture_output=True).returncode != 0
    assert DOCKERFILE.index("\nUSER ") < DOCKERFILE.index("\nENTRYPOINT ")
