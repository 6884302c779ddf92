"""From sliders to a verified dataset of the continuous family, with the filters of CNS-Bench."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import shiftdata as sd
from builders.cli.app import main
from builders.filters import Stages, TextAlignment, ToStart, View, judged_rows
from builders.filters.encoders import Clip, Dino
from builders.make.build import build
from builders.recipe_files import load_recipe
from builders.shifts.diffusion import Diffusion, Training, slider_file, train
from shiftdata.errors import InputError
from tests.builders.diffusion.tiny import clip, dino, pipeline
from tests.builders.stylizers.networks import picture
from tests.paths import ROOT

RECIPE = """
from pathlib import Path
from builders.albums.seeds import Seeds
from builders.encode import ImageEncoding
from builders.filters import AtLeast, Filters, Slider, TextAlignment, Threshold, ToStart
from builders.filters.encoders import Clip, Dino
from builders.recipe import Base, Recipe
from builders.shifts.diffusion import Diffusion
from builders.shifts.steps import Diffuse, Resize
from shiftdata.evaluation.protocols import Continuous

HERE = Path({here!r})
MODEL = Diffusion(folder=HERE / "sd", steps=6, size=32)
CLASSES = ("red fox", "van")
OF_CLASS = TextAlignment(encoder=Clip(folder=HERE / "clip", size=32))
OF_SHIFT = TextAlignment(
    encoder=Clip(folder=HERE / "clip", size=32),
    sentence="A picture of a {{label}} in {{nuisance}}",
    name="shift-alignment",
)
FROM_START = ToStart(encoder=Dino(folder=HERE / "dino", size=28))
RECIPE = Recipe(
    name="slid",
    family="continuous",
    version="1.0.0",
    released="2026-11-23",
    title="Slid pictures",
    summary="Drawn by a small model.",
    creators=("Tests",),
    citation="None.",
    album=Seeds(
        diffusion=MODEL, classes=CLASSES, seeds=tuple(range(1, 13)), license="CC0-1.0", attribution="A model"
    ),
    prepare=(Resize(size=24),),
    nuisance="shift",
    shift=Diffuse(
        diffusion=MODEL,
        sliders=HERE / "sliders",
        shifts=("heavy snow", "fog"),
        classes=CLASSES,
        scales=(0, 1, 2),
    ),
    encoding=ImageEncoding(format="png"),
    filters=Filters(
        base=Threshold(scorer=OF_CLASS, least=-100),
        easy=Threshold(scorer=OF_CLASS, least=99.9),
        keep=AtLeast(
            m=1, of=(Threshold(scorer=OF_SHIFT, least=-100), Threshold(scorer=FROM_START, most=0.5))
        ),
        slider=Slider(scorer=FROM_START),
    ),
    bases=(
        Base(name="content", summary="Untouched.", layer="content"),
        Base(name="all", summary="Every trajectory."),
    ),
    default_base="all",
    protocols=(Continuous(),),
)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("slid")
    pipeline(here / "sd")
    clip(here / "clip")
    dino(here / "dino")
    model = Diffusion(folder=here / "sd", steps=6, size=32)
    short = Training(iterations=3, batch=1, levels=6, lr=0.03)
    for shift in ("heavy snow", "fog"):
        for label in ("red fox", "van"):
            train(model, label, shift, slider_file(here / "sliders", shift, label), short)
    (here / "recipe.py").write_text(RECIPE.format(here=str(here)))
    return here


@pytest.fixture(scope="module")
def built(place: Path) -> Path:
    return build(str(place / "recipe.py"), out=place / "build", workers=1, quiet=True)


@pytest.mark.slow
def test_it_is_a_dataset_that_checks(built: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(built), "--recipe", str(place / "recipe.py")]) == 0, capsys.readouterr()
    rows = pq.read_table(built / "metadata/all").to_pylist()
    assert len(rows) == 2 * 2 * 12 * 3
    assert {row["severity"] for row in rows} == {0, 1, 2}
    one = json.loads(next(row for row in rows if row["key"] == "red-fox-seed-0003-heavy-snow-200")["params"])
    assert one["prompt"] == "A picture of a red fox"
    assert (one["seed"], one["switch"], one["steps"], one["guidance"]) == (3, 0.75, 6, 7.5)
    assert len(one["slider"]) == 16
    origins = {(row["origin"], row["split"]) for row in rows}
    assert len(origins) == len({origin for origin, _ in origins}) == 24
    stages = Stages.of(judged_rows(built, "all"))
    assert stages.counts[0].tolist() == [48, 48, 48]
    task = sd.task(str(built), "continuous")
    assert set(task.sets)


