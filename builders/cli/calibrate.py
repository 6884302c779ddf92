"""`python -m builders calibrate`: what a small trainer reaches on the canonical splits of a built dataset."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import get_args

import click

from builders.cli.check import built_argument, built_folder, recipe_option
from builders.describe.calibrate import calibrate
from builders.describe.calibration import calibration_lines, calibration_summary, calibration_table
from builders.recipe_files import calibration_path, load_recipe, read_calibration
from shiftdata.baselines.sources import Mode
from shiftdata.baselines.training import TRAINING, Training
from shiftdata.cli.verbs import verb
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import Calibration
from shiftdata.files import write_text


@verb("""
    examples:
      python -m builders calibrate sma_emoji
      python -m builders calibrate sma_emoji --only scratch
      python -m builders calibrate build/shift/my_birds --recipe my_birds.py

    Needs torch; frozen features need EfficientNet-Lite0: pip install 'shiftdata[baselines]'.
    One that is stopped goes on where it was, as long as dataset and settings are the same.
    Training is not repeatable to the byte on other machines, so a build only copies what is written here:
    run `build` again to have it on the card and in the manifest.
""")
@built_argument
@recipe_option
@click.option("--only", type=click.Choice(get_args(Mode)), help="Train in this mode alone.")
@click.option("--steps", type=click.IntRange(min=1), default=TRAINING.steps, help="Of each training.")
def command(dataset: str, recipe: str | None, only: Mode | None, steps: int) -> None:
    """Measure the canonical splits of a built dataset, and write it next to the recipe.

    For each split: what a small network reaches when it is trained on rows like those of the test (the
    ceiling), and on the split's own; from scratch and, for pictures, on frozen features.
    """
    folder = built_folder(dataset)
    manifest = Manifest.read(folder)
    reference = recipe or manifest.name
    path = calibration_path(reference, load_recipe(reference))

    def write(measured: Calibration) -> None:
        write_text(path, json.dumps(asdict(measured), indent=1, ensure_ascii=False) + "\n")

    measured = calibrate(
        folder,
        modes=(only,) if only else (),
        training=Training(steps=steps),
        before=read_calibration(path) if path.exists() else None,
        on_measured=write,
        on_job=lambda text, done, total: click.echo(f"{done} of {total}: {text}", err=True),
    )
    write(measured)
    shown = replace(manifest, calibration=measured)
    print(calibration_table(shown), "", calibration_summary(shown), sep="\n")
    print(*calibration_lines(shown), f"wrote {path}", sep="\n")
    print(f"Next, to have it on the card: python -m builders build {reference}")
