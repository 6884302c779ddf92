"""Recipes as files: found by name, read, with their calibration."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import platform
import re
import sys
import traceback
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType

import shiftdata
from builders.albums import Raw
from builders.parts import RECIPE_MODULE
from builders.recipe import Recipe, file_versions
from builders.recipes.declared import declared_recipes, recipe_in
from shiftdata.data.format.records import Calibration
from shiftdata.data.format.typed import record
from shiftdata.errors import InputError, NotFoundError, ShiftdataError, not_found
from shiftdata.files import sha256_of
from shiftdata.stable import content_hash
from shiftdata.untrusted.texts import read_json

RECIPES = Path(__file__).parent / "recipes"
LISTED = "`shiftdata recipes` shows all; `shiftdata new FOLDER` writes your own."
#: How the file of a table begins a line.
TABLE = re.compile(r"^RECIPES\b", re.MULTILINE)


def recipe_names() -> list[str]:
    """Every recipe of this package: a module or a table in `builders/recipes/<family>/`, or TOML."""
    in_modules = (
        name for path in _modules() for name in ([recipe.name for recipe in _table(path)] or [path.stem])
    )
    return sorted([*in_modules, *declared_recipes()])


def embedded_recipes() -> list[str]:
    """Those of them that need no raw dataset."""
    return [name for name in recipe_names() if not isinstance(load_recipe(name).album, Raw)]


def recipe_of(dataset: str) -> Recipe | None:
    """The recipe of this package for a dataset of that name; None for one whose raw data is elsewhere."""
    recipe = load_recipe(dataset) if dataset in recipe_names() else None
    album = recipe.album if recipe else None
    if isinstance(album, Raw) and not album.is_here:
        return None
    return recipe


def load_recipe(reference: str) -> Recipe:
    """The recipe of that name in this package, in a Python file that assigns `RECIPE`, or in a TOML file.

    `<name>=<place>` says where the raw dataset of its album lies.
    """
    named, place = _place_of(reference)
    recipe = _recipe(named)
    written = calibration_path(reference, recipe)
    if written.is_file():
        recipe = dataclasses.replace(recipe, calibration=read_calibration(written))
    if not place:
        return recipe
    if not isinstance(recipe.album, Raw):
        raise InputError(f"the recipe {named} is made from no raw dataset: leave --raw out")
    return dataclasses.replace(recipe, album=recipe.album.at(Path(place)))


def _recipe(named: str) -> Recipe:
    if named.endswith(".toml"):
        return recipe_in(recipe_path(named))
    if named in declared_recipes():
        return declared_recipes()[named][1]
    path = recipe_path(named)
    module = _run_file(path)
    table = {recipe.name: recipe for recipe in getattr(module, "RECIPES", ())}
    recipe = table[named] if table else getattr(module, "RECIPE", None)
    if not isinstance(recipe, Recipe):
        raise InputError(
            f"{path} must assign a builders.recipe.Recipe to RECIPE, not a {type(recipe).__name__}"
        )
    return recipe


def calibration_path(reference: str, recipe: Recipe) -> Path:
    """Return the path of a recipe's calibration: next to its file."""
    return recipe_path(reference).with_name(f"{recipe.name}.calibration.json")


def read_calibration(path: Path) -> Calibration:
    """Read a calibration file."""
    try:
        return record(Calibration, read_json(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} is not a calibration: {error}. Remove it, or run `shiftdata calibrate` again"
        ) from error


def recipe_path(reference: str) -> Path:
    """The file of a recipe that is named, or given by its path."""
    named, _ = _place_of(reference)
    if named.endswith((".py", ".toml")):
        path = Path(named)
        if not path.is_file():
            raise NotFoundError(f"there is no recipe file {path.absolute()}. {LISTED}")
        return path
    if named in declared_recipes():
        return declared_recipes()[named][0]
    for begins in (named, ""):  # most tables are named as their recipes begin, and the others are run last
        for path in _modules():
            if path.stem == named or named in [recipe.name for recipe in _table(path, begins)]:
                return path
    raise not_found("recipe", named, recipe_names(), LISTED)


def _place_of(reference: str) -> tuple[str, str]:
    """A recipe's name or file, and the place of its raw dataset."""
    named, equals, place = reference.partition("=")
    return (named, place) if equals and not Path(reference).is_file() else (reference, "")


def _modules() -> list[Path]:
    return sorted(path for path in RECIPES.glob("*/*.py") if path.stem != "__init__")


def _table(path: Path, named: str = "") -> Sequence[Recipe]:
    """The recipes of a module that assigns several to `RECIPES`; of one with a name, if it begins with it."""
    if (named and not named.startswith(path.stem)) or not TABLE.search(path.read_text(encoding="utf-8")):
        return ()
    recipes: Sequence[Recipe] = _run_file(path).RECIPES
    return recipes


def _run_file(path: Path) -> ModuleType:
    """Run a file and return its module; a file of this package is run once, as it may define many recipes."""
    run = _run_once if path.is_relative_to(RECIPES) else _run
    return run(path, path.read_bytes())


def _run(path: Path, code: bytes) -> ModuleType:
    name = f"{RECIPE_MODULE}{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses defined in the file look themselves up here
    try:
        # Not by an import: that takes cached bytecode, which an edit within the same second leaves stale.
        exec(compile(code, str(path), "exec"), module.__dict__)
    except ShiftdataError:
        raise
    except Exception as error:  # a recipe is anybody's Python
        where = place_of(error, {str(path)}) or str(path)
        raise InputError(f"{where}: {type(error).__name__}: {error}") from error
    return module


_run_once = functools.cache(_run)


def place_of(error: Exception, files: Collection[str]) -> str | None:
    """File and line of some files that were last at work when an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.filename}, line {frame.lineno}" for frame in frames if frame.filename in files]
    return lines[-1] if lines else None


def node_versions(reference: str) -> dict[str, str]:
    """Return the facts that all nodes of a build share: `file_versions`, processor, recipe, code."""
    code = [
        f"{path.relative_to(folder).as_posix()} {sha256_of(path)}"
        for folder in (RECIPES.parent, Path(shiftdata.__file__).parent)
        for path in sorted(folder.rglob("*.py"))
    ]
    return file_versions() | {
        "processor": platform.machine(),
        "recipe": sha256_of(recipe_path(reference))[:8],
        "code": content_hash(*code)[:8],
    }
