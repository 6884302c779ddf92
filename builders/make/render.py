"""Render: the costly half of a build. Blocks of content items become spooled, encoded samples.

A block is a fixed handful of items with all their nuisances. What is in a block, and every random draw,
depends on names alone, never on the number of workers or the order in which they finish.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import cast

import numpy as np

from builders.albums.reading import Copies, OfFiles, copies_of, with_copies
from builders.blocks import ITEMS_PER_BLOCK, SAMPLES_PER_BLOCK, Block, cut_into_blocks
from builders.items import ItemTable
from builders.make.assign import Folds, pick
from builders.parts import with_known
from builders.recipe import Recipe, SomeNuisances, Threaded
from builders.recipe_files import load_recipe, node_versions, place_of
from builders.sample import BadItem, Item, Sample, Step
from builders.spool import Spool
from shiftdata.data.arrays import IntArray
from shiftdata.data.executors import ALONE, Executor, Here, Rank, Ranks, alike
from shiftdata.data.format.schema import KEY_PATTERN
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.threads import ahead

#: Seconds until what another node wrote must be seen: NFS remembers for a minute that it was not there.
SEEN_WITHIN = 90.0


def plan_blocks(
    recipe: Recipe, bases: Sequence[str], items: ItemTable, fold_of: Folds
) -> dict[str, list[Block]]:
    """The blocks of each base. A larger base is the blocks of the smaller ones and some more."""
    plan: dict[str, list[Block]] = {}
    for layer in ("content", "shift"):
        blocks: list[Block] = []
        is_taken = np.zeros(len(items), bool)
        of_layer = [base for base in recipe.bases if base.layer == layer]
        for base in sorted(of_layer, key=lambda base: base.per_group or len(items) + 1):
            picked = pick(items, fold_of, base)
            blocks = blocks + blocks_of(recipe, layer, items, picked[~is_taken[picked]])
            is_taken[picked] = True
            if base.name in bases:
                plan[base.name] = blocks
    return {base.name: plan[base.name] for base in recipe.bases if base.name in plan}


def blocks_of(recipe: Recipe, layer: str, items: ItemTable, rows: IntArray | None = None) -> list[Block]:
    """Cut items, or some rows of them, into blocks of one layer."""
    rows = np.arange(len(items)) if rows is None else rows
    comes_with_nuisance = bool(len(rows)) and items[int(rows[0])].nuisance is not None
    size = SAMPLES_PER_BLOCK if comes_with_nuisance else ITEMS_PER_BLOCK[recipe.encoding.modality]
    return cut_into_blocks(items, rows, layer, size, partial(_samples, recipe, layer, items))


def render(
    recipe: Recipe,
    reference: str,
    blocks: Sequence[Block],
    spool: Spool,
    executor: Executor,
    rank: Rank = ALONE,
    *,
    on_done: Callable[[Block], object] = lambda block: None,
    on_listed: Callable[[Collection[str]], object] = lambda done: None,
) -> None:
    """Render what a spool lacks of some blocks, together with other ranks; nothing once it is not in use.

    `reference` names the recipe, so that workers can load it too. `on_done` is called with each block that
    was rendered here, `on_listed` with all that were rendered so far, now and then.
    """

    def missing(share: Sequence[Block]) -> list[Block]:
        done = spool.listing().get("", set())
        on_listed(done)
        return [block for block in share if block.id not in done] if spool.is_open() else []

    left = missing(blocks)
    if not left:
        return
    copies = copies_of(recipe.album)
    renderer = partial(_renderer, reference, recipe.severities, copies, spool)
    _check_repeatable(recipe, left[0], copies)
    if len(left) == 1:
        executor = Here()
    work = alike(renderer, partial(node_versions, reference))
    with closing(Ranks(executor, rank, missing).run(work, blocks)) as done:
        for block, is_new in done:
            if is_new is None:
                return
            if is_new:
                _check_seen(spool, block)
                on_done(block)


def _check_seen(spool: Spool, block: Block) -> None:
    """Refuse to go on where blocks are written into a folder that this process does not see."""
    until = time.monotonic() + SEEN_WITHIN
    while not spool.files.is_far and block.id not in spool and spool.is_open():
        if time.monotonic() > until:
            raise InputError(
                f"{block} was rendered, and is not in {spool.files}: a node wrote it to a disk of its own; "
                "build into a folder that all nodes share (--out), or use --spool s3://..."
            )
        time.sleep(0.1)


def _renderer(
    reference: str, severities: tuple[float, ...], copies: Copies | None, spool: Spool
) -> Callable[[Block], bool | None]:
    """Return the function that renders blocks in a worker.

    It returns False for a block that exists, and None when the spool is no longer in use.
    """
    recipe = with_known(load_recipe(reference), severities=severities)

    def render_missing(block: Block) -> bool | None:
        if block.id in spool:  # by now: of another rank
            return False
        if not spool.is_open():
            return None
        render_block(recipe, block, spool, copies)
        return True

    return render_missing


def render_block(recipe: Recipe, block: Block, spool: Spool, copies: Copies | None = None) -> None:
    """Render one block into the spool; an item that cannot be used becomes a reasoned drop."""
    rows: list[dict[str, object]] = []
    drops: dict[str, str] = {}
    threads = recipe.shift.threads if isinstance(recipe.shift, Threaded) else 0
    items = list(with_copies(block.items, copies))
    with closing(ahead(partial(_rows_or_why, recipe, block.layer), items, threads)) as results:
        for (item, _), result in zip(items, results, strict=True):
            if isinstance(result, str):
                drops[item.key] = result
            else:
                rows += result
    spool.write(block.id, rows, drops)


def _rows_or_why(
    recipe: Recipe, layer: str, item_and_content: tuple[Item, bytes | None]
) -> list[dict[str, object]] | str:
    """The rows of an item, or why there is none."""
    try:
        return _rows(recipe, layer, *item_and_content) or "no step gave a sample of it"
    except BadItem as error:
        return str(error)


def render_item(recipe: Recipe, layer: str, item: Item, data: bytes | None = None) -> Iterator[Sample]:
    """All samples of one item in one layer; an error of album or steps says where it was raised, for what.

    `data` are the bytes of its raw file, if they are known.
    """
    try:
        album = recipe.album
        # Bytes are known of an album of files alone; to ask for its protocol takes as long as a short text.
        content = album.load(item) if data is None else cast(OfFiles, album).decoded(item, data)
        samples = iter([Sample(item=item, key=item.key, example=content, params=dict(item.source))])
        steps: list[Step] = [*recipe.prepare, *([recipe.shift] if layer == "shift" else [])]
        for step in steps:
            samples = step(samples)
            if not isinstance(samples, Iterable):
                name = type(step).__name__
                raise InputError(
                    f"{name} gave {samples!r}: its `__call__` must yield the samples that it makes"
                )
        for sample in samples:
            if not isinstance(sample, Sample):
                name = type(step).__name__
                raise InputError(f"{name} gave {sample!r:.80}: yield replace(sample, key=..., example=...)")
            yield sample
    except (BadItem, ShiftdataError, MemoryError):
        raise
    except Exception as error:  # a recipe is anybody's Python
        parts = (recipe.album, *recipe.prepare, recipe.shift)
        where = place_of(error, {str(sys.modules[type(part).__module__].__file__) for part in parts})
        raise InputError(
            f"{where}, on the item {item.key}: {type(error).__name__}: {error}; correct it, or "
            "raise builders.sample.BadItem('why') to leave the item out"
        ) from error


def _rows(recipe: Recipe, layer: str, item: Item, data: bytes | None = None) -> list[dict[str, object]]:
    """Return the spool's rows of an item, each sample under a key of its own."""
    rows: dict[str, dict[str, object]] = {}
    for sample in render_item(recipe, layer, item, data):
        row = _row(recipe, layer, sample)
        if rows.setdefault(sample.key, row) is not row:
            other = rows[sample.key]["nuisance"]
            raise InputError(
                f"{item.key} has two samples with the key {sample.key!r} (of the nuisances {other} and "
                f"{sample.nuisance}): give each its own, such as key=f'{{sample.key}}-{{nuisance}}'"
            )
    return list(rows.values())


