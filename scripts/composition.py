"""Does the ranking of methods follow the kind and the size of a shift? Figure and tables of docs/kinds_of_shift.md.

    shiftdata sweep composition --folder FOLDER
    python scripts/composition.py --folder FOLDER --keep    keep its records in docs/findings
    python scripts/composition.py --write                   draw the figure, write the tables

The hypotheses were fixed before the sweep ran. Gains are points of accuracy on the test set, selected by
source validation. A block is the nine tasks (three mu x three alpha) of one dataset, draw and kind of test
domain: within it a gain is correlated (Spearman) with the measured size of a shift. The unit of a test is the
block: Student's interval of the mean over blocks, p-values by Holm over all hypotheses.
"""

from __future__ import annotations

from dataclasses import dataclass

AWARE = "rwg group-dro"
SPURIOUS, LABEL = "spurious correlation", "label shift"


@dataclass(frozen=True)
class Hypothesis:
    """The gain of methods `more` over those of `less` rises with the size of a shift.

    `than`: it rises more with `by` than with this. `sign` -1: it falls. `by` "new domain" compares blocks
    with a test domain that training lacks with those without one; "alike" correlates rankings of all methods.
    """

    text: str
    by: str
    more: str = ""
    less: str = "erm"
    than: str = ""
    sign: int = 1


NEW, ALIKE = "new domain", "alike"
HYPOTHESES = (
    Hypothesis("group methods gain more over ERM with spurious correlation", SPURIOUS, AWARE),
    Hypothesis("... and more so than with label shift", SPURIOUS, AWARE, than=LABEL),
    Hypothesis("RS and RW gain more over ERM with label shift", LABEL, "rs+rw+erm"),
    Hypothesis("... and more so than with spurious correlation", LABEL, "rs+rw+erm", than=SPURIOUS),
    Hypothesis("RS and RW gain more over DANN with label shift", LABEL, "rs+rw+dann", "dann"),
    Hypothesis("DANN loses to ERM with label shift", LABEL, "dann", sign=-1),
    Hypothesis("DANN gains more over ERM in a new domain", NEW, "dann"),
    Hypothesis("CORAL gains more over ERM in a new domain", NEW, "coral"),
    Hypothesis("tasks of like shifts rank the methods alike", ALIKE),
)
