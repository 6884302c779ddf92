"""Backbones by name: the inputs of each, its network, and the data of its pretraining.

`Prepare` functions take a batch as the loader gives it, on the device of the training: uint8 pictures
(n x 3 x height x width), float32 numbers (n x d), or a list of texts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftdata.baselines.networks import Network, linear, mlp, small_cnn, small_resnet
from shiftdata.data.loading.encoders import efficientnet
from shiftdata.data.loading.sources import LinesAre
from shiftdata.errors import InputError, not_found
from shiftdata.extras import require
from shiftdata.untrusted.texts import read_json

Floats: TypeAlias = NDArray[np.float32]
#: Brings a batch into the form that a network reads.
Prepare: TypeAlias = Callable[[Any], Tensor]
#: The form of an example that a network reads: pixels, numbers (features, n-grams, columns), or text.
Reads: TypeAlias = Literal["pixels", "numbers", "texts"]

#: Pieces of a column at most.
PIECES = 16

#: What the record of a saved run has for certain.
SAVED = {"backbone", "dataset", "content_id", "method", "input"}

#: The last blocks of EfficientNet-Lite0 at a 4th, an 8th, a 16th and a 32nd of a picture's side.
LITE_MAPS = (2, 4, 10, 15)


@dataclass(frozen=True)
class Backbone:
    """A network by its name. `pretraining` names the data of its weights, `side` is the pictures' size.

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


class EfficientNet(nn.Module):
    """EfficientNet-Lite0 with the weights of its registry package: the mean over its last feature map."""

    def __init__(self) -> None:
        super().__init__()
        self.network = efficientnet()

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.network.extract_features(x).mean((2, 3))
        return features


def _efficientnet(_: int, outputs: int) -> Network:
    encoder = EfficientNet()
    maps = [encoder.network._blocks[number] for number in LITE_MAPS]
    prepare = partial(pixels, centre=127, scale=128)  # its weights expect pixels from -1 to 1
    return Network(encoder, 1280, outputs, maps, prepare)


_BUILT_IN = (
    Backbone("linear", "numbers", "a linear layer on frozen features, n-grams or columns", linear),
    Backbone("mlp", "numbers", "two hidden layers, on the same", mlp),
    Backbone("mlp-bn", "numbers", "two hidden layers with batch norm", partial(mlp, norm=True)),
    Backbone("small-cnn", "pixels", "four convolutions, from scratch", small_cnn),
    Backbone("small-resnet", "pixels", "a residual network of nine layers, from scratch", small_resnet,
             side=64),
    Backbone("efficientnet-lite0", "pixels", "EfficientNet-Lite0, all of it trained on", _efficientnet,
             pretraining="supervised on ImageNet-1k", side=96),
)  # fmt: skip
#: The networks by name. Further names: timm:NAME and transformers:NAME, where these are installed, and
#: run:FOLDER.
BACKBONES: Mapping[str, Backbone] = {backbone.name: backbone for backbone in _BUILT_IN}


def _timm(name: str) -> Backbone:
    """Return a model of timm with its published weights."""

    def make(_: int, outputs: int) -> Network:
        timm = require("timm", f"the backbone timm:{name}")
        encoder = timm.create_model(name, pretrained=True, num_classes=0)
        about = encoder.pretrained_cfg
        mean, deviation = (255 * torch.tensor(about[key]).view(3, 1, 1) for key in ("mean", "std"))
        return Network(encoder, int(encoder.num_features), outputs, prepare=Scaled(mean, 1 / deviation))

    return Backbone(f"timm:{name}", "pixels", make=make, pretraining=f"timm {name}", side=224)


