"""Test-time adaptation: networks that change while they predict a stream. A new one is a class and its name.

`adapt(task, run, "tent")` streams the test of a task through one; `Adapter` is for those of your own.
"""

from __future__ import annotations

from importlib import import_module

from shiftdata.baselines.test_time.adapter import Adapter as Adapter
from shiftdata.errors import not_found

#: The adapters of each module. The class of "bn-adapt" is `BNAdapt`: the name without dashes, in any case.
_MODULES = {"adapter": "unadapted", "entropy": "bn-adapt tent eata sar memo", "teachers": "cotta rotta"}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
ADAPTERS = tuple(_HOMES)


def adapter_class(name: str | type[Adapter]) -> type[Adapter]:
    """Return the class of an adapter by its name, or your own as it is."""
    if isinstance(name, type):
        return name
    if name not in _HOMES:
        raise not_found("adapter", name, _HOMES)
    members = vars(import_module(f"{__name__}.{_HOMES[name]}"))
    kind: type[Adapter] = {key.lower(): value for key, value in members.items()}[name.replace("-", "")]
    return kind
