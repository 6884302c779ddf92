"""The authors and licences of the content of rows: the credits of a manifest, and ATTRIBUTION.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from shiftdata.data.format.front_matter import cell
from shiftdata.data.format.records import Credit

#: The most credits that a manifest lists: the file has all of them.
MOST_CREDITS = 50


def credited(pairs: Iterable[tuple[str, str]] | Mapping[tuple[str, str], int]) -> list[Credit]:
    """Return every credit, most rows first, from the (licence, attribution) of each row, or their counts."""
    counted = sorted(Counter(pairs).items(), key=lambda entry: (-entry[1], entry[0]))
    return [Credit(license=name, attribution=who, rows=rows) for (name, who), rows in counted]


def terms(everyone: Sequence[Credit]) -> dict[str, Any]:
    """Return the part of a manifest about licences; the licence of the whole joins those of all rows."""
    return {
        "license": " AND ".join(sorted({credit.license for credit in everyone})),
        "credits": everyone[:MOST_CREDITS],
        "more_credits": max(0, len(everyone) - MOST_CREDITS),
    }


def attribution_text(name: str, everyone: Sequence[Credit]) -> str:
    """Return the text of the file, from the credits of all rows of all bases, in any order."""
    ordered = sorted(everyone, key=lambda credit: (credit.license, -credit.rows, credit.attribution))
    parts = [f"# Attribution of {name}", INTRODUCTION]
    for license_, group in groupby(ordered, key=lambda credit: credit.license):
        parts += _section(license_, list(group))
    return "\n\n".join(parts) + "\n"


INTRODUCTION = (
    "Each row keeps the licence and the attribution of the content that it was made from, in its columns "
    "`license` and `attribution`. These are all of them, with the rows of all bases that carry them. "
    "README.md says what was done to the content. Whoever passes these files on, whole or in part, "
    "passes on the licences and attributions of the rows too."
)


def _section(license_: str, held: Sequence[Credit]) -> Iterator[str]:
    yield f"## {cell(license_)}"
    links = [f"<https://spdx.org/licenses/{name}.html>" for name in _listed_by_spdx(license_)]
    text = f"Text: {', '.join(links)}." if links else "SPDX has no text of it: ask those who are named here."
    yield f"{sum(credit.rows for credit in held):,} rows. {text}"
    rows = [f"| {cell(credit.attribution)} | {credit.rows:,} |" for credit in held]
    yield "\n".join(["| attribution | rows |", "|---|---|", *rows])


def _listed_by_spdx(license_: str) -> list[str]:
    """Return the parts of an expression that have a page at SPDX, each once."""
    names = [part for part in re.findall(r"[A-Za-z0-9.+-]+", license_) if part not in ("AND", "OR", "WITH")]
    return list(dict.fromkeys(name.rstrip("+") for name in names if not name.startswith("LicenseRef-")))
