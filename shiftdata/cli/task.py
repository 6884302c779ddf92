"""`shiftdata task`: the task that a protocol makes of a dataset, without reading a picture."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

import click

from shiftdata.cli.verbs import verb
from shiftdata.evaluation.protocols import Protocol, parse_protocol, protocols, task
from shiftdata.evaluation.tasks import OnEmpty, Task
from shiftdata.evaluation.tasks.rows import row_set

EMPTY = "A group that should have rows and has none: stop, or report it as n = 0."
on_empty_option = click.option(
    "--on-empty", type=click.Choice(get_args(OnEmpty)), default="error", help=EMPTY
)


@verb("""
    examples:
      shiftdata task                                               every protocol and its parameters
      shiftdata task sma_emoji                                     the canonical train, validation, test
      shiftdata task sma_emoji group-fairness k=8 mu=0.1
      shiftdata task sma_emoji group-fairness k=8 mu=0.1 --set test           keys of the test rows
      shiftdata task dom_emoji leave-one-domain-out test=noto --picture groups.png
      shiftdata task cns_emoji 'severity<=1.5' label-shift alpha=3 --freeze mine.parquet
      shiftdata task cns_emoji mine.parquet
      shiftdata task sma_emoji gf_k8_mu10                          a canonical split, as `info` lists them

    Protocols may follow each other in any order: sets are cut first, then rows are chosen, then drawn. A
    condition keeps rows by label, nuisance, severity, quantile or fold: 'severity<=1.5', style==amber,embers,
    'label!=bird'.
""")
@click.argument(
    "dataset", required=False, help="A name, owner/name, a folder or a URL; none lists the protocols."
)
@click.argument(
    "protocol",
    nargs=-1,
    metavar="[PROTOCOL [KEY=VALUE]...]...",
    help="Protocols with their parameters, and conditions; or a canonical split, or a file of --freeze.",
)
@click.option("--base", metavar="NAME", help="A base of `shiftdata info`. [default: the default base]")
@on_empty_option
@click.option("--set", "name", metavar="SET", help="Print the keys of this set; with --filters, its filters.")
@click.option("--filters", is_flag=True, help="Print `filters=` for pyarrow and `datasets`.")
@click.option("--freeze", metavar="FILE", help="Write the keys of every set as Parquet.")
@click.option("--picture", metavar="FILE", help="Draw the groups of every set.")
def command(
    dataset: str | None,
    protocol: tuple[str, ...],
    base: str | None,
    on_empty: OnEmpty,
    name: str | None,
    filters: bool,
    freeze: str | None,
    picture: str | None,
) -> None:
    """Make a task by a protocol, and print how many rows, origins and groups its sets have.

    A task is named sets of rows, checked for leaks. No picture is read.
    """
    if dataset is None:
        return _print_protocols()
    chosen = task(dataset, protocol_of(protocol), base=base, on_empty=on_empty)
    if filters:
        _print_filters(chosen, name)
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


def _print_filters(chosen: Task, name: str | None) -> None:
    for set_name in [name] if name else chosen.sets:
        rows = row_set(chosen, set_name)
        text = f"filters={rows.filters}" if rows.filters is not None else f"no filters: {rows.reason}"
        print(text if name else f"{set_name}: {text}")


def _print_protocols() -> None:
    for protocol in protocols():
        params = ", ".join(f"{name}={value}" for name, value in protocol.parameters().items())
        print(f"{protocol.id}@{protocol.version}  {protocol.about}\n    {params}\n    {protocol.paper}")
        for variant, text in protocol.variants.items():
            print(f"    @{variant}: {text}")
