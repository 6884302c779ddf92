"""Render a dataset's README from its manifest: YAML for `datasets` and the Hub, prose for people."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builders.describe.calibration import (
    calibration_answers,
    calibration_lines,
    calibration_summary,
    calibration_table,
    calibration_warning,
)
from builders.describe.shortcuts import shortcut_table, silent_traces, warnings
from shiftdata.data.format.front_matter import (
    cell,
    check_size,
    linked,
    loading_entries,
    tags,
    task_category,
    yaml_lines,
)
from shiftdata.data.format.licenses import hub_terms, rights
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import ATTRIBUTION, protocol_file
from shiftdata.data.format.records import CanonicalSet, Split, by_reason
from shiftdata.data.format.schema import SPLITS, group_names
from shiftdata.data.format.written import unknown_origins
from shiftdata.extras import require

#: Where a checkout has the template and the cards that it makes; a wheel has the template next to this file.
CARDS = Path(__file__).resolve().parents[2] / "cards"
TEMPLATE = "dataset.md.jinja"
MOST_NAMES, MOST_FEATURES, MOST_CREDITS = 60, 12, 5
#: The Hub's names of sizes, by the most rows of each.
SIZES = {10**3: "n<1K", 10**4: "1K<n<10K", 10**5: "10K<n<100K", 10**6: "100K<n<1M", 10**7: "1M<n<10M"}
SIZES |= {10**8: "10M<n<100M", 10**9: "100M<n<1B", 10**10: "1B<n<10B"}


def render_card(manifest: Manifest, picture: str | None = None) -> str:
    """The whole README.md; `picture` shows the examples where the manifest lists no picture of its own.

    A manifest that was only drafted from a recipe has no counts, and its card says so.
    """
    jinja2 = require("jinja2", "a card")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(__file__).parent, CARDS]),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    configs = manifest.configs
    virtual = [split.name for split in manifest.canonical_splits if split.name in configs]
    shown = (virtual or [next(iter(configs))])[0]
    environment.filters |= {
        "count": "{:,}".format,
        "named": _named,
        "cell": cell,
        "linked": linked,
        "folded": _folded,
    }
    card: str = environment.get_template(TEMPLATE).render(
        m=manifest,
        built=bool(manifest.files),
        nuisance=manifest.roles.nuisance,
        scaled=len(manifest.severities) > 1,
        has_content="content" in {base.name for base in manifest.bases},
        shown=shown,
        seen=manifest.nuisances[manifest.sample.get(manifest.roles.nuisance) or 0],
        shown_canonical=bool(virtual),
        groups_named=bool(group_names(manifest.labels, manifest.nuisances)),
        shown_split=next(iter(manifest.splits_of(shown)), "train"),
        snippet=_snippet(manifest),
        canonical_table=_canonical_table(manifest),
        pixels=manifest.pixels_included,
        authors=manifest.authors_split,
        example=_example(manifest),
        severity=_severity(manifest),
        config_table=_config_table(manifest),
        totals={base.name: base.rows for base in manifest.bases},
        empty_groups=_empty_groups(manifest),
        dropped=[(base.name, *item) for base in manifest.bases for item in by_reason(base.dropped).items()],
        shortcuts=manifest.shortcuts,
        shortcut_table=shortcut_table(manifest),
        silent_traces=silent_traces(manifest),
        warnings=warnings(manifest),
        leaks=unknown_origins(manifest),
        calibration=manifest.calibration,
        calibration_answers=calibration_answers(manifest),
        calibration_table=calibration_table(manifest),
        calibration_summary=calibration_summary(manifest),
        calibration_lines=calibration_lines(manifest),
        calibration_warning=calibration_warning(manifest),
        preview="preview.jpg" if "preview.jpg" in manifest.files else picture,
        attribution=ATTRIBUTION if ATTRIBUTION in manifest.files else None,
        **{
            name: f"{name}.png" if f"{name}.png" in manifest.files else None for name in ("groups", "filters")
        },
        most_credits=MOST_CREDITS,
        more_credits=len(manifest.credits[MOST_CREDITS:]) + manifest.more_credits,
        rights=rights,
        sample=json.dumps(manifest.sample, indent=1, ensure_ascii=False),
        said=lambda question: manifest.datasheet.get(question, "Not stated by the publisher."),
        front_matter="\n".join(yaml_lines(front_matter(manifest))),
    )
    return card


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """The card's YAML; features are not repeated here, as every file carries them in its schema."""
    front: dict[str, Any] = {
        "pretty_name": manifest.title,
        **hub_terms(manifest.license),
        "task_categories": [task_category(manifest.roles.modality)],
        "tags": tags(manifest, "croissant"),
    }
    if manifest.files:
        rows = manifest.base(manifest.default_base).rows
        front["size_categories"] = [next(name for most, name in SIZES.items() if rows < most)]
    front |= loading_entries(manifest)
    check_size(list(yaml_lines(front)), sum(split.is_config for split in manifest.canonical_splits))
    return front


