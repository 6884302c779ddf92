"""Adapters against plain loops and limits; streams through them as a user makes them."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn
from torch.nn.functional import log_softmax, softmax

import shiftdata as sd
from shiftdata.baselines import DivergedError, Training
from shiftdata.baselines.networks import Network, batch_norms, mlp, small_cnn
from shiftdata.baselines.pretrained.model import Pretrained, weights_hash
from shiftdata.baselines.test_time import ADAPTERS, Adapter, adapter_class
from shiftdata.baselines.test_time.entropy import marginal_entropy
from shiftdata.baselines.test_time.streaming import adapt
from shiftdata.baselines.test_time.teachers import Memory
from shiftdata.baselines.test_time.views import RandomView
from shiftdata.bench.saved import SavedRuns
from shiftdata.cli.app import main as cli
from shiftdata.data.loading.batches.decode import CenterCrop
from shiftdata.errors import InputError, NotFoundError
from tests.evaluation.protocols.made import metadata

LIMIT = 0.9 * math.log(5)
QUICK = Training(steps=80, batch=32, learning_rate=0.01)


def batches(count=4, rows=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, rows, 3, 16, 16, generator=generator))


def network(seed=0) -> Network:
    """A network whose statistics are not those of its inputs."""
    torch.manual_seed(seed)
    made = small_cnn(0, 5).double()
    for layer in batch_norms(made):
        layer.running_mean.normal_(0, 0.2)
        layer.running_var.uniform_(0.5, 2)
    with torch.no_grad():
        made.head.weight.mul_(20)
    return made


def by_batch(model, x):
    """Predict in train mode, which for this network differs in batch norm alone."""
    return model.train()(x)


def entropies(logits):
    return -(softmax(logits, 1) * log_softmax(logits, 1)).sum(1)


def affine(model):
    return [weight for layer in batch_norms(model) for weight in (layer.weight, layer.bias)]


def loop_of_tent(model, stream):
    optimizer = torch.optim.Adam(affine(model), lr=0.03)
    for x in stream:
        logits = by_batch(model, x)
        optimizer.zero_grad()
        entropies(logits).mean().backward()
        optimizer.step()
        yield logits


def loop_of_eata(model, stream, source, limit=LIMIT, anchor=30.0, near=0.9):
    """Row by row; momentum and penalty written out."""
    weights, fishers = affine(model), [0.0] * 6
    for x in source:
        logits = by_batch(model, x)
        loss = nn.functional.cross_entropy(logits, logits.argmax(1))
        grads = torch.autograd.grad(loss, weights)
        fishers = [f + g**2 / len(source) for f, g in zip(fishers, grads, strict=True)]
    first, speeds, mean = [w.detach().clone() for w in weights], [0.0] * len(weights), None
    for x in stream:
        logits, terms, kept = by_batch(model, x), [], []
        for row in logits:
            p = softmax(row, 0)
            entropy = -(p * p.log()).sum()
            unlike = mean is None or float(p.detach() @ mean / p.detach().norm() / mean.norm()) < near
            if entropy < limit and unlike:
                terms.append(entropy / math.exp(float(entropy.detach()) - limit))
                kept.append(p.detach())
        if terms:
            new = sum(kept) / len(kept)
            mean = new if mean is None else 0.9 * mean + 0.1 * new
            penalty = sum((f * (w - o) ** 2).sum() for f, w, o in zip(fishers, weights, first, strict=True))
            grads = torch.autograd.grad(sum(terms) / len(terms) + anchor * penalty, weights)
            speeds = [0.9 * s + g for s, g in zip(speeds, grads, strict=True)]
            with torch.no_grad():
                for weight, speed in zip(weights, speeds, strict=True):
                    weight -= 0.05 * speed
        yield logits


def loop_of_sar(model, stream, limit=LIMIT, radius=0.3):
    """The step of sharpness-aware minimisation on a copy of the network; all norms but the last stage's."""
    layers = [model.encoder[0][1], model.encoder[1][1]]
    speeds = [0.0] * 4
    for x in stream:
        weights = [w for layer in layers for w in (layer.weight, layer.bias)]
        logits = by_batch(model, x)
        sure = entropies(logits) < limit
        grads = torch.autograd.grad(entropies(logits)[sure].mean(), weights)
        length = math.sqrt(sum(float((g**2).sum()) for g in grads))
        moved = copy.deepcopy(model)
        there = [w for at in (0, 1) for w in (moved.encoder[at][1].weight, moved.encoder[at][1].bias)]
        with torch.no_grad():
            for weight, grad in zip(there, grads, strict=True):
                weight += radius * grad / length
        worst = entropies(by_batch(moved, x))[sure]
        grads = torch.autograd.grad(worst[worst < limit].mean(), there)
        speeds = [0.9 * s + g for s, g in zip(speeds, grads, strict=True)]
        with torch.no_grad():
            for weight, speed in zip(weights, speeds, strict=True):
                weight -= 0.05 * speed
        yield logits


