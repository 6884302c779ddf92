"""`shiftdata info`: what a dataset is."""

from __future__ import annotations

from shiftdata.cli.verbs import dataset_argument, verb
from shiftdata.data.dataset import open_dataset


@verb("""
    examples:
      shiftdata info sma_emoji
      shiftdata info https://mirror.example.org/shift/sma_emoji
""")
@dataset_argument
def command(dataset: str) -> None:
    """Describe a dataset: its configs and splits, labels, nuisances, licence and ids.

    Each name in the list can be given to `shiftdata load` and `sd.load_dataset`; plain `datasets` reads those
    that are marked (keys) by their file, `protocols/<name>.parquet`, as the card shows.
    """
    manifest = open_dataset(dataset).manifest
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
