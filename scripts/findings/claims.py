"""The claims of docs/findings.md, as data, written with margins before any number on real data was seen.

A claim is a contrast between methods on the tasks of some sweeps. All claims of a paper are
one family: Holm's correction runs over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Differences in points below which methods are called equal where a claim is that one leads: less than half
#: of what the papers report (SWAD +3.3 over ERM in DomainBed-v2, adaptation +11 on SMA's birds, RS + RW +5,
#: 2 to 7 points between the smallest and the largest of a family in CNS-Bench).
MARGINS = {"SMA": 2.0, "NICO++": 1.0, "DomainBed-v2": 1.0, "RLSbench": 2.0, "CNS-Bench": 2.0}
#: The largest difference, in points, of methods that a paper calls alike.
ALIKE = 5.0

Kind = Literal["leads", "alike", "not worse", "far"]
#: Points by which "far" behind is behind at least.
FAR = 2.0


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The mean over methods `more` minus the mean over `less`, in points, on each task of `sweeps`.

    A task counts if one of the words `where` is in its protocol (empty: every task). With `beyond` the same
    contrast at that parameter is subtracted, task by task. `rule` selects models; with `over` the contrast is
    between that rule and `rule`, the mean over methods.

    The kind says what is claimed of the difference: that it is above 0 ("leads"), within 5 points of 0
    ("alike"), above the negative margin ("not worse"), above 2 points ("far").
    """

    paper: str
    text: str
    sweeps: tuple[str, ...]
    more: str = ""
    less: str = ""
    where: str = ""
    beyond: str = ""
    kind: Kind = "leads"
    rule: str = "iid"
    over: str = ""
    without: str = ""


FAIRNESS = "real-fairness", "letters-fairness"
ADAPTATION = "real-uda", "sma-uda"
UNIVERSAL = "real-unida", "sma-unida"
DOMAINS = "real-dg", "dg-features"
SETTINGS = ("real-leakage",)
#: The target of `rls-alpha-code` without a shift is in `rls-alpha`.
LABELS = "real-rls", "rls-alpha-code", "rls-alpha"
AWARE = "subg rwg group-dro"
LARGEST_K = "k=12 k=10"


def _fair(text: str, more: str, less: str, where: str = "", beyond: str = "", kind: Kind = "leads") -> Claim:
    return Claim(
        paper="SMA", text=text, sweeps=FAIRNESS, rule="iid-worst",
        more=more, less=less, where=where, beyond=beyond, kind=kind,
    )  # fmt: skip


def _adapts(text: str, sweeps: tuple[str, ...], more: str, less: str) -> Claim:
    return Claim(paper="SMA", text=text, sweeps=sweeps, rule="last", more=more, less=less)


def _domains(text: str, more: str, paper: str = "NICO++") -> Claim:
    return Claim(paper=paper, text=text, sweeps=DOMAINS, more=more, less="erm")


def _shift(
    text: str, more: str, less: str, rule: str = "iid", beyond: str = "", where: str = "alpha=0.5",
    kind: Kind = "leads",
) -> Claim:  # fmt: skip
    return Claim(
        paper="RLSbench", text=text, sweeps=LABELS, rule=rule,
        more=more, less=less, where=where, beyond=beyond, kind=kind,
    )  # fmt: skip


