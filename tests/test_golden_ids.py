"""Ids and draws are what they were: a word renamed in code must not change a dataset, a task or a run."""

from __future__ import annotations

from tests.golden_ids import GOLDEN, lines


def test_ids_and_draws_are_those_on_record():
    assert lines() == GOLDEN.read_text(encoding="utf-8").splitlines()