def _empty_groups(manifest: Manifest) -> int:
    """Count the groups of the default base without a training row; 0 before anything is built."""
    train = manifest.splits_of(manifest.default_base).get("train") if manifest.files else None
    return len(manifest.labels) * len(manifest.nuisances) - train.groups if train and train.groups else 0


def _example(manifest: Manifest) -> str:
    """Describe an example, and the column that contains it."""
    if manifest.roles.modality == "table":
        names = list(manifest.roles.example)
        shown = ", ".join(f"`{name}`" for name in names[:MOST_FEATURES])
        return f"a row of {len(names)} features: {shown}{', ...' if len(names) > MOST_FEATURES else ''}"
    return (
        "a picture, in the column `image`"
        if manifest.roles.modality == "image"
        else "a text, in the column `text`"
    )


def _severity(manifest: Manifest) -> str:
    nuisance, steps = manifest.roles.nuisance, manifest.severities
    if not steps:
        return f"null: these {nuisance}s have no scale"
    listed = ", ".join(f"{step:g}" for step in steps)
    return f"strength of the {nuisance}: {listed}; 0 is the untouched example"


def _config_table(manifest: Manifest) -> str:
    """The bases and the metadata, with their counts where they are known."""
    about = {base.name: cell(base.summary) for base in manifest.bases}
    example = {"table": "features"}.get(manifest.roles.modality, manifest.roles.modality)
    place = ", with the place of its bytes" if example == "image" else ""
    about["metadata"] = f"the rows of `{manifest.default_base}` without the {example}{place}"
    built = bool(manifest.files)
    header = ["config", "what it is", *([*SPLITS, "groups in train", "rows in each"] if built else [])]
    rows = []
    for name in filter(about.__contains__, manifest.configs):
        shown = f"`{name}`" + (" (default)" if name == manifest.default_config else "")
        rows.append([shown, about[name], *(_counts(manifest, name) if built else [])])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows])


def _counts(manifest: Manifest, name: str) -> list[str]:
    splits = manifest.splits_of(name)
    train = splits["train"]
    return [
        *(f"{splits[split].rows:,}" for split in SPLITS),
        f"{train.groups:,}" if train.groups else "none",
        _span(train) if train.groups else "",
    ]


def _span(size: Split) -> str:
    return f"{size.smallest:,}" + (f" to {size.largest:,}" if size.largest > size.smallest else "")


def _canonical_table(manifest: Manifest) -> str:
    """Every canonical split: how it is loaded and made, what was asked and met, and its sets."""
    built = bool(manifest.files)
    header = ["canonical split", "what it is", "the same by `shiftdata`"]
    rows = []
    for split in manifest.canonical_splits:
        name = f'`"{split.name}"`' if split.name in manifest.configs else f"`{split.name}`"
        about = [split.summary, *(f"{note}." for note in split.notes)]
        sets = "; ".join(_set_text(name, rows) for name, rows in split.sets.items())
        gaps = ["--on-empty", "report"] if split.has_gaps else []
        command = shlex.join(["shiftdata", "task", manifest.name, *shlex.split(split.protocol), *gaps])
        rows.append([name, cell(" ".join(about)), f"`{command}`", *([sets] if built else [])])
    header += ["sets: rows, groups, rows in each"] if built else []
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows])


def _snippet(manifest: Manifest) -> dict[str, str]:
    """Return the names for the card's example of a key file: a split that only keys can express, if any."""
    splits = sorted(manifest.canonical_splits, key=lambda split: split.is_config)
    if not splits:
        return {}
    first = splits[0]
    base = first.base if manifest.pixels_included else "metadata"
    return {"file": protocol_file(first.name), "set": next(iter(first.sets), "train"), "base": base}


def _set_text(name: str, rows: CanonicalSet) -> str:
    groups = f" in {rows.size.groups:,} groups of {_span(rows.size)}" if rows.size.groups else ""
    return f"{cell(name)} ({', '.join(rows.roles)}): {rows.size.rows:,}{groups}"


def _folded(table: str, shown: int, kind: str) -> str:
    """Fold the rows of a long table after the first ones; HTML, as Markdown cannot fold."""
    header, rows = table.strip().splitlines()[:2], table.strip().splitlines()[2:]
    if len(rows) <= shown + 2:
        return "\n".join([*header, *rows])
    summary = f"\n<details><summary>{len(rows) - shown:,} more {kind}</summary>\n"
    return "\n".join([*header, *rows[:shown], summary, *header, *rows[shown:], "\n</details>"])


def _named(names: Sequence[str]) -> str:
    """Names in a sentence, not more than can be read."""
    shown = ", ".join(cell(name) for name in names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return shown + (f" and {more:,} more (all of them are in `names.json`)" if more > 0 else "")
