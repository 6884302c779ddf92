from .adain import AdaIN as AdaIN
from .gatys import Gatys as Gatys
from .style_swap import StyleSwap as StyleSwap
from .stylizer import Arbitrary as Arbitrary
from .stylizer import Stylizer as Stylizer
