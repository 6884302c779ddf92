"""The on-disk contract of a dataset: schema, manifest, identity, conditions, how files are written."""
