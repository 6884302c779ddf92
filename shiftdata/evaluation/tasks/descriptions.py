"""Read the description of a task: what `Task.describe` wrote, as records keep it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_STEP = re.compile(r"([a-z][a-z0-9*-]*)@\d+\((.*)\)", re.DOTALL)


@lru_cache(maxsize=4096)
def steps_of(task: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """The protocols in the description of a task, each with its parameters; a condition is its text.

    >>> steps_of("uda@1(source='a & b', target='c', seed=0) & (severity <= 1.0)")
    (('uda', {'source': 'a & b', 'target': 'c', 'seed': 0}), ('(severity <= 1.0)', {}))
    """
    # Names may have signs of their own: a step begins with a protocol, a condition or what was added.
    steps = re.split(r" & (?=[a-z][a-z0-9*-]*@\d+\(|\(|\S+ also )", task)
    return tuple(
        (match[1], _parameters(match[2])) if (match := _STEP.fullmatch(step)) else (step, {})
        for step in steps
    )


def _parameters(text: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        return {str(of.arg): ast.literal_eval(of.value) for of in call.keywords}
    except (SyntaxError, ValueError, AssertionError):
        return {}  # a description that no protocol wrote


def parameters_of(task: str) -> Mapping[str, Any]:
    """The parameters of all its protocols; the first to name one says what it is."""
    return {key: value for _, params in reversed(steps_of(task)) for key, value in params.items()}
