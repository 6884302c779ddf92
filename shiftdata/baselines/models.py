"""Backbones by name: the inputs of each, its network, and its pretrained weights.

`Prepare` functions take a batch as the loader gives it, on the device of the training: uint8 pictures
(n x 3 x height x width), float32 numbers (n x d), or a list of texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftdata.baselines.networks import Network, linear, mlp, small_cnn, small_resnet
from shiftdata.data.loading.sources import LinesAre
from shiftdata.errors import InputError, not_found

Floats: TypeAlias = NDArray[np.float32]
#: Brings a batch into the form that a network reads.
Prepare: TypeAlias = Callable[[Any], Tensor]
#: The form of an example that a network reads: pixels, numbers (features, n-grams, columns), or text.
Reads: TypeAlias = Literal["pixels", "numbers", "texts"]

#: Factors of a small network's widths.
MIN_FACTOR, MAX_FACTOR = 0.02, 8.0
#: Pieces of a column at most.
PIECES = 16

#: Names of trained models.
TRAINED = re.compile(r"(timm|hf|open_clip|onnx|torch|run):|rapidocr")


@dataclass(frozen=True)
class Backbone:
    """A network by its name. `pretraining` names its weights, `side` is the pictures' size.

    `make` gets the width of the inputs and the number of outputs.
    """

    name: str
    reads: Reads
    summary: str = ""
    make: Callable[[int, int], Network] | None = None  # None: a module that exists already
    pretraining: str = ""
    side: int = 40


def pixels(x: Tensor, centre: float = 127.5, scale: float = 63.75) -> Tensor:
    """Bring pixels to -2 to 2, unless a network's weights expect another range."""
    return x.float().div(scale).sub(centre / scale)


class Scaled:
    """(x - mean) scale, on the device of x; values that are not finite become 0."""

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        self.mean, self.scale = mean.float(), scale.float()

    def __call__(self, x: Tensor | NDArray[Any]) -> Tensor:
        x = torch.as_tensor(x)
        if self.mean.device != x.device:  # at the first batch alone
            self.mean, self.scale = self.mean.to(x.device), self.scale.to(x.device)
        return torch.nan_to_num((x - self.mean).float() * self.scale, posinf=0.0, neginf=0.0)


class Standardised(Scaled):
    """Numbers to mean 0 and deviation 1 over the training rows."""

    def __init__(self, rows: Tensor | NDArray[Any]) -> None:
        n = total = squares = centre = torch.zeros((), dtype=torch.float64)
        for block in torch.split(torch.as_tensor(rows), 4096):  # in float64, a part at a time
            x, finite = block.double(), torch.isfinite(block)
            if not n.ndim:  # a value near the mean: the difference of sums below then cancels no digits
                centre = torch.where(finite, x, 0).sum(0) / finite.sum(0).clamp(min=1)
            x = torch.where(finite, x - centre, 0)
            n, total, squares = n + finite.sum(0), total + x.sum(0), squares + x.square().sum(0)
        mean = total / n.clamp(min=1)
        variance = squares / n.clamp(min=1) - mean.square()
        super().__init__(centre + mean, torch.where(variance > 1e-12, variance, 1).rsqrt())


