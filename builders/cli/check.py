"""`shiftdata check`: whether a built dataset is what it should be."""

from __future__ import annotations

from pathlib import Path

import click

from builders.datasheet import TODO
from builders.describe.calibration import calibration_warning
from builders.describe.shortcuts import warnings
from builders.make.check import check
from builders.make.venue import venue_steps
from builders.recipe_files import load_recipe
from shiftdata.cli.verbs import verb
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.written import leak_warnings
from shiftdata.data.places import search as places
from shiftdata.data.verifying import shortened
from shiftdata.errors import InputError
from shiftdata.tables import aligned

built_argument = click.argument("dataset", help="Its name, or its folder.")
recipe_option = click.option("--recipe", metavar="FILE", help="Its .py file, if `recipes` does not show it.")


@verb("""
    examples:
      shiftdata check sma_glyphs
      shiftdata check build/shift/my_birds --recipe my_birds.py
      shiftdata check my_birds --venue                            before a submission to NeurIPS
      shiftdata check my_birds --venue --at https://huggingface.co/datasets/lab/my_birds/resolve/main
""")
@built_argument
@recipe_option
@click.option("--venue", is_flag=True, help="Only what a venue's checker of submissions asks of Croissant.")
@click.option("--at", metavar="PLACE", help="With --venue: read the files of the published place.")
def command(dataset: str, recipe: str | None, venue: bool, at: str | None) -> int:
    """Check a built dataset: files, rows, card, Croissant, what readers see, and its recipe.

    Ends with status 1 if there are problems; shortcuts that its pictures offer are named, and are none.
    """
    folder = built_folder(dataset)
    if at and not venue:
        raise InputError("--at is the place for --venue: give both")
    if venue:
        return check_venue(folder, at)
    problems = check(folder, load_recipe(recipe) if recipe else None)
    for line in shortened(problems):
        print(line)
    manifest = Manifest.read(folder)
    print_warnings(manifest)
    if stale := calibration_warning(manifest):
        print(f"warning: {stale}")
    print(f"{folder}: {len(problems)} problems" if problems else f"{folder}: all well")
    return 1 if problems else 0


def check_venue(folder: Path, at: str | None) -> int:
    """Print each step of a venue's checker, and where to give what is lacking."""
    steps = list(venue_steps(folder, at))
    lacking = [step for step in steps if step.lacking]
    rows = [
        (step.name, *(("no", step.lacking, step.fill) if step.lacking else ("yes", "", ""))) for step in steps
    ]
    print(aligned(["step", "passed", "lacking", "fill in"], rows, [False] * 4))
    if not at:
        print("note: read from this folder; --at PLACE reads the published files, as the venue does")
    print(f"{folder}: {f'{len(lacking)} of {len(steps)} steps fail' if lacking else 'a venue accepts it'}")
    return 1 if lacking else 0


def print_warnings(manifest: Manifest) -> None:
    """Warn of leaks and of what the pictures give away, and say where to read what helps."""
    lines = warnings(manifest)
    if left := [name for name, answer in manifest.datasheet.items() if answer.startswith(TODO)]:
        print(f"note: the datasheet does not answer {', '.join(left)} yet, which venues ask for")
    for line in (*leak_warnings(manifest), *lines):
        print(line)
    if any(line.startswith("warning") for line in lines):
        print("  what helps: docs/own_data.md, Shortcuts")


def built_folder(name: str) -> Path:
    """The folder of a built dataset."""
    folder = places.find(name).folder
    if folder is None:
        raise InputError(f"{name} is not in a folder on this machine: build it, or give its folder")
    return folder
