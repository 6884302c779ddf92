"""The renderings of a manifest that lie beside it: README.md and croissant.json."""

from __future__ import annotations

from pathlib import Path

from builders.describe.card import CARDS, render_card
from builders.describe.croissant import render_croissant
from builders.describe.draft import draft
from builders.recipe import Recipe
from shiftdata.exporting.webdataset.card import card as wds_card
from shiftdata.files import write_text
from shiftdata.format.manifest import FILE_NAME, Manifest

README = "README.md"
CROISSANT = "croissant.json"


def renderings(manifest: Manifest) -> dict[str, str]:
    """The text of each rendering, by file name."""
    if manifest.is_webdataset:
        return {README: wds_card(manifest)}
    return {README: render_card(manifest), CROISSANT: render_croissant(manifest)}


def write_renderings(folder: Path, manifest: Manifest) -> None:
    """Write the renderings and, last, the manifest: a dataset with a manifest is whole."""
    for name, text in [*renderings(manifest).items(), (FILE_NAME, manifest.to_json())]:
        write_text(folder / name, text)


def card_of_recipe(recipe: Recipe) -> str:
    """The card of a dataset that is not built, with its picture in `cards/` where there is one."""
    picture = f"{recipe.name}.jpg"
    return render_card(draft(recipe), picture if (CARDS / picture).is_file() else None)
