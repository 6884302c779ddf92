"""The layouts by name. Another one is a module like its neighbours and a line here."""

from __future__ import annotations

from shiftdata.errors import not_found
from shiftdata.exporting.folders.balancinggroups import BalancingGroups
from shiftdata.exporting.folders.domainbed import DomainBed
from shiftdata.exporting.folders.imagefolder import ImageFolder
from shiftdata.exporting.folders.layout import Layout
from shiftdata.exporting.folders.lists import Lists
from shiftdata.exporting.folders.wilds import Wilds

LAYOUTS: dict[str, Layout] = {
    "imagefolder": ImageFolder(),
    "wilds": Wilds(),
    "domainbed": DomainBed(),
    "balancinggroups": BalancingGroups(),
    "lists": Lists(),
}


def layout_of(name: str) -> Layout:
    """The layout of that name."""
    if name not in LAYOUTS:
        raise not_found("layout", name, LAYOUTS)
    return LAYOUTS[name]
