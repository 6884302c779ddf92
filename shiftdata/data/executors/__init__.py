"""Executors of costly jobs: this process, its threads, a pool, a Ray cluster. The results are the same."""

from __future__ import annotations

from shiftdata.data.executors.base import ALONE as ALONE
from shiftdata.data.executors.base import BARRIER as BARRIER
from shiftdata.data.executors.base import LOSSES as LOSSES
from shiftdata.data.executors.base import Barrier as Barrier
from shiftdata.data.executors.base import Executor as Executor
from shiftdata.data.executors.base import Here as Here
from shiftdata.data.executors.base import LostError as LostError
from shiftdata.data.executors.base import Rank as Rank
from shiftdata.data.executors.base import Ranks as Ranks
from shiftdata.data.executors.base import Threads as Threads
from shiftdata.data.executors.base import alike as alike
from shiftdata.data.executors.base import check_alike as check_alike
from shiftdata.data.executors.pool import Pool as Pool
from shiftdata.data.executors.ray import Ray as Ray
