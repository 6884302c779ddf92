"""Losses of shift and generalisation as functions of tensors, for a training loop of your own.

Each is documented with its formula and source, and with an example, in docs/losses.md.
"""

from shiftdata.losses.adversarial import *
from shiftdata.losses.averages import *
from shiftdata.losses.domains import *
from shiftdata.losses.groups import *
from shiftdata.losses.label_shift import *
from shiftdata.losses.open_set import *
from shiftdata.losses.pictures import *
from shiftdata.losses.reduce import *
from shiftdata.losses.target import *
from shiftdata.losses.transport import *
