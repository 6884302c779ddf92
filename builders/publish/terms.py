"""Whether the licences of a dataset let others have it."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from shiftdata.errors import InputError
from shiftdata.format.licenses import noncommercial, redistribution_problem, withheld

MOST_NAMES = 3


def refuse_withheld(name: str, rows: Mapping[tuple[str, str], int], allowed: Collection[str]) -> list[str]:
    """Refuse rows whose licence is not known to let others pass them on; give notes on those that do.

    `rows` counts the rows of each (licence, attribution); the licences in `allowed`, written exactly so, are
    published on the word of whoever names them.
    """
    held_back: dict[str, Counter[str]] = defaultdict(Counter)
    for (terms, who), count in rows.items():
        for identifier in withheld(terms, allowed):
            held_back[identifier][who] += count
    if held_back:
        raise InputError(_refusal(name, held_back))
    notes = []
    spared = sorted({it for terms, _ in rows for it in withheld(terms)} & set(allowed))
    if spared:
        notes.append(f"published on your word: {', '.join(spared)} (--allow-license)")
    sold = sum(count for (terms, _), count in rows.items() if noncommercial(terms))
    if sold:
        notes.append(f"{sold:,} rows may not be used commercially (NC); the card says so")
    return notes


def _refusal(name: str, held_back: Mapping[str, Counter[str]]) -> str:
    lines = [f"{name} is not published: not all of its licences are known to let others pass it on"]
    for identifier, of in sorted(held_back.items()):
        problem = redistribution_problem(identifier)
        lines.append(f"{problem}: {of.total():,} rows, of {_listed([who for who, _ in of.most_common()])}")
    flags = " ".join(f"--allow-license {shlex.quote(identifier)}" for identifier in sorted(held_back))
    lines.append(f"leave these rows out, or, if you have the right to publish them, add: {flags}")
    return "\n  ".join(lines)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return "; ".join(names[:MOST_NAMES]) + (f"; and {more:,} more" if more > 0 else "")
