"""Check a built dataset: everything a reader can verify, and that it is what its recipe and card say."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow.compute as pc

from builders.describe.renderings import description_of, renderings
from builders.make.shortcuts import measure
from builders.recipe import Recipe
from builders.recipe_files import recipe_of
from shiftdata.data.format.addresses import relative
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import CROISSANT, README, protocol_file
from shiftdata.data.verifying import Problem
from shiftdata.data.verifying.files import first_line
from shiftdata.evaluation.verify import verify
from shiftdata.extras import require
from shiftdata.untrusted.parquet import read_parquet


def check(
    folder: Path, recipe: Recipe | None = None, on_file: Callable[[str], object] = lambda path: None
) -> list[Problem]:
    """Every problem of the dataset in a folder; an empty list means that it may be published.

    `recipe` is the one it was built from; without it, the recipe of this package with the dataset's name.
    """
    problems = verify(folder, on_file=on_file)
    manifest = Manifest.read(folder)
    if manifest.part is not None:
        fault = f"is a part of {manifest.name} ({manifest.part.content_id[:12]}): publish the whole"
        return [*problems, Problem(path=FILE_NAME, what=fault, kind="part")]
    name = manifest.name.removesuffix("_wds")
    recipe = None if manifest.hidden else recipe or recipe_of(name)
    if all(problem.path != FILE_NAME or problem.kind == "form" for problem in problems):
        # Of a manifest that contradicts itself there are none. They say more than a hash that is wrong.
        edited = list(_rendering_problems(folder, manifest))
        paths = {problem.path for problem in edited}
        problems = [problem for problem in problems if problem.path not in paths or problem.kind == "link"]
        problems += edited
    if not problems:
        problems += _shortcut_problems(folder, manifest, recipe)
    if not problems:  # what the clients say of a broken dataset is of no use
        problems += _croissant_problems(folder)
        problems += _client_problems(folder, manifest)
    if recipe is not None:
        problems += _recipe_problems(manifest, recipe)
    return problems


def _rendering_problems(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    for name, text in renderings(manifest).items():
        file = folder / name
        if not file.is_file():
            yield Problem(path=name, what="is missing: run the build again, it writes it")
            continue
        written = relative(file.read_bytes())
        if written.replace(b"\r\n", b"\n") == text.encode() != written:
            yield Problem(path=name, what="has other line endings (CRLF): run the build again")
        elif written != text.encode():
            what = "was edited: it differs from a fresh rendering of the manifest; run the build again"
            yield Problem(path=name, what=what)


def _shortcut_problems(folder: Path, manifest: Manifest, recipe: Recipe | None) -> Iterator[Problem]:
    """Compare the manifest's figures on shortcuts with those measured again."""
    if manifest.is_webdataset or manifest.withheld:
        return
    if measure(folder, manifest, recipe.album if recipe else None) != manifest.shortcuts:
        yield Problem(path=FILE_NAME, what="gives shortcuts other numbers than its pictures: build it again")


def _croissant_problems(folder: Path) -> Iterator[Problem]:
    """Return the errors that mlcroissant finds in croissant.json."""
    mlcroissant = require("mlcroissant", "checking croissant.json")
    try:
        issues = mlcroissant.Dataset(jsonld=str(folder / CROISSANT)).metadata.ctx.issues
    except mlcroissant.ValidationError as error:
        yield Problem(path=CROISSANT, what=f"is not valid Croissant: {error}")
        return
    for issue in sorted([*issues.errors, *issues.warnings]):
        yield Problem(path=CROISSANT, what=f"is not accepted by mlcroissant: {issue}")


def _client_problems(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Compare the rows of every config, as plain `datasets` reads them, with the promised and frozen ones."""
    frozen = {
        split.name: read_parquet(folder / protocol_file(split.name))
        for split in manifest.canonical_splits
        if split.is_config
    }
    with tempfile.TemporaryDirectory() as cache:
        for (name, config), streaming in product(manifest.configs.items(), (True, False)):
            if manifest.is_webdataset and not streaming:
                continue  # it would copy every example
            how = ", streaming" if streaming else ""
            try:
                keys = _keys(folder, name, manifest, streaming, cache)
            except Exception as error:  # `datasets` raises many kinds
                fault = f"does not read {name}{how}: {type(error).__name__}: {first_line(error)}"
                yield Problem(path=README, what=f"`datasets` {fault}")
                continue
            for split, promised in config.splits.items():
                read, where = keys.get(split, []), f"{name}/{split}{how}"
                rows = frozen.get(name)
                if len(read) != promised.rows:
                    fault = f"reads {len(read)} rows of {where}, the manifest says {promised.rows}"
                    yield Problem(path=README, what=f"`datasets` {fault}")
                elif rows and {*read} != {*rows.filter(pc.equal(rows["split"], split))["key"].to_pylist()}:
                    fault = f"reads other rows of {where} than the frozen ones"
                    yield Problem(path=README, what=f"`datasets` {fault}")


def _keys(folder: Path, name: str, manifest: Manifest, streaming: bool, cache: str) -> dict[str, list[str]]:
    """The keys that plain `datasets` reads of each split."""
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()

    if manifest.is_webdataset:
        loaded = load_dataset(str(folder), name, streaming=True)
        samples = {split: stream.select_columns("__key__") for split, stream in loaded.items()}
        return {split: [sample["__key__"] for sample in of] for split, of in samples.items()}
    loaded = load_dataset(str(folder), name, streaming=streaming, columns=["key"], cache_dir=cache)
    batches = {split: rows.with_format("arrow").iter(batch_size=5000) for split, rows in loaded.items()}
    return {split: [key for batch in of for key in batch["key"].to_pylist()] for split, of in batches.items()}


def _recipe_problems(manifest: Manifest, recipe: Recipe) -> Iterator[Problem]:
    """Check that the dataset is that of the recipe, and has what the recipe expects."""
    if recipe.recipe_id() != manifest.recipe_id:
        was, now = manifest.recipe_id[:12], recipe.recipe_id()[:12]
        what = f"was built from recipe {was}, and {recipe.name} is now {now}: "
        what += "raise its version and build it again, or build with --replace"
        yield Problem(path=FILE_NAME, what=what)
    elif replace(manifest, **description_of(recipe)) != manifest:
        yield Problem(path=FILE_NAME, what="has another description than the recipe: run the build again")
    built = {base.name for base in manifest.bases}
    for expected in recipe.expected:
        if expected.base not in built:
            continue  # --bases left it out
        splits = manifest.base(expected.base).splits
        rows = {split: record.rows for split, record in splits.items()}
        if rows != dict(expected.rows):
            what = f"the base {expected.base!r} has {rows} rows, the recipe expects {dict(expected.rows)}"
            yield Problem(path=FILE_NAME, what=what)
        smallest = min(record.smallest for record in splits.values())
        if smallest < expected.smallest_group:
            what = f"the base {expected.base!r} has a group of {smallest} rows, the recipe expects at least "
            yield Problem(path=FILE_NAME, what=what + str(expected.smallest_group))
