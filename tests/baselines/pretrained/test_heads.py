"""Heads against independent code (scikit-learn, loops over formulas, a CLIP), and what they read."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import shiftdata as sd
from shiftdata.baselines.pretrained.heads import NEIGHBOURS, make_head
from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.baselines.pretrained.probe import GRID, L2, LinearProbe
from shiftdata.data.metadata import metadata_from_table
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.tasks import imagenet_outputs
from shiftdata.evaluation.tasks.predictions import UNKNOWN
from tests.evaluation.protocols.made import metadata

WIDTH = 8
NAMES = ("Sea_Lion", "tree frog", "bee")


def task_named(names: Sequence[str] = NAMES, **options) -> sd.Task:
    """Rows of labels of these names in three nuisances, 40 of each."""
    rows = metadata(len(names), 3, 40).table
    labels = pa.array([names[number] for number in rows["label"].to_pylist()])
    kinds = pa.array([f"kind{number}" for number in rows["a"].to_pylist()])
    own = pa.table({"key": rows["key"], "y": labels, "a": kinds, "origin": rows["origin"]})
    return sd.task(metadata_from_table(own, label="y", nuisance="a", origin="origin"), **options)


def lines_of(task: sd.Task, noise: float = 1.5) -> np.ndarray:
    """Features of every row: a direction for its label, one for its nuisance, noise, a large mean."""
    generator, known = np.random.default_rng(0), task.metadata
    x = noise * generator.normal(size=(len(known), WIDTH))
    x[np.arange(len(x)), known.label % WIDTH] += 2
    x[np.arange(len(x)), -1 - known.nuisance % 3] += 1
    return (x * np.geomspace(0.1, 10, WIDTH) + 5).astype(np.float32)


def model_of(**fields) -> Pretrained:
    return Pretrained("fake", lambda x: x, WIDTH, lambda x: x, "0" * 64, **fields)


class Encoded:
    """Features of rows, and the rows that were asked for."""

    def __init__(self, task: sd.Task, **options) -> None:
        self.x, self.asked = lines_of(task, **options), set[int]()

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        self.asked |= set(rows.tolist())
        return self.x[rows]


@pytest.fixture(scope="module")
def task() -> sd.Task:
    return task_named()


def share(scores: np.ndarray) -> np.ndarray:
    return torch.from_numpy(scores).double().softmax(1).numpy()


def test_a_probe_is_the_logistic_regression_of_scikit_learn(task):
    features, rows = Encoded(task), task.rows("train")[:170]  # classes of other sizes
    part = replace(task, sets={**task.sets, "train": replace(task.sets["train"], indices=rows)})
    for l2 in (1.0, 1e-3):
        head = make_head("probe", model_of(), part, features, l2=l2)
        x, y = features.x[rows].astype(np.float64), task.metadata.label[rows]
        assert len(set(np.bincount(y))) > 1
        center, deviation = x.mean(0), x.std(0)
        theirs = LogisticRegression(C=1 / (l2 * len(x)), tol=1e-10, max_iter=10_000)
        theirs.fit((x - center) / deviation, y)
        tested = features.x[task.rows("test")]
        expected = theirs.predict_proba((tested - center) / deviation)
        assert np.abs(share(head.scores(tested)) - expected).max() < 1e-5


def test_a_row_counts_as_often_as_it_was_drawn(task):
    rows, counts = task.rows("train"), np.arange(len(task.rows("train"))) % 3
    few = replace(task.sets["train"], indices=rows[counts > 0], counts=counts[counts > 0])
    drawn = replace(task, sets={**task.sets, "train": few})
    features = Encoded(task)
    head = make_head("probe", model_of(), drawn, features, l2=0.1)
    x, n = features.x[rows].astype(np.float64), counts.sum()
    center = (counts @ x) / n
    scaled = (x - center) / np.sqrt(counts @ (x - center) ** 2 / n)
    theirs = LogisticRegression(C=1 / (0.1 * n), tol=1e-10, max_iter=10_000)
    theirs.fit(scaled, task.metadata.label[rows], counts)
    assert np.abs(share(head.scores(features.x[rows])) - theirs.predict_proba(scaled)).max() < 1e-5


def test_the_validation_set_chooses_the_penalty_and_the_neighbours(task):
    features = Encoded(task, noise=2.5)
    x, y = features.x[task.rows("validation")], task.metadata.label[task.rows("validation")]

    def accuracy(name: str, **options) -> float:
        head = make_head(name, model_of(), task, features, **options)
        assert "chosen_on" not in head.about
        return float((head.scores(x).argmax(1) == y).mean())

    probes = {l2: accuracy("probe", l2=l2) for l2 in GRID}
    head = make_head("probe", model_of(), task, features)
    best = max(probes.values())
    assert len(set(probes.values())) > 1
    assert head.about["l2"] == max(l2 for l2, value in probes.items() if value == best)  # the strongest
    assert (head.about["chosen_on"], head.about["by"]) == ("validation", "accuracy")
    votes = {k: accuracy("knn", k=k) for k in NEIGHBOURS}
    assert len(set(votes.values())) > 2
    chosen = make_head("knn", model_of(), task, features).about["k"]
    assert chosen == next(k for k in NEIGHBOURS if votes[k] == max(votes.values()))


def test_without_a_validation_set_there_are_defaults(task):
    alone = replace(task, sets={name: task.sets[name] for name in ("train", "test")})
    features = Encoded(task)
    head = make_head("probe", model_of(), alone, features)
    assert (head.about["l2"], head.about["chosen_on"]) == (L2, "nothing: defaults")
    assert make_head("knn", model_of(), alone, features).about["k"] == 20
    assert features.asked == set(task.rows("train").tolist())


@pytest.mark.parametrize("k", [1, 20, 10_000])
def test_neighbours_vote_as_in_dino(task, k):
    features = Encoded(task)
    head = make_head("knn", model_of(), task, features, k=k)
    bank, y = (array[task.rows("train")] for array in (features.x, task.metadata.label))
    tested = features.x[task.rows("test")]
    scores = head.scores(tested)
    for line, ours in zip(tested.astype(np.float64), scores, strict=True):
        cosine = bank @ line / np.linalg.norm(bank, axis=1) / np.linalg.norm(line)
        nearest = np.argsort(-cosine)[:k]
        votes = np.bincount(y[nearest], np.exp(cosine[nearest] / 0.07), minlength=3)
        assert np.abs(share(ours[None])[0] - votes / votes.sum()).max() < 1e-5
    with pytest.MonkeyPatch.context() as patch:  # in parts of a few rows
        patch.setattr("shiftdata.baselines.pretrained.heads.CHUNK_BYTES", 4 * 7 * len(bank))
        parts = make_head("knn", model_of(), task, features, k=k).scores(tested)
    assert np.allclose(parts, scores, atol=1e-5)


@pytest.mark.parametrize("name", ["probe", "knn"])
def test_no_head_reads_labels_of_test_or_unlabelled_rows(name):
    def scores(poison: bool) -> np.ndarray:
        task = sd.task(metadata(4, 2, 40), "uda", source="kind0", target="kind1")
        features, hidden = Encoded(task), np.ones(len(task.metadata), bool)
        allowed = [task.rows(of) for of, rows in task.sets.items() if rows.role in ("fit", "select")]
        hidden[np.concatenate(allowed)] = False
        assert {rows.role for rows in task.sets.values()} == {"fit", "unlabelled", "select", "test"}
        if poison:
            task.label_ids, task.remapped  # noqa: B018 - the classes are known before
            task.metadata.label[hidden] = np.random.default_rng(1).integers(4, size=hidden.sum())
        head = make_head(name, model_of(), task, features)
        assert not hidden[list(features.asked)].any()
        return head.scores(features.x)

    assert (scores(poison=True) == scores(poison=False)).all()


class Classifier(nn.Module):
    """The features themselves are logits."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


