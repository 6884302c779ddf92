"""`shiftdata train`: a reference method on a task."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from shiftdata.cli.task import on_empty_option, protocol_of
from shiftdata.cli.verbs import GOES_ON, progress, quiet_option, verb
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import OnEmpty, Task
from shiftdata.extras import require


@verb(
    """
    examples:
      shiftdata train                                              every method, what it needs, its numbers
      shiftdata train sma_glyphs group-fairness k=8 mu=0.05
      shiftdata train sma_glyphs gf_k8_mu5 --method group-dro --set eta=0.01 --seed 1
      shiftdata train sma_glyphs gf_k8_mu5 --method subg --backbone linear     on frozen features
      shiftdata train dom_glyphs uda source=serif target=script --method dann --folder runs/dann
      shiftdata train dom_glyphs uda source=serif target=script --method rs+rw+dann --format json

    With --folder the run is kept: run.json, predictions, model.pt; a stopped one goes on there.
    On several GPUs: torchrun --nproc-per-node 4 -m shiftdata train ... --device cuda
    Needs torch; frozen features need EfficientNet-Lite0: pip install 'shiftdata[baselines]'.
    """,
    interrupted=GOES_ON + " if it has a --folder",
)
@click.argument(
    "dataset", required=False, help="A name, owner/name, a folder or a URL; none lists the methods."
)
@click.argument(
    "protocol",
    nargs=-1,
    metavar="[PROTOCOL [KEY=VALUE]...]...",
    help="As in `shiftdata task`; a canonical split, or a file of --freeze.",
)
@click.option("--method", default="erm", metavar="NAME", help="Wrappers go before it: rs+rw+dann.")
@click.option("--variant", default="fixed", help="fixed, or paper or code where a method has them.")
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A hyper-parameter of the method.")
@click.option("--backbone", metavar="NAME", help="The network. [default: a small one, from scratch]")
@click.option("--seed", default=0, help="Of weights, order and draws.")
@click.option("--steps", type=click.IntRange(1), help="[default: 800]")
@click.option("--batch", type=click.IntRange(0), help="Rows of a step; 0: all.  [default: 64]")
@click.option("--rate", type=float, help="The learning rate at its highest.  [default: 0.01]")
@click.option("--decay", type=float, help="The weight decay.  [default: 0.05]")
@click.option("--evaluate-every", type=click.IntRange(1), metavar="STEPS", help="Predict the validation set.")
@click.option("--device", default="cpu", help="cpu, cuda, cuda:1, mps.")
@click.option("--folder", metavar="FOLDER", help="Keep the run here.")
@click.option("--base", metavar="NAME", help="One that `shiftdata info` lists. [default: the default base]")
@click.option(
    "--format", "shape", type=click.Choice(["text", "markdown", "json"]), default="text", help="How to print."
)
@on_empty_option
@quiet_option
def command(
    dataset: str | None,
    protocol: tuple[str, ...],
    method: str,
    variant: str,
    given: tuple[str, ...],
    backbone: str | None,
    seed: int,
    steps: int | None,
    batch: int | None,
    rate: float | None,
    decay: float | None,
    evaluate_every: int | None,
    device: str,
    folder: str | None,
    base: str | None,
    shape: str,
    on_empty: OnEmpty,
    quiet: bool,
) -> None:
    """Train a reference method on a task, and print the official metrics of its test."""
    require("torch", "training")
    from shiftdata.baselines import TRAINING, train
    from shiftdata.evaluation.protocols import task

    if dataset is None:
        return _print_methods()
    settings: dict[str, Any] = {"steps": steps, "batch": batch, "learning_rate": rate, "weight_decay": decay}
    settings["evaluate_every"] = evaluate_every
    training = replace(TRAINING, **{name: one for name, one in settings.items() if one is not None})
    made = task(dataset, protocol_of(protocol), base=base, on_empty=on_empty)
    first = _join_processes(device)
    bar = progress("read", None, " rows", quiet=quiet or not first)

    def stepped(done: int, total: int) -> None:
        bar.total, bar.unit = total, " steps"
        bar.set_description(f"train {method}", refresh=False)
        bar.n = done
        bar.update(0)

    with bar:
        run = train(
            made,
            method,
            variant=variant,
            backbone=backbone,
            training=training,
            seed=seed,
            device=device,
            folder=folder,
            on_rows=bar.update,
            on_step=stepped,
            **_numbers(given),
        )
    _leave_processes()
    if first:
        _print_run(run, shape, folder)
    return None


def _numbers(given: tuple[str, ...]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for word in given:
        name, equals, value = word.partition("=")
        try:
            made[name.replace("-", "_")] = float(value)
        except ValueError:
            raise InputError(f"--set {word}: give NAME=NUMBER, such as eta=0.1") from None
        if not equals:
            raise InputError(f"--set {word}: give NAME=NUMBER, such as eta=0.1")
    return made


def _join_processes(device: str) -> bool:
    """Under torchrun, join the other processes; whether this one prints."""
    import os

    import torch

    if "WORLD_SIZE" not in os.environ:
        return True
    torch.distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return torch.distributed.get_rank() == 0


def _leave_processes() -> None:
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _print_run(run: Any, shape: str, folder: str | None) -> None:
    results = {name: run.evaluate(name) for name in _tests(run.task)}
    if shape == "json":
        tests = {name: one.to_dict() for name, one in results.items()}
        print(json.dumps({"run": dict(run.about), "tests": tests}, indent=1))
        return
    for one in results.values():
        print(one.to_markdown() if shape == "markdown" else one)
    if shape == "text":
        print(f"{run.about['method']} ({run.about['variant']}), {run.about['seconds']:.0f} s")
    if folder:
        print(f"kept in {folder}")


def _tests(task: Task) -> list[str]:
    """The test, or of a task that was cut into cells every set that tests."""
    try:
        return [task.set_of("test")]
    except InputError:
        return [name for name, rows in task.sets.items() if rows.role == "test"]


def _print_methods() -> None:
    from shiftdata.baselines import METHODS, Wrapper, method_class
    from shiftdata.baselines.models import BACKBONES

    for name in METHODS:
        kind = method_class(name)
        about = (kind.__doc__ or "").partition("\n")[0]
        print(f"{name}{'+' if issubclass(kind, Wrapper) else ''}\n    {about}")
        if kind.needs:
            print(f"    needs {', '.join(sorted(kind.needs))}")
        for number, hyper in kind.space().items():
            print(f"    {number}={hyper.default:g}{_range(hyper)}")
        if len(kind.variants) > 1:
            print(f"    variants: {', '.join(kind.variants)}")
    print("\nbackbones:")
    for backbone in BACKBONES.values():
        print(f"    {backbone.name:<20}{backbone.summary}")


def _range(hyper: Any) -> str:
    source = f" ({hyper.source})" if hyper.source else ""
    if hyper.choices:
        return f", one of {', '.join(f'{one:g}' for one in hyper.choices)}{source}"
    if hyper.low is None:
        return source
    return f", {hyper.low:g} to {hyper.high:g}{' on a log scale' if hyper.log else ''}{source}"
