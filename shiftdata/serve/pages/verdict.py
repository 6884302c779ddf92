"""The verdict on a dataset's page: five questions, each answered in a sentence."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.licenses import NO_DERIVATIVES, PUBLIC_DOMAIN, SHARE_ALIKE, conjuncts, rights
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import Split, span
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.loading.sprites import sprite
from shiftdata.errors import ShiftdataError
from shiftdata.evaluation.duplicates import Duplicates, summary_of
from shiftdata.evaluation.protocols import task
from shiftdata.evaluation.tasks.rows import leaking_origins
from shiftdata.serve.pages.duplicates_page import last_duplicates
from shiftdata.serve.pages.rows import Rows

#: Examples of a strip, the pixels along a side of one, the characters of a text.
MOST_TILES, TILE, MOST_TEXT = 10, 112, 240
#: Canonical splits that are made to be checked for leaks, and their rows all together: a page takes a second.
MOST_MADE, MOST_CHECKED = 12, 3_000_000
#: The ratio of the largest to the smallest group from which rows are called unbalanced.
UNEVEN = 1.25
#: The accuracy of one class against all others from which a trace is a shortcut, halfway between a guess and
#: certainty; sampling noise comes on top. Sizes in bytes are measured, but no model reads them.
SHORTCUT, UNREAD = 0.75, "size in bytes"
#: They do not ask for attribution, as the public domain does not.
UNNAMED = (*PUBLIC_DOMAIN, "0BSD", "MIT-0", "PDDL-1.0", "Unlicense", "WTFPL")
NOUNS = {"image": "picture", "text": "text", "table": "row"}

Tone: TypeAlias = Literal["good", "caution", "open"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A question about a dataset with its answer; the tone: good, something to know, or not known."""

    name: str
    question: str
    text: str
    tone: Tone


def verdict(rows: Rows, most: int = MOST_MADE) -> list[Answer]:
    """Answer the five questions about a dataset; `rows` are of its default base, `most` as in `leaks_of`."""
    manifest = rows.dataset.manifest
    return [
        balance_answer(manifest, rows.counts[:, 1:]),
        leak_answer(manifest, *leaks_of(rows, most), last_duplicates(manifest)),
        shortcut_answer(manifest),
        severity_answer(manifest),
        use_answer(manifest),
    ]


def lead_of(manifest: Manifest) -> str:
    """Say what a dataset is: what is predicted of what, and what shifts."""
    roles, severities = manifest.roles, len(manifest.severities)
    features = f" of {len(roles.example)} features" if roles.modality == "table" else ""
    steps = f", in {severities} severities each" if severities > 1 else ""
    return (
        f"{manifest.rows:,} {NOUNS[roles.modality]}s{features}. Predict the {roles.label} "
        f"({_names(manifest.labels)}); the {roles.nuisance} shifts ({_names(manifest.nuisances)}{steps})."
    )


