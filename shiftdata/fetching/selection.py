"""Which rows of a dataset a part holds: a config, splits, and conditions on columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.errors import InputError, not_found
from shiftdata.format.manifest import Config, Manifest, Part
from shiftdata.format.schema import SPLITS, columns
from shiftdata.protocols import rows_matching

#: What a caller gives: values by column, or conditions in words such as "severity<=1.5".
Select: TypeAlias = Mapping[str, Any] | Sequence[str]

CONDITION = re.compile(r"\s*([\w.-]+)\s*(<=|>=|==|=|<|>)\s*(.*?)\s*")
#: Columns that can be compared with numbers.
NUMBERS = ("severity", "quantile", "fold")


@dataclass(frozen=True)
class Selection:
    """Rows of a base: of a canonical split if `config` is one, in some splits, under conditions."""

    base: str
    config: Config | None
    splits: tuple[str, ...]
    conditions: tuple[tuple[str, str, Any], ...]

    @property
    def name(self) -> str:
        """The config that was asked for."""
        return self.config.name if self.config else self.base

    def is_whole(self, manifest: Manifest) -> bool:
        """Whether nothing is left out."""
        every = manifest.base(self.base).splits
        plain = self.config is None and not self.conditions and len(self.splits) == len(every)
        return plain and len(manifest.bases) == 1

    def record(self, digest: str, manifest: Manifest) -> Part:
        """What the manifest of the part says of it."""
        return Part(
            manifest=digest,
            content_id=manifest.content_id,
            config=self.name,
            splits=list(self.splits),
            conditions=list(self.conditions),
        )

    def rows(self, table: pa.Table) -> NDArray[np.int64]:
        """The rows of a split's metadata that are chosen, in their order."""
        numbered = table.append_column("number of row", pa.array(np.arange(len(table))))
        if self.config is not None:
            numbered = rows_matching(numbered, self.config.filters)
        if self.conditions:
            numbered = rows_matching(numbered, [list(self.conditions)])
        found: NDArray[np.int64] = numbered["number of row"].to_numpy()
        return found


def selection_of(
    manifest: Manifest, config: str | None, select: Select | None, split: str | Sequence[str] | None
) -> Selection:
    """The rows that were asked for; an unknown name is answered with the nearest ones."""
    if manifest.face == "webdataset":
        raise InputError(
            f"{manifest.name} holds tars, of which there are no parts: fetch a part of its Parquet face"
        )
    if manifest.part is not None:
        raise InputError(f"{manifest.name} is a part itself there: fetch the part from the whole")
    names = [base.name for base in manifest.bases] + [one.name for one in manifest.configs]
    wanted = config or manifest.default_base
    if wanted not in names:
        raise not_found("config", wanted, names, f"See `shiftdata info {manifest.name}`.")
    canonical = manifest.config(wanted)
    if canonical and not canonical.filters:
        raise InputError(f"{wanted} is frozen as keys, without filters: fetch its base, {canonical.base}")
    base = canonical.base if canonical else wanted
    held = [name for name in SPLITS if name in manifest.splits_of(wanted)]
    splits = [split] if isinstance(split, str) else list(split) if split is not None else held
    for one in splits:
        if one not in held:
            raise not_found("split", one, held, f"It was asked of {wanted}.")
    conditions = {_condition(manifest, *one) for one in parsed(select or ())}
    ordered = sorted(conditions, key=lambda one: (one[0], one[1], str(one[2])))
    return Selection(
        base,
        canonical,
        tuple(name for name in held if name in splits),
        tuple(
            (name, operator, list(value) if operator == "in" else value) for name, operator, value in ordered
        ),
    )


def parsed(select: Select) -> list[tuple[str, str, list[Any]]]:
    """A selection as (column, operator, values).

    >>> parsed(["style=leaves,rust", "severity <= 1.5"])
    [('style', '=', ['leaves', 'rust']), ('severity', '<=', ['1.5'])]
    >>> parsed({"style": "cloud", "label": ["bird", "dog"]})
    [('style', '=', ['cloud']), ('label', '=', ['bird', 'dog'])]
    """
    if isinstance(select, Mapping):
        return [
            (name, "=", list(value) if isinstance(value, list | tuple | set | frozenset) else [value])
            for name, value in select.items()
        ]
    found = []
    for text in [select] if isinstance(select, str) else select:
        match = CONDITION.fullmatch(text)
        if not match or not match[3]:
            raise InputError(f"{text!r} selects nothing: write COLUMN=VALUE,VALUE or severity<=NUMBER")
        operator = "=" if match[2] == "==" else match[2]
        found.append((match[1], operator, [one.strip() for one in match[3].split(",") if one.strip()]))
    return found


def _condition(manifest: Manifest, name: str, operator: str, values: list[Any]) -> tuple[str, str, Any]:
    """One condition as filters write it: categories by number, sorted, so that equal parts are equal."""
    nuisance = manifest.roles.nuisance
    name = nuisance if name == "nuisance" else name
    named = {"label": manifest.labels, nuisance: manifest.nuisances}
    allowed = [*named, *NUMBERS, "key", "origin", "license", "attribution"]
    if name not in allowed:
        hint = "Splits are chosen by --split." if name in columns(nuisance) else ""
        raise not_found("column", name, allowed, hint)
    if not values:
        raise InputError(f"{name} is given no value")
    if operator != "=" and (name not in NUMBERS or len(values) != 1):
        raise InputError(f"{name}{operator}: only {', '.join(NUMBERS)} are compared, each with one number")
    if name in named:
        return name, "in", tuple(sorted({_number(name, value, named[name]) for value in values}))
    if name in NUMBERS:
        numbers = sorted({_float(name, value) for value in values})
        return (name, "in", tuple(numbers)) if operator == "=" else (name, operator, numbers[0])
    return name, "in", tuple(sorted({str(value) for value in values}))


def _number(name: str, value: Any, known: Sequence[str]) -> int:
    """The number of a label or nuisance, by its name or number; `_`, `-`, spaces and case do not count."""
    plain = {_plain(one): number for number, one in enumerate(known)}
    if _plain(str(value)) in plain:
        return plain[_plain(str(value))]
    if str(value).isdigit() and int(value) < len(known):
        return int(value)
    raise not_found(name, str(value), known)


def _plain(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")


def _float(name: str, value: Any) -> float | int:
    try:
        return int(value) if name == "fold" else float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is compared with numbers, and {value!r} is none") from error
