"""The layouts by name. Another one is a module like its neighbours, and a line here and in `export_cli`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from shiftdata.errors import not_found
from shiftdata.exporting.folders.balancinggroups import BALANCINGGROUPS
from shiftdata.exporting.folders.domainbed import DOMAINBED
from shiftdata.exporting.folders.imagefolder import IMAGEFOLDER
from shiftdata.exporting.folders.layout import Layout
from shiftdata.exporting.folders.lists import LISTS
from shiftdata.exporting.folders.wilds import WILDS

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "imagefolder": IMAGEFOLDER,
        "wilds": WILDS,
        "domainbed": DOMAINBED,
        "balancinggroups": BALANCINGGROUPS,
        "lists": LISTS,
    }
)


def layout_of(name: str) -> Layout:
    """The layout of that name."""
    if name not in LAYOUTS:
        raise not_found("layout", name, LAYOUTS)
    return LAYOUTS[name]
