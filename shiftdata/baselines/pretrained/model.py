"""The record that every source of trained models returns, and its features of the rows of a task.

Features are computed once and cached by row; zero-shot classifiers, label maps, probes and k-NN are
functions of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftdata.baselines.models import Floats, Prepare
from shiftdata.errors import InputError
from shiftdata.stable import content_hash

#: What a trained model reads.
Input: TypeAlias = Literal["image", "text"]
Precision: TypeAlias = Literal["float32", "bfloat16"]
#: A module can be fine-tuned, a function cannot.
Encoder: TypeAlias = nn.Module | Callable[[Tensor], Tensor]
#: The file of an encoder's weights in the folder of `pretrain`.
ENCODER = "encoder.pt"


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A trained model: an encoder, and what turns its features into predictions without training.

    `prepare` brings a batch as the loader gives it (uint8 pictures of `size`, n x 3 x height x width, or a
    list of texts) into the encoder's input; the encoder returns n x `n_features`. `classifier` turns features
    into logits for `outputs`, the names of its classes (empty where they are not known). `caption` encodes
    texts into the space of the features: zero-shot logits are `scale` times the cosine of both.
    """

    name: str  # as the user wrote it: "timm:resnet50.a1_in1k"
    encoder: Encoder
    n_features: int
    prepare: Prepare
    weights: str  # sha256 of the weights: of their file, or `weights_hash`
    modality: Input = "image"
    size: int | tuple[int, int] | None = 224  # height and width, None for texts
    classifier: Callable[[Tensor], Tensor] | None = None
    outputs: tuple[str, ...] = ()
    caption: Callable[[Sequence[str]], Tensor] | None = None
    scale: float = 100.0
    maps: tuple[nn.Module, ...] = ()  # parts that make feature maps, as `Network.maps`
    #: What else a record should hold, as JSON values: preprocessing, versions of libraries, revision.
    about: Mapping[str, Any] = field(default_factory=dict)


def weights_hash(module: nn.Module) -> str:
    """Hash the parameters and buffers of a module by name, type, shape and bytes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        value = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def encoder_of(model: str | Pretrained, device: str = "cpu") -> FeatureEncoder:
    """Return a trained model, which a name loads, as an encoder."""
    if isinstance(model, str):  # by its name: sources may import what trains, which imports this
        model = import_module("shiftdata.baselines.pretrained.load").load(model)
    assert isinstance(model, Pretrained)
    return FeatureEncoder(model, device)


class FeatureEncoder:
    """A trained model as an `Encoder` for `features_of`: cached lines of float32, a row each.

    On a processor in float32 a line has the same bytes for any batches, ranks and restarts. Elsewhere it
    agrees to a tolerance, so that device and precision are a part of the fingerprint.
    """

    def __init__(self, model: Pretrained, device: str = "cpu", precision: Precision = "float32") -> None:
        self.model, self.device, self.precision = model, device, precision
        self.modality, self.size = model.modality, model.size
        kind = torch.device(device).type
        parts = model.weights, content_hash(repr(sorted(model.about.items()))), kind, precision
        self.fingerprint = f"pretrained {' '.join(parts)} 1"

    @cached_property
    def _encoder(self) -> Callable[[Tensor], Tensor]:
        if isinstance(self.model.encoder, nn.Module):
            return self.model.encoder.eval().to(self.device)
        return self.model.encoder

    def __call__(self, x: Sequence[str] | NDArray[np.uint8]) -> Floats:
        """Encode texts, or pictures n x height x width x 3."""
        batch: Any = list(x)
        if self.modality == "image":
            batch = torch.from_numpy(np.asarray(x)).permute(0, 3, 1, 2).to(self.device)
        autocast: Any = nullcontext()
        if self.precision == "bfloat16":
            autocast = torch.autocast(torch.device(self.device).type, torch.bfloat16)
        with torch.inference_mode(), autocast:
            features = self._encoder(self.model.prepare(batch).to(self.device))
        if features.ndim != 2 or features.shape[1] != self.model.n_features:
            shape, wanted = tuple(features.shape), (len(x), self.model.n_features)
            raise InputError(f"{self.model.name} returned features of the shape {shape}, not {wanted}")
        return features.float().cpu().numpy()