def _check_repeatable(recipe: Recipe, block: Block, copies: Copies | None) -> None:
    """Refuse code of your own that gives other examples the second time: no such build could go on."""
    parts = (recipe.album, *recipe.prepare, recipe.shift)
    own = [type(part) for part in parts if not type(part).__module__.startswith("builders.")]
    if not own:
        return
    item, data = next(with_copies(block.items, copies))
    try:
        first, second = ([row["sha256"] for row in _rows(recipe, block.layer, item, data)] for _ in range(2))
    except BadItem:
        return
    if first != second:
        names = ", ".join(kind.__name__ for kind in own)
        raise InputError(
            f"the examples of {item.key} differ when they are made again (own code: {names}): draw with "
            "shiftdata.stable.rng(seed, sample.key), from no generator that is kept and from no clock"
        )


def _row(recipe: Recipe, layer: str, sample: Sample) -> dict[str, object]:
    if not KEY_PATTERN.fullmatch(sample.key):
        raise InputError(
            f"the recipe {recipe.name} makes the key {sample.key!r}; a key is made of {KEY_PATTERN.pattern}: "
            "make its parts by builders.albums.folder.slug"
        )
    if layer == "shift":
        _check_shifted(recipe, sample)
    example = recipe.encoding.encode(sample)
    try:
        params = json.dumps({"content": sample.item.key, **sample.params}, sort_keys=True)
    except TypeError as error:
        raise InputError(f"the params of {sample.key} are not text and numbers alone: {error}") from error
    return {
        "item": sample.item.key,
        "key": sample.key,
        "nuisance": sample.nuisance,
        "trajectory": sample.trajectory or sample.key,
        "severity": sample.severity if recipe.severities or layer == "content" else None,
        "params": params,
        "sha256": hashlib.sha256(example).digest(),
        "size": len(example),
        "example": example,
    }


