"""Checks the papers' tables: computes again what a paper prints twice, or what its own numbers decide."""

from check_published.checker import Report, check, fingerprint
from check_published.judging import VERDICTS, Finding, Verdict

__all__ = ["VERDICTS", "Finding", "Report", "Verdict", "check", "fingerprint"]
