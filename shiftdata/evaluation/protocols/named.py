"""Protocols by name and from text, and `sd.task`: from a dataset and a protocol to a task."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

from shiftdata.data.dataset import DatasetName, open_dataset
from shiftdata.data.format.conditions import parse_condition
from shiftdata.data.format.paths import protocol_file
from shiftdata.data.format.records import CanonicalSplit
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.protocols.adaptation import UDA, UniDA
from shiftdata.evaluation.protocols.authors import Official, Wilds
from shiftdata.evaluation.protocols.base import REQUIRED, Chain, Protocol, Where
from shiftdata.evaluation.protocols.continuous import Continuous
from shiftdata.evaluation.protocols.domains import (
    ClassicDG,
    DomainBed,
    EvaluateOnly,
    HoldOut,
    LeaveOneDomainOut,
    LeaveOneGroupOut,
    Listed,
)
from shiftdata.evaluation.protocols.flexible import FlexibleDG
from shiftdata.evaluation.protocols.group_fairness import GroupFairness
from shiftdata.evaluation.protocols.label_shift import LabelShift
from shiftdata.evaluation.protocols.oracle import Oracle, OracleStar
from shiftdata.evaluation.protocols.stream import Stream
from shiftdata.evaluation.tasks import OnEmpty, Task
from shiftdata.evaluation.tasks.task import canonical_task, frozen_task, task_in_tars

#: Another protocol is another entry.
_ALL: tuple[type[Protocol], ...] = (
    *(ClassicDG, DomainBed, HoldOut, LeaveOneDomainOut, LeaveOneGroupOut, Oracle, OracleStar, Listed),
    *(Continuous, EvaluateOnly, FlexibleDG, GroupFairness, LabelShift, Official, Stream, UDA, UniDA, Wilds),
)
_BY_NAME: Mapping[str, type[Protocol]] = {protocol.id: protocol for protocol in _ALL}

_COMPARISON = re.compile(r"[<>]|[!=]=")


def task(
    dataset: DatasetName | Metadata,
    of: str | Protocol | None = None,
    *,
    base: str | None = None,
    on_empty: OnEmpty = "error",
    **params: Any,
) -> Task:
    """Make a task from a dataset by a protocol.

    Args:
        dataset: a name, `shift/<name>`, a folder, a URL, an opened dataset, or metadata.
        of: a protocol, or in words "group-fairness k=8 mu=0.1 severity<=1.5", as on the command line; the
            name of a canonical split, or a .parquet file that `freeze` wrote; None is the split of the
            dataset's authors where it has one, else the canonical train, validation and test.
        base: the dataset's base; default: its default base.
        on_empty: what to do about a promised group without rows: an "error", or n = 0 in the "report".
        params: of the named protocol, see `shiftdata.evaluation.protocols.protocols()`.

    """
    frozen = isinstance(of, str) and of.endswith(".parquet")
    if params and (frozen or not isinstance(of, str)):
        raise InputError(f"{', '.join(params)}: parameters go with the name of a protocol, not an object")
    if isinstance(dataset, Metadata) and base is not None:
        raise InputError(f"base={base!r} goes with the name of a dataset; metadata is of one base")
    metadata, of = _chosen(dataset, of, base, named=bool(params))
    if metadata.task is not None:
        if of is not None:
            raise InputError(
                f"{metadata.name} has the rows of a task, chosen already, and {of} would choose others: "
                "leave it out, or name a whole base"
            )
        return task_in_tars(metadata, _metrics(metadata.task.protocol))
    if isinstance(of, str):
        if frozen:
            return frozen_task(metadata, Path(of))
        split = _canonical_split(metadata, lambda split: split.name == of)
        if split is not None and not params and of not in _BY_NAME:
            return published(metadata, split)
        of = protocol(of, **params) if params else parse_protocol(of)
    if of is None:
        split = metadata.dataset.manifest.authors_split if metadata.dataset else None
        has_rows = split is not None and split.base == metadata.base
        return published(metadata, split) if split and has_rows else canonical_task(metadata)
    words = of.words()
    split = _canonical_split(metadata, lambda split: split.protocol == words)
    manifest = metadata.dataset.manifest if metadata.dataset is not None else None
    if split is not None and manifest is not None and (manifest.part or manifest.hidden):
        return published(metadata, split)  # of the whole's rows: a share of the part's would be another
    return of(canonical_task(metadata), on_empty=on_empty)


def _chosen(
    dataset: DatasetName | Metadata, of: str | Protocol | None, base: str | None, *, named: bool
) -> tuple[Metadata, str | Protocol | None]:
    """Return the metadata and the protocol; a task that tars contain is a base of its own."""
    if isinstance(dataset, Metadata):
        return dataset, of
    opened = open_dataset(dataset)
    tasks = [base.name for base in opened.manifest.bases if base.task is not None]
    if base is None and not named and of in tasks:
        return read_metadata(opened, str(of)), None
    return read_metadata(opened, base), of


def _metrics(words: str) -> Sequence[str]:
    """Return the official metrics of a protocol in words, or of the description of a task."""
    names = [step.partition("@")[0] for step in words.split(" & ")]  # "uda@1(source='rock', seed=0) & ..."
    with suppress(InputError):
        of = parse_protocol(words)
        names = [step.id for step in (of.steps if isinstance(of, Chain) else [of]) if step]
    return list(
        dict.fromkeys(metric for name in names if name in _BY_NAME for metric in _BY_NAME[name].metrics)
    )


def published(metadata: Metadata, split: CanonicalSplit) -> Task:
    """Return the task that is frozen with a dataset as one of its canonical splits."""
    assert metadata.dataset is not None
    with tempfile.TemporaryDirectory() as scratch:
        keys = Path(scratch) / f"{split.name}.parquet"
        keys.write_bytes(metadata.dataset.read_file(protocol_file(split.name)))
        frozen = frozen_task(metadata, keys)
    if frozen.sets.keys() != split.sets.keys():
        raise metadata.dataset.damaged(f"{keys.name} has other sets than the manifest lists for it")
    sets = {
        name: replace(rows, filters=split.sets[name].filters, reason=split.sets[name].reason)
        for name, rows in frozen.sets.items()
    }
    return replace(frozen, sets=sets)


def _canonical_split(metadata: Metadata, which: Callable[[CanonicalSplit], bool]) -> CanonicalSplit | None:
    splits = metadata.dataset.manifest.canonical_splits if metadata.dataset else ()
    return next((split for split in splits if split.base == metadata.base and which(split)), None)


def protocols() -> list[type[Protocol]]:
    """Return every protocol that `protocol` makes; each has `parameters()`, `variants`, `paper`, `about`."""
    return [_BY_NAME[name] for name in sorted(_BY_NAME)]


def protocol(name: str, **params: Any) -> Protocol:
    """Make a protocol by name: `uda`, with its version `uda@1`, or with a variant `uda@paired`.

    >>> protocol("group-fairness@code", k=4, mu=0.1).variant
    'code'
    """
    short, _, after = name.partition("@")
    if short not in _BY_NAME:
        raise not_found("protocol", short, _BY_NAME)
    chosen = _BY_NAME[short]
    if after.isdigit():
        if int(after) != chosen.version:
            raise InputError(f"{short} has version {chosen.version} here, got {after}")
    elif after:
        params["variant"] = after
    parameters = chosen.parameters()
    for param in params:
        if param not in parameters:
            raise not_found(f"parameter of {short}", param, parameters)
    missing = [param for param, value in parameters.items() if value is REQUIRED and param not in params]
    if missing:
        raise InputError(f"{short} needs {', '.join(missing)}")
    try:
        return chosen(**params)
    except TypeError as error:
        raise InputError(f"{short} cannot take {params}: {error}") from error


def parse_protocol(text: str | Sequence[str]) -> Protocol | None:
    """Compose the protocols that a text names; None if it names none.

    Each name is followed by its parameters; a condition (`severity<=1.5`, `style==amber,embers`,
    `label!=dog`) may be anywhere. One `=` is a parameter, so equality in a condition is `==`.

    >>> print(parse_protocol("group-fairness k=8 mu=0.1 severity<=1.5 style!=ink,oil"))
    (severity <= 1.5) & (style != ink, oil) & group-fairness@1(k=8, mu=0.1, seed=0)
    """
    try:
        words = shlex.split(text) if isinstance(text, str) else text
    except ValueError as error:
        raise InputError(f"{text!r} has a quote that is not closed: quote a name as a shell does") from error
    steps: list[Protocol | tuple[str, dict[str, Any]]] = []
    for word in words:
        name, equals, value = word.partition("=")
        if _COMPARISON.search(word):
            steps.append(Where(*parse_condition(word)))
        elif not equals:
            steps.append((word, {}))
        elif steps and isinstance(steps[-1], tuple):
            steps[-1][1][name] = parse_value(value)
        else:
            hint = f"name the protocol first (a condition is written {name}=={value})"
            raise InputError(f"{word} is a parameter without a protocol: {hint}")
    joined = [protocol(step[0], **step[1]) if isinstance(step, tuple) else step for step in steps]
    return reduce(and_, joined) if joined else None


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
        with suppress(ValueError):
            return number(text)
    return text
