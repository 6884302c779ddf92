"""Protocols: named, versioned rules from a dataset's metadata to a task; `named` has the table of all.

>>> from shiftdata.evaluation.protocols import severity
>>> print(protocol("group-fairness", k=8, mu=0.1) & (severity <= 1.5))
(severity <= 1.5) & group-fairness@1(k=8, mu=0.1, seed=0)
"""

from __future__ import annotations

from shiftdata.evaluation.protocols.adaptation import SCENARIOS, UDA, UniDA
from shiftdata.evaluation.protocols.base import Chain, Protocol, Where, severity
from shiftdata.evaluation.protocols.continuous import Continuous
from shiftdata.evaluation.protocols.domains import (
    ClassicDG,
    DomainBed,
    HoldOut,
    LeaveOneDomainOut,
    LeaveOneGroupOut,
    Oracle,
    OracleStar,
)
from shiftdata.evaluation.protocols.evaluate_only import EvaluateOnly
from shiftdata.evaluation.protocols.flexible import FlexibleDG
from shiftdata.evaluation.protocols.group_fairness import GroupFairness
from shiftdata.evaluation.protocols.label_shift import LabelShift
from shiftdata.evaluation.protocols.listed import Listed
from shiftdata.evaluation.protocols.named import parse_protocol, protocol, protocols, task
from shiftdata.evaluation.protocols.per_domain import PerDomain

__all__ = ["SCENARIOS", "UDA", "Chain", "ClassicDG", "Continuous", "DomainBed", "EvaluateOnly"]
__all__ += ["FlexibleDG"]
__all__ += ["GroupFairness", "HoldOut", "LabelShift", "LeaveOneDomainOut", "LeaveOneGroupOut", "Listed"]
__all__ += ["Oracle", "OracleStar", "PerDomain", "Protocol", "UniDA", "Where"]
__all__ += ["parse_protocol", "protocol", "protocols", "severity", "task"]
