"""The folders that existing code reads: pictures and lists of sets as torchvision, WILDS, ... expect them."""

from shiftdata.data.exporting.folders.layouts import LAYOUTS as LAYOUTS
from shiftdata.data.exporting.folders.writing import Exported as Exported
from shiftdata.data.exporting.folders.writing import export as export
