"""Reference methods, and the engine that trains them. Needs torch.

`run = sd.train(task, "group-dro", eta=0.1)` trains and predicts, `run.evaluate()` judges and
`run.save(folder)` keeps it. `Method` and `method` are for methods of your own; `losses` has their formulas.
"""

from typing import Any

import lazy_loader

from shiftdata.extras import require

_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        require("torch", "training")  # first: what lacks it then says how to install it
    return _lazy(name)
