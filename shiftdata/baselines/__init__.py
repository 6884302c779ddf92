"""Reference methods, and the engine that trains them. Needs torch.

`run = sd.train(task, "group-dro", eta=0.1)` trains and predicts, `run.evaluate()` judges and
`run.save(folder)` keeps it. `Method` and `method` are for methods of your own; `losses` has their formulas.
"""

import lazy_loader

from shiftdata.extras import require

require("torch", "training")  # first: what lacks it then says how to install it

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
