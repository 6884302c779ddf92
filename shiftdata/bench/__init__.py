"""Many trainings: sweeps into records, selection and reports from records. Needs torch to train, not to read.

read_sweep, run_sweep    a sweep as data, and its runs: resumable, on one machine or many
Records                  every evaluation of every run; folders of several machines are read as one
report, difference       tables, comparisons, ranks, a page of records; what differs between two sweeps
leaderboard              predictions of anybody, judged again and ranked: a package of its own
select, RULES            a trial and a step of each study, by a named rule; nothing is trained again
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftdata.bench.records import Records, Study
    from shiftdata.bench.reporting import Report, difference, report
    from shiftdata.bench.running import Progress, progress_of, run_sweep
    from shiftdata.bench.selection import RULES, Chosen, Rule, Selected, select
    from shiftdata.bench.sweep import Sweep, kept_sweep, presets, read_sweep, sweep_of

#: Which module has each name: what reads records does not import torch.
_HOMES = {
    "records": "Records Study",
    "reporting": "Report difference report",
    "running": "Progress progress_of run_sweep",
    "selection": "RULES Chosen Rule Selected select",
    "sweep": "Sweep kept_sweep presets read_sweep sweep_of",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = ["RULES", "Chosen", "Progress", "Records", "Report", "Rule", "Selected", "Study", "Sweep"]
__all__ += ["difference", "kept_sweep", "presets", "progress_of", "read_sweep", "report", "run_sweep"]
__all__ += ["select", "sweep_of"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
