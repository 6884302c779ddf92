"""Samplers, examples and batches of a task's sets: methods of `Task`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.sampling import SAMPLERS, Sampler, make_sampler
from shiftdata.evaluation.tasks.rows import TaskRows, counts_of, hashes_of, hides_labels, row_set
from shiftdata.evaluation.tasks.sets import Indices, Role, different

if TYPE_CHECKING:
    from shiftdata.data.loading.batches import Examples, Loader
    from shiftdata.data.loading.batches.examples import Transform
    from shiftdata.data.loading.byte_ranges import ExampleReader


def sampler(
    task: TaskRows,
    rule: str,
    name: str | None = None,
    *,
    role: Role | None = None,
    **options: Any,
) -> Sampler:
    """Return a sampler over the positions of a set's rows: "subg", "rwg", ..., see `sampling.SAMPLERS`.

    The set is the first with the role "fit" if not named. Where labels are hidden, only rules that need
    none can be used: "shuffle", "per-domain", or "pseudo-balanced" with `pseudo_labels`.
    """
    name = name or task.set_of(role or "fit")
    needs = SAMPLERS[rule].needs if rule in SAMPLERS else None
    hidden, counts = hides_labels(task, name, role), counts_of(task, name, role)
    if needs in ("label", "group") and (hidden or counts is not None):
        if not hidden:
            raise InputError(f"the rows of {name} were drawn with replacement: they are a sample already")
        usable = [name for name, sampler in SAMPLERS.items() if sampler.needs not in ("label", "group")]
        raise InputError(
            f"the sampler {rule!r} needs {needs}s, which are hidden in {name}: its role is unlabelled. "
            f"Use one of {', '.join(usable)}, with pseudo_labels=... for pseudo-balanced"
        )
    known = inspect.signature(make_sampler).parameters.keys()
    if unknown := options.keys() - known:
        raise not_found("option", min(unknown), known)
    metadata, rows = task.metadata, _examples(task, name, role)[0]
    # Rules that need no numbers, or predicted ones, take the nuisances for the number of rows.
    by = needs if needs in ("label", "group") else "nuisance"
    numbers = getattr(metadata, by)[rows]
    ids = task.label_ids if needs == "pseudo_label" else different(numbers)
    if needs == "group":
        ids = np.union1d(np.flatnonzero(row_set(task, name).expected), ids)
    given: dict[str, Any] = {f"{by}s": numbers, "ids": ids}
    return make_sampler(rule, **(given | options))


def dataset(
    task: TaskRows,
    name: str | None = None,
    *,
    role: Role | None = None,
    transform: Transform | None = None,
    seed: int = 0,
    size: int | tuple[int, int] | None = None,
    remap: bool = False,
    decode: bool = True,
    decoded: bool | str | Path = False,
    features: NDArray[Any] | None = None,
    cache: str | Path | bool = False,
    cache_limit: float | None = 20e9,
    reader: ExampleReader | None = None,
) -> Examples:
    """Return the examples of a set, `(x, y, metadata)` each: a map-style dataset, for torch or without it.

    See `loading.batches.Examples`.

    Args:
        name: the set; the first whose own role is `role` if not given.
        role: what the set is used for, "fit" if neither is given; as "unlabelled", examples are
            `(x, metadata)` without label, group and key.
        transform: makes another x of one example's x (a picture, height x width x 3; a text; a row's
            features) and a numpy generator.
        seed: of the transforms, with the epoch.
        size: height and width to resize every picture to, or one number for both.
        remap: y from 0 to k - 1, k being "unknown", by `remapped`.
        decode: False gives x as encoded bytes.
        decoded: keep decoded pictures on this machine, in this folder or (True) in that of the user's cache:
            x is read from there, and later runs over the same pictures decode nothing.
        features: an array with a line for each row of the base: then x is its lines, and no file is read.
        cache: of a dataset elsewhere, keep what is fetched in this folder or (True) in that of the user's
            cache.
        cache_limit: the most bytes of that folder, which loses what was used longest ago; None: no limit.
        reader: your own `ExampleReader`, with hashes checked or more read ahead.

    """
    from shiftdata.data.loading.batches import Examples, Lines
    from shiftdata.data.loading.byte_ranges import ExampleReader

    name, metadata = name or task.set_of(role or "fit"), task.metadata
    hidden = hides_labels(task, name, role)
    names: dict[str, Sequence[str]] = {"nuisance": metadata.nuisances}
    if not hidden:
        names["label"] = (*task.labels, "unknown") if remap else metadata.labels
        names["group"] = tuple(map(metadata.group_name, range(len(metadata.group_counts))))
    if decoded:
        from shiftdata.data.loading.features import pixels_of

        features = pixels_of(metadata, task.rows(name, role), size=size, cache=decoded)
    remapped = np.append(task.remapped, -1)  # a label that the publisher keeps is -1, as on the Hub
    if features is None:
        if cache and reader:
            raise InputError("a reader has a cache of its own: give cache and cache_limit to ExampleReader")
        if cache:
            opened = metadata.with_examples()
            reader = ExampleReader(opened, metadata.base, cache=cache, cache_limit=cache_limit)
        return Examples(
            metadata,
            task.rows(name, role),
            counts_of(task, name, role),
            hashes=hashes_of(task, name) if hidden else None,
            remapped=remapped if remap else None,
            reader=reader,
            transform=transform,
            seed=seed,
            size=size,
            decode=decode,
            names=names,
        )
    if len(features) != len(metadata):
        raise InputError(
            f"features has {len(features):,} lines, the base {len(metadata):,} rows: give a line for each"
        )
    rows, positions = _examples(task, name, role)
    lines = metadata.picture[rows] if decoded else rows
    y = metadata.label[rows].astype(np.int64)
    columns = {"nuisance": metadata.nuisance[rows].astype(np.int64), "position": positions}
    if hidden:
        columns["key"] = hashes_of(task, name)[positions]
    else:
        columns["group"] = metadata.group[rows].astype(np.int64)
    return Lines(
        features,
        lines,
        labels=None if hidden else remapped[y] if remap else y,
        keys=None if hidden else metadata.keys(rows),
        known=columns,
        names=names,
        transform=transform,
        seed=seed,
    )


def _examples(task: TaskRows, name: str, role: Role | None) -> tuple[Indices, Indices]:
    """Return the rows of a set's examples, and the position of each in the set."""
    rows, counts = task.rows(name, role), counts_of(task, name, role)
    positions = np.arange(len(rows))
    return (rows, positions) if counts is None else (np.repeat(rows, counts), np.repeat(positions, counts))


