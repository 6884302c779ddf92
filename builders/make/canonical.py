"""Canonical splits: the tasks that a recipe's protocols make, frozen with the dataset and described."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.albums import Raw
from builders.describe.card import front_matter
from builders.describe.renderings import draft
from builders.items import ItemTable, taken
from builders.make import assign
from builders.make.assign import SPLIT_OF_FOLD, Folds
from builders.make.gather import Gathered
from builders.recipe import Recipe, SomeNuisances
from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.data.format.conditions import matches
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import metadata_file, protocol_file
from shiftdata.data.format.records import CanonicalSplit
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.metadata import Metadata
from shiftdata.data.metadata.folds import hashes64, quantiles
from shiftdata.data.metadata.rows import COLUMNS, metadata_of
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import Protocol
from shiftdata.evaluation.protocols.base import Stage
from shiftdata.evaluation.protocols.canonical import canonical_split
from shiftdata.evaluation.tasks import MuWarning, Task, TaskWarning
from shiftdata.evaluation.tasks.task import canonical_task
from shiftdata.untrusted.parquet import read_parquet

MOST_NAMES = 5  # in a line of the terminal
MOST_FILES = 64  # into which sets may cut the base: each is a request of its own, and a part of the card


def check_protocols(recipe: Recipe, items: ItemTable, fold_of: Folds) -> None:
    """Refuse, before anything is rendered, protocols that cannot be kept or that a card has no room for.

    Splits whose groups have too few rows for their mu are left out, and of a raw dataset, which may lack some
    files, all that cannot be kept; both are named.
    """
    if recipe.base(recipe.default_base).layer == "shift" and recipe.protocols:
        check_planned(recipe, planned(recipe, items, fold_of))


def check_planned(recipe: Recipe, rows: Metadata) -> None:
    """`check_protocols` on rows that are planned already."""
    splits = planned_splits(recipe, rows)
    front_matter(replace(draft(recipe), canonical_splits=splits))
    names = {split.name for split in splits}
    lacking = [protocol.config_name for protocol in recipe.protocols if protocol.config_name not in names]
    if lacking:
        named = ", ".join(lacking[:MOST_NAMES]) + (" ..." if len(lacking) > MOST_NAMES else "")
        print(
            f"left out: {len(lacking)} of {len(recipe.protocols)} canonical splits, for which the data lacks "
            f"classes, {recipe.nuisance}s, lists, or rows for the mu of their names: {named}",
            file=sys.stderr,
        )


def planned_splits(recipe: Recipe, rows: Metadata) -> list[CanonicalSplit]:
    """The canonical splits of planned rows."""
    return _canonical_splits(recipe, rows, np.zeros(len(rows), np.int64))


def planned(recipe: Recipe, items: ItemTable, fold_of: Folds) -> Metadata:
    """The rows that the default base will have if none is dropped."""
    base, shift = recipe.base(recipe.default_base), recipe.shift
    item, nuisance, severity = _cells(recipe, items, assign.pick(items, fold_of, base))
    label = items.codes("label", recipe.album.labels)[item].astype(np.int64)
    split = SPLIT_OF_FOLD[fold_of[item]]
    group = (label * len(shift.nuisances) + nuisance).astype(np.int32)
    of_item = items.columns if _is_every(item, items) else taken(items.columns, item)
    key, unit = of_item["key"], of_item["key"]
    if recipe.severities or (items.codes("nuisance") < 0).any():
        names = pa.array(shift.nuisances, pa.string()).take(pa.array(nuisance))
        # Where an item comes with its nuisance, its row has its key; else this one is as unique.
        key = pc.binary_join_element_wise(key, names, pa.array(severity).cast(pa.string()), " ")
        if recipe.severities:  # a trajectory has an origin, or an item, under one nuisance
            unit = pc.if_else(pc.is_null(of_item["severity"]), unit, of_item["origin"])
            unit = pc.binary_join_element_wise(unit, names, " ")
        else:
            unit = key
    cell: IntArray = split * (int(group.max(initial=0)) + 1) + group
    if recipe.severities:
        steps, step = np.unique(severity, return_inverse=True)
        cell = cell * len(steps) + step
    columns = {
        "key": key,
        "split": pa.array(list(SPLITS)).take(pa.array(split)),
        "fold": pa.array(fold_of[item]),
        "label": pa.array(label),
        recipe.nuisance: pa.array(nuisance),
        "severity": pa.array(severity) if recipe.severities else pa.nulls(len(item), pa.float64()),
        "group": pa.array(group),
        "origin": of_item["origin"],
        "quantile": pa.array(quantiles(cell, hashes64(unit, "quantile"))),
        **({"trajectory": unit} if recipe.severities else {}),
        **({"params": of_item["source"]} if _reads_params(recipe) else {}),
    }
    numbered = _origins(items, item)
    last = np.full(len(numbered[1]), -1)
    last[numbered[0]] = nuisance
    shared = bool((last[numbered[0]] != nuisance).any())
    labels, nuisances = tuple(recipe.album.labels), tuple(shift.nuisances)
    rows = pa.table(columns)
    return Metadata(rows, labels, nuisances, recipe.nuisance, shared, recipe.name, numbered_origins=numbered)


def _origins(items: ItemTable, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The number of the origin of each row of items, among the origins of these rows, and a row of each."""
    if _is_every(rows, items):
        return items.origins
    numbers = items.origins[0][rows]
    is_present = np.zeros(len(items.origins[1]), bool)
    is_present[numbers] = True
    number = (np.cumsum(is_present) - 1)[numbers]
    first = np.empty(int(is_present.sum()), np.int64)
    first[number[::-1]] = np.arange(len(rows))[::-1]
    return number, first


