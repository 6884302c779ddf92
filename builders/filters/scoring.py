"""Score rendered samples: each block of the spool once by each scorer, kept beside the block.

A file of scores says which examples it is about, by hash, and lies under its scorer's fingerprint: whatever
changes, no score is taken for another. A build that was killed goes on with the scores it has.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from builders.blocks import Block
from builders.filters.rules import SCORE, Filters, described, judge
from builders.filters.scorers import Floats, Learner, Scorer, View, identity
from builders.items import ItemTable
from builders.parts import RECIPE_MODULE
from builders.sample import Item
from builders.spool import Spool
from shiftdata.data.executors import ALONE, Executor, Rank, Ranks
from shiftdata.errors import InputError, IntegrityError
from shiftdata.untrusted.pictures import decoded_picture

DECIMALS = 6  # more would differ from processor to processor, and with them what lies on a threshold


class UnscoredError(IntegrityError):
    """The scores of some blocks were missing or damaged; those have gone, and can be made again."""


class ToScore(NamedTuple):
    """A block to score."""

    of: Block

    @property
    def block(self) -> str:
        return self.of.id

    def __str__(self) -> str:
        return f"scoring the block {self.block}"


def score(
    load: Callable[[], Filters],
    spool: Spool,
    blocks: Sequence[Block],
    content: Callable[[], Iterable[View]],
    executor: Executor,
    rank: Rank = ALONE,
    *,
    on_done: Callable[[int], object] = lambda count: None,
    on_listed: Callable[[int], object] = lambda count: None,
) -> None:
    """Give the samples of some blocks the scores they lack, together with other ranks.

    `load` gives the filters in any process; `content` is what learners learn from, once and here.
    """
    scorers, jobs = load().scorers, list(map(ToScore, blocks))
    there: Mapping[str, Collection[str]] = {}

    def lacks(scorer: Scorer, job: ToScore) -> bool:
        return job.block not in there.get(_folder(scorer), ())

    def missing(some: Sequence[ToScore]) -> list[ToScore]:
        nonlocal there
        there = spool.listing()
        lacking = [job for job in some if any(lacks(scorer, job) for scorer in scorers)]
        return lacking if spool.is_open() else []

    left = missing(jobs)
    on_listed(len(jobs) - len(left))
    if left:
        wanted = [one for one in scorers if any(lacks(one, job) for job in left)]
        learned = _pickled([one.fit(content()) for one in wanted if isinstance(one, Learner)])
        for _, made in Ranks(executor, rank, missing).run(partial(_scorer, load, spool, learned), jobs):
            on_done(made)


def _scorer(load: Callable[[], Filters], spool: Spool, learned: bytes) -> Callable[[ToScore], bool]:
    """Return the function that scores blocks in a worker; it returns False where scores exist."""
    scorers = {
        scorer.name: scorer for scorer in load().scorers
    }  # before what they learned, which needs their classes
    scorers |= {one.name: one for one in pickle.loads(learned)}
    return lambda job: _score(job, list(scorers.values()), spool)


def _score(job: ToScore, scorers: Sequence[Scorer], spool: Spool) -> bool:
    lack = [one for one in scorers if not spool.has_beside(_folder(one), job.block)]
    if not lack or not spool.is_open():
        return False
    rows, _ = spool.whole(job.block)
    places, views = _views(rows, {item.key: item for item in job.of.items})
    for scorer in lack:
        scores = np.full(len(rows), np.nan)
        scores[places] = asked(scorer, views)
        _store(spool, job.block, scorer, rows, scores)
    return True


def judged_samples(
    filters: Filters,
    spool: Spool,
    blocks: Mapping[str, pa.Table],
    items: ItemTable,
    severities: Sequence[float],
) -> pa.Table | None:
    """Every shifted sample of some scored blocks with its scores and verdicts; None if there is none."""
    found, bad = [], []
    for block, rows in blocks.items():
        shifted = pc.is_valid(rows["nuisance"])
        if not pc.any(shifted).as_py():
            continue
        owners = items.take(items.rows_of(rows["item"]))
        columns = {name: rows[name] for name in ("key", "nuisance", "severity", "trajectory")}
        columns |= {name: owners.text(name) for name in ("label", "origin")}
        for scorer in filters.scorers:
            scores = _stored(spool, block, rows, scorer)
            if scores is None:
                spool.delete_beside(_folder(scorer), block)
                bad.append(spool.path(block, _folder(scorer)))
                continue
            columns[SCORE + scorer.name] = pa.array(scores)
        if not bad:
            found.append(pa.table(columns).filter(shifted))
    if bad:
        raise UnscoredError(f"{bad[0]} and {len(bad) - 1} others had no scores: run the same command again")
    if not found:
        return None
    return described(filters, judge(filters, pa.concat_tables(found).sort_by("key"), severities))


def asked(scorer: Scorer, views: Sequence[View]) -> Floats:
    """One finite number for each view, to six decimals; anything else is an error that names the scorer."""
    if not views:
        return np.zeros(0)
    given = np.asarray(scorer(views))
    of = f"the scorer {scorer.name!r}, asked about {len(views)} samples from {views[0].key!r} on,"
    if given.dtype.kind not in "fiu":
        raise InputError(f"{of} gave {given.dtype}: it must give numbers")
    if given.shape != (len(views),):
        raise InputError(f"{of} gave an array of shape {given.shape}: it must give one number a sample")
    wrong = np.flatnonzero(~np.isfinite(given))
    if len(wrong):
        raise InputError(
            f"the scorer {scorer.name!r} gave {given[wrong[0]]} for {views[wrong[0]].key!r} and "
            f"{len(wrong) - 1} other samples: scores are finite; what cannot be scored should score low"
        )
    return given.astype(np.float64).round(DECIMALS) + 0.0  # -0.0 is 0


class _Pickler(pickle.Pickler):
    """Pickles classes and functions of a recipe's file too, which is not a module that can be imported."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type | FunctionType) and str(value.__module__).startswith(RECIPE_MODULE):
            return _defined, (value.__module__, value.__qualname__)
        return NotImplemented


