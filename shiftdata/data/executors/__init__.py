"""Where costly jobs run: here, in a pool of processes, on a Ray cluster. The results are the same."""

from __future__ import annotations

from shiftdata.data.executors.executor import LOSSES as LOSSES
from shiftdata.data.executors.executor import Executor as Executor
from shiftdata.data.executors.executor import Here as Here
from shiftdata.data.executors.executor import LostError as LostError
from shiftdata.data.executors.executor import alike as alike
from shiftdata.data.executors.executor import check_alike as check_alike
from shiftdata.data.executors.pool import Pool as Pool
from shiftdata.data.executors.ranks import ALONE as ALONE
from shiftdata.data.executors.ranks import Rank as Rank
from shiftdata.data.executors.ranks import Ranks as Ranks
from shiftdata.data.executors.ray import Ray as Ray
