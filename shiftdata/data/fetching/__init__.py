"""Fetch datasets from places that may fail, and check every byte.

`run` looks up places and joins the steps of a fetch: `sources` (the places in order, with their health),
`files` (whole files) or `part` (rows: `selection` chooses, `part_card` describes), and `staging` (everything
moves into its place).
"""

from shiftdata.data.fetching.run import fetch as fetch