def _defined(module: str, name: str) -> Any:
    return attrgetter(name)(sys.modules[module])


def _pickled(learned: Sequence[Scorer]) -> bytes:
    stream = io.BytesIO()
    try:
        _Pickler(stream).dump(learned)
    except Exception as error:  # scorers are anybody's Python
        names = ", ".join(one.name for one in learned)
        raise InputError(
            f"what {names} learned cannot be sent to other processes ({error}): keep arrays and numbers, and "
            "leave the rest out by `__getstate__`"
        ) from error
    return stream.getvalue()


def decoded(example: bytes) -> Image.Image:
    """A picture as it is published."""
    return decoded_picture(example)


def _views(rows: pa.Table, item_of: Mapping[str, Item]) -> tuple[list[int], list[View]]:
    listed = rows.drop_columns(["params", "sha256"]).to_pylist()
    pictures = {n: decoded(row["example"]) for n, row in enumerate(listed) if row["nuisance"]}
    starts = {listed[n]["trajectory"]: pictures[n] for n in pictures if listed[n]["severity"] == 0}
    scored = [n for n in pictures if listed[n]["trajectory"] in starts]
    views = [
        View(
            key=listed[n]["key"],
            picture=pictures[n],
            start=starts[listed[n]["trajectory"]],
            label=item_of[listed[n]["item"]].label,
            origin=item_of[listed[n]["item"]].origin,
            nuisance=listed[n]["nuisance"],
            severity=listed[n]["severity"],
        )
        for n in scored
    ]
    return scored, views


def _folder(scorer: Scorer) -> str:
    return f"scores-{identity(scorer)[:16]}"


def _store(spool: Spool, block: str, scorer: Scorer, rows: pa.Table, scores: Floats) -> None:
    table = pa.table({"sha256": rows["sha256"], "score": pa.array(scores)})
    spool.write_beside(_folder(scorer), block, table)


def _stored(spool: Spool, block: str, rows: pa.Table, scorer: Scorer) -> Floats | None:
    """The scores that are there for exactly these examples; a file that cannot be read is none."""
    table = spool.read_beside(_folder(scorer), block)
    if table is None or not table["sha256"].equals(rows["sha256"]):
        return None
    scores: Floats = table["score"].to_numpy()
    return scores