class _Tokens(nn.Module):
    """A transformer over the numbers of tokens: the mean of its last layer over a text's tokens."""

    def __init__(self, model: nn.Module, padding: int) -> None:
        super().__init__()
        self.model, self.padding = model, padding

    def forward(self, x: Tensor) -> Tensor:
        mask = (x != self.padding).long()
        states: Tensor = self.model(input_ids=x, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(2).to(states.dtype)
        return (states * weight).sum(1) / weight.sum(1).clamp(min=1)


def _transformers(name: str, tokens: int = 128) -> Backbone:
    """Return a text model of transformers, published or in a folder, with its weights."""

    def make(_: int, outputs: int) -> Network:
        library = require("transformers", f"the backbone transformers:{name}")
        tokenizer = library.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        model = library.AutoModel.from_pretrained(name, trust_remote_code=False)
        cut = {"padding": "max_length", "truncation": True, "max_length": tokens, "return_tensors": "pt"}

        def prepare(texts: Sequence[str]) -> Tensor:
            ids: Tensor = tokenizer(list(texts), **cut)["input_ids"]
            return ids

        encoder = _Tokens(model, int(tokenizer.pad_token_id or 0))
        return Network(encoder, int(model.config.hidden_size), outputs, prepare=prepare)

    return Backbone(f"transformers:{name}", "texts", make=make, pretraining=f"transformers {name}")


def _saved(folder: str) -> Backbone:
    """Return the network of a run, or of `pretrain`, with the encoder that it saved."""
    about = saved_run(folder)
    start = backbone_of(about["backbone"])

    def make(width: int, outputs: int) -> Network:
        assert start.make is not None  # it has a name
        network = start.make(width, outputs)
        try:
            network.encoder.load_state_dict(saved_encoder(folder))
        except RuntimeError as error:
            raise InputError(f"{folder} has other weights than a {start.name}: {error}") from error
        return network

    supervision, seen = about.get("supervision", "labels"), f"{about['dataset']} {about['content_id'][:12]}"
    pretraining = f"{about['method']} on {seen}, supervision: {supervision}"
    side = about["input"][0] if start.reads == "pixels" else start.side
    return Backbone(f"run:{folder}", start.reads, make=make, pretraining=pretraining, side=side)


def saved_run(folder: str | Path) -> dict[str, Any]:
    """Read the record of a saved run."""
    path = Path(folder) / "run.json"
    try:
        about = read_json(path)
    except (OSError, ValueError) as error:
        hint = "give the folder of a run, as `train` and `pretrain` save it"
        raise InputError(f"{path} cannot be read ({error}): {hint}") from error
    if not isinstance(about, dict) or SAVED - about.keys():
        raise InputError(f"{path} is not the record of a run: it needs {', '.join(sorted(SAVED))}")
    return about


def saved_weights(folder: str | Path) -> Path:
    """Return the file with the encoder's weights of a saved run."""
    for name in ("encoder.pt", "model.pt"):
        if (path := Path(folder) / name).is_file():
            return path
    raise InputError(f"{folder} has neither encoder.pt nor model.pt: give the folder of a run that ended")


def saved_encoder(folder: str | Path) -> dict[str, Tensor]:
    """Read the encoder's weights of a saved run; model.pt has the state of its whole method."""
    path = saved_weights(folder)
    prefix = "" if path.name == "encoder.pt" else "network.encoder."
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise InputError(f"{path} is no file of weights: {error}") from error
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _own_network(encoder: nn.Module, sample: Tensor, outputs: int) -> Network:
    """Give an encoder of your own a head that fits the features it makes of a sample."""
    encoder.eval()
    name = type(encoder).__name__
    try:
        with torch.no_grad():
            features = encoder(sample)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise InputError(
            f"{name} cannot encode a batch of shape {tuple(sample.shape)} ({error}): take another "
            "backbone, or for pictures of another height and width side=..."
        ) from error
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != len(sample):
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise InputError(
            f"{name} returns {shape} for {len(sample)} examples, not rows x features: leave "
            "out its last layer"
        )
    return Network(encoder, features.shape[1], outputs)


def backbone_of(name: str) -> Backbone:
    """Return a backbone by its name."""
    for prefix, make in (("timm:", _timm), ("transformers:", _transformers), ("run:", _saved)):
        if name.startswith(prefix):
            return make(name.removeprefix(prefix))
    if name not in BACKBONES:
        raise not_found("backbone", name, BACKBONES, "Others: timm:NAME, transformers:NAME, run:FOLDER.")
    return BACKBONES[name]


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
        raise InputError("texts need a tokenizer: give backbone='transformers:NAME'")
    if isinstance(backbone, nn.Module):
        about = Backbone(type(backbone).__name__, reads, pretraining="not known")
        return _own_network(backbone, prepare(sample[:2]), outputs), prepare, about
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
