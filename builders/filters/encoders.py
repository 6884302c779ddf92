"""CLIP and DINOv2 as encoders of scorers: folders of weights as `transformers` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.filters.scorers import Floats
from builders.shifts.stylizers.weights import hub_folder, used_weights, weights_hash
from shiftdata.data.format.records import UsedFile
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.stable import content_hash
from shiftdata.threads import torch_threads

Numbers = tuple[float, float, float]
CLIP_MEAN: Numbers = (0.48145466, 0.4578275, 0.40821073)
CLIP_DEVIATION: Numbers = (0.26862954, 0.26130258, 0.27577711)
DINO_MEAN: Numbers = (0.5, 0.5, 0.5)
DINO_DEVIATION: Numbers = (0.2, 0.2, 0.2)


@dataclass(frozen=True, kw_only=True)
class Clip:
    """CLIP: pictures and sentences in one space (CNS-Bench: ViT-B/16), from a folder or a name on the Hub.

    A picture's shorter side becomes `size` pixels, and its middle square is read.
    """

    code_version: ClassVar[int] = 1

    folder: Path | str
    size: int = 224

    def fingerprint(self) -> str:
        return content_hash(f"clip-{self.code_version}", str(self.size), _weights_id(self.folder))

    def used_files(self) -> list[UsedFile]:
        return _used_files(self.folder)

    def pictures(self, pictures: Sequence[Image.Image]) -> Floats:
        model = _clip(str(self.folder))
        pixels = [_square(picture, self.size, CLIP_MEAN, CLIP_DEVIATION) for picture in pictures]
        return _rows(lambda x: model.visual_projection(model.vision_model(x).pooler_output), pixels)

    def texts(self, texts: Sequence[str]) -> Floats:
        model = _clip(str(self.folder))
        read = _tokenizer(str(self.folder))(list(texts), padding=True, truncation=True)
        ids, mask = np.array(read["input_ids"]), np.array(read["attention_mask"])
        torch = require("torch", "CLIP")
        with torch.no_grad():
            pooled = model.text_model(torch.from_numpy(ids), torch.from_numpy(mask)).pooler_output
            rows: Floats = model.text_projection(pooled).double().numpy()
        return rows


@dataclass(frozen=True, kw_only=True)
class Dino:
    """DINOv2 (CNS-Bench: ViT-L with registers): pictures by the class token of the last layer.

    The published code of CNS-Bench compares class tokens after a softmax over their numbers; `softmax=False`
    compares them as they are. It reads squares of 518 pixels, each channel minus .5 over .2.
    """

    code_version: ClassVar[int] = 1

    folder: Path | str
    softmax: bool = True
    size: int = 518

    def fingerprint(self) -> str:
        settings = (str(self.softmax), str(self.size))
        return content_hash(f"dino-{self.code_version}", *settings, _weights_id(self.folder))

    def used_files(self) -> list[UsedFile]:
        return _used_files(self.folder)

    def pictures(self, pictures: Sequence[Image.Image]) -> Floats:
        model = _dino(str(self.folder))
        pixels = [_square(picture, self.size, DINO_MEAN, DINO_DEVIATION) for picture in pictures]
        tokens = _rows(lambda x: model(x).last_hidden_state[:, 0], pixels)
        if not self.softmax:
            return tokens
        odds: Floats = np.exp(tokens - tokens.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        return odds


def _square(picture: Image.Image, size: int, mean: Numbers, deviation: Numbers) -> NDArray[np.float32]:
    """The middle square of a picture resized to a shorter side of `size` pixels, channels first."""
    scale = size / min(picture.size)
    wide = (max(size, round(picture.width * scale)), max(size, round(picture.height * scale)))
    large = picture.convert("RGB").resize(wide, Image.Resampling.BICUBIC)
    left, top = (wide[0] - size) // 2, (wide[1] - size) // 2
    unit = np.asarray(large.crop((left, top, left + size, top + size)), np.float32) / 255
    numbers = (unit - np.array(mean, np.float32)) / np.array(deviation, np.float32)
    square: NDArray[np.float32] = numbers.astype(np.float32).transpose(2, 0, 1)
    return square


def _rows(encode: Any, pixels: Sequence[NDArray[np.float32]]) -> Floats:
    """One picture at a time, in one thread: no score depends on which others are asked about."""
    torch = require("torch", "an encoder of pictures")
    with torch_threads(), torch.no_grad():
        return np.stack([encode(torch.from_numpy(pixel[None]))[0].double().numpy() for pixel in pixels])


def _weights_id(folder: Path | str) -> str:
    files = sorted(
        file for file in _local(str(folder)).glob("*") if file.suffix in (".safetensors", ".json", ".txt")
    )
    return content_hash(*(f"{file.name} {weights_hash(file)}" for file in files))


def _used_files(folder: Path | str) -> list[UsedFile]:
    return [*map(used_weights, sorted(_local(str(folder)).glob("*.safetensors")))]


@lru_cache(8)
def _local(folder: str) -> Path:
    place = Path(folder).expanduser()
    if not place.is_dir():
        if place.is_absolute() or folder.count("/") != 1:
            raise InputError(f"there is no folder of weights {folder}: give one, or owner/name on the Hub")
        place = hub_folder(folder, ["*.safetensors", "*.json", "*.txt"])
    if not list(place.glob("*.safetensors")):
        raise InputError(f"{folder} has no .safetensors: other files of weights could run code")
    return place


@lru_cache(1)
def _clip(folder: str) -> Any:
    return _loaded("CLIPModel", folder)


@lru_cache(1)
def _dino(folder: str) -> Any:
    return _loaded("AutoModel", folder)


def _loaded(name: str, folder: str) -> Any:
    transformers = require("transformers", "an encoder of pictures")
    bars = transformers.utils.logging
    bars.disable_progress_bar()  # a worker has no place for them
    try:
        kind = getattr(transformers, name)
        return kind.from_pretrained(_local(folder), local_files_only=True, use_safetensors=True).eval()
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{folder} cannot be read as weights of {name}: {error}") from error
    finally:
        bars.enable_progress_bar()


@lru_cache(1)
def _tokenizer(folder: str) -> Any:
    transformers = require("transformers", "CLIP")
    return transformers.CLIPTokenizer.from_pretrained(_local(folder), local_files_only=True)
