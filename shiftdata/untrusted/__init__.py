"""Readers of bytes that anybody may have written: nothing is unpacked before its size is known to be allowed.

Each kind has one reader: `parquet`, `pictures`, `texts` (JSON, TOML, CSV), `archives` (gzip, zip, tar) and
`arrays`. All ask `limits`, the one table of what they allow. Everything else in the packages may not call the
raw functions: ruff refuses them.
"""
