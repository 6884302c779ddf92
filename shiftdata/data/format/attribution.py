"""The authors and licences of the content of rows: the credits of a manifest, and ATTRIBUTION.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from shiftdata.data.format.front_matter import cell
from shiftdata.data.format.licenses import conjuncts, content_license
from shiftdata.data.format.records import Credit, Material

if TYPE_CHECKING:
    import pyarrow as pa

    from shiftdata.data.format.manifest import Manifest

#: The licence, the attribution and the nuisance of rows; no nuisance: untouched.
Terms: TypeAlias = tuple[str | None, str | None, str | None]
#: The most credits that a manifest lists: the file has all of them.
MOST_CREDITS = 50


def credited(pairs: Iterable[tuple[str, str]] | Mapping[tuple[str, str], int]) -> list[Credit]:
    """Return every credit, most rows first, from the (licence, attribution) of each row, or their counts."""
    counted = sorted(Counter(pairs).items(), key=lambda entry: (-entry[1], entry[0]))
    return [Credit(license=name, attribution=who, rows=rows) for (name, who), rows in counted]


def terms_of(rows: pa.Table, manifest: Manifest) -> Counter[Terms]:
    """Count rows of metadata by their terms; the number of an unknown nuisance counts as none."""
    nuisance, names = manifest.roles.nuisance, dict(enumerate(manifest.nuisances))
    counted = Counter[Terms]()
    for row in rows.group_by(["license", "attribution", nuisance]).aggregate([([], "count_all")]).to_pylist():
        counted[row["license"], row["attribution"], names.get(row[nuisance])] += row["count_all"]
    return counted


def added(materials: Sequence[Material], nuisance: str | None) -> list[str]:
    """Return the licences that the works behind a nuisance add to that of the content."""
    return [name for work in materials if nuisance in work.nuisances for name in work.adds]


def credits_of(
    rows: Mapping[Terms, int], materials: Sequence[Material]
) -> tuple[list[Credit], list[Material]]:
    """Return the credits of the content of rows, and the works behind their nuisances."""
    counted = Counter[tuple[str, str]]()
    here = {nuisance: added(materials, nuisance) for _, _, nuisance in rows}
    for (license_, who, nuisance), count in rows.items():
        counted[content_license(license_ or "", here[nuisance]), who or ""] += count
    cut = (replace(work, nuisances=[name for name in work.nuisances if name in here]) for work in materials)
    return credited(counted), [work for work in cut if work.nuisances]


def terms(everyone: Sequence[Credit], materials: Sequence[Material], compilation: str) -> dict[str, Any]:
    """Return the part of a manifest about licences; the licence of the whole joins those of all rows."""
    texts = [*(credit.license for credit in everyone), *([compilation] if compilation else [])]
    names = {name for text in texts for name in conjuncts(text)}.union(*(work.adds for work in materials))
    return {
        "license": " AND ".join(sorted(names)),
        "credits": everyone[:MOST_CREDITS],
        "more_credits": max(0, len(everyone) - MOST_CREDITS),
        "materials": list(materials),
        "compilation": compilation,
    }


def attribution_text(manifest: Manifest, everyone: Sequence[Credit], materials: Sequence[Material]) -> str:
    """Return the text of the file, from the credits of all rows of all bases, in any order."""
    ordered = sorted(everyone, key=lambda credit: (credit.license, -credit.rows, credit.attribution))
    parts = [f"# Attribution of {manifest.name}", INTRODUCTION, "## Content"]
    for license_, group in groupby(ordered, key=lambda credit: credit.license):
        parts += _section(license_, list(group))
    for kind, about in MADE_WITH.items():
        if works := [work for work in materials if work.kind == kind]:
            parts += [f"## {kind.capitalize()}s", about, "\n".join(_table(works))]
    own = f"Selection and arrangement: {cell(manifest.compilation)}. " if manifest.compilation else ""
    return "\n\n".join([*parts, "## The whole", f"{own}The licences of all parts apply."]) + "\n"


INTRODUCTION = (
    "The column `license` of a row joins the licences of all that shows in it: that of its content first, "
    "then those that the pictures behind its nuisance add. `attribution` names the authors of the content. "
    "README.md says what was done to it. Whoever passes these files on, whole or in part, passes on the "
    "licences and attributions below that belong to them."
)
MADE_WITH = {
    "picture": "They show in the examples. One in the public domain adds no licence to a row.",
    "tool": "They made examples and do not show in them: only a licence that restricts output is the row's.",
}


def _section(license_: str, held: Sequence[Credit]) -> Iterator[str]:
    yield f"### {cell(license_)}"
    yield f"{sum(credit.rows for credit in held):,} rows of all bases. {_text(license_)}"
    rows = [f"| {cell(credit.attribution)} | {credit.rows:,} |" for credit in held]
    yield "\n".join(["| attribution | rows |", "|---|---|", *rows])


def _table(works: Sequence[Material]) -> Iterator[str]:
    yield "| name | licence | attribution | how it was made | behind | sha256 | text |\n" + "|---" * 7 + "|"
    for work in works:
        about = [work.name, work.license, work.attribution, work.how, ", ".join(work.nuisances)]
        yield f"| {' | '.join(map(cell, [*about, ' '.join(work.sha256)]))} | {_text(work.license)} |"


def _text(license_: str) -> str:
    links = [f"<https://spdx.org/licenses/{name}.html>" for name in _listed_by_spdx(license_)]
    return f"Text: {', '.join(links)}." if links else "SPDX has no text of it: ask those who are named here."


def _listed_by_spdx(license_: str) -> list[str]:
    """Return the parts of an expression that have a page at SPDX, each once."""
    names = [part for part in re.findall(r"[A-Za-z0-9.+-]+", license_) if part not in ("AND", "OR", "WITH")]
    return list(dict.fromkeys(name.rstrip("+") for name in names if not name.startswith("LicenseRef-")))