def _check_shifted(recipe: Recipe, sample: Sample) -> None:
    """Refuse what the shift does not list, and a sample of a scale without its trajectory."""
    nuisances, severities = recipe.shift.nuisances, recipe.severities
    if sample.nuisance is None:
        name = type(recipe.shift).__name__
        raise InputError(f"{name} gives {sample.key} no nuisance: yield replace(sample, nuisance=..., ...)")
    if sample.nuisance not in nuisances:
        raise InputError(
            f"{sample.key} has the nuisance {sample.nuisance!r}; the shift lists {', '.join(nuisances)}"
        )
    if sample.severity not in (severities or (None, 0)):
        raise InputError(
            f"{sample.key} has the severity {sample.severity}; the shift lists {severities or 'none'}"
        )
    if len(severities) > 1 and sample.trajectory is None:
        raise InputError(
            f"{sample.key} has no trajectory: yield replace(sample, trajectory=..., ...), one for each "
            "content and nuisance, the same in all severities"
        )


def _samples(recipe: Recipe, layer: str, items: ItemTable, rows: IntArray) -> IntArray:
    """Count the samples of items in a layer; content that comes with its nuisance has no other."""
    if layer == "content":
        return np.ones(len(rows), np.int64)
    shift, steps = recipe.shift, max(1, len(recipe.severities))
    comes, is_step = items.codes("nuisance")[rows] >= 0, ~np.isnan(items.severity[rows])
    every: IntArray | int = len(shift.nuisances)
    if isinstance(shift, SomeNuisances) and not comes.all():
        every = np.array([len(shift.nuisances_of(item)) for item in items.take(rows)], np.int64)
    return np.where(comes, np.where(is_step, 1, steps), steps * every)
