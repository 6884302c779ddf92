"""Samplers, examples and batches of a task's sets: methods of `Task`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import SAMPLERS, Sampler, make_sampler
from shiftdata.evaluation.tasks.sets import Indices, Role, different

if TYPE_CHECKING:
    from shiftdata.data.loading.batches import Examples, Loader
    from shiftdata.data.loading.batches.examples import Transform
    from shiftdata.data.loading.batches.loader import BatchTransform, Share
    from shiftdata.data.loading.byte_ranges import ExampleReader
    from shiftdata.evaluation.tasks.task import Task


def sampler(
    task: Task,
    rule: str,
    name: str | None = None,
    *,
    role: Role | None = None,
    dedupe: bool = False,
    **options: Any,
) -> Sampler:
    """A sampler over the positions of a set's rows: "subg", "rwg", ..., see `sampling.SAMPLERS`.

    The set is the first with the role "fit" if not named. Where labels are hidden, only rules that need
    none can be used: "shuffle", "per-domain", or "pseudo-balanced" with `pseudo_labels`. `dedupe` is for the
    examples of `dataset(dedupe=True)`; a rule by group or nuisance cannot follow it, since the untouched
    pictures are of all nuisances, and each would count for one.
    """
    name = name or task.set_of(role or "fit")
    needs = SAMPLERS[rule].needs if rule in SAMPLERS else None
    hidden, counts = task.hides_labels(name, role), task.counts(name, role)
    if needs in ("label", "group") and (hidden or counts is not None):
        if not hidden:
            raise InputError(f"the rows of {name} were drawn with replacement: they are a sample already")
        usable = [other for other, one in SAMPLERS.items() if one.needs not in ("label", "group")]
        raise InputError(
            f"the sampler {rule!r} needs {needs}s, which are hidden in {name}: its role is unlabelled. "
            f"Use one of {', '.join(usable)}, with pseudo_labels=... for pseudo-balanced"
        )
    if dedupe and needs in ("group", "nuisance"):
        raise InputError(
            f"the sampler {rule!r} goes by {needs}, and with dedupe=True each untouched picture would be in "
            "one of its groups alone: leave dedupe out, or take shuffle, rwy, suby, ..."
        )
    rows, metadata = task.rows(name, role), task.metadata
    rows = rows if counts is None else np.repeat(rows, counts)
    rows = rows[_distinct(task, name, role)] if dedupe else rows
    given: dict[str, Any] = {"nuisances": metadata.nuisance[rows]}
    if needs == "nuisance":
        given["nuisance_ids"] = different(given["nuisances"])
    elif needs == "pseudo_label":
        given["label_ids"] = task.label_ids
    elif needs == "label":
        given = {"labels": metadata.label[rows]}
        given["label_ids"] = different(given["labels"])
    elif needs == "group":
        given = {"groups": metadata.group[rows]}
        promised = np.flatnonzero(task.row_set(name).expected)
        given["group_ids"] = np.union1d(promised, different(given["groups"]))
    return make_sampler(rule, **(given | options))


def dataset(
    task: Task,
    name: str | None = None,
    *,
    role: Role | None = None,
    transform: Transform | None = None,
    seed: int = 0,
    size: int | tuple[int, int] | None = None,
    remap: bool = False,
    decode: bool = True,
    dedupe: bool = False,
    features: NDArray[Any] | None = None,
    reader: ExampleReader | None = None,
) -> Examples:
    """The examples of a set, `(x, y, metadata)` each: a map-style dataset, for torch or without it.

    See `loading.batches.Examples`, and `loader` for the arguments.
    """
    from shiftdata.data.loading.batches import Examples, Lines

    name = name or task.set_of(role or "fit")
    hidden = task.hides_labels(name, role)
    names: dict[str, Sequence[str]] = {"nuisance": task.nuisances}
    if not hidden:
        labels = (*task.labels, "unknown") if remap else task.metadata.labels
        names |= {"label": labels, "group": task.groups}
    if features is not None:
        rows, positions = _lines(task, name, role, dedupe)
        metadata = task.metadata
        if len(features) != len(metadata):
            raise InputError(
                f"features has {len(features):,} lines, the base {len(metadata):,} rows: give a line for each"
            )
        y = metadata.label[rows].astype(np.int64)
        known = {"nuisance": metadata.nuisance[rows].astype(np.int64), "position": positions}
        if hidden:
            known["key"] = task.hashes(name)[positions]
        else:
            known["group"] = metadata.group[rows].astype(np.int64)
        return Lines(
            features,
            rows,
            labels=None if hidden else task.remapped[y] if remap else y,
            keys=None if hidden else metadata.keys(rows),
            known=known,
            names=names,
            transform=transform,
            seed=seed,
        )
    return Examples(
        task.metadata,
        task.rows(name, role),
        task.counts(name, role),
        only=_distinct(task, name, role) if dedupe else None,
        hashes=task.hashes(name) if hidden else None,
        remapped=task.remapped if remap else None,
        reader=reader,
        transform=transform,
        seed=seed,
        size=size,
        decode=decode,
        names=names,
    )


def _lines(task: Task, name: str, role: Role | None, dedupe: bool) -> tuple[Indices, Indices]:
    """The rows of a set's examples, and the position of each in the set."""
    rows, counts = task.rows(name, role), task.counts(name, role)
    positions = np.repeat(np.arange(len(rows)), 1 if counts is None else counts)
    positions = _distinct(task, name, role) if dedupe else positions
    return rows[positions], positions


