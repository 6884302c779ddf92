"""Models that are trained here: what a task is worth before any method of your own. Needs torch.

`inputs = read_inputs(task.metadata, "scratch", task.rows("train"), task.rows("test"))` reads examples once,
`model = train(task, inputs, "rwg", seed=0)` trains on the set to fit, and
`task.evaluate(predictions(task, inputs, model))` judges the model.
"""

from shiftdata.baselines.inputs import MODES, Inputs, Mode, read_inputs
from shiftdata.baselines.training import TRAINING, Model, Training, fit, predictions, train

__all__ = ["MODES", "TRAINING", "Inputs", "Mode", "Model", "Training"]
__all__ += ["fit", "predictions", "read_inputs", "train"]
