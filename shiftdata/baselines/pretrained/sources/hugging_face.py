"""Models of transformers, published or in a folder: classifiers, encoders, two towers as in CLIP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from shiftdata.baselines.models import Prepare
from shiftdata.baselines.pretrained.model import Pretrained, weights_hash
from shiftdata.baselines.pretrained.sources.pictures import Pictures, resampling_of, three
from shiftdata.errors import InputError
from shiftdata.extras import require

#: Tokens of a text at most, for models that do not say.
TOKENS = 128
#: The side from which on ConvNeXt's pictures are resized and not cut.
WARPED = 384


def load(name: str, size: int | None) -> Pretrained:
    """Return a model by its name on the Hub, or of a folder; code in a repository is never run."""
    library = require("transformers", f"hf:{name}")
    try:
        config = library.AutoConfig.from_pretrained(name, trust_remote_code=False)
        kind = (getattr(config, "architectures", None) or [""])[0]
        if hasattr(config, "text_config") and hasattr(config, "vision_config"):
            model = library.AutoModel.from_pretrained(name, trust_remote_code=False)
            fields = _towers(library, name, model)
        else:
            auto = next((end for end in CLASSIFIERS if kind.endswith(end)), "")
            loader = getattr(library, f"AutoModel{auto}")
            model = loader.from_pretrained(name, trust_remote_code=False)
            fields = _encoder(library, name, model, bool(auto))
        weights = weights_hash(model)
        if fields["modality"] == "image":
            pictures = _pictures(library, name).at(size)
            fields |= {"prepare": pictures.prepare, "size": pictures.crop, "about": pictures.about}
            fields["n_features"] = _width(name, fields["encoder"], torch.zeros(1, 3, *pictures.size))
        else:
            ids = fields["prepare"](["a"])
            fields["n_features"] = _width(name, fields["encoder"], ids)
            fields |= {"size": None, "about": {"tokens": int(ids.shape[1])}}
    except (OSError, ValueError, KeyError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"hf:{name} cannot be loaded: {lines[0]}") from error
    revision = getattr(config, "_commit_hash", None)
    versions = {"transformers": library.__version__} | ({"revision": revision} if revision else {})
    return Pretrained(
        name=f"hf:{name}", weights=weights, **{**fields, "about": {**fields["about"], **versions}}
    )


#: Ends of the names of architectures whose last layer is a classifier.
CLASSIFIERS = ("ForImageClassification", "ForSequenceClassification")


class _Encoder(nn.Module):
    """A model as a function of one tensor: pixels, or numbers of tokens, which `padding` fills up."""

    def __init__(self, model: nn.Module, features: Callable[..., Tensor], padding: int | None = None) -> None:
        super().__init__()
        self.model, self.padding, self.features = model, padding, features

    def forward(self, x: Tensor) -> Tensor:
        if self.padding is None:
            return self.features(self.model, pixel_values=x)
        return self.features(self.model, input_ids=x, attention_mask=(x != self.padding).long())


def _logits(model: nn.Module, **x: Tensor) -> Tensor:
    logits: Tensor = model(**x).logits
    return logits


def _pooled(model: Any, **x: Tensor) -> Tensor:
    """Return what stands for a whole picture or text.

    It is the mean of a text's tokens; of a picture the class token, or else the mean over places. A pooler is
    left out: where a checkpoint lacks it, transformers draws it at random.
    """
    states: Tensor = model(**x).last_hidden_state
    if "attention_mask" in x:
        weight = x["attention_mask"].unsqueeze(2).to(states.dtype)
        return (states * weight).sum(1) / weight.sum(1).clamp(min=1)
    if states.ndim == 4:
        return states.mean((2, 3))
    has_class = any(name.endswith("cls_token") for name, _ in model.named_parameters())
    return states[:, 0] if has_class else states.mean(1)


def _projected(model: Any, **x: Tensor) -> Tensor:
    function = model.get_image_features if "pixel_values" in x else model.get_text_features
    features = function(**x)
    projected: Tensor = features if isinstance(features, Tensor) else features.pooler_output
    return projected


def _encoder(library: Any, name: str, model: Any, classifies: bool) -> dict[str, Any]:
    model.eval()
    texts = model.main_input_name == "input_ids"
    fields: dict[str, Any] = {"modality": "text" if texts else "image"}
    padding = None
    if texts:
        fields["prepare"], padding = _tokens(library, name, model.config)
    if classifies and (last := _without_last(model, model.config.num_labels)) is not None:
        fields["classifier"] = last
        labels = [str(model.config.id2label[number]) for number in range(last.out_features)]
        fields["outputs"] = () if labels[0] == "LABEL_0" else tuple(labels)
    elif classifies:
        raise InputError(
            f"hf:{name}: its classifier does not end in a linear layer; save its encoder alone (model."
            "base_model.save_pretrained) for a probe, or give torch:module.py:factory"
        )
    return fields | {"encoder": _Encoder(model, _logits if classifies else _pooled, padding)}


def _without_last(model: nn.Module, outputs: int) -> nn.Linear | None:
    """Take the last linear layer with as many outputs out of a classifier, and return it."""
    found = [
        name
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and part.out_features == outputs
    ]
    if not found:
        return None
    last = model.get_submodule(found[-1])
    parent, _, place = found[-1].rpartition(".")
    setattr(model.get_submodule(parent), place, nn.Identity())
    assert isinstance(last, nn.Linear)
    return last


def _towers(library: Any, name: str, model: Any) -> dict[str, Any]:
    if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
        raise InputError(f"hf:{name}: {type(model).__name__} has no features of pictures and of texts alike")
    model.eval()
    prepare, padding = _tokens(library, name, model.config.text_config)
    asks = "attention_mask" in library.AutoTokenizer.from_pretrained(name).model_input_names

    def caption(texts: Sequence[str]) -> Tensor:
        with torch.inference_mode():
            ids = prepare(texts).to(next(model.parameters()).device)
            mask = {"attention_mask": (ids != padding).long()} if asks else {}
            return _projected(model, input_ids=ids, **mask).float().cpu()

    scale = getattr(model, "logit_scale", None)
    fields = {"encoder": _Encoder(model, _projected), "modality": "image", "caption": caption}
    return fields | ({} if scale is None else {"scale": float(scale.detach().exp())})


def _tokens(library: Any, name: str, config: Any) -> tuple[Prepare, int]:
    tokenizer = library.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    longest = min(TOKENS, getattr(config, "max_position_embeddings", TOKENS), tokenizer.model_max_length)
    cut = {"padding": "max_length", "truncation": True, "max_length": longest, "return_tensors": "pt"}

    def prepare(texts: Sequence[str]) -> Tensor:
        ids: Tensor = tokenizer(list(texts), **cut)["input_ids"]
        return ids

    return prepare, int(tokenizer.pad_token_id or 0)


def _width(name: str, encoder: nn.Module, x: Tensor) -> int:
    """Return the number of features by encoding one example."""
    try:
        with torch.inference_mode():
            return int(encoder.eval()(x).shape[1])
    except (RuntimeError, IndexError) as error:
        raise InputError(f"hf:{name} cannot encode {tuple(x.shape)}: {error}") from error


def _pictures(library: Any, name: str) -> Pictures:
    """Read the preprocessing of a repository, as its image processor does it."""
    about = library.AutoImageProcessor.from_pretrained(name, trust_remote_code=False)
    size, crop = about.size, about.crop_size
    cut = (crop["height"], crop["width"]) if about.do_center_crop and crop else None
    if not about.do_resize or not size:
        raise InputError(f"its image processor does not resize pictures: {about.to_dict()}")
    resize: int | tuple[int, int]
    if share := getattr(about, "crop_pct", None):  # ConvNeXt's
        side = int(size["shortest_edge"])
        resize, cut = (int(side / share) if side < WARPED else (side, side)), (side, side)
    elif size.get("shortest_edge"):
        resize = int(size["shortest_edge"])
    else:
        resize = int(size["height"]), int(size["width"])
    if cut is None and isinstance(resize, int):
        cut = resize, resize  # batches need pictures of one size
    mean, std = (0.0, 1.0) if not about.do_normalize else (about.image_mean, about.image_std)
    # Values are scaled by 1 / 255 first, or by another factor.
    factor = 255 * about.rescale_factor if about.do_rescale else 255.0
    mean, std = (tuple(each / factor for each in three(value)) for value in (mean, std))
    return Pictures(cut or resize, resize, resampling_of(int(about.resample)), mean, std)
