"""`shiftdata info`: what a dataset is."""

from __future__ import annotations

from collections import Counter

import click

from shiftdata.cli.verbs import dataset_argument, verb
from shiftdata.data.dataset import OpenDataset, open_dataset
from shiftdata.data.format.attribution import terms_of
from shiftdata.data.format.licenses import rights
from shiftdata.data.format.paths import row_files
from shiftdata.data.metadata.columns import read_columns
from shiftdata.tables import aligned


@verb("""
    examples:
      shiftdata info sma_glyphs
      shiftdata info sma_glyphs --licences      which styles may be used commercially?
      shiftdata info https://mirror.example.org/shift/sma_glyphs
""")
@dataset_argument
@click.option("--licences", is_flag=True, help="Say what the licence of each nuisance allows.")
def command(dataset: str, licences: bool) -> None:
    """Describe a dataset: its configs and splits, labels, nuisances, licence and ids.

    Each name in the list can be given to `shiftdata load` and `sd.load_dataset`; plain `datasets` reads those
    that are marked (keys) by their file, `protocols/<name>.parquet`, as the card shows.
    """
    opened = open_dataset(dataset)
    manifest = opened.manifest
    if licences:
        _print_licences(opened)
        return
    print(f"{manifest.title} ({manifest.name} {manifest.version}, {manifest.family})")
    print(manifest.summary)
    if manifest.part is not None:
        print(f"A part of content {manifest.part.content_id[:16]}: its README.md says which.")
    default, configs = manifest.default_config, manifest.configs
    sizes = {f"{name} (default)" if name == default else name: of.splits for name, of in configs.items()}
    for split in manifest.canonical_splits:
        if split.name not in configs:
            sizes[f"{split.name} (keys)"] = manifest.splits_of(split.name)
    width = max(24, *(len(name) + 2 for name in sizes))
    for name, splits in sizes.items():
        counts = ", ".join(f"{split} {size.rows:,}" for split, size in splits.items())
        print(f"  {name:<{width}}{counts}")
    print(f"labels ({len(manifest.labels)}): {', '.join(manifest.labels)}")
    print(f"{manifest.roles.nuisance}s ({len(manifest.nuisances)}): {', '.join(manifest.nuisances)}")
    if len(manifest.severities) > 1:
        print(f"severities: {', '.join(f'{step:g}' for step in manifest.severities)}")
    print(f"licence: {manifest.license}")
    print(f"recipe {manifest.recipe_id[:16]}, content {manifest.content_id[:16]}")


def _print_licences(opened: OpenDataset) -> None:
    """Print the licences of the rows of each nuisance of the default base, and what they allow."""
    manifest, counted = opened.manifest, Counter[tuple[str, str]]()
    base, nuisance = manifest.base(manifest.default_base), manifest.roles.nuisance
    for path in [path for split in base.splits for path in row_files(manifest.files, base.name, split)]:
        table = read_columns(opened, path, ["license", "attribution", nuisance])
        for (license_, _, name), rows in terms_of(table, manifest).items():
            counted[name or "untouched", license_ or ""] += rows
    rows_of = [[*names, *rights(names[1]).values(), f"{rows:,}"] for names, rows in sorted(counted.items())]
    print(aligned([nuisance, "licence", *rights(""), f"rows of {base.name}"], rows_of, [False] * 5 + [True]))
    if not manifest.is_webdataset:
        print(f"for commercial use: shiftdata fetch {manifest.name} --select use=commercial")
