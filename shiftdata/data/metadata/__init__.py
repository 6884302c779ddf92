"""The rows of a dataset without its examples, from our files or from a table of your own."""

from __future__ import annotations

from shiftdata.data.metadata.own_table import metadata_from_table as metadata_from_table
from shiftdata.data.metadata.rows import Metadata as Metadata
from shiftdata.data.metadata.rows import read_metadata as read_metadata
