"""`shiftdata pretrain`: an encoder without labels."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import click

from shiftdata.cli.task import task_arguments, task_of
from shiftdata.cli.train import processes, values_of
from shiftdata.cli.verbs import GOES_ON, device_option, quiet_option, verb
from shiftdata.extras import require


@verb(
    """
    examples:
      shiftdata pretrain dom_glyphs leave-one-domain-out test=script --folder runs/simclr
      shiftdata pretrain dom_glyphs leave-one-domain-out test=script --method moco --folder runs/moco
      shiftdata train nico_glyphs leave-one-domain-out test=grass --backbone run:runs/simclr

    It reads the pictures of the task's training and unlabelled sets, and no label. The folder gets run.json
    and encoder.pt; a stopped training goes on there. --flip is for things, not for letters.
    On several GPUs: torchrun --nproc-per-node 4 -m shiftdata pretrain ... --device cuda
    Needs torch: pip install 'shiftdata[baselines]'.
    """,
    interrupted=GOES_ON,
)
@task_arguments(required=True)
@click.option("--method", type=click.Choice(["simclr", "moco"]), default="simclr", help="The loss.")
@click.option("--set", "hyper", multiple=True, metavar="NAME=VALUE", help="Such as temperature, momentum.")
@click.option("--backbone", default="small-cnn", metavar="NAME", help="Also timm:NAME, run:FOLDER.")
@click.option("--side", type=click.IntRange(8), help="Pixels of a picture's side. [default: the backbone's]")
@click.option("--seed", default=0, help="Of weights, order and draws.")
@click.option("--steps", type=click.IntRange(1), help="[default: 2000]")
@click.option("--batch", type=click.IntRange(2), help="Pictures of a step, two views each.  [default: 256]")
@click.option("--rate", "learning_rate", type=float, help="The peak learning rate.  [default: 0.003]")
@click.option("--augment", type=click.Choice(["contrastive", "shift"]), help="MoCo v2's, or RandAugment's.")
@click.option("--flip", is_flag=True, default=None, help="Mirror half of the views.")
@click.option("--precision", type=click.Choice(["float32", "bfloat16"]), help="[default: float32]")
@click.option("--threads", type=click.IntRange(1), help="Of torch on a processor.  [default: 1]")
@device_option
@click.option("--folder", metavar="FOLDER", required=True, help="Where run.json and encoder.pt go.")
@quiet_option
def command(
    dataset: str, protocol: tuple[str, ...], hyper: tuple[str, ...], method: str, quiet: bool, **settings: Any
) -> None:
    """Pretrain an encoder on a task's pictures without labels, for `--backbone run:FOLDER`."""
    require("torch", "training")
    from shiftdata.baselines.pretrained.pretraining import SETTINGS, pretrain

    chosen, folder = task_of(dataset, protocol, settings), settings["folder"]
    given = {name: settings.pop(name) for name in ("backbone", "side", "seed", "device", "folder")}
    training = replace(SETTINGS, **{name: value for name, value in settings.items() if value is not None})
    hypers, begun = values_of("--set", hyper, "temperature=0.1"), time.monotonic()
    if quiet:
        given["on_step"] = max
    with processes(given["device"]) as first:
        model = pretrain(chosen, method, training=training, **given, **hypers)
    if first:
        rows = sum(corpus["rows"] for corpus in model.about["corpora"])
        print(f"{method}: {rows:,} rows, {training.steps:,} steps, {time.monotonic() - begun:.0f} s")
        print(f"saved in {folder}; use it as --backbone run:{folder}")
