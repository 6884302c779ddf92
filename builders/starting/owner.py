"""Ask the owner of the data on a terminal for what flags do not give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from builders.terms import check_license, spdx_problem
from shiftdata.data.format.names import line_fault

#: The flags that nobody can guess: what they mean, and an example.
NEEDED = {
    "license": ("the licence of the content, as SPDX writes it (spdx.org/licenses)", "CC-BY-4.0"),
    "attribution": ("whom to credit for the content", "Jane Doe, University of Somewhere"),
    "creator": ("who makes the dataset", "Jane Doe"),
}


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The answers."""

    license: str
    attribution: str
    creators: tuple[str, ...]


def ask_owner(flags: Mapping[str, Any]) -> Owner:
    """Take the answers from flags, and ask for the others of `NEEDED` on the terminal."""
    answers = {flag: flags[flag] or _asked(flag, *question) for flag, question in NEEDED.items()}
    check_license(answers["license"], "--license")
    creators = answers["creator"]
    return Owner(
        license=answers["license"],
        attribution=answers["attribution"],
        creators=(creators,) if isinstance(creators, str) else tuple(creators),
    )


def _asked(flag: str, meaning: str, example: str) -> str:
    while True:
        answer = str(click.prompt(f"{meaning[0].upper()}{meaning[1:]}, such as {example}", err=True)).strip()
        problem = line_fault(answer) or (spdx_problem(answer) if flag == "license" else None)
        if not problem:
            return answer
        click.echo(problem, err=True)