def three_stages() -> Network:
    """Batch norm in the first two stages; in the last a norm that stays as it is."""
    torch.manual_seed(1)
    stages = [nn.Sequential(nn.Conv2d(width, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU()) for width in (3, 6, 6)]
    made = Network(nn.Sequential(*stages, nn.Flatten()), 6, 5, stages).double()
    with torch.no_grad():
        made.head.weight.mul_(10)
    return made


@pytest.mark.parametrize("name", ["tent", "eata", "sar"])
def test_adapters_equal_plain_loops(name):
    stream, source = ([x.double() for x in batches(6, seed=seed)] for seed in (0, 1))
    model = three_stages()
    hyper = {"tent": {"rate": 0.03}, "sar": {"margin": 0.9, "radius": 0.3, "collapse": 0, "rate": 0.05}}
    hyper["eata"] = {"margin": 0.9, "anchor": 30, "similarity": 0.9, "rate": 0.05}
    adapter = adapter_class(name)(model, **hyper[name])
    adapter.remember(source)
    predicted = torch.stack([adapter.predict(x) for x in stream])
    loops = {"tent": loop_of_tent, "sar": loop_of_sar}
    expected = loop_of_eata(model, stream, source) if name == "eata" else loops[name](model, stream)
    expected = torch.stack([logits.detach() for logits in expected])
    assert (predicted - expected).abs().max() < 1e-9
    with torch.no_grad():
        still = torch.stack([by_batch(three_stages(), x) for x in stream])
    assert (predicted - still).abs().max() > 1e-3  # it has adapted


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name != "unadapted"])
def test_reset_forgets_the_stream_and_the_network_that_was_given_stays(name):
    model, stream = network(), [x.double() for x in batches()]
    before = weights_hash(model)
    # RoTTA learns once its memory is full, SAR where rows are sure.
    hyper = {"rotta": {"memory": 16}, "sar": {"margin": 1}, "cotta": {"views": 4}, "memo": {"views": 4}}
    adapter = adapter_class(name)(model, **hyper.get(name, {}))
    adapter.remember(stream[:2])

    def passed():
        torch.manual_seed(5)
        return torch.stack([adapter.predict(x) for x in stream])

    first = passed()
    if name not in ("bn-adapt", "memo"):
        assert not torch.equal(passed(), first)
    adapter.reset()
    assert torch.equal(passed(), first)
    assert adapter.resets == 1
    assert weights_hash(model) == before


def test_limits_of_adapters():
    model, (x, *_) = network(), [x.double() for x in batches()]
    with torch.no_grad():
        source = copy.deepcopy(model).eval()(x)
        pooled = by_batch(copy.deepcopy(model), x)
    near = {"atol": 1e-4, "rtol": 0}
    assert torch.allclose(adapter_class("bn-adapt")(model).predict(x), pooled)
    assert torch.allclose(adapter_class("bn-adapt")(model, prior=1e9).predict(x), source, **near)
    assert torch.allclose(adapter_class("memo")(model, rate=0, prior=1e9).predict(x), source, **near)
    row = source[:1].expand(7, -1)
    assert torch.allclose(marginal_entropy(row), entropies(row)[0])
    mixed = torch.tensor([[50.0, 0.0], [0.0, 50.0]])
    assert marginal_entropy(mixed).item() == pytest.approx(math.log(2))
    cotta = adapter_class("cotta")(model, restore=1, rate=0.1, keep=0.5)
    for _ in range(2):
        cotta.predict(x)
    assert weights_of(cotta.network) == weights_of(model)  # each weight is the source's again
    assert weights_of(cotta.teacher) != weights_of(model)


