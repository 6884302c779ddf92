"""Wrappers for label shift, around any method (RLSbench)."""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.losses.reduce import precise
from shiftdata.baselines.method import Data, Method, Wrapper
from shiftdata.baselines.networks import Network
from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.label_shift.estimators import log_ratios
from shiftdata.evaluation.sampling import Reweighted, RowSampler, cells_of


def pseudo_balanced(trainer: Trainer, labels: Tensor, epoch: int, begins: bool) -> IntArray:
    """Draw rows of the target, each predicted class equally often; `labels` has the epoch's predictions."""
    if begins:
        labels.copy_(torch.from_numpy(trainer.scores(trainer.data.target).argmax(axis=1)))
    cells = cells_of(labels.cpu().numpy(), kind="label", on_empty="drop")
    names = ("target", trainer.progress.stage)
    return Reweighted(cells, kind="pseudo-balanced", seed=trainer.seed, names=names).rows_of(epoch)


class RS(Wrapper):
    """Any method on rows drawn so that each class comes equally often, predicted classes on the target."""

    def __init__(self, inner: Method, **given: float) -> None:
        super().__init__(inner, **given)
        if inner.sampler not in ("shuffle", "rwy", "class-balanced"):
            raise InputError(
                f"rs draws rows by class, and {type(inner).__name__} by a rule of its own "
                f"({inner.sampler!r}): leave one of them out"
            )
        self.sampler = "rwy"

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        # A run that is resumed within an epoch must draw by the same predictions.
        self.register_buffer("pseudo_labels", torch.zeros(len(data.target), dtype=torch.int64))

    def target_rows(self, trainer: Trainer, shuffled: RowSampler, epoch: int, begins: bool) -> IntArray:
        return pseudo_balanced(trainer, self.get_buffer("pseudo_labels"), epoch, begins)


def trained_shares(rule: str, data: Data) -> FloatArray:
    """Return the label shares of the rows that a sampler draws."""
    drawn = np.arange(len(data.y))
    if rule in ("rwy", "suby", "class-balanced"):
        drawn = np.unique(data.y, return_index=True)[1]  # a row of each class
    elif rule in ("rwg", "subg", "uniform-groups"):
        drawn = np.unique(data.group, return_index=True)[1]
    shares: FloatArray = np.bincount(data.y[drawn], minlength=data.classes) / len(drawn)
    return shares


class RW(Wrapper):
    """Any method, its predictions re-weighted by the target's label shares, estimated by RLLS.

    The logits are log p_j + log(p_t(j) / p_train(j)); rows of the source are predicted without.
    """

    estimator: ClassVar[str] = "rlls"
    code_version: ClassVar[int] = 2  # 2: estimated at every evaluation; source rows are not corrected

    def __init__(self, inner: Method, **given: float) -> None:
        super().__init__(inner, **given)
        if "unknown" in inner.needs:
            raise InputError(
                f"rw estimates shares of known classes, and {type(inner).__name__} predicts unknown ones: "
                "leave one of them out"
            )
        self.needs = inner.needs | {"target"}

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.register_buffer("log_ratio", torch.zeros(data.classes))

    def correct(self, trainer: Trainer) -> None:
        super().correct(trainer)
        data, has_select = trainer.data, len(trainer.data.select) > 0
        rows, labels = (data.select, data.select_y) if has_select else (data.rows, data.y)
        logits = [trainer.applied(self.inner.predict, data.target)]
        # Where the inner method adapts nothing to the target, the evaluation has predicted the rows already.
        alike = has_select and type(self.inner).predict_source is Method.predict_source
        logits += [trainer.validation_scores() if alike else trainer.applied(self.inner.predict, rows)]
        target, source = (torch.from_numpy(each).double().softmax(1).numpy() for each in logits)
        if not (np.isfinite(source).all() and np.isfinite(target).all()):
            raise InputError("rw got logits that are not finite: lower learning_rate")
        # The outermost wrapper's rule: in "rs+rw+dann" it is that of rs.
        trained = trained_shares(trainer.method.sampler, data)
        ratios = log_ratios(self.estimator, source, labels, target, trained)
        self.get_buffer("log_ratio").copy_(torch.from_numpy(ratios))

    def predict(self, x: Tensor) -> Tensor:
        return torch.log_softmax(precise(super().predict(x)), 1) + self.get_buffer("log_ratio")


class RWBBSE(RW):
    """RW with black-box shift estimation."""

    estimator = "bbse"


class RWMLLS(RW):
    """RW with the maximum of the likelihood, for probabilities that are calibrated on the source rows."""

    estimator = "mlls"


class RWMean(RW):
    """RW with the mean prediction for label shares: the baseline, biased under label shift."""

    estimator = "mean"
