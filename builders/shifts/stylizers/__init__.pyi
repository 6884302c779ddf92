from .adain import AdaIN as AdaIN
from .stylizer import Arbitrary as Arbitrary
from .stylizer import Stylizer as Stylizer
