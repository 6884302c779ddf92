"""The number of requests under way: as many as bring more bytes, by what the requests of this place take.

A pipe is full when the bytes under way are its bandwidth times its latency. Neither is known, and both
change, so requests are doubled as long as a tenth more bytes a second come by it, and again after a while.
Where no request waits for a network, a few fill any pipe, and more would keep decoders from work.
"""

from __future__ import annotations

import threading
import time

#: Requests under way to a place that is near; first, and at most, to others. Each has a thread, a connection.
NEAR, FIRST, MOST = 4, 16, 64
#: How many times as many bytes a second must come by twice the requests.
GAIN = 1.1
#: Seconds after which another number of requests is tried again.
SETTLED = 30.0
#: Seconds of the quickest request from which on requests wait for the network more than for anything else.
FAR = 0.005


class Pace:
    """Counts what comes; `requests` may be under way at once."""

    def __init__(self) -> None:
        self.requests = NEAR
        self._quickest = float("inf")
        self._best = 0.0
        self._until = 0.0  # when to try again
        self._lock = threading.Lock()
        self._restart()

    @property
    def is_far(self) -> bool:
        """True if even the quickest request has waited for an answer."""
        return FAR <= self._quickest < float("inf")

    def asked(self, seconds: float) -> None:
        """Count a request without bytes, which comes before all others and so says where the place is."""
        with self._lock:
            if seconds >= FAR:
                self.requests = max(self.requests, FIRST)

    def note(self, seconds: float, size: int, *, is_full: bool) -> None:
        """Count a request that has come; only times in which others waited for a thread show anything."""
        with self._lock:
            self._quickest = min(self._quickest, seconds)
            if self.is_far:
                self.requests = max(self.requests, FIRST)
            if not is_full:
                self._restart()
                return
            self._came += 1
            self._bytes += size
            if self._came >= 2 * self.requests:
                self._judge(self._bytes / max(time.monotonic() - self._since, 1e-6))
                self._restart()

    def _judge(self, rate: float) -> None:
        now = time.monotonic()
        if now < self._until or not self.is_far:
            return
        if rate > GAIN * self._best and self.requests < MOST:
            self._best, self.requests = rate, min(2 * self.requests, MOST)
            return
        if rate <= GAIN * self._best:
            self.requests = max(self.requests // 2, FIRST)  # the last step brought nothing
        self._best, self._until = 0.0, now + SETTLED

    def _restart(self) -> None:
        self._since, self._came, self._bytes = time.monotonic(), 0, 0