@pytest.mark.slow
def test_every_trajectory_starts_with_the_untouched_picture(built: Path) -> None:
    content = pq.read_table(built / "metadata/content").to_pylist()
    of_origin = {row["origin"]: row["sha256"] for row in content}
    rows = pq.read_table(built / "metadata/all").to_pylist()
    assert all((row["sha256"] == of_origin[row["origin"]]) == (row["severity"] == 0) for row in rows)


def test_a_lacking_slider_is_named(place: Path, tmp_path: Path) -> None:
    text = RECIPE.format(here=str(place)).replace('"fog"', '"hail"')
    (tmp_path / "r.py").write_text(text)
    with pytest.raises(InputError, match=r"there is no slider .*hail/red-fox\.safetensors, nor 1 others"):
        load_recipe(str(tmp_path / "r.py"))


def test_the_recipe_of_the_page_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/generators/diffusion.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for shift in ("heavy-snow", "cartoon-style"):
        for label in ("fox", "minivan"):
            (tmp_path / "sliders" / shift).mkdir(parents=True, exist_ok=True)
            (tmp_path / "sliders" / shift / f"{label}.safetensors").touch()
    monkeypatch.chdir(tmp_path)
    for name, made in (
        ("openai/clip-vit-base-patch16", clip),
        ("facebook/dinov2-with-registers-large", dino),
    ):
        code = code.replace(name, str(made(tmp_path / name)))
    (tmp_path / "r.py").write_text(code)
    recipe = load_recipe("r.py")
    assert len(recipe.album.items()) == 100
    assert recipe.severities == (0, 0.5, 1, 1.5, 2, 2.5)


def view(seed: int, other: int = 0) -> View:
    pictures = {"picture": picture(40, 50, seed), "start": picture(40, 50, other)}
    return View(key=f"k{seed}", label="red_fox", origin="o", nuisance="fog", **pictures)


def test_clip_scores_are_those_of_its_own_library(tmp_path: Path) -> None:
    from transformers import CLIPModel, CLIPTokenizer
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    place = clip(tmp_path / "clip")
    model, words = CLIPModel.from_pretrained(place), CLIPTokenizer.from_pretrained(place)
    reader = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    views = [view(1), view(2)]
    pictures = reader([one.picture for one in views], return_tensors="pt")
    texts = words(["A picture of a red fox"], return_tensors="pt")
    with torch.no_grad():
        wanted = model(**texts, **pictures)
        cosines = wanted.image_embeds @ wanted.text_embeds.T
    scores = TextAlignment(encoder=Clip(folder=place, size=32))(views)
    np.testing.assert_allclose(scores, 100 * cosines[:, 0].numpy(), atol=0.35)  # two ways to resize


def test_dino_compares_softmaxed_class_tokens_as_the_published_code(tmp_path: Path) -> None:
    from transformers import AutoModel

    place = dino(tmp_path / "dino")
    tokens = Dino(folder=place, size=28, softmax=False)
    odds = Dino(folder=place, size=28)
    plain = tokens.pictures([picture(40, 50, 1)])
    small = np.asarray(picture(40, 50, 1).resize((28, 35), Image.Resampling.BICUBIC), np.float32)[3:31] / 255
    with torch.no_grad():
        read = torch.from_numpy(((small - 0.5) / 0.2).transpose(2, 0, 1)[None])
        wanted = AutoModel.from_pretrained(place)(read).last_hidden_state[:, 0]
    np.testing.assert_allclose(plain, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        odds.pictures([picture(40, 50, 1)]), np.exp(plain) / np.exp(plain).sum(), rtol=1e-6
    )
    assert ToStart(encoder=odds)([view(1, 1)])[0] == pytest.approx(0, abs=1e-9)
    assert ToStart(encoder=odds)([view(1, 2)])[0] > 0
    other = Dino(folder=dino(tmp_path / "b", 1), size=28)
    assert len({one.fingerprint() for one in (tokens, odds, other)}) == 3


def test_encoders_that_cannot_be_had_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for folder, message in (
        (tmp_path / "none", "there is no folder of weights"),
        (tmp_path, "has no .safetensors"),
        ("nobody/clip", "could not be downloaded"),
    ):
        with pytest.raises(InputError, match=message):
            Clip(folder=folder).fingerprint()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/model.safetensors").write_bytes(b"no")
    with pytest.raises(InputError, match="cannot be read as weights of AutoModel"):
        Dino(folder=tmp_path / "bad", size=28).pictures([Image.new("RGB", (40, 40))])
