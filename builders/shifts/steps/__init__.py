"""The steps of a recipe that shift content: frozen records of what determines their pixels, one file each."""

from builders.shifts.steps.contexts import Contexts
from builders.shifts.steps.continuous import Continuous
from builders.shifts.steps.corrupt import Corrupt
from builders.shifts.steps.diffuse import Diffuse
from builders.shifts.steps.domains import Domains, Trajectories
from builders.shifts.steps.framing import CropSquare, OnGround, Pad, Resize
from builders.shifts.steps.stylize import Stylize

__all__ = [
    "Contexts",
    "Continuous",
    "Corrupt",
    "CropSquare",
    "Diffuse",
    "Domains",
    "OnGround",
    "Pad",
    "Resize",
    "Stylize",
    "Trajectories",
]