def weights_of(model) -> list[float]:
    return [float(parameter.detach().double().sum()) for parameter in model.parameters()]


def test_sar_begins_again_when_it_collapses():
    adapter = adapter_class("sar")(network(), collapse=5, margin=1)
    adapter.predict(batches()[0].double())
    assert adapter.resets == 1
    assert weights_of(adapter.network) == weights_of(network())


def test_the_memory_of_rotta_is_balanced_recent_and_sure():
    memory, x = Memory(8, 4), torch.zeros(1)
    for _ in range(50):
        memory.add(x, 0, 0.5)
    assert [len(items) for items in memory.items] == [2, 0, 0, 0]  # a class has its share, whatever comes
    assert {item.age for item in memory.rows()} == {1, 2}
    for label in (1, 2, 3) * 5:
        memory.add(x, label, 0.1)
    assert [len(items) for items in memory.items] == [2, 2, 2, 2]
    memory.add(x, 1, 1.3)  # less sure than those that it competes with
    assert max(item.entropy for item in memory.items[1]) == 0.1


def test_views_keep_shape_and_level():
    torch.manual_seed(0)
    x = torch.rand(6, 3, 20, 30, dtype=torch.float64)
    seen = RandomView(flip=True)(x)
    assert seen.shape == x.shape
    assert seen.dtype == x.dtype
    assert not torch.equal(seen, x)
    still = RandomView(angle=0, scale=0, shift=0, light=0, noise=0)(x)
    assert torch.allclose(still, x)
    with pytest.raises(InputError, match="views are of pictures"):
        RandomView()(x[0, 0])


def test_layers_that_are_adapted_are_named_or_refused():
    norm = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8))
    row = Network(norm, 8, 3)
    for name in ("tent", "sar", "eata"):
        assert [weight.shape for weight in adapter_class(name)(row).trained] == [(8,), (8,)]
    for name in ("bn-adapt", "rotta"):
        with pytest.raises(InputError, match="adapts batch-norm layers, and the network has none"):
            adapter_class(name)(row)
    with pytest.raises(InputError, match="layers that normalise"):
        adapter_class("tent")(mlp(6, 3))
    with pytest.raises(InputError, match="those here have none"):
        adapter_class("tent")(nn.Sequential(nn.BatchNorm1d(6, affine=False)))
    with pytest.raises(NotFoundError, match="hyper-parameter of TENT 'rat'; did you mean 'rate'"):
        adapter_class("tent")(row, rat=1)
    with pytest.raises(NotFoundError, match="did you mean 'tent'"):
        adapter_class("tnt")


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory) -> tuple[sd.Task, sd.baselines.Run, str]:
    folder = tmp_path_factory.mktemp("run")
    task = sd.task(tiny)
    return task, sd.train(task, side=24, training=QUICK, folder=folder), str(folder)


def streamed(run, method="tent", words="setting=continual", **options):
    return adapt(sd.task(run[0].metadata, f"stream {words}"), run[1], method, batch_size=20, **options)


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name != "memo"])
def test_a_run_is_streamed_twice_to_the_same_predictions(run, name):
    first, again = streamed(run, name), streamed(run, name)
    assert first.scores.tobytes() == again.scores.tobytes()
    assert first.evaluate()["overall"] == again.evaluate()["overall"] > 0.5
    if name == "unadapted":
        assert np.allclose(first.scores, run[1].scores, rtol=1e-3, atol=1e-3)  # in batches of another size
    assert [entry["rows"] for entry in first.history] == [len(batch) for batch in first.order.batches(20)]


