"""Each kind of data, built once by the real pipeline."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from builders.make.build import build
from builders.recipe import Recipe
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from tests.contracts.kinds import KINDS
from tests.shared import dataset_of

#: Recipes are run where their material was made, not where they lie here.
collect_ignore_glob = ["*/make.py", "*/recipe.py"]


@dataclass(frozen=True)
class Built:
    """A built dataset: `out/shift/<name>`, with the recipe that it was made from."""

    recipe_file: Path
    recipe: Recipe
    out: Path

    @property
    def folder(self) -> Path:
        return self.out / "shift" / self.recipe.name

    @property
    def manifest(self) -> Manifest:
        return Manifest.read(self.folder)


#: Pictures as in `stylized`, in the same files: `make test-slow` runs the contract on them.
SLOW = ("continuous", "domain")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the contract on every kind, or on the recipe of one's own that `--recipe` names."""
    if "built" in metafunc.fixturenames:
        own = metafunc.config.getoption("--recipe")
        every = [pytest.param(kind, marks=pytest.mark.slow) if kind in SLOW else kind for kind in KINDS]
        metafunc.parametrize("built", [own] if own else every, indirect=True, scope="session")


@pytest.fixture(scope="session")
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    given = request.param
    if given.endswith(".py"):
        recipe_file, out = Path(given).resolve(), tmp_path_factory.mktemp("contract")
        build(str(recipe_file), out, workers=1, quiet=True)
    else:
        shared = dataset_of(tmp_path_factory, given).parents[1]
        recipe_file = shared.with_name("recipe") / "recipe.py"
        # A copy: exports go next to the dataset.
        out = shutil.copytree(shared, tmp_path_factory.mktemp("contract") / "out")
    return Built(recipe_file, load_recipe(str(recipe_file)), out)
