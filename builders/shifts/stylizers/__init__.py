"""Networks that paint pictures in styles, behind one interface: style pictures become codes, codes paint.

The one that ships needs nothing more. The others read weights that are published elsewhere.
"""

from builders.shifts.stylizers.adain import AdaIN
from builders.shifts.stylizers.arbitrary import Arbitrary
from builders.shifts.stylizers.gatys import Gatys
from builders.shifts.stylizers.style_swap import StyleSwap
from builders.shifts.stylizers.stylizer import Stylizer

__all__ = ["AdaIN", "Arbitrary", "Gatys", "StyleSwap", "Stylizer"]
