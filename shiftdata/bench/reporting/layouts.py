"""The tables of the five papers as data: blocks, rows and columns, and names for methods and datasets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shiftdata.bench.reporting import points
from shiftdata.bench.reporting.points import METHODS, Points
from shiftdata.errors import not_found

#: The names of methods in the papers whose name here is not the same without signs and capitals.
NAMES = {
    "Deepall": "erm", "NO_ADAPT": "erm", "Source": "erm", "Source (w aug)": "erm",
    "Source (wo aug)": "erm-plain", "GroupDRO": "group-dro-domains", "UDA": "uan", "CDANN": "cdan",
    "IW-DAN": "iw-dann", "NoisyStudent": "noisy-student",
}  # fmt: skip
#: The datasets here that are a paper's, by its names for them.
DATASETS = {
    "BIRDS": "sma_brd", "Birds": "sma_brd", "DOGS": "sma_dog", "Dogs": "sma_dog", "SPORTS": "sma_spt",
    "PLT_DOC": "sma_plt_doc", "APL": "sma_apl", "Airplanes": "sma_apl", "Plt-Net": "sma_plt_net",
    "Resisc": "sma_resisc", "Texture-DTD": "sma_tex_dtd",
    "NICO++": "nico", "PACS": "pacs", "VLCS": "vlcs", "OfficeHome": "office_home",
    "Officehome": "office_home",
    "DomainNet": "domainnet", "Domainnet": "domainnet", "TerraInc": "terra_incognita",
    "CNS-Bench": "cns_bench", "CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "FMoW": "fmow",
    "Camelyon": "camelyon17", "Entity13": "entity13", "Entity30": "entity30", "Living17": "living17",
    "Nonliving26": "nonliving26", "Visda": "visda", "Civilcomments": "civilcomments",
    "Retiring Adult": "retiring_adults", "Mimic Readmission": "mimic_readmission",
}  # fmt: skip
#: Initial weights, by the beginning of a model's name here.
WEIGHTS = {
    "ResNet-18, Supervised": "timm:resnet18", "ResNet-50, Supervised": "timm:resnet50",
    "ViT-B/16, Supervised": "timm:vit_base_patch16", "ResNet-50, MoCo": "moco-v1",
    "ResNet-50, MoCo-v2": "moco-v2", "ViT-B/16, MoCo-v3": "moco-v3", "ResNet-50, SimCLR": "simclr-v1",
    "ResNet-50, SimCLR-v2": "simclr-v2", "Supervised ResNet-50": "timm:resnet50",
    "MoCo-v2 ResNet-50": "moco-v2", "MoCo-v3 ViT-B/16": "moco-v3",
}  # fmt: skip
#: Models that CNS-Bench calls by another name than open_clip does.
MODELS = {
    "clip_resnet50": "RN50/openai", "clip_resnet101": "RN101/openai",
    "clip_vit_base_patch16_224": "ViT-B-16/openai", "clip_vit_base_patch32_224": "ViT-B-32/openai",
    "clip_vit_large_patch14_224": "ViT-L-14/openai", "clip_vit_large_patch14_336": "ViT-L-14-336/openai",
}  # fmt: skip
#: The dataset of tables that name none.
OWN = {"nico++": "nico", "cns-bench": "cns_bench", "rlsbench": "office_home", "sma": "", "domainbed-v2": ""}
#: Domains that papers shorten to more than the beginning of a name.
DOMAINS = {"L38": "location38", "L43": "location43", "L46": "location46", "L100": "location100"}
STAND_IN = "stand-in"


def is_named(axis: str, ours: str, printed: str) -> bool:
    """Return True if a paper's name along an axis is that of ours.

    >>> is_named("method", "iw-dann", "IW-DAN"), is_named("tests", "sand, dim", "test S, Di")
    (True, True)
    """
    if axis in METHODS:
        return _plain(ours) in (_plain(printed), _plain((NAMES | MODELS).get(printed, printed)))
    if axis == "dataset":  # the authors' logs have names of their own: retiring_adult
        return DATASETS.get(printed) == ours or _plain(printed).rstrip("s") == _plain(ours).rstrip("s")
    if axis == "pair":
        pairs = zip(ours.split(" to "), printed.split(" to "), strict=False)
        return " to " in ours and all(is_named("figure", *pair) for pair in pairs)
    if axis == "weights":
        return printed in WEIGHTS and ours.startswith(WEIGHTS[printed])
    if axis == "figure":  # a domain, of which papers print the first letters; a severity is itself
        return ours == printed or (
            printed[:1].isalpha() and _plain(ours).startswith(_plain(DOMAINS.get(printed, printed)))
        )
    if axis == "tests":
        mine, theirs = (sorted(text.split(", ")) for text in (ours, printed.removeprefix("test ")))
        return len(mine) == len(theirs) and all(
            is_named("figure", *pair) for pair in zip(mine, theirs, strict=True)
        )
    return _plain(ours) == _plain(printed)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9→.=]", "", name.lower())


@dataclass(frozen=True, kw_only=True)
class Total:
    """A further row or column of each block: a function of its columns or rows."""

    name: str
    of: Literal["mean", "sd", "rank", "moved", "gain", "gap", "change"]
    axis: Literal["row", "column"] = "column"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One or several alike tables of a paper.

    `part`, `row` and `column` are axes of `Point`, or several of them. The tasks are of a `kind`, and of
    `protocols` if it names some; the methods are `only` some. `renamed` gives names here those of the paper.
    `ranked` is the axis whose ranks are compared with the paper's. With `over` "tasks" an error is that over
    tasks, such as subsamplings. `hidden` rows are there for totals alone, `last` columns count in none.
    `exact` blocks show no column that the paper's block of this name lacks.
    """

    paper: str
    tables: tuple[str, ...]
    kind: str
    points: Points
    part: tuple[str, ...] = ()
    row: str
    column: str
    totals: tuple[Total, ...] = ()
    ranked: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    protocols: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    over: Literal["seeds", "tasks"] = "seeds"
    last: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    exact: bool = False
    title: str = ""

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.part, self.row, self.column)


