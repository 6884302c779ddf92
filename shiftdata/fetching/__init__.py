"""Fetch datasets from places that may fail, and check every byte.

The way of a fetch: `resolve` (a name -> places) -> `supply` (the places in order, with their health) ->
`sources` (how each kind gives a file) -> `files` (whole files) or `part` (rows: `selection` chooses, `rows`
writes, `part_card` describes) -> `staging` (everything moves into its place). `core` joins them.
"""

from __future__ import annotations

from shiftdata.fetching.core import fetch

__all__ = ["fetch"]
