"""CNS-Bench's claims: which pictures models have right, under each corruption at each severity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from claims import MARGINS, SHOWN, Sight
from evidence import RECORDS
from numpy.typing import NDArray
from verdicts import FAILS, HOLDS, Tested, interval, tested

from shiftdata.bench.saved import SavedRuns
from shiftdata.evaluation.metrics.differences import holm, student_test

#: The share of runs (seeds) that have a picture right, by what was shown.
PICTURES = RECORDS / "pictures.parquet"
AXES = ("shown", "model", "picture", "shift", "severity")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Right:
    """The share of runs that have a picture right: model x picture x shift x severity."""

    models: tuple[str, ...]
    share: Floats


def keep(places: Sequence[str]) -> None:
    """Write which pictures saved predictions (SHOWN/MODEL/SEED=FOLDER) have right, as the mean over seeds."""
    by_shown: dict[str, list[str]] = {}
    for place in places:
        by_shown.setdefault(place.partition("/")[0], []).append(place)
    tables = [_kept(shown, of) for shown, of in by_shown.items()]
    if PICTURES.exists():  # what is given replaces what is there
        before = pq.read_table(PICTURES)
        tables.append(before.filter([shown not in by_shown for shown in before["shown"].to_pylist()]))
    table = pa.concat_tables(tables).sort_by([(axis, "ascending") for axis in AXES])
    pq.write_table(table, PICTURES, compression="zstd")


def _kept(shown: str, places: Sequence[str]) -> pa.Table:
    saved = SavedRuns.read(*places)
    task = saved.task
    rows = task.rows("test")
    right: dict[str, list[NDArray[Any]]] = {}
    for number, name in enumerate(saved.column("method")):
        predicted = saved.predicted(number)
        assert predicted is not None  # it was saved
        right.setdefault(name.split("/")[1], []).append(predicted == task.metadata.label[rows])
    picture = np.unique(task.metadata.origin[rows], return_inverse=True)[1].astype(np.int16)
    shift = np.array(task.metadata.nuisances)[task.metadata.nuisance[rows]]
    severity = task.metadata.columns["severity"][rows].astype(np.float32)
    tables = []
    for model, of_seeds in right.items():
        names = [pa.array([text] * len(rows)) for text in (shown, model)]
        share = np.mean(of_seeds, axis=0).astype(np.float32)
        tables.append(pa.table([*names, picture, shift, severity, share], [*AXES, "right"]))
    return pa.concat_tables(tables)


@cache
def rights() -> Mapping[str, Right]:
    """Read what was kept, by what was shown."""
    found: dict[str, Right] = {}
    if not PICTURES.exists():
        return found
    table = pq.read_table(PICTURES)
    for shown in SHOWN:
        part = table.filter(pc.equal(table["shown"], shown))
        shape = [len(part[axis].unique()) for axis in AXES[1:]]
        if len(part):
            share = part["right"].to_numpy().astype(np.float64).reshape(shape)
            found[shown] = Right(tuple(sorted(set(part["model"].to_pylist()))), share)
    return found


@dataclass(frozen=True)
class Seen:
    """The cells of a claim on pictures: its contrast, points, interval and number of pictures."""

    contrast: str
    points: str
    interval: str
    pictures: int
    tested: Tested


def seen(sight: Sight, right: Right) -> Seen:
    """Test a claim of CNS-Bench on pictures."""
    if sight.axis:
        return _places(right.share, sight.axis)
    if sight.models:
        smaller, larger = (right.share[right.models.index(name)] for name in sight.models)
        drop = [100 * (model[..., 0] - model[..., -1]).mean(-1) for model in (smaller, larger)]
        contrast, differences = f"drop of {' - '.join(sight.models)}", drop[0] - drop[1]
    else:
        contrast, differences = "first wrong at the last - at the one before", _last(right.share)
    result = tested(differences, "leads", MARGINS["CNS-Bench"])
    return Seen(contrast, f"{differences.mean():+.1f}", interval(differences), len(differences), result)


def _last(share: Floats) -> Floats:
    """Return, by picture, the trajectories that fail first at the last severity, less those one before."""
    alive = np.cumprod(share, axis=-1)  # the chance, over seeds, that all are right so far
    first = alive[..., :-1] - alive[..., 1:]
    return np.asarray(100 * (first[..., -1] - first[..., -2]).mean(axis=(0, 2)))


def _places(share: Floats, axis: str) -> Seen:
    """Test whether of some pair of models each is surely ahead at some place along an axis.

    Comparisons of pairs at places are adjusted by Holm; the claim has the level at which the best pair has
    both leads, its opposite that at which every pair has one order at all places.
    """
    averaged = {"shift": 3, "severity": 2}[axis]
    accuracy = share.mean(axis=averaged)  # model, picture, place
    pairs = list(combinations(range(len(share)), 2))
    leads = np.array([(accuracy[a] - accuracy[b]).T for a, b in pairs])  # pair, place, picture
    tests = [student_test(lead)[2] for pair in leads for lead in pair]
    p = np.array(holm(tests)).reshape(leads.shape[:2])
    p = np.where(np.isnan(p), 1.0, p)  # all pictures agree
    ahead = np.where(leads.mean(-1) > 0, p, 1.0)
    behind = np.where(leads.mean(-1) < 0, p, 1.0)
    both = np.maximum(ahead.min(1), behind.min(1))
    same = np.minimum(ahead.max(1), behind.max(1)).max()
    result = min(Tested(HOLDS, float(both.min())), Tested(FAILS, float(same)), key=lambda result: result.p)
    contrast = f"pairs that change, {len(tests)} comparisons"
    points = f"{(both < 0.05).sum()} of {len(pairs)}"
    return Seen(contrast, points, "-", share.shape[1], result)