class Pieces(Standardised):
    """Columns of a table in pieces (Gorishniy et al., 2022), for linear layers, and marks of unknown values.

    Between two edges a piece rises from 0 to 1. Edges are quantiles of a column's values, and of those that
    differ, one for each 1,000 training rows: a column of fewer is one piece.
    """

    def __init__(self, rows: Tensor | NDArray[Any]) -> None:
        rows = torch.as_tensor(rows)[:: max(1, len(rows) // 100_000)]  # more rows move no edge that matters
        columns = rows.float().T
        shares = torch.linspace(0, 1, 1 + max(1, min(PIECES, columns.shape[1] // 1000)), dtype=torch.float64)
        edges = [_edges(column[torch.isfinite(column)], shares) for column in columns]
        column = torch.tensor([place for place, each in enumerate(edges) for _ in each[1:]]).long()
        low, high = (torch.cat([each[ends] for each in edges]) for ends in (slice(-1), slice(1, None)))
        self.tensors = column, low, high, torch.isnan(columns).any(1)
        super().__init__(self._pieces(rows))

    def __call__(self, x: Tensor | NDArray[Any]) -> Tensor:
        return super().__call__(self._pieces(torch.as_tensor(x)))

    def _pieces(self, x: Tensor) -> Tensor:
        column, low, high, unknown = (tensor.to(x.device) for tensor in self.tensors)
        pieces = ((x[:, column] - low) / (high - low)).clamp(0, 1)  # NaN stays
        return torch.cat([pieces, torch.isnan(x[:, unknown])], 1).float()


def _edges(values: Tensor, shares: Tensor) -> Tensor:
    """Return the edges of a column's pieces; of a column with a single value none."""
    different: Tensor = torch.unique(values)
    if len(different) < 2:
        return different
    # By place, not by torch.quantile, which takes 16 million values at most.
    places = [(shares * (len(each) - 1)).round().long() for each in (values, different)]
    edges: Tensor = torch.unique(torch.cat([values.sort().values[places[0]], different[places[1]]]))
    return edges


class TfIdf:
    """Counts of n-grams to lines of length 1: (1 + log count) (1 + log((1 + rows) / (1 + rows with it)))."""

    def __init__(self, rows: Tensor | NDArray[Any]) -> None:
        blocks = torch.split(torch.as_tensor(rows), 4096)
        present = torch.stack([(block > 0).sum(0) for block in blocks]).sum(0)
        self.weight = 1 + torch.log((1 + len(rows)) / (1 + present.float()))
        self.terms = torch.cat([torch.zeros(1), 1 + torch.arange(1, 256).log()])  # a sixth of the time of log

    def __call__(self, x: Tensor | NDArray[Any]) -> Tensor:
        x = torch.as_tensor(x)
        self.weight, self.terms = self.weight.to(x.device), self.terms.to(x.device)
        terms = self.terms.index_select(0, x.flatten().int()).view(x.shape)
        return nn.functional.normalize(terms * self.weight, dim=1)


PREPARES: Mapping[LinesAre, Callable[[Any], Scaled | TfIdf]] = {
    "features": Standardised,
    "counts": TfIdf,
    "columns": Pieces,
}


def _efficientnet(number: int, side: int = 96) -> Backbone:
    name = f"efficientnet-lite{number}"

    def make(width: int, outputs: int) -> Network:
        return _fine_tuned(_loaded(name, side), width, outputs)

    summary = f"EfficientNet-Lite{number}, all of it trained on"
    return Backbone(name, "pixels", summary, make, name, side)


_BUILT_IN = (
    Backbone("linear", "numbers", "a linear layer on frozen features, n-grams or columns", linear),
    Backbone("mlp", "numbers", "two hidden layers, on the same", mlp),
    Backbone("mlp-bn", "numbers", "two hidden layers with batch norm", partial(mlp, norm=True)),
    Backbone("small-cnn", "pixels", "four convolutions, from scratch", small_cnn),
    Backbone("small-resnet", "pixels", "a residual network of nine layers, from scratch", small_resnet,
             side=64),
    *map(_efficientnet, range(3)),
)  # fmt: skip
#: The networks by name. Further names: small-cnn:FACTOR, and those of trained models, such as timm:NAME.
BACKBONES: Mapping[str, Backbone] = {backbone.name: backbone for backbone in _BUILT_IN}


def _trained(name: str) -> Backbone:
    """Return the encoder of a trained model, all of it trained on; it makes one network."""
    model = _loaded(name)
    side = model.size if isinstance(model.size, int) else max(model.size or [0])
    reads: Reads = "texts" if model.modality == "text" else "pixels"
    return Backbone(name, reads, make=partial(_fine_tuned, model), pretraining=name, side=side)


def _loaded(name: str, side: int | None = None) -> Any:
    # Imported by name: sources of trained models read this module.
    return import_module("shiftdata.baselines.pretrained.load").load(name, size=side)


def _fine_tuned(model: Any, _: int, outputs: int) -> Network:
    if not isinstance(model.encoder, nn.Module):
        raise InputError(
            f"{model.name} is a graph without gradients, which cannot be trained on: use it in `shiftdata "
            "predict`, or a linear layer on its features"
        )
    return Network(model.encoder, model.n_features, outputs, model.maps, model.prepare)


def _small_cnn(factor: str) -> Backbone:
    """Return the small network with its widths times a factor, for families by size."""
    try:
        width = float(factor)
    except ValueError:
        width = 0.0
    if not MIN_FACTOR <= width <= MAX_FACTOR:
        raise InputError(f"small-cnn:{factor}: give a factor of its widths such as small-cnn:0.5")
    return Backbone(f"small-cnn:{width:g}", "pixels", make=partial(small_cnn, factor=width))


def n_features_of(name: str, encoder: Callable[[Any], Any], sample: Tensor) -> int:
    """Return how many features an encoder makes of each example of a sample."""
    try:
        with torch.no_grad():
            features = (encoder.eval() if isinstance(encoder, nn.Module) else encoder)(sample)
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError) as error:
        raise InputError(
            f"{name} cannot encode a batch of shape {tuple(sample.shape)} ({error}): take another "
            "backbone, or for pictures of another height and width side=..."
        ) from error
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != len(sample):
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise InputError(
            f"{name} returns {shape} for {len(sample)} examples, not rows x features: drop its last layer"
        )
    return features.shape[1]


def backbone_of(name: str) -> Backbone:
    """Return a backbone by its name; a trained model is loaded."""
    if name in BACKBONES:
        return BACKBONES[name]
    if name.startswith("small-cnn:"):
        return _small_cnn(name.removeprefix("small-cnn:"))
    if not TRAINED.match(name):
        hint = "Others: small-cnn:0.5, and trained models such as timm:NAME; `shiftdata predict` lists them."
        raise not_found("backbone", name, BACKBONES, hint)
    return _trained(name)


def build(
    backbone: str | nn.Module | None,
    sample: Tensor | Sequence[str],
    outputs: int,
    *,
    fit: Tensor | NDArray[Any] | None = None,
    lines_are: LinesAre = "features",
) -> tuple[Network, Prepare, Backbone]:
    """Build a network for batches like `sample`; return it, its `Prepare` function, and its description.

    Where a batch holds numbers, they are prepared by the training rows `fit`, by default by the sample:
    features are standardised, counts of n-grams weighted by TF-IDF, columns of a table cut into pieces.
    """
    prepare: Prepare = pixels
    reads: Reads = "texts"
    width = 0
    if isinstance(sample, Tensor):
        reads, width = "pixels" if sample.ndim == 4 else "numbers", sample.shape[-1]
        if reads == "numbers":
            prepare = PREPARES[lines_are](sample if fit is None else fit)
            width = prepare(sample[:1]).shape[-1]
    elif not isinstance(backbone, str):
        raise InputError("texts need a tokenizer: give backbone='hf:owner/name'")
    if isinstance(backbone, nn.Module):
        about = Backbone(type(backbone).__name__, reads, pretraining="a module of your own")
        n_features = n_features_of(about.name, backbone, prepare(sample[:2]))
        return Network(backbone, n_features, outputs), prepare, about
    # By default hidden layers for few features, and a linear layer for many, for n-grams and for tables.
    small = "mlp" if lines_are == "features" and width < 1000 else "linear"
    about = backbone_of(backbone or ("small-cnn" if reads == "pixels" else small))
    if about.reads != reads or about.make is None:
        fitting = ", ".join(each.name for each in BACKBONES.values() if each.reads == reads)
        raise InputError(
            f"the backbone {about.name} reads {about.reads}, and these are {reads}: use {fitting}"
        )
    network = about.make(width, outputs)
    return network, network.prepare or prepare, about
