"""Protocols: named, versioned rules from a dataset's metadata to a task; `named` has the table of all.

>>> print(parse_protocol("group-fairness k=8 mu=0.1 severity<=1.5"))
(severity <= 1.5) & group-fairness@1(k=8, mu=0.1, seed=0)
"""

from shiftdata.evaluation.protocols.adaptation import SCENARIOS as SCENARIOS
from shiftdata.evaluation.protocols.adaptation import UDA as UDA
from shiftdata.evaluation.protocols.adaptation import UniDA as UniDA
from shiftdata.evaluation.protocols.authors import Official as Official
from shiftdata.evaluation.protocols.authors import Wilds as Wilds
from shiftdata.evaluation.protocols.base import Chain as Chain
from shiftdata.evaluation.protocols.base import Protocol as Protocol
from shiftdata.evaluation.protocols.base import Where as Where
from shiftdata.evaluation.protocols.continuous import Continuous as Continuous
from shiftdata.evaluation.protocols.domains import ClassicDG as ClassicDG
from shiftdata.evaluation.protocols.domains import DomainBed as DomainBed
from shiftdata.evaluation.protocols.domains import EvaluateOnly as EvaluateOnly
from shiftdata.evaluation.protocols.domains import HoldOut as HoldOut
from shiftdata.evaluation.protocols.domains import LeaveOneDomainOut as LeaveOneDomainOut
from shiftdata.evaluation.protocols.domains import LeaveOneGroupOut as LeaveOneGroupOut
from shiftdata.evaluation.protocols.domains import Listed as Listed
from shiftdata.evaluation.protocols.flexible import FlexibleDG as FlexibleDG
from shiftdata.evaluation.protocols.group_fairness import GroupFairness as GroupFairness
from shiftdata.evaluation.protocols.label_shift import LabelShift as LabelShift
from shiftdata.evaluation.protocols.named import parse_protocol as parse_protocol
from shiftdata.evaluation.protocols.named import protocol as protocol
from shiftdata.evaluation.protocols.named import protocols as protocols
from shiftdata.evaluation.protocols.named import task as task
from shiftdata.evaluation.protocols.oracle import Oracle as Oracle
from shiftdata.evaluation.protocols.oracle import OracleStar as OracleStar
from shiftdata.evaluation.protocols.stream import Stream as Stream
from shiftdata.evaluation.protocols.stream import stream_of as stream_of