def test_what_is_saved_is_a_folder_of_predictions(run, tmp_path):
    task, made, folder = run
    stream = sd.task(task.metadata, "stream setting=mixed rounds=2")
    saved = adapt(stream, folder, "tent", batch_size=20, folder=tmp_path / "tent")
    in_memory = adapt(stream, made, "tent", batch_size=20)
    assert saved.scores.tobytes() == in_memory.scores.tobytes()
    assert saved.about["weights"] == in_memory.about["weights"]
    about = json.loads((tmp_path / "tent/run.json").read_text())
    table = pq.read_table(tmp_path / "tent/predictions-test.parquet")
    assert about["method"] == "tent"
    assert about["outputs"] == list(task.labels)
    assert table.column_names == ["key", "prediction", "scores"]
    scores = table.schema.field("scores").type
    assert (str(scores.value_type), scores.list_size) == ("float", len(task.labels))
    best = np.array([np.argmax(row) for row in table["scores"].to_pylist()])
    assert [about["outputs"][place] for place in best] == table["prediction"].to_pylist()
    assert (
        task.evaluate(str(tmp_path / "tent/predictions-test.parquet"))["overall"]
        == saved.evaluate()["overall"]
    )
    steps = pq.read_table(tmp_path / "tent/stream.parquet")
    assert steps.column_names == ["position", "key", "segment", "prediction"]
    assert len(steps) == 2 * len(table)
    last = dict(zip(steps["key"].to_pylist(), steps["prediction"].to_pylist(), strict=True))
    assert last == saved.predictions()
    curve = saved.curve()
    assert curve[-1]["so_far"] == pytest.approx(
        (saved.streamed == task.metadata.label[saved.order.rows]).mean()
    )
    assert list(saved.segments().values()) == [pytest.approx(saved.evaluate().accuracy.value)]
    assert saved.picture().size[0] > 200


def test_settings_differ_in_when_the_network_begins_again(run):
    made = {
        words: streamed(run, words=f"setting={words}", rate=0.02)
        for words in ("online", "continual", "episodic")
    }
    segments = len(made["online"].order.segments)
    assert [made[words].about["resets"] for words in made] == [
        segments - 1,
        0,
        len(made["episodic"].history) - 1,
    ]
    order = made["online"].order
    first = order.segment[np.argsort(order.rows)] == 0
    assert (made["online"].scores[first] == made["continual"].scores[first]).all()
    assert (made["online"].scores != made["continual"].scores)[~first].any()
    # Each batch of an episodic stream meets the trained network: TENT is then batch norm alone.
    norm = streamed(run, "bn-adapt")
    assert np.allclose(made["episodic"].scores, norm.scores, atol=1e-5)


@pytest.fixture(scope="module")
def overlapping() -> tuple[sd.Task, sd.baselines.Run]:
    """Six classes that overlap, as numbers, and a network with batch norm."""
    rows = metadata(6, 1, 150)
    draws = np.random.default_rng(0)
    x = draws.normal(size=(len(rows), 6)) + 2.5 * np.eye(6)[rows.label]
    task = sd.task(rows)
    return task, sd.train(task, features=x.astype(np.float32), backbone="mlp-bn", training=QUICK)


def accuracies(overlapping, method, words, **hyper):
    task = sd.task(overlapping[0].metadata, f"stream {words}")
    result = adapt(task, overlapping[1], method, batch_size=24, **hyper)
    return result, [
        float(share) for share in (result.streamed == task.metadata.label[result.order.rows]).mean(1)
    ]


def test_tent_collapses_where_labels_are_correlated(overlapping):
    iid, correlated = ("setting=continual", "setting=continual order=correlated")
    (_, (plain,)), (_, (same,)) = (accuracies(overlapping, "unadapted", words) for words in (iid, correlated))
    assert plain == same > 0.7  # without adaptation the order is nothing
    assert accuracies(overlapping, "tent", iid)[1][0] > plain - 0.05
    assert accuracies(overlapping, "bn-adapt", correlated)[1][0] < plain - 0.15
    assert accuracies(overlapping, "tent", correlated, rate=0.05)[1][0] < plain - 0.3


def test_tent_collapses_at_a_high_rate(overlapping):
    words = "setting=continual rounds=8"
    hot, over_rounds = accuracies(overlapping, "tent", words, rate=0.5)
    assert over_rounds[-1] < over_rounds[0] - 0.2
    assert hot.history[-1]["entropy"] < 0.5 * hot.history[0]["entropy"]  # and it is sure of it
    shares = np.bincount(hot.streamed[-1]) / len(hot.streamed[-1])
    assert shares.max() > 0.4


class Wrong(Adapter):
    """An adapter that returns numbers that are none."""

    def predict(self, x):
        return torch.full((len(x), 4), math.nan)


