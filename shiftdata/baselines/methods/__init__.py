"""The methods by name, one file each; a new one is one file and one line here."""

from __future__ import annotations

from importlib import import_module

from shiftdata.baselines.method import _OWN, Method, Wrapper
from shiftdata.baselines.training import setting_hint
from shiftdata.errors import InputError, not_found

#: Name: module and class. Wrappers go around another method: "rs+rw+dann".
_HOMES = {
    "erm": "erm.ERM",
    "erm-aug": "erm.ERMAug",
    "erm-adv": "erm_adv.ERMAdv",
    "rwg": "erm.RWG",
    "rwy": "erm.RWY",
    "subg": "erm.SUBG",
    "suby": "erm.SUBY",
    "group-dro": "group_dro.GroupDRO",
    "group-dro-domains": "group_dro.GroupDRODomains",
    "jtt": "jtt.JTT",
    "dfr": "dfr.DFR",
    "dann": "dann.DANN",
    "cdan": "cdan.CDAN",
    "iw-dann": "importance.IWDANN",
    "iw-cdan": "importance.IWCDAN",
    "deepjdot": "deepjdot.DeepJDOT",
    "osbp": "osbp.OSBP",
    "ovanet": "ovanet.OVANet",
    "uan": "uan.UAN",
    "uniot": "uniot.UniOT",
    "mcd": "mcd.MCD",
    "pseudo-label": "pseudo_label.PseudoLabel",
    "fixmatch": "fixmatch.FixMatch",
    "noisy-student": "noisy_student.NoisyStudent",
    "sentry": "sentry.SENTRY",
    "bn-adapt": "batch_norm.BNAdapt",
    "tent": "batch_norm.TENT",
    "dare": "dare.DARE",
    "coral": "coral.CORAL",
    "mmd": "mmd.MMD",
    "irm": "irm.IRM",
    "mixup": "mixup.Mixup",
    "mixstyle": "mixstyle.MixStyle",
    "fact": "fact.FACT",
    "jigen": "jigen.JiGen",
    "mmld": "mmld.MMLD",
    "rsc": "rsc.RSC",
    "fishr": "fishr.Fishr",
    "mldg": "mldg.MLDG",
    "sagnet": "sagnet.SagNet",
    "stablenet": "stablenet.StableNet",
    "adaclust": "adaclust.AdaClust",
    "swad": "swad.SWAD",
    "eoa": "eoa.EoA",
    "rs": "rs.RS",
    "rw": "rw.RW",
    "rw-bbse": "rw.RWBBSE",
    "rw-mlls": "rw.RWMLLS",
    "rw-mean": "rw.RWMean",
}
METHODS = tuple(sorted(_HOMES))


def method_class(name: str) -> type[Method]:
    """The class of a method."""
    if name in _OWN:
        return _OWN[name]
    if name not in _HOMES:
        raise not_found("method", name, {*_HOMES, *_OWN}, "`shiftdata train` lists all.")
    module, _, kind = _HOMES[name].partition(".")
    found: type[Method] = getattr(import_module(f"{__name__}.{module}"), kind)
    return found


def make_method(name: str | Method, *, variant: str = "fixed", **hyper: float) -> Method:
    """A method by its name, with its hyper-parameters; "rs+rw+dann" has two wrappers around it.

    The variant is that of each part that has it; one of them must.
    """
    if isinstance(name, Method):
        if hyper or variant != "fixed":
            hints = " ".join(filter(None, map(setting_hint, hyper)))
            message = f"{type(name).__name__} was made already: give it its hyper-parameters itself."
            raise InputError(f"{message} {hints}".rstrip())
        return name
    *around, inner = name.split("+")
    if issubclass(method_class(inner), Wrapper):
        return make_method(f"{name}+erm", variant=variant, **hyper)
    wrappers: list[type[Wrapper]] = []
    for one in map(method_class, around):
        if not issubclass(one, Wrapper):
            raise InputError(f"{name!r}: only wrappers stand before a +, and {one.__name__} is a method")
        wrappers.append(one)
    mine = {key for one in wrappers for key in one.space()}
    kind = method_class(inner)
    theirs = any(variant in one.variants for one in wrappers) and variant not in kind.variants
    made = kind(
        variant=kind.variants[0] if theirs else variant, **{key: hyper[key] for key in hyper.keys() - mine}
    )
    for wrapper in reversed(wrappers):
        own = variant if variant in wrapper.variants else wrapper.variants[0]
        given = {key: hyper[key] for key in hyper.keys() & wrapper.space().keys()}
        made = wrapper(made, variant=own, **given)
    return made
