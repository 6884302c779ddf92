"""The folders that existing code reads: pictures and lists of a task as torchvision, WILDS, ... expect them.

The way of an export: `plan` (what goes where) -> a layout (`imagefolder`, `wilds`, ...: paths and lists) ->
`images` (each picture written once, and linked) -> `exporting` (the whole). `reading_back` reads a folder in
its own layout and compares it with what was exported. `registry` lists the layouts.
"""

from __future__ import annotations

from shiftdata.exporting.folders.choosing import chosen_task
from shiftdata.exporting.folders.exporting import Exported, export
from shiftdata.exporting.folders.reading_back import read_back
from shiftdata.exporting.folders.registry import LAYOUTS

__all__ = ["LAYOUTS", "Exported", "chosen_task", "export", "read_back"]
