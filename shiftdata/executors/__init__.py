"""Where costly jobs run: here, in a pool of processes, on a Ray cluster. The results are the same."""

from __future__ import annotations

from shiftdata.executors.executor import Executor, Work
from shiftdata.executors.here import Here
from shiftdata.executors.pool import Pool
from shiftdata.executors.ranks import ALONE, Rank, Ranks
from shiftdata.executors.ray import Ray
from shiftdata.executors.tickets import LOSSES, LostError
from shiftdata.executors.worker import alike, check_alike

__all__ = [
    "ALONE",
    "LOSSES",
    "Executor",
    "Here",
    "LostError",
    "Pool",
    "Rank",
    "Ranks",
    "Ray",
    "Work",
    "alike",
    "check_alike",
]
