"""`shiftdata duplicates`: examples of different origins that show the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from shiftdata.cli.verbs import GOES_ON, begin_bar, dataset_argument, device_option, quiet_option, verb
from shiftdata.data.dataset import open_dataset
from shiftdata.data.loading.encoders import FROZEN, FrozenFeatures
from shiftdata.data.loading.features import Encoder, features_of
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.evaluation.duplicates import (
    Duplicates,
    base_compared,
    keep,
    near_duplicates,
    rows_compared,
    summary_of,
)
from shiftdata.evaluation.metrics.records import some
from shiftdata.extras import require
from shiftdata.files import write_text
from shiftdata.progress import progress
from shiftdata.tables import aligned

#: Clusters that are printed.
PRINTED = 12


@verb(
    """
    examples:
      shiftdata duplicates sma_glyphs                         what lies on both sides of a split?
      shiftdata duplicates sma_glyphs --out build/gallery     pages: the pictures side by side
      shiftdata duplicates pacs --fail-on-leak                for a script: status 1 if splits share pictures
      shiftdata duplicates pacs --model none                  by pixels and bytes alone, without torch

    Distances are from 0 (equal bytes) on. Pictures are compared pixel by pixel once they are aligned, so
    other encodings, sizes, small crops, brightness, mirror images, frames and captions are found, and letters
    that merely look alike are not. Texts are compared by their words, rows of a table by rounded values.
    The result is kept in the user's cache folder: `shiftdata gallery` and `shiftdata serve` show it.
    """,
    interrupted=GOES_ON,
)
@dataset_argument
@click.option("--base", help="The rows to compare.  [default: content, the untouched ones, if there is one]")
@click.option("--model", default=FROZEN, help="Proposes pairs of pictures: none, or as in `predict`.")
@click.option(
    "--threshold", type=click.FloatRange(0, 1), help="The largest distance.  [default: by modality]"
)
@click.option("--out", type=Path, metavar="FOLDER", help="Write pages of the dataset there.")
@click.option("--json", "json_file", type=Path, metavar="FILE", help="Write every cluster as JSON.")
@click.option("--fail-on-leak", is_flag=True, help="Exit with 1 if a cluster lies in several splits.")
@device_option
@quiet_option
def command(
    dataset: str,
    base: str | None,
    model: str,
    threshold: float | None,
    out: Path | None,
    json_file: Path | None,
    fail_on_leak: bool,
    device: str,
    quiet: bool,
) -> int:
    """Find near-duplicates: examples of different origins that show the same, above all across splits."""
    opened = open_dataset(dataset)
    metadata = read_metadata(opened, base_compared(opened.manifest, base))
    is_pictures = opened.manifest.roles.modality == "image" and opened.manifest.pixels_included
    vectors, used = None, model if is_pictures and model != "none" else ""
    if used:
        vectors = _with_bar(metadata, "features", quiet, lambda step: _features(metadata, used, device, step))
    found = _with_bar(
        metadata,
        "pictures" if is_pictures else "rows",
        quiet,
        lambda step: near_duplicates(
            opened, metadata.base, vectors=vectors, model=used, threshold=threshold, on_rows=step
        ),
    )
    keep(found)
    print(summary_of(found))
    _print_clusters(found)
    if json_file is not None:
        write_text(json_file, json.dumps(found.to_dict(), ensure_ascii=False, indent=1) + "\n")
        print(f"{json_file}: every cluster", file=sys.stderr)
    if out is not None:
        from shiftdata.serve.pages.site import write_gallery

        write_gallery([opened], out, begin=begin_bar(quiet=quiet))
        print(out / opened.manifest.name / "duplicates.html")
    return 1 if fail_on_leak and found.across else 0


def _with_bar(
    metadata: Metadata, title: str, quiet: bool, work: Callable[[Callable[[int], object]], Any]
) -> Any:
    with progress(title, len(rows_compared(metadata)), "row", quiet=quiet) as bar:
        return work(bar.update)


def _features(metadata: Metadata, model: str, device: str, step: Callable[[int], object]) -> Any:
    encoder: Encoder
    if model == FROZEN:
        encoder = FrozenFeatures()
    else:
        require("torch", "a trained model")
        from shiftdata.baselines.pretrained.model import encoder_of

        encoder = encoder_of(model, device)
    return features_of(metadata, rows_compared(metadata), encoder, on_rows=step)


def _print_clusters(found: Duplicates) -> None:
    if not found.clusters:
        return
    lines = [
        [
            f"{cluster.distance:.3f}",
            cluster.kind,
            ", ".join(cluster.splits),
            " != ".join(cluster.labels) if len(cluster.labels) > 1 else cluster.labels[0],
            some([member.key for member in cluster.members], 3),
        ]
        for cluster in found.clusters[:PRINTED]
    ]
    numeric = [True, False, False, False, False]
    print(aligned(["distance", "kind", "splits", "label", "keys"], lines, numeric))
    if len(found.clusters) > PRINTED:
        print(f"and {len(found.clusters) - PRINTED:,} more: --json has all, --out shows them")
    if found.mixed:
        print(f"{found.mixed:,} with different labels")
