"""`shiftdata load`: the first rows of a config."""

from __future__ import annotations

import time
from typing import Any

import click

from shiftdata.cli.verbs import dataset_argument, verb
from shiftdata.data.dataset import open_dataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.loading.plain_datasets import load_dataset


@verb("""
    examples:
      shiftdata load sma_glyphs
      shiftdata load sma_glyphs gf_k8_mu10 --split test --rows 5
""")
@dataset_argument
@click.argument("config", required=False, help="One that `shiftdata info` lists. [default: the default base]")
@click.option("--split", metavar="SPLIT", help="A split or set of the config. [default: its first]")
@click.option("--rows", default=3, type=click.IntRange(min=1), metavar="N", help="How many rows.")
def command(dataset: str, config: str | None, split: str | None, rows: int) -> None:
    """Print the first rows of a config, streamed as `load_dataset` gives them; numbers get their names."""
    opened = open_dataset(dataset)
    name = config or next(iter(opened.manifest.configs))
    split = split or next(iter(opened.manifest.splits_of(name)))
    data = load_dataset(opened, config, split=split, streaming=True)
    for row in data.take(rows):
        print(
            {name: _shown(opened.manifest, name, value) for name, value in row.items() if value is not None}
        )
    # A stream that is left early leaves Arrow threads reading; one that still reads when the interpreter ends
    # aborts it (apache/arrow#45214), so they get the time to finish.
    time.sleep(1)


def _shown(manifest: Manifest, column: str, value: Any) -> Any:
    """Show a value of a row, with the name behind the number of a label, nuisance or group."""
    labels, nuisances = manifest.labels, manifest.nuisances
    if column == "label":
        return f"{value} ({labels[value]})"
    if column == manifest.roles.nuisance:
        return f"{value} ({nuisances[value]})"
    if column == "group":
        label, nuisance = divmod(value, len(nuisances))
        return f"{value} ({labels[label]} / {nuisances[nuisance]})"
    return value
