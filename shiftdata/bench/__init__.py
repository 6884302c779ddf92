"""From many trainings to one: `selection` chooses a trial and a step from stored evaluations."""

from __future__ import annotations

from shiftdata.bench.selection import RULES, Candidate, Rule, Selected, select

__all__ = ["RULES", "Candidate", "Rule", "Selected", "select"]
