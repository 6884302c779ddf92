"""Protocols as text: "group-fairness k=8 mu=0.1 severity<=1.5 label-shift alpha=3"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

from shiftdata.errors import InputError
from shiftdata.format.conditions import parse_condition
from shiftdata.protocols import Protocol, Where, protocol

_COMPARISON = re.compile(r"[<>]|[!=]=")


def parse_protocol(text: str | Sequence[str]) -> Protocol | None:
    """Compose the protocols that a text names, in its order; None if it names none.

    Each name is followed by its parameters; a condition (`severity<=1.5`, `style==leaves,rust`,
    `label!=dog`) may stand anywhere. One `=` is a parameter, so equality in a condition is `==`.

    >>> print(parse_protocol("group-fairness k=8 mu=0.1 severity<=1.5"))
    group-fairness@1(k=8, mu=0.1, seed=0) & (severity <= 1.5)
    """
    steps: list[Protocol | tuple[str, dict[str, Any]]] = []
    for word in text.split() if isinstance(text, str) else text:
        name, equals, value = word.partition("=")
        if _COMPARISON.search(word):
            steps.append(Where(*parse_condition(word)))
        elif not equals:
            steps.append((word, {}))
        elif steps and isinstance(steps[-1], tuple):
            steps[-1][1][name] = parse_value(value)
        else:
            raise InputError(
                f"{word} is a parameter without a protocol: name the protocol first "
                f"(a condition is written {name}=={value})"
            )
    made = [protocol(one[0], **one[1]) if isinstance(one, tuple) else one for one in steps]
    return reduce(and_, made) if made else None


def parse_value(text: str) -> Any:
    """Read the value of a parameter: a number, none, true, false, a name, or several with commas and colons.

    >>> [parse_value(text) for text in ("8", "0.1", "none", "photo,sketch", "dog:ink,cat:oil")]
    [8, 0.1, None, ('photo', 'sketch'), (('dog', 'ink'), ('cat', 'oil'))]
    """
    for separator in ",:":
        if separator in text:
            return tuple(parse_value(part) for part in text.split(separator) if part)
    constants = {"none": None, "true": True, "false": False}
    if text.lower() in constants:
        return constants[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
