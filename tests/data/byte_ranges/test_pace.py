"""Requests under way grow as long as that brings more, and where it brings nothing they shrink again."""

from __future__ import annotations

import pytest

from shiftdata.data.loading.byte_ranges import pace
from shiftdata.data.loading.byte_ranges.pace import FIRST, MOST, NEAR, SETTLED, Pace


class Pipe:
    """A pipe of some latency and bandwidth, and a clock that it moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, latency: float, rate: float) -> None:
        self.now, self.latency, self.rate = 1000.0, latency, rate
        monkeypatch.setattr(pace.time, "monotonic", lambda: self.now)

    def carry(self, pacing: Pace, seconds: float, size: int = 20_000, *, is_full: bool = True) -> None:
        until = self.now + seconds
        while self.now < until:
            each = max(self.latency / pacing.requests, size / self.rate)  # between two that come
            self.now += each
            pacing.note(max(self.latency, each * pacing.requests), size, is_full=is_full)


@pytest.mark.parametrize(("rate", "expected"), [(1e9, MOST), (30e6, 32), (2e6, FIRST)])
def test_as_many_as_fill_the_pipe(monkeypatch, rate, expected):
    pipe, pacing = Pipe(monkeypatch, 0.02, rate), Pace()
    pipe.carry(pacing, 5)
    assert pacing.requests == expected
    pipe.rate = 1e9
    pipe.carry(pacing, SETTLED + 5)
    assert pacing.requests == MOST  # it is tried again


def test_without_latency_a_few_are_enough(monkeypatch):
    pipe, pacing = Pipe(monkeypatch, 0.0001, 1e9), Pace()
    pacing.asked(0.0001)
    pipe.carry(pacing, 1)
    assert (pacing.requests, pacing.is_far) == (NEAR, False)


def test_a_place_is_seen_to_be_far_before_any_bytes_come():
    pacing = Pace()
    pacing.asked(0.02)
    assert pacing.requests == FIRST
    pacing.asked(0.001)  # an answer that a cache nearby has
    assert pacing.requests == FIRST


def test_times_in_which_nothing_waits_show_nothing(monkeypatch):
    pipe, pacing = Pipe(monkeypatch, 0.02, 1e9), Pace()
    pipe.carry(pacing, 5, is_full=False)
    assert (pacing.requests, pacing.is_far) == (FIRST, True)
