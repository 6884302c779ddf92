"""The conditions of publishing: the dataset passes `check`, and its licences allow it.

A check that passed is remembered while nothing changes.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path

from builders.describe.renderings import description_of, renderings
from builders.make.check import check
from builders.publish.target import Source
from builders.recipe import Recipe
from builders.recipe_files import recipe_of
from shiftdata.data.format.attribution import Terms, terms_of
from shiftdata.data.format.licenses import redistribution_problem, rights, withheld
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.verifying import Problem, shortened
from shiftdata.errors import InputError, IntegrityError
from shiftdata.files import write_text
from shiftdata.stable import content_hash
from shiftdata.untrusted.parquet import read_parquet

MOST_PROBLEMS = 3  # of a kind
MOST_LINES = 10
MOST_NAMES = 3
NAME_DIGITS = 16


def refuse_unchecked(
    folder: Path,
    recipe: Recipe | None,
    work: Path,
    *,
    on_file: Callable[[str], object] = lambda path: None,
) -> bool:
    """Refuse a dataset that `check` does not pass; return whether a remembered check made this one needless.

    A passed check holds until a file in the folder has another size or time, or the recipe, its description
    or the template of the card changes. It is kept in `work`, a file for each folder.
    """
    manifest = Manifest.read(folder)
    name = manifest.name.removesuffix("_wds")
    recipe = recipe or recipe_of(name)
    state = _state(folder, manifest, recipe)
    where = content_hash(str(folder.resolve()))[:NAME_DIGITS]
    passed = work / "checked" / f"{manifest.name}-{where}.txt"
    if passed.is_file() and passed.read_text(encoding="utf-8") == state:
        return True
    problems = check(folder, recipe, on_file)
    if problems:
        raise IntegrityError(_refusal(folder, problems))
    write_text(passed, state)
    return False


def _refusal(folder: Path, problems: list[Problem]) -> str:
    lines = list(shortened(problems, MOST_PROBLEMS))
    more = ["..."] if len(lines) > MOST_LINES else []
    count = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
    head = f"{folder} is not published: `shiftdata check {folder}` finds {count}"
    return "\n  ".join([head, *lines[:MOST_LINES], *more])


def _state(folder: Path, manifest: Manifest, recipe: Recipe | None) -> str:
    """A hash of everything that a check looks at; of each file size and time count, not the bytes."""
    files = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        stat = path.stat()
        files.append((path.relative_to(folder).as_posix(), stat.st_size, stat.st_mtime_ns))
    described = [recipe.recipe_id(), description_of(recipe)] if recipe else []
    seen = json.dumps([files, renderings(manifest), described], default=asdict)
    return content_hash(manifest.to_json(), seen)


def rows_by_terms(source: Source) -> Counter[Terms]:
    """Count the rows of all bases by licence, attribution and nuisance."""
    counted = Counter[Terms]()
    names = ["license", "attribution", source.manifest.roles.nuisance]
    start = "index/" if source.manifest.is_webdataset else "metadata/"
    for path in (source.folder / path for path in source.files if path.startswith(start)):
        try:
            counted += terms_of(read_parquet(path, names), source.manifest)
        except (OSError, IntegrityError) as error:
            raise IntegrityError(f"{path} cannot be read ({error}): build again") from error
    return counted


def refuse_withheld(manifest: Manifest, rows: Counter[Terms], allowed: Collection[str]) -> list[str]:
    """Refuse rows whose licence is not known to allow redistribution; return notes on those that do.

    The licences in `allowed`, written exactly so, are published on the word of whoever names them.
    """
    refused: dict[str, Counter[str]] = defaultdict(Counter)
    for (terms, who, nuisance), count in rows.items():
        works = [work for work in manifest.materials if nuisance in work.nuisances]
        for identifier in withheld(terms or "", allowed):
            authors = [work.attribution for work in works if identifier in work.adds]
            refused[identifier].update(dict.fromkeys(authors or [who or ""], count))
    if manifest.compilation:
        for identifier in withheld(manifest.compilation, allowed):
            refused[identifier]["the publisher, of the compilation"] = rows.total()
    if refused:
        lines = [
            f"{manifest.name} is not published: not all of its licences are known to allow redistribution"
        ]
        for identifier, of in sorted(refused.items()):
            more = f"; and {len(of) - MOST_NAMES:,} more" if len(of) > MOST_NAMES else ""
            names = "; ".join(who for who, _ in of.most_common(MOST_NAMES)) + more
            lines.append(f"{redistribution_problem(identifier)}: {of.total():,} rows, of {names}")
        flags = " ".join(f"--allow-license {shlex.quote(identifier)}" for identifier in sorted(refused))
        lines.append(f"leave these rows out, or, if you have the right to publish them, add: {flags}")
        raise InputError("\n  ".join(lines))
    notes = []
    spared = sorted({it for terms, *_ in rows for it in withheld(terms or "")} & set(allowed))
    if spared:
        notes.append(f"published on your word: {', '.join(spared)} (--allow-license)")
    if restricted := sum(rows[of] for of in rows if rights(of[0] or "")["commercial"] == "no"):
        notes.append(f"{restricted:,} rows may not be used commercially (NC); the card says so")
    return notes
