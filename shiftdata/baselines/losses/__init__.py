"""Losses of shift and generalisation as functions of tensors, for a training loop of your own.

Docstrings have the formulas and sources; docs/losses.md has an example of each.
"""

from shiftdata.baselines.losses.adversarial import *
from shiftdata.baselines.losses.averages import *
from shiftdata.baselines.losses.contrast import *
from shiftdata.baselines.losses.domains import *
from shiftdata.baselines.losses.groups import *
from shiftdata.baselines.losses.label_shift import *
from shiftdata.baselines.losses.open_set import *
from shiftdata.baselines.losses.pictures import *
from shiftdata.baselines.losses.reduce import *
from shiftdata.baselines.losses.target import *
from shiftdata.baselines.losses.transport import *
