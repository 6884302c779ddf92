"""Check a built dataset: everything a reader can verify, and that it is what its recipe and card say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from builders.recipe import load_recipe, recipe_names
from builders.renderings import renderings
from shiftdata.manifest import FILE_NAME, Manifest
from shiftdata.verification import Problem, verify


def check(folder: Path, on_file: Callable[[str], object] = lambda path: None) -> list[Problem]:
    """Every problem of the dataset in a folder; an empty list means that it may be published."""
    problems = verify(folder, on_file=on_file)
    manifest = Manifest.read(folder)
    for name, text in renderings(manifest).items():
        if not (folder / name).is_file():
            problems.append(Problem(path=name, what="is missing"))
        elif (folder / name).read_bytes() != text.encode():
            what = "was edited: it differs from a fresh rendering of the manifest"
            problems.append(Problem(path=name, what=what))
    if manifest.name in recipe_names():
        recipe_id = load_recipe(manifest.name).recipe_id()
        if recipe_id != manifest.recipe_id:
            was, now = manifest.recipe_id[:12], recipe_id[:12]
            what = f"was built from recipe {was}, the house's {manifest.name} is now {now}"
            problems.append(Problem(path=FILE_NAME, what=what))
    return problems