def test_what_cannot_be_streamed_is_refused(run, tmp_path):
    task, made, _ = run
    stream = sd.task(task.metadata, "stream")
    with pytest.raises(InputError, match="is no stream"):
        adapt(task, made)
    with pytest.raises(DivergedError, match="logits of step 1 are not finite"):
        adapt(stream, made, Wrong)
    with pytest.raises(NotFoundError, match="unknown model"):
        adapt(stream, tmp_path)
    with pytest.raises(InputError, match="not the labels of"):
        adapt(sd.task(task.metadata, "label==bar,disc stream"), made)
    with pytest.raises(InputError, match="train was not predicted"):
        streamed(run).evaluate("train")
    numbers = np.random.default_rng(0).normal(size=(len(task.metadata), 5)).astype(np.float32)
    plain = sd.train(task, features=numbers, backbone="mlp-bn", training=QUICK)
    with pytest.raises(InputError, match="makes views of pictures"):
        adapt(stream, plain, "cotta")
    assert adapt(stream, plain, "tent").evaluate().n == len(task.rows("test"))
    with pytest.raises(InputError, match="take a larger batch_size"):
        adapt(stream, plain, "tent", batch_size=1)


def test_a_pretrained_classifier_adapts(run):
    task, made, _ = run
    trained = made.model.trainer.network
    model = Pretrained(
        "own",
        trained.encoder,
        trained.n_features,
        lambda x: x.float().div(63.75).sub(2),
        weights_hash(trained),
        size=24,
        classifier=nn.Sequential(trained.head, nn.ConstantPad1d((1, 0), -50.0)),
        outputs=("other", *task.labels),
    )
    stream = sd.task(task.metadata, "stream setting=continual")
    theirs, ours = adapt(stream, model, batch_size=20), adapt(stream, made, batch_size=20)
    assert (theirs.predicted == ours.predicted).mean() > 0.98  # the output that is no label counts in entropy
    assert theirs.about["model"] == "own"
    with pytest.raises(InputError, match="cannot adapt: own has no output named"):
        adapt(stream, Pretrained(**{**vars(model), "outputs": ("a", "b")}))


def test_a_pretrained_classifier_reads_and_maps_as_predict_does(run, tmp_path):
    task, made, _ = run
    network = made.model.trainer.network
    torch.manual_seed(0)
    outputs = (*task.labels, "other", *reversed(task.labels))  # each label by two outputs
    model = Pretrained(
        "own",
        network.encoder,
        network.n_features,
        lambda x: x.float().div(63.75).sub(2),
        weights_hash(network),
        size=CenterCrop((16, 20), 28),
        classifier=nn.Linear(network.n_features, len(outputs)),
        outputs=outputs,
    )
    stream = sd.task(task.metadata, "stream setting=continual")
    ours = adapt(stream, model, "unadapted", batch_size=20, folder=tmp_path / "ours")
    theirs = sd.predict(task, model, cache=tmp_path / "cache")
    assert ours.scores == pytest.approx(theirs.scores_of("test"), abs=1e-4)
    adapted = adapt(stream, model, "tent", batch_size=20, rate=0.05, folder=tmp_path / "tent")
    assert not np.allclose(adapted.scores, ours.scores)
    assert ours.about["pretraining"]["weights"] == "own"
    records = SavedRuns.read(tmp_path / "ours", tmp_path / "tent", dataset=str(task.metadata.dataset.address))
    assert records.column("method") == ["unadapted", "tent"]
    with pytest.raises(InputError, match=r"no validation or training set: .* anchor=0"):
        adapt(sd.task(task.metadata, "evaluate-only stream"), model, "eata", batch_size=20)
    assert adapt(sd.task(task.metadata, "evaluate-only stream"), model, "eata", batch_size=20, anchor=0)


def test_the_verb_adapts_lists_and_refuses(run, capsys, tmp_path):
    task, _, folder = run
    place = task.metadata.dataset.address
    assert cli(["adapt"]) == 0
    assert "tent\n    A step on the entropy" in capsys.readouterr().out
    words = ["adapt", str(place), "stream", "--model", folder, "--batch", "20"]
    words += ["--set", "rate=0.01", "--quiet"]
    assert cli([*words, "--folder", str(tmp_path / "t"), "--picture", str(tmp_path / "curve.png")]) == 0
    assert "overall" in capsys.readouterr().out
    assert (tmp_path / "curve.png").stat().st_size > 1000
    assert cli([*words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["hyper"] == {"rate": 0.01}
    assert cli(["evaluate", str(place), "stream", str(tmp_path / "t")]) == 0
    assert cli(["adapt", str(place), "stream"]) == 1
    assert "give --model" in capsys.readouterr().err
