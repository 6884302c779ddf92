"""Models of transformers, published or in a folder: classifiers, encoders, two towers as in CLIP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from shiftdata.baselines.models import Prepare, n_features_of
from shiftdata.baselines.pretrained.model import Pretrained, weights_hash
from shiftdata.baselines.pretrained.sources.pictures import Pictures, three
from shiftdata.errors import InputError
from shiftdata.extras import require

#: Tokens of a text, if no `size` is asked for and the model has room for as many.
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
            fields = _encoder(library, name, model, bool(auto), size)
        about = {"transformers": library.__version__}
        if revision := getattr(config, "_commit_hash", None):
            about["revision"] = revision
        own, encoder, weights = f"hf:{name}", fields.pop("encoder"), weights_hash(model)
        if fields["modality"] == "image":
            return _pictures(library, name).at(size).model(own, encoder, weights, about, **fields)
        ids = fields["prepare"](["a"])
        about |= {"tokens": int(ids.shape[1])}
        width = n_features_of(own, encoder, ids)
        return Pretrained(own, encoder, width, weights=weights, size=None, about=about, **fields)
    except (OSError, ValueError, KeyError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"hf:{name} cannot be loaded: {lines[0]}") from error


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


def _encoder(library: Any, name: str, model: Any, classifies: bool, size: int | None) -> dict[str, Any]:
    model.eval()
    texts = model.main_input_name == "input_ids"
    fields: dict[str, Any] = {"modality": "text" if texts else "image"}
    padding = None
    if texts:
        fields["prepare"], padding = _tokens(library, name, model.config, size)
    if classifies and (last := _without_last(model, model.config.num_labels)) is not None:
        fields["classifier"] = last
        labels = [str(model.config.id2label[number]) for number in range(last.out_features)]
        fields["outputs"] = () if labels[0] == "LABEL_0" else tuple(labels)
    elif classifies:
        hint = "save its encoder alone (model.base_model.save_pretrained), or give torch:module.py:factory"
        raise InputError(f"hf:{name}: its classifier does not end in a linear layer; {hint}")
    return fields | {"encoder": _Encoder(model, _logits if classifies else _pooled, padding)}


def _without_last(model: nn.Module, outputs: int) -> nn.Linear | None:
    """Take the last linear layer with as many outputs out of a classifier, and return it."""
    linear = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    found = [name for name, part in linear.items() if part.out_features == outputs]
    if not found:
        return None
    parent, _, place = found[-1].rpartition(".")
    setattr(model.get_submodule(parent), place, nn.Identity())
    return linear[found[-1]]


def _towers(library: Any, name: str, model: Any) -> dict[str, Any]:
    if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
        raise InputError(f"hf:{name}: {type(model).__name__} has no features of pictures and of texts alike")
    model.eval()
    prepare, padding = _tokens(library, name, model.config.text_config, None)
    asks = "attention_mask" in library.AutoTokenizer.from_pretrained(name).model_input_names

    def caption(texts: Sequence[str]) -> Tensor:
        with torch.inference_mode():
            ids = prepare(texts).to(next(model.parameters()).device)
            mask = {"attention_mask": (ids != padding).long()} if asks else {}
            return _projected(model, input_ids=ids, **mask).float().cpu()

    scale = getattr(model, "logit_scale", None)
    fields = {"encoder": _Encoder(model, _projected), "modality": "image", "caption": caption}
    return fields | ({} if scale is None else {"scale": float(scale.detach().exp())})


def _tokens(library: Any, name: str, config: Any, size: int | None) -> tuple[Prepare, int]:
    tokenizer = library.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    most = getattr(config, "max_position_embeddings", TOKENS), tokenizer.model_max_length
    longest = min(size or TOKENS, *most)
    cut = {"padding": "max_length", "truncation": True, "max_length": longest, "return_tensors": "pt"}

    def prepare(texts: Sequence[str]) -> Tensor:
        ids: Tensor = tokenizer(list(texts), **cut)["input_ids"]
        return ids

    return prepare, int(tokenizer.pad_token_id or 0)


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
    if cut is None:  # batches need pictures of one size
        cut = (resize, resize) if isinstance(resize, int) else resize
    mean, std = (0.0, 1.0) if not about.do_normalize else (about.image_mean, about.image_std)
    # Values are scaled by 1 / 255 first, or by another factor.
    factor = 255 * about.rescale_factor if about.do_rescale else 255.0
    mean, std = (tuple(each / factor for each in three(value)) for value in (mean, std))
    return Pictures(cut, resize, int(about.resample), mean, std)
