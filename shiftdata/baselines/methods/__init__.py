"""The methods by name, one file each; a new one is one file and one line here."""

from __future__ import annotations

from importlib import import_module

from shiftdata.baselines.method import _OWN, Method
from shiftdata.errors import InputError, not_found

#: Name: module and class. Wrappers go around another method: "rs+rw+dann".
_HOMES = {
    "erm": "erm.ERM",
    "rwg": "erm.RWG",
    "rwy": "erm.RWY",
    "subg": "erm.SUBG",
    "suby": "erm.SUBY",
}
METHODS = tuple(sorted(_HOMES))


def method_class(name: str) -> type[Method]:
    """The class of a method."""
    if name in _OWN:
        return _OWN[name]
    if name not in _HOMES:
        raise not_found("method", name, {*_HOMES, *_OWN})
    module, _, kind = _HOMES[name].partition(".")
    found: type[Method] = getattr(import_module(f"{__name__}.{module}"), kind)
    return found


def make_method(name: str | Method, *, variant: str = "fixed", **hyper: float) -> Method:
    """A method by its name, with its hyper-parameters."""
    if isinstance(name, Method):
        if hyper or variant != "fixed":
            raise InputError(f"{type(name).__name__} was made already: give it its hyper-parameters itself")
        return name
    return method_class(name)(variant=variant, **hyper)
