"""Reference methods, and the engine that trains them. Needs torch.

`run = sd.train(task, "group-dro", eta=0.1)` trains and predicts, `run.evaluate()` judges and
`run.save(folder)` keeps it. `Method` and `method` are for methods of your own.
"""

from __future__ import annotations

from shiftdata.extras import require

require("torch", "training")  # first: what lacks it then says how to install it

from shiftdata.baselines.engine import Trainer  # noqa: E402
from shiftdata.baselines.method import Batch, Hyper, Method, Setup, Stage, Wrapper, mean, method  # noqa: E402
from shiftdata.baselines.methods import METHODS, make_method, method_class  # noqa: E402
from shiftdata.baselines.run import Model, PretrainingWarning, Run, fit, initial_network, train  # noqa: E402
from shiftdata.baselines.sources import MODES, Mode, source_of  # noqa: E402
from shiftdata.baselines.training import TRAINING, DivergedError, Training  # noqa: E402
from shiftdata.data.loading.sources import Source  # noqa: E402

__all__ = [
    "METHODS",
    "MODES",
    "TRAINING",
    "Batch",
    "DivergedError",
    "Hyper",
    "Method",
    "Mode",
    "Model",
]
__all__ += ["PretrainingWarning", "Run", "Setup", "Source", "Stage", "Trainer", "Training", "Wrapper"]
__all__ += ["fit", "initial_network", "make_method", "mean", "method", "method_class", "source_of", "train"]