CORRECTIONS = (
    ("RS helps where the shift is severe", "rs+erm", "erm"),
    ("RW helps where the shift is severe", "rw+erm", "erm"),
    ("RS and RW help where the shift is severe", "rs+rw+erm", "erm"),
    ("RS and RW mend DANN", "rs+rw+dann", "dann"),
    ("RS and RW mend CDAN", "rs+rw+cdan", "cdan"),
)
CLAIMS = (
    _fair("SUBY and RWY are as good as JTT, or better", "suby rwy", "jtt", kind="not worse"),
    _fair("SUBG and RWG come close to GroupDRO", "subg rwg", "group-dro", kind="alike"),
    _fair("methods that know the groups beat ERM", AWARE, "erm"),
    _fair("their gain is larger where mu is smaller", AWARE, "erm", "mu=0.05", "mu=0.2"),
    _fair("with a small mu SUBG gains most", "subg", "rwg group-dro", "mu=0.05"),
    _fair("at the largest K SUBY does not beat ERM", "erm", "suby", LARGEST_K, kind="not worse"),
    _fair("at the largest K RWY does not beat ERM", "erm", "rwy", LARGEST_K, kind="not worse"),
    _fair("at the largest K JTT does not beat ERM", "erm", "jtt", LARGEST_K, kind="not worse"),
    Claim(
        paper="SMA", text="where K >= 4, choosing by the 3 worst groups raises the worst",
        sweeps=FAIRNESS, over="iid-worst-m", rule="iid-worst", without="k=2",
    ),
    _adapts("CDAN (best) beats DANN", ADAPTATION, "cdan", "dann"),
    _adapts("CDAN (best) beats DeepJDOT", ADAPTATION, "cdan", "deepjdot"),
    _adapts("CDAN is better than the source alone", ADAPTATION, "cdan", "erm"),
    _adapts("DANN is better than the source alone", ADAPTATION, "dann", "erm"),
    _adapts("DeepJDOT is better than the source alone", ADAPTATION, "deepjdot", "erm"),
    _adapts("OVANet (best on balanced sets) beats OSBP", UNIVERSAL, "ovanet", "osbp"),
    _adapts("OVANet (best on balanced sets) beats UAN", UNIVERSAL, "ovanet", "uan"),
    _adapts("OVANet (best on balanced sets) beats UniOT", UNIVERSAL, "ovanet", "uniot"),
    Claim(paper="NICO++", text="IRM is far behind", sweeps=SETTINGS, more="erm", less="irm", kind="far"),
    _domains("EoA (among the leading) beats ERM", "eoa"),
    _domains("CORAL (among the leading) beats ERM", "coral"),
    _domains("SWAD (among the leading) beats ERM", "swad"),
    _domains("StableNet (among the leading) beats ERM", "stablenet"),
    _domains("SWAD (leading) beats ERM", "swad", "DomainBed-v2"),
    Claim(
        paper="DomainBed-v2", text="choosing by the test gains points",
        sweeps=(*DOMAINS, *SETTINGS), over="oracle",
    ),
    Claim(
        paper="DomainBed-v2", text="an oracle of two test domains gains less than an oracle of one",
        sweeps=SETTINGS, over="leakage",
    ),
    _shift("uncorrected DANN falls below source-only", "erm", "dann"),
    _shift("uncorrected CDAN falls below source-only", "erm", "cdan"),
    _shift("pseudo-labels fall below source-only", "erm", "pseudo-label"),
    *(
        _shift(text, more, less, rule)
        for rule in ("iid", "oracle")  # by source validation, and in the paper's appendix by the test
        for text, more, less in CORRECTIONS
    ),
    _shift("RS and RW mend DANN more as the shift grows", "rs+rw+dann", "dann", beyond="alpha=none"),
    _shift("RS and RW mend CDAN more as the shift grows", "rs+rw+cdan", "cdan", beyond="alpha=none"),
    _shift("RS costs little without a shift", "rs+erm", "erm", where="alpha=none", kind="not worse"),
)  # fmt: skip

#: CNS-Bench's claims, whose replicates are photographs: of EfficientNet-Lite 0 to 2 on `imagenette_severe`,
#: among 1,000 classes and among ten, and of small networks on Fashion-MNIST.
DROPS = "larger models of a family drop less"
PLACES = "models change places between"
LAST = "most failures begin at the largest severity"


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A claim of CNS-Bench, whose replicates are pictures: under all corruptions at all severities.

    `models` are a smaller and a larger one of a family; `axis` is that along which models may change places.
    Without either, the claim is on where trajectories fail first.
    """

    text: str
    shown: str
    models: tuple[str, ...] = ()
    axis: str = ""


#: What was shown to models: ImageNet's photographs, among 1,000 classes and among ten, to EfficientNet-Lite 0
#: and 2; and clothes of Fashion-MNIST to small networks trained on untouched ones.
SHOWN = {"all": "among 1,000 classes", "task": "among the ten", "clothes": "clothes"}
SIGHTS = (
    *(
        sight
        for shown in ("all", "task")
        for sight in (
            Sight(text=DROPS, shown=shown, models=("lite0", "lite2")),
            Sight(text=f"{PLACES} shifts", shown=shown, axis="shift"),
            Sight(text=f"{PLACES} severities", shown=shown, axis="severity"),
            Sight(text=LAST, shown=shown),
        )
    ),
    Sight(text=DROPS, shown="clothes", models=("narrow", "wide")),
    Sight(text=f"{PLACES} shifts", shown="clothes", axis="shift"),
    Sight(text=f"{PLACES} severities", shown="clothes", axis="severity"),
    Sight(text=LAST, shown="clothes"),
)
