"""`shiftdata train`: a reference method on a task."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from shiftdata.cli.task import task_arguments, task_of
from shiftdata.cli.verbs import GOES_ON, device_option, format_option, quiet_option, verb
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import Task
from shiftdata.extras import require


def result_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --device, --folder, --format and --quiet."""
    folder = click.option("--folder", metavar="FOLDER", help="Save the result here.")
    return device_option(folder(format_option("text", "markdown", "json")(quiet_option(function))))


@verb(
    """
    examples:
      shiftdata train                                              list the methods with their numbers
      shiftdata train sma_glyphs group-fairness k=8 mu=0.05
      shiftdata train sma_glyphs gf_k8_mu5 --method group-dro --set eta=0.01 --seed 1
      shiftdata train sma_glyphs gf_k8_mu5 --method subg --backbone linear     on frozen features
      shiftdata train sma_glyphs gf_k8_mu5 --encoder timm:resnet50.a1_in1k --backbone linear
      shiftdata train dom_glyphs uda source=serif target=script --method dann --folder runs/dann
      shiftdata train dom_glyphs uda source=serif target=script --method rs+rw+dann --format json

    With --folder the run is saved: run.json, predictions, model.pt; a stopped one goes on there.
    On several GPUs: torchrun --nproc-per-node 4 -m shiftdata train ... --device cuda
    Needs torch; frozen features need EfficientNet-Lite0: pip install 'shiftdata[baselines]'.
    """,
    interrupted=GOES_ON + " if it has a --folder",
)
@task_arguments(required=False, none="; none lists the methods")
@click.option("--method", default="erm", metavar="NAME", help="Wrappers go before it: rs+rw+dann.")
@click.option("--variant", default="fixed", help="fixed, or paper or code where a method has them.")
@click.option("--set", "hyper", multiple=True, metavar="NAME=VALUE", help="A hyper-parameter of the method.")
@click.option("--backbone", metavar="NAME", help="The network. [default: a small one, from scratch]")
@click.option("--encoder", metavar="MODEL", help="A trained model whose features linear reads: see predict.")
@click.option("--seed", default=0, help="Of weights, order and draws.")
@click.option("--steps", type=click.IntRange(1), help="[default: 800]")
@click.option("--batch", type=click.IntRange(1), help="Rows of a step.  [default: 64]")
@click.option("--rate", "learning_rate", type=float, help="The peak learning rate.  [default: 0.01]")
@click.option("--decay", "weight_decay", type=float, help="The weight decay.  [default: 0.05]")
@click.option("--evaluate-every", type=click.IntRange(1), metavar="STEPS", help="Predict the validation set.")
@result_options
def command(
    dataset: str | None,
    protocol: tuple[str, ...],
    hyper: tuple[str, ...],
    method: str,
    device: str,
    folder: str | None,
    form: str,
    quiet: bool,
    **settings: Any,
) -> None:
    """Train a reference method on a task, and print the official metrics of its test set."""
    require("torch", "training")
    from shiftdata.baselines import Training, train

    if dataset is None:
        return _print_methods()
    names = ("variant", "backbone", "encoder", "seed")
    options = {name: settings.pop(name) for name in names} | values_of("--set", hyper, "eta=0.1")
    chosen = task_of(dataset, protocol, settings)
    training = Training(**{name: value for name, value in settings.items() if value is not None})
    with processes(device) as first:
        options |= unseen(quiet)
        run = train(chosen, method, training=training, device=device, folder=folder, **options)
    if first:
        about = run.about
        print_result(run, form, folder, f"{about['method']} ({about['variant']}), {about['seconds']:.0f} s")
    return None


def unseen(quiet: bool) -> dict[str, Any]:
    """Return the listener with which a job shows no bar, if that is asked for."""
    return {"on_rows": int} if quiet else {}


def values_of(
    option: str, words: Sequence[str], example: str, read: Callable[[str], Any] = float
) -> dict[str, Any]:
    """Read the words NAME=VALUE of an option, by default numbers."""
    try:
        pairs = [word.split("=", 1) for word in words]
        return {name.replace("-", "_"): read(value) for name, value in pairs}
    except ValueError:
        raise InputError(f"{option} {' '.join(words)}: give NAME=VALUE, such as {example}") from None


@contextmanager
def processes(device: str) -> Iterator[bool]:
    """Under torchrun, join the other processes; yield True in the one that prints."""
    import torch

    if "WORLD_SIZE" not in os.environ:
        yield True
        return
    torch.distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    yield torch.distributed.get_rank() == 0
    torch.distributed.destroy_process_group()


def print_result(result: Any, form: str, folder: str | None, last: str) -> None:
    """Print the official metrics of a run or a prediction on its test sets; `last` ends the text."""
    tests = {name: result.evaluate(name) for name in _tests(result.task)}
    if form == "json":
        judged = {name: test.to_dict() for name, test in tests.items()}
        print(json.dumps({"run": dict(result.about), "tests": judged}, indent=1))
        return
    for test in tests.values():
        print(test.to_markdown() if form == "markdown" else test)
    if form == "text":
        print(last)
    if folder:
        print(f"saved in {folder}")


def _tests(task: Task) -> list[str]:
    """Return the test set, or all test sets of a task that is cut into cells."""
    try:
        return [task.set_of("test")]
    except InputError:
        return [name for name, rows in task.sets.items() if rows.role == "test"]


def _print_methods() -> None:
    from shiftdata.baselines import METHODS, Wrapper, method_class
    from shiftdata.baselines.models import BACKBONES

    for name in METHODS:
        kind = method_class(name)
        print_algorithm(f"{name}{'+' if issubclass(kind, Wrapper) else ''}", kind)
    print("\nbackbones:", *(f"    {name:<20}{about.summary}" for name, about in BACKBONES.items()), sep="\n")


def print_algorithm(name: str, kind: Any) -> None:
    """Print what a method or an adapter is, what it needs, its hyper-parameters and variants."""
    print(f"{name}\n    {(kind.__doc__ or '').splitlines()[0]}")
    if kind.needs:
        print(f"    needs {', '.join(sorted(kind.needs))}")
    for key, hyper in kind.space().items():
        print(f"    {key}={hyper.default:g}{hyper.range} ({hyper.source})")
    if len(kind.variants) > 1:
        print(f"    variants: {', '.join(kind.variants)}")