FAKE = model_of()
OUTPUTS = ("bee", "SEA LION", "tree_frog", "wasp", "crab", "bee", "ant", "moth")


def test_outputs_become_labels_by_equal_names(task, tmp_path):
    model, x = model_of(classifier=Classifier(), outputs=OUTPUTS), lines_of(task)
    head = make_head("labels", model, task, Encoded(task))
    bee, lion, frog = (list(task.labels).index(name) for name in ("bee", "Sea_Lion", "tree frog"))
    assert head.outputs.tolist() == [0, 1, 2]
    scores = head.scores(x)
    assert (scores[:, bee] == np.maximum(x[:, 0], x[:, 5])).all()
    assert (scores[:, [lion, frog]] == x[:, [1, 2]]).all()
    everything = make_head("labels", model, task, Encoded(task), compete="all")
    assert everything.outputs.tolist() == [0, 1, 2, UNKNOWN]
    assert (everything.scores(x)[:, 3] == x[:, [3, 4, 6, 7]].max(1)).all()
    given = {"wasp": "bee", 4: "bee", "sea lion": task.labels.index("Sea_Lion")}
    (tmp_path / "map.toml").write_text('wasp = "bee"\n4 = "bee"\n"sea lion" = "Sea_Lion"\n')
    by_file = make_head("labels", model, task, Encoded(task), labels=str(tmp_path / "map.toml"))
    mapped = make_head("labels", model, task, Encoded(task), labels=given)
    assert (by_file.scores(x) == mapped.scores(x)).all()
    assert mapped.outputs.tolist() == sorted([bee, lion])
    assert mapped.about["labels_without_output"] == ["tree frog"]
    assert (mapped.scores(x)[:, 0 if bee < lion else 1] == x[:, 3:5].max(1)).all()