def loader(
    task: TaskRows,
    name: str | None = None,
    *,
    role: Role | None = None,
    sampler: str | Sampler | Sequence[int] | Indices | None = None,
    batch_size: int = 64,
    seed: int = 0,
    **options: Any,
) -> Loader:
    """Return batches `(x, y, metadata)` of a set's examples, for training; see `loading.batches.Loader`.

    Args:
        name: the set, as in `dataset`.
        role: as in `dataset`; as "unlabelled", batches are `(x, metadata)` without label, group and key.
        sampler: "shuffle", "subg", ...: the name of a sampler, with its options; one that `sampler`
            made; positions in the set; or None: every example in the stored order, as for a test.
        batch_size: examples in a batch, on each rank.
        seed: of the order and of the transforms.
        options: those of `dataset` (transform, size, remap, decoded, features, cache, reader), of the named
            sampler, and of `Loader`:
            workers: threads that read and decode ahead; default: one a core for pictures, else one.
            pin_memory: batches in pinned memory, for copies to a GPU with `non_blocking=True`.
            drop_last: leave out a last batch that is not full, and what ranks do not share evenly.
            rank, world: this process among those that share an epoch; default: of `torch.distributed`.
            share: what ranks share: the rows of an "epoch", each for batches of its own, or every "batch".

    """
    from shiftdata.data.loading.batches import Loader

    of_loader = _taken(options, Loader)
    of_examples = {"role": role, "seed": seed, **_taken(options, dataset)}
    if isinstance(sampler, str):
        if sampler in SAMPLERS and SAMPLERS[sampler].makes_batches:
            options["batch_size"] = batch_size
        sampler = _sampler(task, sampler, name, role=role, seed=seed, **options)
    elif options:
        raise InputError(f"{', '.join(options)}: options go with the name of a sampler")
    return Loader(dataset(task, name, **of_examples), sampler, batch_size=batch_size, **of_loader)


#: The argument `sampler` of `loader` hides the function.
_sampler = sampler


def _taken(options: dict[str, Any], call: Callable[..., object]) -> dict[str, Any]:
    """Take from some options those that a function has."""
    return {name: options.pop(name) for name in list(options) if name in inspect.signature(call).parameters}
