"""Models of timm and of open_clip, by the names of these libraries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from shiftdata.baselines.pretrained.model import Pretrained, weights_hash
from shiftdata.baselines.pretrained.sources.pictures import Pictures, resampling_of, three
from shiftdata.errors import InputError
from shiftdata.extras import require


def load_timm(name: str, size: int | None) -> Pretrained:
    """Return NAME, with the library's weights; or NAME@FILE, with those of a checkpoint."""
    timm = require("timm", f"timm:{name}")
    architecture, _, checkpoint = name.partition("@")
    given = {"checkpoint_path": checkpoint} if checkpoint else {"pretrained": True}
    try:
        model = timm.create_model(architecture, **given).eval()
    except (RuntimeError, ValueError, OSError) as error:
        raise InputError(f"timm:{name} cannot be loaded: {error}") from error
    pictures, weights = _timm_pictures(timm, name, model).at(size), weights_hash(model)
    last = model.get_classifier()
    model.reset_classifier(0)
    made = pictures.model(f"timm:{name}", model, weights, {"timm": timm.__version__})
    if not isinstance(last, nn.Linear) or last.in_features != made.n_features:
        return made
    subset = timm.data.infer_imagenet_subset(model)
    names = timm.data.ImageNetInfo(subset).index_to_description if subset else None
    outputs = tuple(map(names, range(last.out_features))) if names else ()
    return replace(made, classifier=last, outputs=outputs)


def _timm_pictures(timm: Any, name: str, model: nn.Module) -> Pictures:
    about = timm.data.resolve_data_config({}, model=model)
    _, height, width = about["input_size"]
    whole = math.floor(height / about["crop_pct"]), math.floor(width / about["crop_pct"])
    if about["crop_mode"] not in ("center", "squash") or (about["crop_mode"] == "center" and height != width):
        mode = f"cuts {height} x {width} by the mode {about['crop_mode']!r}"
        raise InputError(f"timm:{name} {mode}: give torch:module.py:factory, with your own preprocessing")
    resize = whole[0] if about["crop_mode"] == "center" else whole
    resampling = resampling_of(about["interpolation"])
    return Pictures((height, width), resize, resampling, three(about["mean"]), three(about["std"]))


def load_open_clip(name: str, size: int | None) -> Pretrained:
    """Return ARCHITECTURE/WEIGHTS, weights by the library's tag or in a file; or hf-hub:owner/name."""
    library = require("open_clip", f"open_clip:{name}")
    whole = name.startswith(("hf-hub:", "local-dir:"))
    architecture, _, weights = (name, "", None) if whole else name.partition("/")
    if not whole and not weights:
        tags = ", ".join(library.list_pretrained_tags_by_model(architecture)) or "none known"
        raise InputError(f"open_clip:{name}: give ARCHITECTURE/WEIGHTS; weights of {architecture}: {tags}")
    try:
        model = library.create_model(architecture, pretrained=weights or None, require_pretrained=True).eval()
        tokenizer = library.get_tokenizer(architecture)
    except (RuntimeError, ValueError, OSError) as error:
        raise InputError(f"open_clip:{name} cannot be loaded: {error}") from error

    def caption(texts: Sequence[str]) -> Tensor:
        with torch.inference_mode():
            tokens = tokenizer(list(texts)).to(next(model.parameters()).device)
            features: Tensor = model.encode_text(tokens).float().cpu()
            return features

    return _open_clip_pictures(name, model).at(size).model(
        f"open_clip:{name}", _Images(model), weights_hash(model), {"open_clip": library.__version__},
        caption=caption, scale=float(model.logit_scale.detach().exp()),
    )  # fmt: skip


class _Images(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.model.encode_image(x)  # type: ignore[operator]
        return features


def _open_clip_pictures(name: str, model: Any) -> Pictures:
    about = model.visual.preprocess_cfg
    size = about["size"]
    size = (size, size) if isinstance(size, int) else tuple(size)
    mode = about.get("resize_mode", "shortest")
    if mode not in ("shortest", "squash") or (mode == "shortest" and size[0] != size[1]):
        how = f"resizes by the mode {mode!r} to {size}"
        raise InputError(f"open_clip:{name} {how}: give torch:module.py:factory")
    resize = size[0] if mode == "shortest" else size
    resampling = resampling_of(about.get("interpolation", "bicubic"))
    return Pictures(size, resize, resampling, three(about["mean"]), three(about["std"]))
