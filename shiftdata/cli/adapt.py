"""`shiftdata adapt`: a trained network that adapts to the stream of a task."""

from __future__ import annotations

from typing import Any

import click

from shiftdata.cli.task import task_arguments, task_of
from shiftdata.cli.train import print_algorithm, print_result, result_options, unseen, values_of
from shiftdata.cli.verbs import verb
from shiftdata.errors import InputError
from shiftdata.extras import require


@verb("""
    examples:
      shiftdata adapt                                              list the adapters with their numbers
      shiftdata train cns_glyphs continuous --folder runs/erm
      shiftdata adapt cns_glyphs continuous stream --model runs/erm --method tent
      shiftdata adapt cns_glyphs continuous stream setting=continual order=correlated --model runs/erm \\
          --method rotta --folder runs/rotta --picture curve.png
      shiftdata evaluate cns_glyphs continuous runs/rotta
      shiftdata adapt imagenette continuous@paper severities=5 stream --model efficientnet-lite0 --size 160

    The stream is a protocol after those of the task: `stream setting=episodic|online|continual|mixed
    order=iid|correlated seed=0`. With --folder the predictions are saved as a run's are, with stream.parquet.
""")
@task_arguments(required=False, none="; none lists the adapters")
@click.option(
    "--model", metavar="NAME", help="The folder of a run of `shiftdata train`, or a model of `predict`."
)
@click.option("--size", type=click.IntRange(1), help="Pixels of a side.  [default: the model's own]")
@click.option("--method", default="tent", metavar="NAME", help="How it adapts.")
@click.option("--set", "hyper", multiple=True, metavar="NAME=VALUE", help="A hyper-parameter of the method.")
@click.option("--batch", "batch_size", type=click.IntRange(1), default=64, help="Rows of a step.")
@click.option("--seed", default=0, help="Of views and draws; the order has its own, stream seed=...")
@click.option("--picture", metavar="FILE", help="Draw accuracy and entropy over the steps.")
@result_options
def command(
    dataset: str | None,
    protocol: tuple[str, ...],
    model: str | None,
    hyper: tuple[str, ...],
    picture: str | None,
    form: str,
    quiet: bool,
    **settings: Any,
) -> None:
    """Adapt a trained network to the test of a task as a stream, and print the official metrics."""
    require("torch", "test-time adaptation")
    from shiftdata.baselines import adapt
    from shiftdata.baselines.test_time import ADAPTERS, adapter_class

    if dataset is None:
        for name in ADAPTERS:
            print_algorithm(name, adapter_class(name))
        return
    if model is None:
        raise InputError(
            "give --model: the folder of a run of `shiftdata train ... --folder`, or a model's name"
        )
    chosen, given = task_of(dataset, protocol, settings), values_of("--set", hyper, "rate=0.001")
    result = adapt(chosen, model, **settings, **given, **unseen(quiet))
    about = result.about
    print_result(result, form, settings["folder"], f"{about['method']} of {about['model']}")
    if picture:
        result.picture().save(picture)