def _is_every(rows: IntArray, items: ItemTable) -> bool:
    """Return True for all rows in their order."""
    return len(rows) == len(items) and bool((np.diff(rows) == 1).all())


def _cells(recipe: Recipe, items: ItemTable, picked: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Item, nuisance and severity of each row that some items make."""
    shift, own = recipe.shift, items.codes("nuisance", recipe.shift.nuisances)[picked]
    steps = np.array(recipe.severities or (0.0,))
    if not recipe.severities and (own >= 0).all():  # a row an item, of which there may be millions
        return picked, own.astype(np.int64), np.broadcast_to(0.0, len(picked))
    if isinstance(shift, SomeNuisances):
        number = {name: at for at, name in enumerate(shift.nuisances)}
        given = [[number[name] for name in shift.nuisances_of(item)] for item in items.take(picked)]
        several = [[mine] if mine >= 0 else of for mine, of in zip(own.tolist(), given, strict=True)]
        counts = np.array(list(map(len, several)), np.int64)
        nuisance = np.fromiter(chain.from_iterable(several), np.int64)
    else:
        counts = np.where(own >= 0, 1, len(shift.nuisances))
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        nuisance = np.where(np.repeat(own >= 0, counts), np.repeat(own, counts), place)
    item = np.repeat(picked, counts)
    given_step = items.severity[item]
    repeats = np.where(np.isnan(given_step), len(steps), 1)
    step = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    severity = np.repeat(given_step, repeats)
    severity = np.where(np.isnan(severity), steps[np.minimum(step, len(steps) - 1)], severity)
    return np.repeat(item, repeats), np.repeat(nuisance, repeats), severity


def parts_of_sets(recipe: Recipe, items: ItemTable, fold_of: Folds, gathered: Gathered) -> IntArray:
    """Number the rows so that sets which share a split of the base are all rows of some numbers.

    Rows of one number get files of their own: then each set is whole files, and one config has all sets. A
    split that would cut the base into too many files stays a key file.
    """
    part = np.zeros(len(gathered.rows), np.int64)
    # The sets of these are the splits of the base: planning them would take a third of the time of packing.
    if all(protocol.stage in (Stage.KEEP, Stage.THIN) for protocol in recipe.protocols):
        return part
    keys, columns = gathered.rows["key"], gathered.filtered()
    canonical = canonical_task(planned(recipe, items, fold_of))
    for number, protocol in enumerate(recipe.protocols):
        virtual = protocol.own_files or _is_virtual(recipe, number)
        task = _task_of(recipe, protocol, canonical) if virtual else None
        if task is None:
            continue
        sizes = np.zeros(len(task.metadata), np.int64)
        described = canonical_split(protocol, task, recipe.default_base, sizes, virtual=True)
        finer = part
        for name, rows in described.sets.items() if described.has_files else ():
            if rows.filters is not None:
                mine = matches(columns, rows.filters)
            else:
                planned_keys = task.metadata.keys(task.sets[name].indices)
                mine = pc.is_in(keys, value_set=planned_keys.cast(keys.type)).to_numpy()
            finer = np.unique(2 * finer + mine, return_inverse=True)[1]
        files = len(np.unique(len(SPLITS) * finer + columns["split"]))
        if protocol.own_files or files <= MOST_FILES:
            part = finer
    return part


def _is_virtual(recipe: Recipe, number: int) -> bool:
    return recipe.virtual is None or number < recipe.virtual


def _reads_params(recipe: Recipe) -> bool:
    return any(protocol.reads_params for protocol in recipe.protocols)


def freeze(
    recipe: Recipe, manifest: Manifest, folder: Path, sizes: Mapping[str, IntArray]
) -> list[CanonicalSplit]:
    """Make the canonical splits of the default base from its written metadata, and write their keys.

    `sizes` has the bytes of each row, by metadata file.
    """
    if not recipe.protocols:
        return []
    paths = [metadata_file(recipe.default_base, split) for split in SPLITS]
    names = [recipe.nuisance if name == "nuisance" else name for name in COLUMNS]
    names += ["params"] if _reads_params(recipe) else []
    table = pa.concat_tables(read_parquet(folder / path, [*names, "shard"]) for path in paths)
    splits = _canonical_splits(
        recipe,
        metadata_of(manifest, recipe.default_base, table),
        np.concatenate([sizes[path] for path in paths]),
        lambda task, name: task.freeze(folder / protocol_file(name)),
    )
    return _on_card(manifest, splits)


def _on_card(manifest: Manifest, splits: list[CanonicalSplit]) -> list[CanonicalSplit]:
    """Make key files of the last splits whose lists of files the card has no room for."""
    for number in reversed(range(len(splits))):
        try:
            front_matter(replace(manifest, canonical_splits=splits))
            break
        except InputError:
            split = splits[number]
            if split.has_files:
                sets = {name: replace(rows, files=()) for name, rows in split.sets.items()}
                splits[number] = replace(split, sets=sets, is_config=False)
    return splits


def _canonical_splits(
    recipe: Recipe,
    metadata: Metadata,
    sizes: IntArray,
    on_task: Callable[[Task, str], object] = lambda task, name: None,
) -> list[CanonicalSplit]:
    canonical, splits = canonical_task(metadata), list[CanonicalSplit]()
    for number, protocol in enumerate(recipe.protocols):
        task = _task_of(recipe, protocol, canonical)
        if task is None:
            continue
        on_task(task, protocol.config_name)
        virtual = _is_virtual(recipe, number)
        splits.append(canonical_split(protocol, task, recipe.default_base, sizes, virtual=virtual))
    names = Counter(base.name for base in recipe.bases) + Counter(["metadata"])
    names += Counter(split.name for split in splits)
    repeated = [name for name, count in names.items() if count > 1]
    if repeated:
        raise InputError(f"{recipe.name} would have two configs named {', '.join(repeated)}: rename the base")
    return splits


def _task_of(recipe: Recipe, protocol: Protocol, canonical: Task) -> Task | None:
    """Make a task; None if few rows cannot keep its mu, or a raw dataset, which may lack files, its sets."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore", TaskWarning)  # whoever loads it is warned
            warnings.simplefilter("always", MuWarning)
            task = protocol(canonical, on_empty=recipe.on_empty)
        if empty := [name for name, rows in task.sets.items() if not len(rows)]:
            raise InputError(f"{protocol.words()} leaves {empty[0]} of {task.metadata.name} without a row")
    except InputError:
        if not isinstance(recipe.album, Raw):
            raise
        return None
    too_few = any(issubclass(warning.category, MuWarning) for warning in caught)
    # Its name would promise another mu; a recipe that reports what is empty reports the shares too.
    return None if too_few and recipe.on_empty == "error" else task
