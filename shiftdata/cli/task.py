"""`shiftdata task`: what a protocol makes of a dataset, without reading a picture."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from shiftdata.errors import InputError

if TYPE_CHECKING:
    from shiftdata.protocols import Protocol
    from shiftdata.tasks.core import Task

CONDITION = re.compile(r"severity\s*(<=|>=|==|<|>)\s*([0-9.]+)")


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
    """The protocol that some words say: names with their parameters, and conditions, composed in order.

    >>> print(composed(["group-fairness", "k=8", "mu=0.1", "severity<=1.5"]))
    group-fairness@1(k=8, mu=0.1, seed=0) & (severity <= 1.5)
    """
    from shiftdata.protocols import protocol
    from shiftdata.protocols.base import Where

    if len(words) == 1 and words[0].endswith(".parquet"):
        return words[0]
    steps: list[Protocol | tuple[str, dict[str, Any]]] = []
    for word in words:
        condition = CONDITION.fullmatch(word)
        if condition:
            steps.append(Where("severity", condition[1], float(condition[2])))
        elif "=" not in word:
            steps.append((word, {}))
        elif steps and isinstance(steps[-1], tuple):
            name, value = _pair(word)
            steps[-1][1][name] = value
        else:
            raise InputError(f"{word} is no parameter of a protocol: name the protocol first")
    made = [protocol(one[0], **one[1]) if isinstance(one, tuple) else one for one in steps]
    return reduce(and_, made) if made else None


def value_of(text: str) -> Any:
    """What a parameter's text says: a number, none, true, false, a name, or several with commas and colons.

    >>> [value_of(text) for text in ("8", "0.1", "none", "photo,sketch", "dog:ink,cat:oil")]
    [8, 0.1, None, ('photo', 'sketch'), (('dog', 'ink'), ('cat', 'oil'))]
    """
    for separator in ",:":
        if separator in text:
            return tuple(value_of(part) for part in text.split(separator) if part)
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"a parameter is written key=value, got {text!r}")
    return name, value_of(value)


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
