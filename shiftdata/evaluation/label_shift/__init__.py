"""Label shift: estimate the label marginal of unlabelled target data, and adapt to it.

`estimate_marginal("rlls", source, labels, target)` estimates it, with intervals, from a classifier's
predictions on a source hold-out and on the target; `reweight` adapts predictions, `estimate.weights[labels]`
weights a loss.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
