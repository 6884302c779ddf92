"""`shiftdata task`: the task that a protocol makes of a dataset, without reading a picture."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

import click

from shiftdata.cli.verbs import format_option, verb
from shiftdata.evaluation.protocols import Protocol, parse_protocol, protocols, task
from shiftdata.evaluation.tasks import OnEmpty, Task
from shiftdata.extras import require

Function = TypeVar("Function", bound=Callable[..., Any])
PROTOCOL = "Protocols with their parameters, and conditions; or a canonical split, or a file of --freeze."
BASE = "A base of `shiftdata info`. [default: the default base, or as the task says]"
FEATURES = "With --shifts: also on features of a model, as in `predict`; auto is for the kind of examples."
EMPTY = "A group that should have rows and has none: stop, or report it as n = 0."


def task_options(function: Function) -> Function:
    """Add --base and --on-empty."""
    empty = click.option("--on-empty", type=click.Choice(get_args(OnEmpty)), default="error", help=EMPTY)
    return click.option("--base", metavar="NAME", help=BASE)(empty(function))


def task_arguments(required: bool, none: str = "") -> Callable[[Function], Function]:
    """Add the arguments DATASET and PROTOCOL..., --base and --on-empty; `none` is said of no dataset."""
    about = "A name such as sma_glyphs, owner/name, a folder, or a URL (https://, s3://, hf://)" + none
    dataset = click.argument("dataset", required=required, help=f"{about}.")
    protocol = click.argument("protocol", nargs=-1, metavar="[PROTOCOL [KEY=VALUE]...]...", help=PROTOCOL)
    return lambda function: dataset(protocol(task_options(function)))


def task_of(dataset: str, protocol: Sequence[str], options: dict[str, Any]) -> Task:
    """Make the task of `task_arguments`; what belongs to it is taken out of the other options."""
    given = {name: options.pop(name) for name in ("base", "on_empty")}
    return task(dataset, protocol_of(protocol), **given)


@verb("""
    examples:
      shiftdata task                                               every protocol and its parameters
      shiftdata task sma_glyphs                                    the canonical train, validation, test
      shiftdata task sma_glyphs group-fairness k=8 mu=0.1
      shiftdata task sma_glyphs group-fairness k=8 mu=0.1 --set test          keys of the test rows
      shiftdata task dom_glyphs leave-one-domain-out test=script --picture groups.png
      shiftdata task cns_glyphs 'severity<=1.5' label-shift alpha=3 --freeze mine.parquet
      shiftdata task cns_glyphs mine.parquet
      shiftdata task sma_glyphs gf_k8_mu10                         a canonical split, as `info` lists them
      shiftdata task dom_glyphs lodo_script --shifts --features auto      kinds of shift, and their sizes

    Protocols may follow each other in any order: sets are cut first, then rows are chosen, then drawn. A
    condition keeps rows by label, nuisance, severity, quantile or fold: 'severity<=1.5', style==amber,embers,
    'label!=bird'.
""")
@task_arguments(required=False, none="; none lists the protocols")
@click.option("--set", "name", metavar="SET", help="Print the keys of this set.")
@click.option("--freeze", metavar="FILE", help="Write the keys of every set as Parquet.")
@click.option("--picture", metavar="FILE", help="Draw the groups of every set.")
@click.option("--shifts", is_flag=True, help="Measure each kind of shift from training to test.")
@click.option("--features", metavar="MODEL", help=FEATURES)
@format_option("text", "markdown", "json")
def command(
    dataset: str | None,
    protocol: tuple[str, ...],
    name: str | None,
    freeze: str | None,
    picture: str | None,
    shifts: bool,
    features: str | None,
    form: str,
    **options: Any,
) -> None:
    """Make a task by a protocol, and print how many rows, origins and groups its sets have.

    A task is named sets of rows, checked for leaks. No picture is read, but by --features.
    """
    if dataset is None:
        return _print_protocols()
    chosen = task(dataset, protocol_of(protocol), **options)
    if shifts or features:
        _print_shifts(chosen, features, form)
    elif name:
        print("\n".join(chosen.keys(name)))
    else:
        print(chosen.report())
    if freeze:
        print(f"{freeze}: {chosen.freeze(freeze)}")
    if picture:
        chosen.report().picture().save(picture)
    return None


def protocol_of(words: Sequence[str]) -> Protocol | str | None:
    """Read protocols from words, or the name of a canonical split or a frozen file."""
    named = len(words) == 1 and (words[0].endswith(".parquet") or re.fullmatch(r"[\w@*-]+", words[0]))
    return words[0] if named else parse_protocol(words)


def _print_shifts(task: Task, model: str | None, form: str) -> None:
    from shiftdata.evaluation.meters import measure_shifts

    features = None
    if model:
        require("torch", "features")
        from shiftdata.baselines.sets import features_for

        features = features_for(task.metadata, "" if model == "auto" else model)
    shifts = measure_shifts(task, features=features)
    if form == "json":
        print(json.dumps(shifts.to_dict(), indent=1))
    else:
        print(shifts.to_markdown() if form == "markdown" else shifts)


def _print_protocols() -> None:
    for protocol in protocols():
        params = ", ".join(f"{name}={value}" for name, value in protocol.parameters().items())
        print(f"{protocol.id}@{protocol.version}  {protocol.about}\n    {params}\n    {protocol.paper}")
        for variant, text in protocol.variants.items():
            print(f"    @{variant}: {text}")
