"""Score rendered samples: each block of the spool once by each scorer, kept beside the block.

A file of scores says which examples it is about, by hash, and lies under its scorer's fingerprint: whatever
changes, no score is taken for another. A build that was killed goes on with the scores it has.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from builders.filters.rules import SCORE, Filters, described, judge
from builders.filters.scorers import Floats, Learner, Scorer, View, identity
from builders.sample import Item
from builders.spool import Spool
from shiftdata.errors import InputError, IntegrityError
from shiftdata.files import whole_file

DECIMALS = 6  # more would differ from processor to processor, and with them what lies on a threshold


def score(
    filters: Filters,
    spool: Spool,
    blocks: Sequence[str],
    items: Sequence[Item],
    content: Callable[[], Iterable[View]],
    on_done: Callable[[int], object],
) -> None:
    """Give the samples of some blocks the scores they lack; `content` is what learners learn from."""
    lacking: dict[str, list[Scorer]] = {}
    for block in blocks:
        rows = spool.read(block)[0]
        lacking[block] = [one for one in filters.scorers if _stored(spool, block, rows, one) is None]
    ready: dict[str, Scorer] = {}
    for scorer in (one for scorers in lacking.values() for one in scorers):
        if scorer.name not in ready:
            ready[scorer.name] = scorer.fit(content()) if isinstance(scorer, Learner) else scorer
    item_of = {item.key: item for item in items}
    for block, scorers in lacking.items():
        if scorers:
            rows = spool.read(block)[0]
            places, views = _views(rows, spool.examples(block), item_of)
        for scorer in scorers:
            scores = np.full(len(rows), np.nan)
            scores[places] = asked(ready[scorer.name], views)
            _store(_path(spool, block, scorer), rows, scores)
        on_done(1)


def judged_samples(
    filters: Filters,
    spool: Spool,
    blocks: Mapping[str, pa.Table],
    items: Sequence[Item],
    severities: Sequence[float],
) -> pa.Table | None:
    """Every shifted sample of some scored blocks with its scores and verdicts; None if there is none."""
    item_of = {item.key: item for item in items}
    found = []
    for block, rows in blocks.items():
        shifted = pc.is_valid(rows["nuisance"])
        if not pc.any(shifted).as_py():
            continue
        owners = [item_of[key] for key in rows["item"].to_pylist()]
        columns = {name: rows[name] for name in ("key", "nuisance", "severity", "trajectory")}
        columns["label"] = pa.array([item.label for item in owners])
        columns["origin"] = pa.array([item.origin for item in owners])
        for scorer in filters.scorers:
            scores = _stored(spool, block, rows, scorer)
            if scores is None:
                where = _path(spool, block, scorer)
                raise IntegrityError(f"{where} has no scores of these samples: run the same command again")
            columns[SCORE + scorer.name] = pa.array(scores)
        found.append(pa.table(columns).filter(shifted))
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


def decoded(example: bytes) -> Image.Image:
    """A picture as it is published."""
    return Image.open(io.BytesIO(example)).convert("RGB")


def _views(
    rows: pa.Table, examples: pa.BinaryArray, item_of: Mapping[str, Item]
) -> tuple[list[int], list[View]]:
    listed = rows.drop_columns(["params", "sha256"]).to_pylist()
    pictures = {n: decoded(examples[n].as_py()) for n, row in enumerate(listed) if row["nuisance"]}
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


def _path(spool: Spool, block: str, scorer: Scorer) -> Path:
    return spool.folder / f"scores-{identity(scorer)[:16]}" / f"{block}.arrow"


def _store(path: Path, rows: pa.Table, scores: Floats) -> None:
    table = pa.table({"sha256": rows["sha256"], "score": pa.array(scores)})
    with (
        whole_file(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)


def _stored(spool: Spool, block: str, rows: pa.Table, scorer: Scorer) -> Floats | None:
    """The scores that are there for exactly these examples; a file that cannot be read is none."""
    try:
        with pa.OSFile(str(_path(spool, block, scorer))) as source:
            table = pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowInvalid):
        return None
    if not table["sha256"].equals(rows["sha256"]):
        return None
    scores: Floats = table["score"].to_numpy()
    return scores
