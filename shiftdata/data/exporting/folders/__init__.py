"""The folders that existing code reads: pictures and lists of a task as torchvision, WILDS, ... expect them.

`contents` says which rows an export has and how they are numbered, `layout` what a layout is; `in_folders`,
`in_csv` and `layouts` say where the pictures and lists of each go. `images` writes each picture once and
links it, `record` says what was exported, `writing` is the whole export, `round_trip` compares a folder with
its record.
"""

from __future__ import annotations

from shiftdata.data.exporting.folders.contents import chosen_task
from shiftdata.data.exporting.folders.layouts import LAYOUTS
from shiftdata.data.exporting.folders.round_trip import read_back
from shiftdata.data.exporting.folders.writing import Exported, export

__all__ = ["LAYOUTS", "Exported", "chosen_task", "export", "read_back"]
