"""The methods by name, one file each; a new one is one file and one line here."""

from __future__ import annotations

from importlib import import_module

from shiftdata.baselines.method import _OWN, Method, Wrapper
from shiftdata.baselines.training import setting_hint
from shiftdata.errors import InputError, not_found

#: Name: module and class. Wrappers go around another method: "rs+rw+dann".
_HOMES = {
    "erm": "methods.erm.ERM",
    "erm-aug": "methods.erm.ERMAug",
    "erm-adv": "zoo.erm_adv.ERMAdv",
    "rwg": "methods.erm.RWG",
    "rwy": "methods.erm.RWY",
    "subg": "methods.erm.SUBG",
    "suby": "methods.erm.SUBY",
    "group-dro": "methods.group_dro.GroupDRO",
    "group-dro-domains": "methods.group_dro.GroupDRODomains",
    "jtt": "methods.jtt.JTT",
    "dfr": "methods.dfr.DFR",
    "dann": "methods.dann.DANN",
    "cdan": "methods.cdan.CDAN",
    "iw-dann": "zoo.importance.IWDANN",
    "iw-cdan": "zoo.importance.IWCDAN",
    "deepjdot": "zoo.deepjdot.DeepJDOT",
    "osbp": "zoo.osbp.OSBP",
    "ovanet": "zoo.ovanet.OVANet",
    "uan": "zoo.uan.UAN",
    "uniot": "zoo.uniot.UniOT",
    "mcd": "zoo.mcd.MCD",
    "pseudo-label": "zoo.pseudo_label.PseudoLabel",
    "fixmatch": "methods.fixmatch.FixMatch",
    "noisy-student": "zoo.noisy_student.NoisyStudent",
    "sentry": "zoo.sentry.SENTRY",
    "bn-adapt": "methods.batch_norm.BNAdapt",
    "tent": "methods.batch_norm.TENT",
    "dare": "zoo.dare.DARE",
    "coral": "methods.coral.CORAL",
    "mmd": "zoo.mmd.MMD",
    "irm": "methods.irm.IRM",
    "vrex": "methods.vrex.VREx",
    "sd": "zoo.sd.SD",
    "eqrm": "zoo.eqrm.EQRM",
    "mixup": "methods.mixup.Mixup",
    "mixstyle": "zoo.mixstyle.MixStyle",
    "fact": "zoo.fact.FACT",
    "jigen": "zoo.jigen.JiGen",
    "mmld": "zoo.mmld.MMLD",
    "rsc": "zoo.rsc.RSC",
    "fishr": "methods.fishr.Fishr",
    "mldg": "zoo.mldg.MLDG",
    "sagnet": "zoo.sagnet.SagNet",
    "stablenet": "zoo.stablenet.StableNet",
    "adaclust": "zoo.adaclust.AdaClust",
    "swad": "methods.swad.SWAD",
    "eoa": "zoo.eoa.EoA",
    "ema": "zoo.eoa.EMA",
    "rs": "methods.rs.RS",
    "rw": "methods.rw.RW",
    "rw-bbse": "methods.rw.RWBBSE",
    "rw-mlls": "methods.rw.RWMLLS",
    "rw-mean": "methods.rw.RWMean",
}
METHODS = tuple(sorted(_HOMES))
#: Those that the papers lead with; the others are the zoo.
FIRST_CLASS = tuple(name for name in METHODS if _HOMES[name].startswith("methods."))


def method_class(name: str) -> type[Method]:
    """The class of a method."""
    if name in _OWN:
        return _OWN[name]
    if name not in _HOMES:
        raise not_found("method", name, {*_HOMES, *_OWN}, "`shiftdata train` lists all.")
    module, _, kind = _HOMES[name].rpartition(".")
    found: type[Method] = getattr(import_module(f"shiftdata.baselines.{module}"), kind)
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
