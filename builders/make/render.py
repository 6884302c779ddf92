"""Render: the costly half of a build. Blocks of content items become spooled, encoded samples.

A block is a fixed handful of items with all their nuisances. What is in a block, and every random draw,
depends on names alone, never on the number of workers or the order in which they finish.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context, parent_process

from builders.recipe import Recipe, SomeNuisances, load_recipe
from builders.sample import BadItem, Item, Sample
from builders.spool import Spool
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.format.schema import KEY_PATTERN
from shiftdata.stable import content_hash

ITEMS_PER_BLOCK = 8
QUEUED_PER_WORKER = 4


@dataclass(frozen=True)
class Block:
    """A unit of work: some items of one layer. `weight` is how many samples it makes if none is dropped."""

    layer: str
    items: tuple[Item, ...]
    weight: int

    @property
    def id(self) -> str:
        """The block's name in the spool, made from what is in it."""
        return f"{self.layer}-{content_hash(*(item.key for item in self.items))[:20]}"


def cut_into_blocks(recipe: Recipe, layer: str, items: Sequence[Item]) -> list[Block]:
    """Consecutive items, a few a block."""
    starts = range(0, len(items), ITEMS_PER_BLOCK)
    chunks = [tuple(items[start : start + ITEMS_PER_BLOCK]) for start in starts]
    return [Block(layer, chunk, sum(_samples_of(recipe, layer, item) for item in chunk)) for chunk in chunks]


def render(
    reference: str,
    blocks: Sequence[Block],
    spool: Spool,
    *,
    workers: int,
    on_done: Callable[[Block], object] = lambda block: None,
) -> None:
    """Render every block that the spool lacks. `reference` names the recipe, so that workers can load it."""
    missing = [block for block in blocks if block.id not in spool]
    if workers <= 1 or len(missing) <= 1:
        recipe = load_recipe(reference)
        for block in missing:
            render_block(recipe, block, spool)
            on_done(block)
        return
    context = get_context("spawn")  # a fork would copy the locks of threads that are not there
    with ProcessPoolExecutor(workers, context, _start_worker, (reference, spool)) as pool:
        try:
            _feed(pool, missing, workers * QUEUED_PER_WORKER, on_done)
        except BrokenProcessPool as error:
            raise ShiftdataError(
                "a worker process died, most likely for lack of memory; "
                "run the same command again with fewer --workers, it goes on where it stopped"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def render_block(recipe: Recipe, block: Block, spool: Spool) -> None:
    """Render one block into the spool; an item that cannot be used becomes a reasoned drop."""
    rows: list[dict[str, object]] = []
    drops: dict[str, str] = {}
    for item in block.items:
        try:
            rows += [_row(recipe, sample) for sample in render_item(recipe, block.layer, item)]
        except BadItem as error:
            drops[item.key] = str(error)
    spool.write(block.id, rows, drops)


def render_item(recipe: Recipe, layer: str, item: Item) -> Iterator[Sample]:
    """All samples of one item in one layer."""
    content = recipe.album.load(item)
    samples = iter([Sample(item=item, key=item.key, example=content, params=dict(item.source))])
    for step in recipe.prepare:
        samples = step(samples)
    return samples if layer == "content" else recipe.shift(samples)


def _row(recipe: Recipe, sample: Sample) -> dict[str, object]:
    if not KEY_PATTERN.fullmatch(sample.key):
        raise InputError(
            f"the recipe {recipe.name} makes the key {sample.key!r}; a key is made of {KEY_PATTERN.pattern}"
        )
    if sample.nuisance is not None:
        _check_shifted(recipe, sample)
    example = recipe.encoding.encode(sample)
    return {
        "item": sample.item.key,
        "key": sample.key,
        "nuisance": sample.nuisance,
        "trajectory": sample.trajectory or sample.key,
        "severity": sample.severity,
        "params": json.dumps({"content": sample.item.key, **sample.params}, sort_keys=True),
        "sha256": hashlib.sha256(example).digest(),
        "size": len(example),
        "example": example,
    }


def _check_shifted(recipe: Recipe, sample: Sample) -> None:
    """Refuse a nuisance or a severity that the shift does not list."""
    nuisances, severities = recipe.shift.nuisances, recipe.shift.severities
    if sample.nuisance not in nuisances:
        raise InputError(
            f"{sample.key} has the nuisance {sample.nuisance!r}; the shift lists {', '.join(nuisances)}"
        )
    if sample.severity not in (severities or (None,)):
        raise InputError(
            f"{sample.key} has the severity {sample.severity}; the shift lists {severities or 'none'}"
        )


def _samples_of(recipe: Recipe, layer: str, item: Item) -> int:
    """How many samples an item becomes in a layer; content that comes with its nuisance has no other."""
    if layer == "content":
        return 1
    shift = recipe.shift
    some = shift.nuisances_of(item) if isinstance(shift, SomeNuisances) else shift.nuisances
    return (1 if item.nuisance else len(some)) * max(1, len(shift.severities))


def _feed(
    pool: ProcessPoolExecutor, blocks: Sequence[Block], queued: int, on_done: Callable[[Block], object]
) -> None:
    """Keep a bounded number of blocks in the pool, and report each when it is on disk."""
    todo = iter(blocks)
    running: dict[Future[None], Block] = {}
    while True:
        for block in islice(todo, queued - len(running)):
            running[pool.submit(_work, block)] = block
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
            on_done(running.pop(future))


_worker: tuple[Recipe, Spool] | None = None


def _start_worker(reference: str, spool: Spool) -> None:
    global _worker  # the pool offers no other place for what a process keeps between tasks
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker at once: its block is whole or absent
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    _worker = (load_recipe(reference), spool)


def _exit_with_parent() -> None:
    """A pool whose parent was killed would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(block: Block) -> None:
    if _worker is None:
        raise RuntimeError("a worker was not started by _start_worker")
    recipe, spool = _worker
    render_block(recipe, block, spool)