def test_rows_won_by_other_outputs_are_wrong_by_scores_and_by_name(task):
    model, x = model_of(classifier=Classifier(), outputs=OUTPUTS), lines_of(task)[task.rows("test")]
    head = make_head("labels", model, task, Encoded(task), compete="all")
    scores = head.scores(x)
    result = task.evaluate(scores, outputs=head.outputs)
    predicted = head.outputs[scores.argmax(1)]
    assert 0 < (predicted == UNKNOWN).sum() < len(predicted)
    assert float(result.accuracy) == (predicted == task.metadata.label[task.rows("test")]).mean()
    names = np.array([*task.metadata.labels, "unknown"])[predicted]
    by_name = task.evaluate(dict(zip(task.keys("test"), names.tolist(), strict=True)))
    assert by_name.to_dict() == result.to_dict()


def test_labels_with_numbers_of_imagenet_are_its_outputs():
    task = task_named(("022_bald eagle", "007_cock", "980_volcano"))
    linear = nn.Linear(WIDTH, 1000)
    nn.init.normal_(linear.weight, generator=torch.Generator().manual_seed(0))
    x = lines_of(task)[task.rows("test")]
    logits = linear(torch.from_numpy(x)).detach().numpy()
    outputs = imagenet_outputs(task)
    model = model_of(classifier=linear)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for compete, columns in (("task", outputs >= 0), ("all", np.ones(1000, bool))):
            head = make_head("labels", model, task, Encoded(task), compete=compete)
            ours = task.evaluate(head.scores(x), outputs=head.outputs)
            assert ours.to_dict() == task.evaluate(logits[:, columns], outputs=outputs[columns]).to_dict()
    with pytest.raises(InputError, match="no output named '0', '1', '2': give labels="):
        make_head("labels", model, task_named(("0", "1", "2")), Encoded(task))


def hashed(texts: Sequence[str]) -> torch.Tensor:
    """Embeddings that texts determine."""
    seeds = (sum(1000003**at * ord(sign) for at, sign in enumerate(text)) % 2**31 for text in texts)
    return torch.stack([torch.randn(WIDTH, generator=torch.Generator().manual_seed(seed)) for seed in seeds])


def test_prompts_are_ensembled_as_in_clip(task, tmp_path):
    prompts = ["a photo of a {}.", "the {}", "art: {}"]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts) + "\n\n")
    x = lines_of(task)
    expected = []
    for label in task.labels:
        words = ["grizzly", "bear"] if label == "bee" else [label.replace("_", " ")]
        each = [hashed([prompt.format(word)])[0] for prompt in prompts for word in words]
        mean = sum(vector / vector.norm() for vector in each) / len(each)
        expected.append((mean / mean.norm()).numpy())
    cosine = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ np.array(expected).T
    for given in (prompts, tmp_path / "prompts.txt", str(tmp_path / "prompts.txt")):
        options = {"prompts": given, "names": {"bee": ["grizzly", "bear"]}}
        head = make_head("zero-shot", model_of(caption=hashed, scale=20.0), task, Encoded(task), **options)
        assert np.abs(head.scores(x) - 20 * cosine).max() < 1e-5
    assert head.outputs.tolist() == [0, 1, 2]