_MEAN, _AVG = Total(name="mean", of="mean", axis="row"), Total(name="Avg", of="mean")
_AVG_OF_ROWS = Total(name="Avg", of="mean", axis="row")
_RULES = {
    "iid": "Acc.",
    "iid-mean-group": "Acc.",
    "iid-worst": "Worst Acc.",
    "iid-worst-m": "Top-3 Worst Acc.",
}
_SCENARIOS: dict[str, Any] = {
    "paper": "sma", "points": points.figure(), "part": ("dataset",), "row": "scenario", "column": "method",
    "totals": (_MEAN,), "ranked": "column",
}  # fmt: skip
_NICO: dict[str, Any] = {"paper": "nico++", "kind": "domain generalization"}
_CNS: dict[str, Any] = {"paper": "cns-bench", "kind": "continuous shift", "row": "model", "column": "figure"}
_V2: dict[str, Any] = {
    "paper": "domainbed-v2", "kind": "domain generalization",
    "protocols": ("leave-one-domain-out", "leave-one-group-out", "domainbed", "domainbed-v2", "classic-dg"),
}  # fmt: skip
#: Linear probing next to fine-tuning, by ERM.
_TUNED: dict[str, Any] = _V2 | {
    "points": points.domains, "row": "tuning", "column": "figure", "only": ("erm",),
}  # fmt: skip
_RLS: dict[str, Any] = {"paper": "rlsbench", "kind": "label shift", "points": points.figure()}

LAYOUTS = (
    Layout(
        paper="sma", tables=("3",), kind="group fairness", points=points.figure("worst"), part=("dataset",),
        row="k", column="rule", renamed=_RULES, only=("subg",), over="tasks",
    ),
    Layout(**_SCENARIOS, tables=("4", "5", "6", "7", "8"), kind="domain adaptation"),
    Layout(**_SCENARIOS, tables=("9", "10", "11", "12", "13"), kind="universal domain adaptation"),
    Layout(
        **_NICO, tables=("2", "5", "7", "9"), protocols=("classic-dg",), points=points.domains,
        part=("tests",), row="method", column="figure", last=("Ova.",), ranked="row",
        totals=(Total(name="Avg.", of="mean"), Total(name="Std", of="sd")),
    ),
    Layout(
        **_NICO, tables=("3", "6", "8"), protocols=("flexible-dg",), points=points.figure("overall"),
        row="setting", column="method", totals=(Total(name="Avg.", of="mean", axis="row"),), ranked="column",
    ),
    Layout(**_NICO, tables=("4",), points=points.stability, part=("dataset",), row="method", column="figure"),
    Layout(
        **_CNS, tables=("2",), points=points.severities, part=("measure",), ranked="row",
        totals=(Total(name="avg", of="mean"),), exact=True,
    ),
    Layout(**_CNS, tables=("3",), points=points.failures, ranked="row"),
    Layout(
        **_CNS, tables=("shifts",), points=points.shifts, part=("severity",), totals=(_AVG,),
        title="Accuracy of each model by shift and scale",
    ),
    Layout(**_TUNED, tables=("1", "7"), part=("dataset",), totals=(_AVG,)),
    Layout(
        **_TUNED, tables=("2",), part=("dataset",), totals=(Total(name="Gap", of="gap", axis="row"),),
        hidden=("LP", "FT"),
    ),
    Layout(**_TUNED, tables=("3", "6", "8"), part=("dataset", "weights"), totals=(_AVG,)),
    Layout(
        **_V2, tables=("4",), points=points.leakage, part=("dataset", "tests"), row="chosen", column="figure",
        only=("erm",), totals=(_AVG, Total(name="leakage", of="gain"), Total(name="change", of="change")),
    ),
    Layout(
        **_V2, tables=("5",), points=points.figure(), part=("weights",), row="method", column="dataset",
        ranked="row", totals=(
            Total(name="Average", of="mean"), Total(name="Ranking", of="rank"),
            Total(name="Rank change", of="moved"),
        ),
    ),
    Layout(**_RLS, tables=("4",), row="dataset", column="method", totals=(_AVG_OF_ROWS,), ranked="column"),
    Layout(
        **_RLS, tables=("2", "3", "5"), part=("correction",), row="dataset", column="corrected",
        totals=(_AVG_OF_ROWS,), ranked="column",
    ),
    Layout(**_RLS, tables=("7",), part=("pair",), row="method", column="alpha", totals=(_AVG,), ranked="row"),
)  # fmt: skip


def layout_of(name: str) -> tuple[Layout, str]:
    """Return the layout of a table by its name, "nico++ 2", and its number."""
    paper, _, number = name.strip().rpartition(" ")
    for layout in LAYOUTS:
        if layout.paper == paper and number in layout.tables:
            return layout, number
    every = [f"{layout.paper} {number}" for layout in LAYOUTS for number in layout.tables]
    raise not_found("table of a paper", name, every)
