"""shiftdata: distribution-shift datasets that load, repeat and can be checked.

`import shiftdata` costs almost nothing: each name in `__init__.pyi` is imported when it is first used.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
