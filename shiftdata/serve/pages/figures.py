"""Numbers of a dataset's page that are counted once: distributions, features, duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.format.schema import SPLITS
from shiftdata.serve.pages.rows import Rows

#: Bars of one chart at most.
MOST_BARS = 40
#: Features that have a chart, rows that are read for them, and bins of a histogram.
MOST_FEATURES, MOST_READ, BINS = 12, 5_000, 32
#: Nuisances of which a histogram is drawn.
MOST_LINES = 12
#: Pairs of equal examples that are named.
MOST_PAIRS = 50


def distributions(rows: Rows) -> list[dict[str, Any]]:
    """How rows spread over splits, folds, labels, nuisances, severities, and over origins."""
    known, manifest = rows.metadata, rows.dataset.manifest
    folds = np.bincount(known.columns["fold"] // 10, minlength=10)
    splits = np.bincount(known.columns["split"], minlength=len(SPLITS))
    per_origin = np.bincount(known.origin)
    sizes, how_many = np.unique(per_origin[per_origin > 0], return_counts=True)
    named = known.nuisance[known.nuisance >= 0]
    charts = [
        _chart("splits", list(SPLITS), splits),
        _chart("folds, ten by ten", [f"{at}0 to {at}9" for at in range(10)], folds),
        _chart(
            f"{manifest.roles.label}s", known.labels, np.bincount(known.label, minlength=len(known.labels))
        ),
        _chart(
            f"{known.nuisance_column}s", known.nuisances, np.bincount(named, minlength=len(known.nuisances))
        ),
        _chart("origins, by the rows that each has", [f"{one:,} rows" for one in sizes], how_many, "origins"),
    ]
    if rows.is_continuous:
        steps, count = np.unique(known.columns["severity"], return_counts=True)
        charts.append(_chart("severities", [f"{step:g}" for step in steps], count))
    return [one for one in charts if one["pairs"]]


def _chart(
    caption: str, names: Sequence[str], counts: NDArray[np.integer], unit: str = "rows"
) -> dict[str, Any]:
    """One chart of bars; of very many the longest."""
    pairs = [(name, int(count)) for name, count in zip(names, counts, strict=True) if count]
    if len(pairs) > MOST_BARS:
        caption = f"{caption}: the largest {MOST_BARS} of {len(pairs):,}"
        pairs = sorted(pairs, key=lambda pair: -pair[1])[:MOST_BARS]
    return {"caption": caption, "pairs": pairs, "unit": unit}


def features(rows: Rows) -> dict[str, Any] | None:
    """Histograms of a table's features in each nuisance, on one scale; of texts, of their lengths."""
    if rows.modality == "image" or not rows.dataset.manifest.pixels_included:
        return None
    known = rows.metadata
    step = max(1, -(-len(known) // MOST_READ))
    at = rows.order[::step]
    read = rows.texts(at)
    if rows.modality == "text":
        columns = {
            "characters": np.array([len(one) for one in read], float),
            "words": np.array([len(one.split()) for one in read], float),
        }
    else:
        names = list(rows.dataset.manifest.roles.example)
        columns = {name: _numbers([one[name] for one in read]) for name in names}
        columns = _most_different(columns, known.nuisance[at])
    charts = [_histograms(name, of, known.nuisance[at], known.nuisances) for name, of in columns.items()]
    drawn = [one for one in charts if one is not None]
    total = 2 if rows.modality == "text" else len(rows.dataset.manifest.roles.example)
    read_of = f"{len(at):,} of {len(known):,} rows" if step > 1 else f"all {len(known):,} rows"
    shown = f"the {len(drawn)} of {total} whose means differ most" if len(drawn) < total else "each"
    scaled = "the lines of a chart share one scale, the share of a line's rows"
    used = len(np.unique(known.nuisance[at]))
    cut = f", the first {MOST_LINES} of {used:,}" if used > MOST_LINES else ""
    about = f"{shown.capitalize()} by {known.nuisance_column}{cut}, of {read_of}; {scaled}."
    return {"about": about, "charts": drawn} if drawn else None


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    """A feature as numbers; what is none, such as a name, is nan."""
    return np.array([float(one) if isinstance(one, int | float) else np.nan for one in values])


def _most_different(
    columns: dict[str, NDArray[np.float64]], nuisance: NDArray[Any]
) -> dict[str, NDArray[np.float64]]:
    """The features whose means differ most between nuisances, in units of their spread."""

    def gap(of: NDArray[np.float64]) -> float:
        fine = np.isfinite(of)
        spread = of[fine].std() if fine.any() else 0.0
        means = [of[fine & (nuisance == one)].mean() for one in np.unique(nuisance[fine])]
        return float(np.ptp(means) / spread) if spread and means else -1.0

    chosen = sorted(columns, key=lambda name: -gap(columns[name]))[:MOST_FEATURES]
    return {name: columns[name] for name in chosen if gap(columns[name]) >= 0}


def _histograms(
    name: str, values: NDArray[np.float64], nuisance: NDArray[Any], names: Sequence[str]
) -> dict[str, Any] | None:
    fine = np.isfinite(values)
    if not fine.any() or np.ptp(values[fine]) == 0:
        return None
    low, high = np.quantile(values[fine], [0.005, 0.995])
    if low == high:
        low, high = values[fine].min(), values[fine].max()
    whole = bool((values[fine] == np.round(values[fine])).all()) and high - low < BINS
    bins, half = (round(high - low) + 1, 0.5) if whole else (BINS, 0.0)
    shares, said = {}, []
    for one in np.unique(nuisance[fine])[:MOST_LINES].tolist():
        mine = values[fine & (nuisance == one)]
        line_name = names[one] if one >= 0 else "untouched"
        shares[line_name] = np.histogram(np.clip(mine, low, high), bins, (low - half, high + half))[0] / len(
            mine
        )
        said.append(f"{line_name}: mean {mine.mean():.3g}, n {len(mine):,}")
    top = max(of.max() for of in shares.values())
    lines = [
        {"name": line_name, "heights": [round(float(height), 1) for height in 15 * of / top]}
        for line_name, of in shares.items()
    ]
    about = f"{name}, histograms. {'; '.join(said)}"
    return {
        "name": name,
        "lines": lines,
        "low": f"{low:.4g}",
        "high": f"{high:.4g}",
        "about": about,
        "step": 320 / bins,
        "top": f"{100 * top:.0f} %",
    }


def duplicates(rows: Rows) -> dict[str, Any]:
    """Equal examples of a base, and whether some are in two splits."""
    known = rows.metadata
    parts = [part["sha256"] for _, part in known.blocks(["sha256"])]
    codes = pa.chunked_array(parts).combine_chunks().dictionary_encode().indices.to_numpy()
    counts = np.bincount(codes)
    split = known.columns["split"]
    copies = np.flatnonzero(counts[codes] > 1)
    order = copies[np.argsort(codes[copies], kind="stable")]
    first = np.diff(codes[order], prepend=-1) != 0
    begins = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    leaks = np.zeros(len(begins), bool)
    leaks[group[split[order] != split[order[begins]][group]]] = True
    lines = [_said(rows, len(order), len(begins), int(leaks.sum()))]
    if rows.is_continuous and len(order):
        zero = int((known.columns["severity"][order] == 0).sum())
        lines.append(
            f"{zero:,} of them are untouched: each trajectory begins with the same example, as it must."
        )
    ranked = np.argsort(~leaks, kind="stable")
    if rows.is_continuous:
        ranked = ranked[known.columns["severity"][order[begins[ranked]]] != 0]
    if len(ranked) > MOST_PAIRS:
        lines.append(f"The list has a pair of each of the first {MOST_PAIRS} of {len(ranked):,}.")
    pairs = []
    for at in ranked[:MOST_PAIRS].tolist():
        one, two = order[begins[at]], order[begins[at] + 1]
        keys = known.keys(np.array([one, two])).to_pylist()
        what = "bytes, in two splits" if leaks[at] else "bytes"
        pairs.append({"base": rows.base, "first": keys[0], "second": keys[1], "what": what})
    return {"lines": lines, "pairs": pairs}


def _said(rows: Rows, copies: int, kinds: int, across: int) -> str:
    where = f"in the base {rows.base}"
    if not copies:
        return f"No two examples {where} have the same bytes."
    leak = f"{across:,} of these are in more than one split" if across else "none is in more than one split"
    return f"{copies:,} rows {where} share their bytes with another: {kinds:,} different examples, {leak}."