def _names(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(name[:40] for name in names[:most])
    return f"{len(names):,}: {shown}{', …' if len(names) > most else ''}"


def balance_answer(manifest: Manifest, counts: IntArray) -> Answer:
    """Compare the groups; `counts` are the rows of each label (down) and nuisance (across)."""
    ys, xs = np.flatnonzero(counts.any(axis=1)), np.flatnonzero(counts.any(axis=0))
    counts = counts[np.ix_(ys, xs)]
    pair = f"{manifest.roles.label} and {manifest.roles.nuisance}"
    low, high, empty = (counts.min(), counts.max(), (counts == 0).sum()) if counts.size else (0, 0, 0)
    tone: Tone = "good" if high <= UNEVEN * low else "caution"
    if not counts.size:
        text, tone = f"No row of {manifest.default_base} has a {manifest.roles.nuisance}.", "open"
    elif low == high:
        text = f"Yes: each of the {counts.size:,} groups ({pair}) has {low:,} rows."
    elif tone == "good":
        text = f"Nearly: the {counts.size:,} groups ({pair}) have {low:,} to {high:,} rows."
    else:
        gaps = f", and {empty:,} of {counts.size:,} have none" if empty else ""
        least = np.where(counts == 0, high, counts)
        ends = [np.unravel_index(at, counts.shape) for at in (least.argmin(), counts.argmax())]
        named = [f"{least[y, x]:,} ({manifest.labels[ys[y]]} / {manifest.nuisances[xs[x]]})" for y, x in ends]
        text = f"No: groups have {named[0]} to {named[1]} rows{gaps}."
    return Answer(name="balance", question="Balanced?", text=f"{text}{_training(manifest)}", tone=tone)


def _training(manifest: Manifest) -> str:
    """Say how the training set of the first canonical split is spread."""
    for split in manifest.canonical_splits:
        for rows in split.sets.values():
            if "fit" in rows.roles and (size := rows.size).groups:
                return f" The training set of {split.name} {spread(size)}."
    return ""


def spread(size: Split) -> str:
    """Say how the rows of a set are spread over its groups."""
    if size.smallest == size.largest:
        return f"is balanced: {size.smallest:,} rows in each of {size.groups:,} groups"
    how = "is skewed" if size.largest > UNEVEN * size.smallest else "is nearly balanced"
    return f"{how}: {size.smallest:,} to {size.largest:,} rows in its {size.groups:,} groups"


def leaks_of(rows: Rows, most: int = MOST_MADE) -> tuple[Mapping[str, int], Sequence[str]]:
    """Count the origins that leak in each canonical split, and name the splits that were not checked.

    Origins that lie in one split of their base cannot leak between sets of different splits. Of canonical
    splits with other sets `most` are made.
    """
    return rows.keep(("leaks", most), lambda: _leaks(rows.dataset, most))


def _leaks(dataset: OpenDataset, most: int) -> tuple[dict[str, int], list[str]]:
    manifest, left = dataset.manifest, MOST_CHECKED
    leaks = {f"the splits of {base.name}": _shared(dataset, base.name) for base in manifest.ordered_bases}
    unchecked = list[str]()
    for split in manifest.canonical_splits:
        parts = [part for rows in split.sets.values() for part in rows.splits]
        if len(parts) == len(set(parts)) and not leaks[f"the splits of {split.base}"]:
            leaks[split.name] = 0
            continue
        left, most = left - manifest.base(split.base).rows, most - 1
        if min(left, most) < 0:
            unchecked.append(split.name)
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it leaks is the answer
                leaks[split.name] = len(leaking_origins(task(dataset, split.name, on_empty="report")))
        except ShiftdataError:
            unchecked.append(split.name)
    if manifest.authors_split:  # their base is a pool: nobody trains on its own splits
        leaks.pop(f"the splits of {manifest.authors_split.base}", None)
    return leaks, unchecked


def _shared(dataset: OpenDataset, base: str) -> int:
    """Count the origins with rows in several splits of a base."""
    known = Rows.of(dataset, base).metadata
    seen = np.zeros((len(SPLITS), len(known.origin_names)), bool)
    seen[known.columns["split"], known.origin] = True
    return int((seen.sum(axis=0) > 1).sum())


def leak_answer(
    manifest: Manifest,
    leaks: Mapping[str, int],
    unchecked: Sequence[str],
    duplicates: Duplicates | None = None,
) -> Answer:
    """Say in which canonical splits an original is in sets that must be apart; `leaks` counts them."""
    noun, found = NOUNS[manifest.roles.modality], {name: count for name, count in leaks.items() if count}
    checked = [split.name for split in manifest.canonical_splits if split.name in leaks]
    among = f", in any of {len(checked)} canonical splits" if len(checked) > 1 else ""
    if found:
        shown = ", ".join(f"{name} ({count:,})" for name, count in list(found.items())[:3])
        text = f"Yes: the same originals are in training and test data of {len(found)} splits, {shown}."
    elif not leaks:
        text = "Not checked."
    else:
        text = f"None found: no original {noun} is in both training and test data{among}."
    equal = sum(base.equal_apart for base in manifest.bases)
    if equal:
        text += f" But {equal:,} sets of equal {noun}s, each counted as several originals, lie across splits."
    if unchecked:
        more = f" and {len(unchecked) - 2:,} more" if len(unchecked) > 2 else ""
        text += f" Not checked here: {', '.join(unchecked[:2])}{more}."
    if duplicates is not None:
        text += f" {summary_of(duplicates)}."
    alike = duplicates is not None and duplicates.across
    tone: Tone = "caution" if found or equal or alike else "good" if checked else "open"
    return Answer(name="leaks", question="Leaks?", text=text, tone=tone)


def shortcut_answer(manifest: Manifest) -> Answer:
    """Say what trivial traces give away of the label, and what a small model reaches."""
    shortcuts, label = manifest.shortcuts, manifest.roles.label
    traces = [t for t in shortcuts.traces if t.target == "label" and t.name != UNREAD] if shortcuts else []
    tone: Tone = "good"
    if not traces:
        reason = "" if manifest.roles.modality == "image" else ": only pictures are"
        text, tone = f"Not measured{reason}.", "open"
    else:
        best = max(traces, key=lambda trace: (trace.accuracy - trace.chance, trace.alone))
        plain = max(traces, key=lambda trace: trace.alone)
        numbers = f"the {label} {_percent(best.accuracy)} of the time (a guess: {_percent(best.chance)})"
        if plain.alone >= SHORTCUT + 2 * plain.noise:
            also = "it" if plain is best else f"the {best.name}"
            text, tone = (
                (
                    f"Yes: the {plain.name} alone tells “{plain.plainest}” from the rest with "
                    f"{_percent(plain.alone)} accuracy (a guess: 50 %); {also} predicts {numbers}."
                ),
                "caution",
            )
        elif plain.alone >= 0.5 + 4 * plain.noise:
            text = f"Some: of {len(traces)} trivial traces the {best.name} tells most; it predicts {numbers}."
        else:
            text = f"None found: no trivial trace of {len(traces)} predicts the {label} better than a guess."
    return Answer(name="shortcuts", question="Shortcuts?", text=f"{text}{_calibrated(manifest)}", tone=tone)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _calibrated(manifest: Manifest) -> str:
    first = manifest.calibration.first if manifest.calibration else ()
    if not first:
        return ""
    mean, worst = (span([getattr(by, name)[0] for by in first]) for name in ("mean", "worst"))
    networks = len({by.network for by in first})
    return (
        f" On {first[0].split}, the accuracy of {networks} small network{'s' * (networks > 1)} "
        f"({first[0].trained}) is {mean}, in the worst group {worst}."
    )


def severity_answer(manifest: Manifest) -> Answer:
    """Say how many strengths the shift has."""
    steps = manifest.severities
    if len(steps) > 1:
        text = f"{len(steps)} steps from {min(steps):g} (untouched) to {max(steps):g}."
        text = text if min(steps) == 0 else text.replace(" (untouched)", "")
    else:
        text = f"One strength: the {manifest.roles.nuisance} has no degrees."
    return Answer(name="severity", question="Severity?", text=text, tone="good")


def use_answer(manifest: Manifest) -> Answer:
    """Say what the licences allow and ask for."""
    names, may = conjuncts(manifest.license), rights(manifest.license)
    shares = [name for name in names if SHARE_ALIKE.fullmatch(name)]
    closed = [name for name in names if NO_DERIVATIVES.fullmatch(name)]
    terms = [] if all(name in UNNAMED for name in names) else ["name the authors"]
    terms += [f"pass on what you change under the same licence ({', '.join(shares)})"] if shares else []
    asks = f"; {' and '.join(terms)}" if terms else ""
    tone: Tone = "caution" if closed else "good"
    if may["commercial"] == "no":
        limits = ", ".join(name for name in names if "-NC-" in f"-{name.upper()}-")
        text, tone = f"Not for commercial use ({limits}){asks}.", "caution"
        if any(rights(credit.license)["commercial"] == "yes" for credit in manifest.credits):
            text += f" Rows that allow it: shiftdata fetch {manifest.name} --select use=commercial."
    elif may["commercial"] == "unknown":
        text, tone = f"Not known: read the terms of {manifest.license} first.", "open"
    else:
        text = f"Also for commercial use{asks}."
    if closed:
        text += f" Changed versions may not be passed on ({', '.join(closed)})."
    return Answer(name="use", question="Licence?", text=text, tone=tone)


def strip_of(rows: Rows, shown: Mapping[tuple[int, int], IntArray]) -> dict[str, Any]:
    """Show an original at every severity, or under several nuisances: a caption and its examples.

    `shown` are the rows with a page of their own where there is no server; without any, all have one.
    """
    known, manifest = rows.metadata, rows.dataset.manifest
    label, nuisance, at = _one_original(rows)
    columns, several = known.columns, rows.is_continuous
    captions = [
        f"{columns['severity'][row]:g}" if several else _nuisance(rows, int(known.nuisance[row]))
        for row in at.tolist()
    ]
    same = "The same " if len(np.unique(known.origin[at])) < 2 else ""
    count = int((known.nuisance[at] >= 0).sum())
    under = (
        f"under {_nuisance(rows, nuisance)}, by severity"
        if several
        else f"in {count} {manifest.roles.nuisance}s"
    )
    about = f"{same}“{known.labels[label]}” {under}"
    linked = {int(row) for group in shown.values() for row in group} if shown else None
    keys = known.keys(at).to_pylist()
    tiles = [
        {"key": key if linked is None or row in linked else "", "caption": caption}
        for row, key, caption in zip(at.tolist(), keys, captions, strict=True)
    ]
    if len(tiles) < 2:
        tiles = []
    elif rows.has_pictures:
        for tile, data in zip(tiles, rows.examples(at), strict=True):
            tile["picture"] = f"data:image/webp;base64,{base64.b64encode(sprite([data], TILE, 1)).decode()}"
    elif manifest.pixels_included and rows.modality == "text":
        for tile, text in zip(tiles, rows.texts(at), strict=True):
            tile["text"] = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
    else:
        tiles = []
    return {"about": about, "base": rows.base, "tiles": tiles}


def _one_original(rows: Rows) -> tuple[int, int, IntArray]:
    """Choose the rows of a strip, and their label and nuisance: of the first label with rows."""
    known, order = rows.metadata, rows.order
    shifted = order[(known.nuisance[order] >= 0) & (known.label[order] >= 0)]
    if not len(shifted):
        return -1, -1, shifted
    first = shifted[0]
    label, nuisance = int(known.label[first]), int(known.nuisance[first])
    mine = order[known.label[order] == label]
    if rows.is_continuous:
        mine = mine[known.nuisance[mine] == nuisance]
        trajectory = mine[known.origin[mine] == known.origin[first]]
        _, at = np.unique(known.columns["severity"][trajectory], return_index=True)
        return label, nuisance, _spread(trajectory[at])
    width = len(known.nuisances) + 1
    cells, at = np.unique(
        known.origin[mine].astype(np.int64) * width + known.nuisance[mine] + 1, return_index=True
    )
    origins, counts = np.unique(cells // width, return_counts=True)
    if counts.max() > 1:
        at = at[cells // width == origins[counts.argmax()]]
    else:  # each original has one nuisance: show another one of each
        at = np.unique(known.nuisance[mine], return_index=True)[1]
    return label, nuisance, _spread(mine[at])


def _nuisance(rows: Rows, number: int) -> str:
    return "untouched" if number < 0 else rows.metadata.nuisances[number]


def _spread(rows: IntArray) -> IntArray:
    """Keep the first, the last and evenly spread ones between them of too many."""
    places = np.linspace(0, len(rows) - 1, min(len(rows), MOST_TILES)).round().astype(np.int64)
    kept: IntArray = rows[places]
    return kept
