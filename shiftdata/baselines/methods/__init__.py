"""The methods by name: a new one is a class, in a module here or in the zoo, and its name in `_MODULES`."""

from __future__ import annotations

from importlib import import_module

from shiftdata.baselines.method import _OWN, Method, Wrapper
from shiftdata.errors import InputError, not_found

#: The methods of each module. The class of "group-dro" is `GroupDRO`: the name without dashes, in any case.
_MODULES = {
    "methods.erm": "erm erm-aug rwg rwy subg suby",
    "methods.groups": "group-dro group-dro-domains jtt dfr",
    "methods.adversarial": "dann cdan",
    "methods.domains": "coral irm vrex fishr mixup",
    "methods.batch_norm": "bn-adapt tent",
    "methods.fixmatch": "fixmatch",
    "methods.averages": "swad",
    "methods.label_shift": "rs rw rw-bbse rw-mlls rw-mean",
    "zoo.adaptation": "iw-dann iw-cdan deepjdot mcd dare",
    "zoo.averages": "eoa ema",
    "zoo.clusters": "adaclust mmld",
    "zoo.contrast": "cnc",
    "zoo.domains": "mmd sd eqrm rsc mldg stablenet",
    "zoo.fine_tuning": "lp-ft wise",
    "zoo.open_set": "osbp ovanet uan uniot",
    "zoo.pictures": "erm-adv fact jigen",
    "zoo.self_training": "pseudo-label noisy-student sentry",
    "zoo.styles": "mixstyle sagnet",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
METHODS = tuple(sorted(_HOMES))
#: The main methods of the papers; the others are the zoo.
FIRST_CLASS = tuple(name for name in METHODS if _HOMES[name].startswith("methods."))


def method_class(name: str) -> type[Method]:
    """Return the class of a method."""
    if name in _OWN:
        return _OWN[name]
    if name not in _HOMES:
        hint = "`shiftdata train` lists all; simclr and moco are `shiftdata pretrain`'s."
        raise not_found("method", name, {*_HOMES, *_OWN}, hint)
    members = vars(import_module(f"shiftdata.baselines.{_HOMES[name]}"))
    kind: type[Method] = {key.lower(): value for key, value in members.items()}[name.replace("-", "")]
    return kind


def make_method(name: str | Method, *, variant: str = "fixed", **hyper: float) -> Method:
    """Return a method by its name, with hyper-parameters; "rs+rw+dann" has two wrappers around it."""
    if isinstance(name, Method):
        if hyper or variant != "fixed":
            raise InputError(
                f"{type(name).__name__} is an instance already: give it its hyper-parameters itself"
            )
        return name
    *around, inner = name.split("+")
    if issubclass(method_class(inner), Wrapper):
        return make_method(f"{name}+erm", variant=variant, **hyper)
    wrappers: list[type[Wrapper]] = []
    for kind in map(method_class, around):
        if not issubclass(kind, Wrapper):
            raise InputError(f"{name!r}: only wrappers go before a +, and {kind.__name__} is a method")
        wrappers.append(kind)
    of_wrappers = {key for wrapper in wrappers for key in wrapper.space()}
    own = {key: hyper[key] for key in hyper.keys() - of_wrappers}
    method = method_class(inner)(variant=variant, **own)
    for wrapper in reversed(wrappers):
        method = wrapper(method, **{key: hyper[key] for key in hyper.keys() & wrapper.space().keys()})
    return method
