"""`shiftdata adapt`: a trained network that adapts to the stream of a task."""

from __future__ import annotations

import json

import click

from shiftdata.cli.task import protocol_of, task_arguments
from shiftdata.cli.train import numbers_of, print_needs
from shiftdata.cli.verbs import device_option, format_option, progress, quiet_option, verb
from shiftdata.evaluation.tasks import OnEmpty
from shiftdata.extras import require


@verb("""
    examples:
      shiftdata adapt                                              list the adapters with their numbers
      shiftdata train cns_glyphs continuous --folder runs/erm
      shiftdata adapt cns_glyphs continuous stream --run runs/erm --method tent
      shiftdata adapt cns_glyphs continuous stream setting=continual order=correlated --run runs/erm \\
          --method rotta --folder runs/rotta --picture curve.png
      shiftdata evaluate cns_glyphs continuous runs/rotta
      shiftdata adapt imagenette continuous@paper severities=5 stream --model efficientnet-lite0 --size 160

    The stream is a protocol after those of the task: `stream setting=episodic|online|continual|mixed
    order=iid|correlated seed=0`. With --folder the predictions are saved as a run's are, with stream.parquet.
""")
@task_arguments(required=False, none="; none lists the adapters")
@click.option("--run", metavar="FOLDER", help="The folder of a run of `shiftdata train`.")
@click.option("--model", metavar="NAME", help="Or a trained model with classes of its own: timm:NAME, ..")
@click.option("--size", type=click.IntRange(1), help="Pixels of a side.  [default: the model's own]")
@click.option("--method", default="tent", metavar="NAME", help="How it adapts.")
@click.option("--set", "hyper", multiple=True, metavar="NAME=VALUE", help="A hyper-parameter of the method.")
@click.option("--batch", type=click.IntRange(1), default=64, help="Rows of a step.")
@click.option("--seed", default=0, help="Of views and draws; the order has its own, stream seed=...")
@device_option
@click.option("--folder", metavar="FOLDER", help="Save the predictions here.")
@click.option("--picture", metavar="FILE", help="Draw accuracy and entropy over the steps.")
@format_option("text", "markdown", "json")
@quiet_option
def command(
    dataset: str | None,
    protocol: tuple[str, ...],
    run: str | None,
    model: str | None,
    size: int | None,
    method: str,
    hyper: tuple[str, ...],
    batch: int,
    seed: int,
    device: str,
    folder: str | None,
    picture: str | None,
    base: str | None,
    on_empty: OnEmpty,
    form: str,
    quiet: bool,
) -> None:
    """Adapt a trained network to the test of a task as a stream, and print the official metrics."""
    require("torch", "test-time adaptation")
    from shiftdata.baselines import adapt
    from shiftdata.baselines.pretrained.load import load
    from shiftdata.evaluation.protocols import task

    if dataset is None:
        return _print_adapters()
    if (run is None) == (model is None):
        raise click.UsageError(
            "give --run, the folder of a run of `shiftdata train ... --folder`, or --model"
        )
    if run and size:
        raise click.UsageError("--size is for a --model: a run has its own")
    chosen = task(dataset, protocol_of(protocol), base=base, on_empty=on_empty)
    trained = run or load(str(model), size=size)
    with progress(f"adapt {method}", None, " rows", quiet=quiet) as bar:
        result = adapt(
            chosen, trained, method, batch_size=batch, seed=seed, device=device, folder=folder,
            on_rows=bar.update, **numbers_of(hyper),
        )  # fmt: skip
    evaluation = result.evaluate()
    if form == "json":
        about = {**result.about, "segments": result.segments(), "result": evaluation.to_dict()}
        print(json.dumps(about, indent=1))
    else:
        print(evaluation.to_markdown() if form == "markdown" else evaluation)
    if picture:
        result.picture().save(picture)
    return None


def _print_adapters() -> None:
    from shiftdata.baselines.test_time import ADAPTERS, adapter_class

    for name in ADAPTERS:
        kind = adapter_class(name)
        print(f"{name}\n    {(kind.__doc__ or '').splitlines()[0]}")
        print_needs(kind)
