"""`shiftdata pretrain`: an encoder without labels."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import click

from shiftdata.cli.task import protocol_of, task_arguments
from shiftdata.cli.train import numbers_of, processes
from shiftdata.cli.verbs import GOES_ON, device_option, progress, quiet_option, verb
from shiftdata.evaluation.tasks import OnEmpty
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
@click.option(
    "--set", "hyper", multiple=True, metavar="NAME=VALUE", help="temperature, momentum, queue, parts."
)
@click.option(
    "--backbone", default="small-cnn", metavar="NAME", help="The network, also timm:NAME, run:FOLDER."
)
@click.option("--side", type=click.IntRange(8), help="Pixels of a picture's side. [default: the backbone's]")
@click.option("--seed", default=0, help="Of weights, order and draws.")
@click.option("--steps", type=click.IntRange(1), help="[default: 2000]")
@click.option(
    "--batch", type=click.IntRange(2), help="Pictures of a step, with two views each.  [default: 256]"
)
@click.option("--rate", "learning_rate", type=float, help="The peak learning rate.  [default: 0.003]")
@click.option(
    "--augment", type=click.Choice(["contrastive", "shift"]), help="Views: MoCo v2's, or RandAugment's."
)
@click.option("--flip", is_flag=True, default=None, help="Mirror half of the views.")
@click.option("--precision", type=click.Choice(["float32", "bfloat16"]), help="[default: float32]")
@click.option("--threads", type=click.IntRange(1), help="Of torch on a processor.  [default: 1]")
@device_option
@click.option("--folder", metavar="FOLDER", required=True, help="Where run.json and encoder.pt go.")
@quiet_option
def command(
    dataset: str,
    protocol: tuple[str, ...],
    hyper: tuple[str, ...],
    method: str,
    backbone: str,
    side: int | None,
    seed: int,
    device: str,
    folder: str,
    base: str | None,
    on_empty: OnEmpty,
    quiet: bool,
    **settings: Any,
) -> None:
    """Pretrain an encoder on a task's pictures without labels, for `--backbone run:FOLDER`."""
    require("torch", "training")
    from shiftdata.baselines.pretrained.pretraining import SETTINGS, pretrain
    from shiftdata.evaluation.protocols import task

    training = replace(SETTINGS, **{name: value for name, value in settings.items() if value is not None})
    chosen = task(dataset, protocol_of(protocol), base=base, on_empty=on_empty)
    begun = time.monotonic()
    with (
        processes(device) as first,
        progress(method, training.steps, " steps", quiet=quiet or not first) as bar,
    ):
        model = pretrain(
            chosen,
            method,
            backbone=backbone,
            side=side,
            training=training,
            seed=seed,
            device=device,
            folder=folder,
            on_step=lambda done, total: bar.update(done - bar.n),
            **numbers_of(hyper),
        )
    if first:
        rows = sum(corpus["rows"] for corpus in model.about["corpora"])
        print(f"{method}: {rows:,} rows, {training.steps:,} steps, {time.monotonic() - begun:.0f} s")
        print(f"saved in {folder}; use it as --backbone run:{folder}")
