"""Where costly jobs run: here, in a pool of processes, on a Ray cluster. The results are the same."""

from __future__ import annotations

from shiftdata.data.executors.executor import Executor, Work
from shiftdata.data.executors.here import Here
from shiftdata.data.executors.pool import Pool
from shiftdata.data.executors.ranks import ALONE, Rank, Ranks
from shiftdata.data.executors.ray import Ray
from shiftdata.data.executors.tickets import LOSSES, LostError
from shiftdata.data.executors.worker import alike, check_alike

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
