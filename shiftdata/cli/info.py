"""`shiftdata info`: what a dataset is."""

from __future__ import annotations

from collections.abc import Mapping

from shiftdata.cli.verbs import dataset_argument, verb
from shiftdata.dataset import open_dataset
from shiftdata.format.manifest import Split


@verb("""
    examples:
      shiftdata info sma_emoji
      shiftdata info https://mirror.example.org/shift/sma_emoji
""")
@dataset_argument
def command(dataset: str) -> None:
    """Describe a dataset: its configs and splits, labels, nuisances, licence and ids.

    Each config in the list can be given to `shiftdata load` and `load_dataset`.
    """
    manifest = open_dataset(dataset).manifest
    print(f"{manifest.title} ({manifest.name} {manifest.version}, {manifest.family})")
    print(manifest.summary)
    if manifest.part is not None:
        print(f"A part of content {manifest.part.content_id[:16]}: its README.md says which.")
    for name, config in manifest.configs.items():
        print(
            f"  {name + (' (default)' if name == manifest.default_base else ''):<24}{_counts(config.splits)}"
        )
    files = [split for split in manifest.canonical_splits if not set(split.configs) & set(manifest.configs)]
    for split in files:
        print(f"  {split.name + ' (keys)':<24}{_counts(manifest.splits_of(split.name))}")
    print(f"labels ({len(manifest.labels)}): {', '.join(manifest.labels)}")
    print(f"{manifest.roles.nuisance}s ({len(manifest.nuisances)}): {', '.join(manifest.nuisances)}")
    if len(manifest.severities) > 1:
        print(f"severities: {', '.join(f'{step:g}' for step in manifest.severities)}")
    print(f"licence: {manifest.license}")
    print(f"recipe {manifest.recipe_id[:16]}, content {manifest.content_id[:16]}")


def _counts(splits: Mapping[str, Split]) -> str:
    return ", ".join(f"{split} {size.rows:,}" for split, size in splits.items())
