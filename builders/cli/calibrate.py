"""`python -m builders calibrate`: `shiftdata calibrate`, with its record next to the recipe."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import click

from builders.cli.check import built_argument, built_folder, recipe_option
from builders.describe.calibration import calibration_lines, calibration_summary, calibration_table
from builders.recipe_files import calibration_path, load_recipe, read_calibration
from shiftdata.cli.verbs import verb
from shiftdata.data.format.manifest import Manifest


@verb("""
    examples:
      python -m builders calibrate sma_emoji
      python -m builders calibrate sma_emoji --only scratch --minutes 20
      python -m builders calibrate build/shift/my_birds --recipe my_birds.py

    Other options are those of `shiftdata calibrate`, which runs in a process of its own.
    Training is not repeatable to the byte on other machines, so a build only copies what is written here:
    run `build` again to have it on the card and in the manifest.
""")
@built_argument
@recipe_option
@click.option("--only", help="Train in this mode alone: scratch or frozen.")
@click.option("--minutes", help="Begin no training after that many.")
@click.option("--steps", help="Of each training.  [default: 800]")
def command(dataset: str, recipe: str | None, **options: str | None) -> int:
    """Measure the canonical splits of a built dataset, and write the record next to the recipe."""
    folder = built_folder(dataset)
    manifest = Manifest.read(folder)
    reference = recipe or manifest.name
    path = calibration_path(reference, load_recipe(reference))
    chosen = [word for name, value in options.items() if value for word in (f"--{name}", value)]
    verb = [sys.executable, "-m", "shiftdata", "calibrate", str(folder), "--out", str(path), *chosen]
    status = subprocess.run(verb, stdout=subprocess.DEVNULL).returncode
    if status:
        return status
    shown = replace(manifest, calibration=read_calibration(path))
    print(calibration_table(shown), "", calibration_summary(shown), sep="\n")
    print(*calibration_lines(shown), f"wrote {path}", sep="\n")
    print(f"Next, to have it on the card: python -m builders build {reference}")
    return 0
