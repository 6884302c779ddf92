"""Networks that paint pictures in styles, behind one interface: style pictures become codes, codes paint.

The one that ships needs nothing more. The others read weights that are published elsewhere.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
