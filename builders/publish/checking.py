"""The check before a publication; one that passed is remembered while nothing changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from builders.describe.draft import words
from builders.describe.renderings import renderings
from builders.make.check import check
from builders.recipe import Recipe, load_recipe, recipe_names
from shiftdata.errors import IntegrityError
from shiftdata.files import write_text
from shiftdata.format.manifest import Manifest
from shiftdata.stable import content_hash
from shiftdata.verifying import Problem, shortened

MOST_PROBLEMS = 3  # of a kind
MOST_LINES = 10
NAME_DIGITS = 16


def refuse_unchecked(
    folder: Path,
    recipe: Recipe | None,
    work: Path,
    *,
    recheck: bool = False,
    on_file: Callable[[str], object] = lambda path: None,
) -> bool:
    """Refuse a dataset that `check` does not pass; give whether a remembered check spared this one.

    A passed check holds until a file in the folder has another size or time, or the recipe, its words or the
    template of the card say something else. It is kept in `work`, a file for each folder.
    """
    manifest = Manifest.read(folder)
    name = manifest.name.removesuffix("_wds")
    if recipe is None and name in recipe_names():
        recipe = load_recipe(name)
    state = _state(folder, manifest, recipe)
    where = content_hash(str(folder.resolve()))[:NAME_DIGITS]
    kept = work / "checked" / f"{manifest.name}-{where}.txt"
    if not recheck and kept.is_file() and kept.read_text(encoding="utf-8") == state:
        return True
    problems = check(folder, recipe, on_file)
    if problems:
        raise IntegrityError(_refusal(folder, problems))
    write_text(kept, state)
    return False


def _refusal(folder: Path, problems: list[Problem]) -> str:
    lines = list(shortened(problems, MOST_PROBLEMS))
    more = ["..."] if len(lines) > MOST_LINES else []
    count = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
    head = f"{folder} is not published: `python -m builders check {folder}` finds {count}"
    return "\n  ".join([head, *lines[:MOST_LINES], *more])


def _state(folder: Path, manifest: Manifest, recipe: Recipe | None) -> str:
    """A hash of everything that a check looks at; of large files size and time stand for the bytes."""
    files = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        stat = path.stat()
        files.append((path.relative_to(folder).as_posix(), stat.st_size, stat.st_mtime_ns))
    said = [recipe.recipe_id(), words(recipe)] if recipe else []
    return content_hash(manifest.to_json(), json.dumps([files, renderings(manifest), said]))
