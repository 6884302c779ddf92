"""Render README.md, croissant.json and eval.yaml from a manifest alone, or from a recipe before a build."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from builders.albums import LeavesOut
from builders.describe.card import CARDS, render_card
from builders.describe.contact_sheet import PREVIEW
from builders.describe.provenance import provenance_of
from builders.items import ItemTable
from builders.recipe import Recipe
from shiftdata.data.exporting.webdataset.card import renderings as renderings_of_tars
from shiftdata.data.format.attribution import credited, terms
from shiftdata.data.format.benchmark import render_benchmark
from shiftdata.data.format.croissant import render_croissant
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import BENCHMARK, CROISSANT, README, RENDERINGS
from shiftdata.data.format.records import Base, CanonicalSplit, by_reason
from shiftdata.data.format.written import write_renderings
from shiftdata.errors import InputError


def draft(recipe: Recipe) -> Manifest:
    """The manifest of a dataset that is not built: no counts, no hashes, no files."""
    pairs = ItemTable.of(recipe.album.items()).terms()
    return Manifest(
        name=recipe.name,
        family=recipe.family,
        **description_of(recipe),
        **terms(credited(pairs), recipe.materials, recipe.compilation),
        seed=recipe.seed,
        recipe_id=recipe.recipe_id(),
        content_id="",
        roles=recipe.roles,
        origins_shared=False,
        labels=list(recipe.album.labels),
        nuisances=list(recipe.shift.nuisances),
        severities=list(recipe.severities),
        default_base=recipe.default_base,
        bases=[Base(name=b.name, summary=b.summary, content_id="", splits={}) for b in recipe.bases],
        canonical_splits=[
            CanonicalSplit(
                name=protocol.config_name,
                summary=protocol.summary(recipe.nuisance),
                base=recipe.default_base,
                protocol=protocol.words(),
                sets={},
            )
            for protocol in recipe.protocols
        ],
        sample={},
        files={},
    )


def description_of(recipe: Recipe) -> dict[str, Any]:
    """The part of a manifest that can change without building anything again."""
    album = recipe.album
    return {
        "version": recipe.version,
        "title": recipe.title,
        "summary": recipe.summary,
        "creators": list(recipe.creators),
        "citation": recipe.citation,
        "released": recipe.released,
        "datasheet": recipe.datasheet.stated(),
        "calibration": recipe.calibration,
        "provenance": provenance_of(recipe),
        "publishes": recipe.publishes,
        "prompts": list(recipe.prompts),
        "left_out": by_reason(Counter(album.left_out.values())) if isinstance(album, LeavesOut) else {},
    }


def renderings(manifest: Manifest) -> dict[str, str]:
    """The text of each rendering, by file name; none depends on the records of renderings in the manifest."""
    if manifest.is_webdataset:
        return renderings_of_tars(manifest)
    texts = {README: render_card(manifest), CROISSANT: render_croissant(manifest)}
    benchmark = render_benchmark(manifest)
    return texts | ({BENCHMARK: benchmark} if benchmark else {})


def describe(folder: Path, manifest: Manifest) -> Manifest:
    """Write the renderings and, last, the manifest with their hashes; return it."""
    return write_renderings(folder, manifest, renderings(manifest))


def write_without_pixels(folder: Path, out: Path) -> Path:
    """Make `out` the dataset in `folder` as it is published: without its examples and the picture of them.

    The manifest lists the files of `data/` as `withheld`, so that a build elsewhere can be compared.
    """
    manifest = Manifest.read(folder)
    if manifest.publishes != "splits" or manifest.is_webdataset or manifest.withheld:
        raise InputError(f"{folder} is not a Parquet dataset of a recipe with publishes='splits'")
    withheld = {path: record for path, record in manifest.files.items() if path.startswith("data/")}
    absent = {PREVIEW, *RENDERINGS, *withheld}
    files = {path: record for path, record in manifest.files.items() if path not in absent}
    sample = {name: value for name, value in manifest.sample.items() if name not in manifest.roles.example}
    shutil.rmtree(out, ignore_errors=True)
    for path in files:
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / path, out / path)
    describe(out, replace(manifest, files=files, withheld=withheld, sample=sample))
    return out


def card_of_recipe(recipe: Recipe) -> str:
    """The card of a dataset that is not built, with its picture in `cards/` where there is one."""
    picture = f"{recipe.name}.jpg"
    return render_card(draft(recipe), picture if (CARDS / picture).is_file() else None)
