"""`shiftdata task`: what a protocol makes of a dataset, without reading a picture."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftdata.protocols import Protocol
    from shiftdata.tasks.core import Task


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser("task", help="make a task by a protocol: its report, keys, filters, frozen file")
    verb.add_argument(
        "dataset", nargs="?", help="a name, shift/<name>, a folder, a URL; none: list the protocols"
    )
    verb.add_argument(
        "protocol",
        nargs="*",
        metavar="PROTOCOL [key=value ...]",
        help="a protocol and its parameters (k=8 test=photo,sketch), then others to compose with it, also "
        "conditions such as 'severity<=1.5'; or a frozen file (default: the canonical split)",
    )
    verb.add_argument("--base", help="the dataset's base (default: its default base)")
    verb.add_argument("--on-empty", default="error", choices=["error", "report"], help="a group without rows")
    verb.add_argument("--set", dest="name", help="print the keys of this set; with --filters, its filters")
    verb.add_argument("--filters", action="store_true", help="print `filters=` for pyarrow and datasets")
    verb.add_argument("--freeze", metavar="FILE", help="write keys, sets and counts as Parquet")
    verb.add_argument("--picture", metavar="FILE", help="draw the groups of each set")
    verb.set_defaults(run=run_task)


def run_task(options: argparse.Namespace) -> int:
    """Make the task and print what was asked for."""
    if options.dataset is None:
        return _print_protocols()
    from shiftdata.tasks import task

    made = task(options.dataset, composed(options.protocol), base=options.base, on_empty=options.on_empty)
    if options.filters:
        _print_filters(made, options.name)
    elif options.name:
        print("\n".join(made.keys(options.name)))
    else:
        print(made.report())
    if options.freeze:
        print(f"{options.freeze}: {made.freeze(options.freeze)}")
    if options.picture:
        made.picture().save(options.picture)
    return 0


def composed(words: Sequence[str]) -> Protocol | str | None:
    """The protocol that some words say, or the frozen file that they name."""
    from shiftdata.protocols.parse import parse_protocol

    return words[0] if len(words) == 1 and words[0].endswith(".parquet") else parse_protocol(words)


def _print_filters(made: Task, name: str | None) -> None:
    if name is not None:
        made.keys(name)  # an unknown name is answered here, with the nearest ones
    for one, filters in made.filters().items():
        if name in (None, one):
            told = f"filters={filters}" if filters is not None else f"no filters: {made.sets[one].reason}"
            print(told if name else f"{one}: {told}")


def _print_protocols() -> int:
    from shiftdata.protocols import protocols

    for one in protocols():
        params = ", ".join(f"{name}={value}" for name, value in one.params.items())
        print(f"{one.name}@{one.version}  {one.about}\n    {params}\n    {one.paper}")
        for variant, text in one.variants.items():
            print(f"    @{variant}: {text}")
    return 0