def _distinct(task: Task, name: str, role: Role | None) -> Indices:
    if task.counts(name, role) is not None:
        raise InputError(f"the rows of {name} were drawn with replacement: dedupe cannot leave some out")
    return task.distinct(name, role)


def loader(
    task: Task,
    name: str | None = None,
    *,
    role: Role | None = None,
    sampler: str | Sampler | Sequence[int] | Indices | None = None,
    batch_size: int = 64,
    seed: int = 0,
    workers: int | None = None,
    size: int | tuple[int, int] | None = None,
    transform: Transform | None = None,
    batch_transform: BatchTransform | None = None,
    remap: bool = False,
    drop_last: bool = False,
    dedupe: bool = False,
    decoded: bool | str | Path = False,
    decoded_limit: int = 10 * 2**30,
    rank: int | None = None,
    world: int | None = None,
    share: Share = "epoch",
    features: NDArray[Any] | None = None,
    reader: ExampleReader | None = None,
    **options: Any,
) -> Loader:
    """Batches `(x, y, metadata)` of a set's examples, for training; see `loading.batches.Loader`.

    Args:
        name: the set; the first whose own role is `role` if not given.
        role: what the set is used for, "fit" if neither is given; as "unlabelled", batches are
            `(x, metadata)` without label, group and key.
        sampler: "shuffle", "subg", ...: the name of a sampler, with its `options`; one that `sampler`
            made; positions in the set; or None: every example in the stored order, as for a test.
        batch_size: examples in a batch, on each rank.
        seed: of the order and of the transforms, with the epoch.
        workers: threads that read and decode ahead; default: one a core for pictures, else one.
        size: height and width to resize every picture to, or one number for both.
        transform: makes another x of one example's x (a picture, height x width x 3; a text; a row's
            features) and a numpy generator.
        batch_transform: makes another x of a batch's x and a numpy generator, after `transform`.
        remap: y from 0 to k - 1, k being "unknown", by `remapped`.
        drop_last: leave out a last batch that is not full, and what ranks do not share evenly.
        dedupe: give each untouched picture once. In a dataset with severities it is the start of a trajectory
            under every nuisance: the first of these rows stands for all, with its key, group and position.
            `evaluate` takes the predictions of such a loader, in its order or by key.
        decoded: keep decoded pictures on this machine, in this folder or (True) in that of the user's cache;
            later epochs, and other runs over the same pictures, read them instead of decoding.
        decoded_limit: the most bytes that are kept there.
        rank, world: this process among those that share an epoch; default: of `torch.distributed`.
        share: what ranks share: the rows of an "epoch", each for batches of its own, or every "batch".
        features: an array with a line for each row of the base: then x is its lines, and no file is read.
        reader: your own `ExampleReader`, with a cache or hashes checked.

    """
    from shiftdata.data.loading.batches import Loader

    if isinstance(sampler, str):
        batches = sampler in SAMPLERS and SAMPLERS[sampler].makes_batches
        chosen = options | ({"batch_size": batch_size} if batches else {})
        sampler = task.sampler(sampler, name, role=role, dedupe=dedupe, seed=seed, **chosen)
    elif options:
        raise InputError(f"{', '.join(options)}: options go with the name of a sampler")
    examples = partial(task.dataset, name, role=role, transform=transform, seed=seed, size=size)
    return Loader(
        examples(remap=remap, dedupe=dedupe, reader=reader, features=features),
        sampler,
        batch_size=batch_size,
        workers=workers,
        batch_transform=batch_transform,
        drop_last=drop_last,
        decoded=decoded,
        decoded_limit=decoded_limit,
        rank=rank,
        world=world,
        share=share,
    )
