"""Where costly jobs run: in this process or in a pool of processes. Results are the same, times differ."""

from __future__ import annotations

from shiftdata.executors.executor import Executor, Work
from shiftdata.executors.here import Here
from shiftdata.executors.pool import Pool

__all__ = ["Executor", "Here", "Pool", "Work"]
