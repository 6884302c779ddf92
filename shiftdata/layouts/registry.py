"""The layouts by name. Another one is a module like its neighbours, and a line here and in `export_cli`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from shiftdata.errors import not_found
from shiftdata.layouts.balancinggroups import BALANCINGGROUPS
from shiftdata.layouts.domainbed import DOMAINBED
from shiftdata.layouts.imagefolder import IMAGEFOLDER
from shiftdata.layouts.layout import Layout
from shiftdata.layouts.lists import LISTS
from shiftdata.layouts.wilds import WILDS

__all__ = ["LAYOUTS", "layout_of"]

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
