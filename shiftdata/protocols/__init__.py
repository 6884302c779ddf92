"""Protocols: named, versioned rules from a dataset's metadata to a task.

>>> from shiftdata.protocols import severity
>>> print(protocol("group-fairness", k=8, mu=0.1) & (severity <= 1.5))
group-fairness@1(k=8, mu=0.1, seed=0) & (severity <= 1.5)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from shiftdata.errors import InputError, not_found
from shiftdata.protocols.adaptation import SCENARIOS, UDA, UniDA
from shiftdata.protocols.base import Chain, Protocol, Where, severity
from shiftdata.protocols.continuous import Continuous
from shiftdata.protocols.domains import (
    ClassicDG,
    DomainBed,
    HoldOut,
    LeaveOneDomainOut,
    LeaveOneGroupOut,
    Oracle,
    OracleStar,
)
from shiftdata.protocols.flexible import FlexibleDG
from shiftdata.protocols.group_fairness import GroupFairness, GroupFairnessWith
from shiftdata.protocols.label_shift import LabelShift

__all__ = [
    "SCENARIOS",
    "UDA",
    "Chain",
    "ClassicDG",
    "Continuous",
    "DomainBed",
    "FlexibleDG",
    "GroupFairness",
    "GroupFairnessWith",
    "HoldOut",
    "LabelShift",
    "LeaveOneDomainOut",
    "LeaveOneGroupOut",
    "Oracle",
    "OracleStar",
    "Protocol",
    "ProtocolInfo",
    "UniDA",
    "Where",
    "protocol",
    "protocols",
    "severity",
]

_ALL: tuple[type[Protocol], ...] = (
    ClassicDG,
    Continuous,
    DomainBed,
    FlexibleDG,
    GroupFairnessWith,
    HoldOut,
    LabelShift,
    LeaveOneDomainOut,
    LeaveOneGroupOut,
    Oracle,
    OracleStar,
    UDA,
    UniDA,
)
_BY_NAME: Mapping[str, type[Protocol]] = {kind.id: kind for kind in _ALL}

#: What stands for the default of a parameter that must be given.
REQUIRED = "(required)"


@dataclass(frozen=True, kw_only=True)
class ProtocolInfo:
    """One protocol of the registry: its parameters with their defaults, its variants, its paper."""

    name: str
    version: int
    params: Mapping[str, Any]
    variants: Mapping[str, str]
    paper: str
    about: str


def protocols() -> list[ProtocolInfo]:
    """Every protocol that `protocol` makes, by name."""
    return [
        ProtocolInfo(
            name=name,
            version=kind.version,
            params=_params(kind),
            variants=kind.variants,
            paper=kind.paper,
            about=kind.about,
        )
        for name, kind in sorted(_BY_NAME.items())
    ]


def protocol(name: str, **params: Any) -> Protocol:
    """Make a protocol by name: `uda`, with its version `uda@1`, or with a variant `uda@paired`.

    >>> protocol("group-fairness@code", k=4, mu=0.1).minority
    0.1
    """
    short, _, after = name.partition("@")
    if short not in _BY_NAME:
        raise not_found("protocol", short, _BY_NAME)
    kind = _BY_NAME[short]
    if after:
        params |= _after_at(kind, after, params.get("variant", ""))
    known = _params(kind)
    for param in params:
        if param not in known:
            raise not_found(f"parameter of {short}", param, known)
    missing = [param for param, value in known.items() if value is REQUIRED and param not in params]
    if missing:
        raise InputError(f"{short} needs {', '.join(missing)}")
    if kind is GroupFairnessWith and not any(params.get(one) for one in ("nu", "dominant", "variant")):
        kind = GroupFairness
        params = {name: value for name, value in params.items() if name in ("k", "mu", "seed")}
    try:
        return kind(**params)
    except TypeError as error:
        raise InputError(f"{short} cannot take {params}: {error}") from error


def _after_at(kind: type[Protocol], after: str, given: str) -> dict[str, str]:
    """The parameters that stand after the @ of a name: none for a version, else a variant."""
    if after.isdigit():
        if int(after) != kind.version:
            raise InputError(f"{kind.id} has version {kind.version} here, and {after} was asked for")
        return {}
    if not kind.variants:
        raise InputError(f"{kind.id} has no variants, and {after!r} was asked for")
    if given not in ("", after):
        raise InputError(f"{kind.id}@{after} and variant={given!r} disagree: give one of them")
    return {"variant": after}


def _params(kind: type[Protocol]) -> dict[str, Any]:
    told = [one for one in fields(kind) if one.name != "name"]  # type: ignore[arg-type]
    return {one.name: REQUIRED if one.default is MISSING else one.default for one in told}