def test_zero_shot_logits_are_those_of_transformers_clip(task):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config=sizes | {"vocab_size": 300, "max_position_embeddings": 40, "eos_token_id": 299},
        vision_config=sizes | {"image_size": 8, "patch_size": 4},
        projection_dim=WIDTH,
    )
    clip = transformers.CLIPModel(config).eval()

    def ids_of(texts: Sequence[str]) -> torch.Tensor:
        rows = [[ord(sign) for sign in text] + [299] * (36 - len(text)) for text in texts]
        return torch.tensor(rows)

    def embedded(output) -> torch.Tensor:
        return output if isinstance(output, torch.Tensor) else output.pooler_output

    def caption(texts: Sequence[str]) -> torch.Tensor:
        return embedded(clip.get_text_features(input_ids=ids_of(texts)))

    pixels = torch.randn(5, 3, 8, 8)
    with torch.no_grad():
        features = embedded(clip.get_image_features(pixel_values=pixels)).numpy()
        texts = [f"a photo of a {name.replace('_', ' ')}." for name in task.labels]
        logits = clip(input_ids=ids_of(texts), pixel_values=pixels).logits_per_image.numpy()
        scale = float(clip.logit_scale.exp())
    head = make_head("zero-shot", model_of(caption=caption, scale=scale), task, Encoded(task))
    assert np.abs(head.scores(features) - logits).max() < 1e-5


def test_what_a_head_cannot_do_it_says(task):
    def message(name: str, model: Pretrained = FAKE, of: sd.Task = task, **options) -> str:
        with pytest.raises((InputError, NotFoundError)) as error:
            make_head(name, model, of, options.pop("features", Encoded(of)), **options)
        return str(error.value)

    own = model_of(classifier=Classifier(), outputs=OUTPUTS, caption=hashed)
    assert "unknown head 'prob'; did you mean 'probe'" in message("prob")
    assert "unknown option of the head knn 'kk'; did you mean 'k'" in message("knn", kk=3)
    assert "fake encodes no texts" in message("zero-shot")
    assert "fake has no classifier of its own" in message("labels")
    assert "has no output named 'zebra'" in message("labels", own, task_named(("zebra", "bee")))
    assert "unknown output 'beee'; did you mean 'bee'" in message("labels", own, labels={"beee": "bee"})
    assert "unknown output '8'" in message("labels", own, labels={8: "bee"})
    assert "unknown label 'be'" in message("labels", own, labels={"bee": "be"})
    assert "of 1 labels of the task: map two or more" in message("labels", own, labels={"bee": "bee"})
    assert "cannot be read as TOML" in message("labels", own, labels="no-such-file.toml")
    assert "unknown compete 'none'" in message("labels", own, compete="none")
    assert "does not have exactly one {}" in message("zero-shot", own, prompts=["a {} of {}"])
    assert "does not have exactly one {}" in message("zero-shot", own, prompts="a {name}")
    assert "0 prompts" in message("zero-shot", own, prompts=[])
    assert "are no file of one a line" in message("zero-shot", own, prompts="no-such-file.txt")
    assert "unknown label 'Bee'; did you mean 'bee'" in message("zero-shot", own, names={"Bee": "a bee"})
    assert "names= gives bee 3: give words" in message("zero-shot", own, names={"bee": 3})
    assert "unknown label" in message("labels", own, labels={"bee": ["b"]})
    wide = model_of(caption=lambda texts: torch.ones(len(texts), 3))
    assert "8 features and captions of 3" in message("zero-shot", wide)
    assert "give numbers above 0" in message("probe", l2=0)
    assert "give a number above 0" in message("knn", k=0)
    assert "unknown figure 'wurst'" in message("probe", by="wurst")
    one = task.rows("train")[task.metadata.label[task.rows("train")] == 1]
    alone = replace(task, sets={**task.sets, "train": replace(task.sets["train"], indices=one)})
    for name in ("probe", "knn"):
        assert "of one class: give rows of two or more" in message(name, of=alone)
        assert "not finite" in message(name, features=lambda rows: np.full((len(rows), WIDTH), np.nan))
    head = make_head("probe", model_of(), task, Encoded(task), l2=1.0)
    with pytest.raises(InputError, match="not finite"):
        head.scores(np.full((2, WIDTH), np.inf))
    assert head.scores(np.zeros((0, WIDTH))).shape == (0, 3)


def test_a_constant_feature_and_a_class_without_rows_do_no_harm():
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64) * 2  # of three classes, the second has no row
    x[:, 3] = 7
    weight, bias = LinearProbe(x, y, 3).fit(1e-2)
    assert torch.isfinite(weight).all()
    shares = (torch.from_numpy(x).double() @ weight.T + bias).softmax(1)
    assert (shares.argmax(1).numpy() == y).all()
    assert shares[:, 1].max() < 1e-4
