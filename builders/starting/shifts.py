"""The shift of somebody's data: its own domains, or one of three shifts made from pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from builders.shifts.corruptions import CORRUPTIONS
from builders.shifts.steps.corrupt import Corrupt
from builders.shifts.styles.sliders import SCALES
from builders.shifts.weather import WEATHERS
from builders.starting.draft import Candidate, Shift, quoted, wrapped

#: The shifts that are made, and what each does.
MADE = {
    "stylize": "paints each picture in 20 styles (as Stylized Meta-Album): groups of class and style",
    "weather": f"{', '.join(WEATHERS)}, each growing in {len(SCALES)} steps (as CNS-Bench)",
    "corrupt": f"{len(CORRUPTIONS)} corruptions such as {', '.join(CORRUPTIONS[:4])}, in 5 severities (as "
    "ImageNet-C)",
}
FAIRNESS = (2, 4, 8)  # classes, and as many styles or domains
MOST_TESTED = 12  # domains that a recipe leaves out in turn
MOST_TARGETS = 4  # domains to which labels shift


def domains_shift(
    rows: Mapping[str, int], classes: int, nuisance: str = "domain", *, labels: bool = False
) -> Shift:
    """Domains that came with the data, with the rows of each; `labels` may shift between them too."""
    names = sorted(rows)
    by_rows = sorted(names, key=lambda name: (-rows[name], name))
    imports = ["builders.shifts.steps Domains"]
    candidates = []
    if len(names) == 2:
        pairs = [names, names[::-1]]
        candidates += [Candidate(code=f"UDA(source={quoted(a)}, target={quoted(b)})") for a, b in pairs]
    else:
        tested = sorted(by_rows[:MOST_TESTED])
        among = "DOMAINS" if tested == names else ""
        candidates += [Candidate(code="LeaveOneDomainOut(test={})", names=tested, among=among)]
    candidates += [fairness(k) for k in FAIRNESS if k <= min(classes, len(names))]
    if labels:
        shifted = f"LabelShift(source={quoted(by_rows[0])}, target={{}}, alpha=1, replacement=True)"
        candidates += [Candidate(code=shifted, names=by_rows[1 : 1 + MOST_TARGETS])]
    return Shift(
        family="label-shift" if labels else "domain",
        nuisance=nuisance,
        about=f" in {len(names)} domains",
        code="Domains(names=DOMAINS)",
        imports=imports,
        constants=[wrapped("DOMAINS = ", names)],
        candidates=candidates,
        made=False,
    )


def fairness(k: int) -> Candidate:
    """Group fairness; it compares groups, so that none may lack."""
    return Candidate(code=f"GroupFairness(k={k}, mu=0.1)", gaps=False)


def made_shift(name: str, dataset: str, classes: int) -> Shift:
    """One of `MADE`, and the canonical splits that its paper cuts."""
    if name == "stylize":
        return Shift(
            family="stylized",
            nuisance="style",
            about=", painted in 20 styles",
            code=f"Stylize(seed=0, dataset={quoted(dataset)})",
            imports=["builders.shifts.steps Stylize"],
            candidates=[fairness(k) for k in FAIRNESS if k <= classes],
            per_item=20,
        )
    if name == "weather":
        code = f"Continuous(dataset={quoted(dataset)}, seeds=(0,), names=SHIFTS)"
        return _stepwise("weathers", WEATHERS, code, "Continuous", len(SCALES))
    steps = len(Corrupt(seed=0, dataset=dataset).severities)
    code = f"Corrupt(seed=0, dataset={quoted(dataset)}, names=SHIFTS)"
    return _stepwise("corruptions", CORRUPTIONS, code, "Corrupt", steps)


def _stepwise(noun: str, names: Sequence[str], code: str, step: str, severities: int) -> Shift:
    return Shift(
        family="continuous",
        nuisance="shift",
        about=f", under {len(names)} {noun} in {severities} steps",
        code=code,
        imports=[f"builders.shifts.steps {step}"],
        constants=["# Leave out what does not suit your pictures.", wrapped("SHIFTS = ", names)],
        candidates=[
            Candidate(code="Trajectories()"),
            Candidate(code="Trajectories(shifts={})", names=names, among="SHIFTS"),
        ],
        per_item=severities * len(names),
    )
