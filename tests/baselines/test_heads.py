"""Hundreds of linear heads at once: each is what torch makes of it alone, whatever is trained with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from shiftdata.baselines import heads, losses, make_method
from shiftdata.baselines.heads import HEAD_METHODS, HeadSpec, first_weights, train_heads
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import make_sampler
from shiftdata.stable import hash64

STEPS = 26  # a tenth of which is rounded up
CLOSE = 1e-4


def rows_of(rows, numbers, classes=3, seed=0, others=30):
    """Features that are standardised already, so that the engine leaves them as they are."""
    generator = np.random.default_rng(seed)
    y = generator.integers(classes, size=rows)
    group = y * 2 + (generator.random(rows) < np.where(y == 0, 0.1, 0.7))
    y[:classes], group[: 2 * classes] = np.arange(classes), np.arange(2 * classes)
    y[: 2 * classes] = group[: 2 * classes] // 2
    x = generator.normal(size=(rows + others, numbers))
    x[np.arange(rows), y % numbers] += 1.0
    x[np.arange(rows), (y + group) % numbers] += 0.7
    x = (x - x[:rows].mean(0)) / x[:rows].std(0)
    return x.astype(np.float32), y, group


def alone(x, y, group, spec):
    """The logits of a head that `torch.optim.SGD` trains on all rows in a batch."""
    sampler = make_sampler(spec.sampler, labels=y, groups=group, seed=spec.seed)
    rows = sampler.rows_of(0) if spec.sampler.startswith("sub") else np.arange(len(y))
    cells = {"rwy": y, "rwg": group}.get(spec.sampler, np.zeros(len(y), np.int64))
    weight = torch.from_numpy(1 / np.bincount(cells)[cells[rows]])  # each cell comes equally often
    inputs, truth, cell = (torch.from_numpy(column[rows]) for column in (x, y, group))
    bonus = torch.from_numpy(spec.hyper.get("adjustment", 0) / np.bincount(group) ** 0.5)
    dro = losses.GroupDRO(len(bonus), spec.hyper.get("eta", 0), bonus)
    start = first_weights(spec, x.shape[1], y.max() + 1)
    head = torch.nn.Linear(x.shape[1], y.max() + 1)
    for step in range(STEPS):
        first = round(spec.hyper.get("first", 0) * STEPS)
        if step in (0, first):
            if step:  # JTT: copies of what the first model gets wrong
                weight = torch.where(head(inputs).argmax(1) == truth, 1, spec.hyper["up"])
            head.load_state_dict({"weight": start[:, :-1], "bias": start[:, -1]})
            rates = {"lr": spec.learning_rate, "momentum": spec.momentum, "weight_decay": spec.weight_decay}
            optimizer = torch.optim.SGD(head.parameters(), **rates)
        each = cross_entropy(head(inputs), truth, reduction="none")
        loss = dro.update(each, cell) if spec.method == "group-dro" else losses.mean(each, weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return head(torch.from_numpy(x)).detach().numpy()


def specs_of(method, seeds=(0, 1)):
    hyper = {
        "group-dro": [{"eta": 0.01}, {"eta": 1.0, "adjustment": 2.0}],
        "jtt": [{"first": 0.1, "up": 5}, {"first": 0.5}],
    }
    settings = [
        {"learning_rate": rate, "weight_decay": decay, "momentum": momentum}
        for rate, decay, momentum in ((0.1, 0.0, 0.9), (0.01, 1.0, 0.5), (0.5, 0.01, 0.0))
    ]
    return [
        HeadSpec(method=method, seed=seed, hyper=own, **rates)
        for seed in seeds
        for own in hyper.get(method, [{}])
        for rates in settings
    ]


@pytest.mark.parametrize("method", HEAD_METHODS)
@pytest.mark.parametrize("shape", [(60, 40), (200, 12)], ids=["dual", "primal"])
def test_each_is_what_torch_makes_of_it_alone(method, shape):
    x, y, group = rows_of(*shape)
    specs = specs_of(method, seeds=(1,))
    results = train_heads(x[: len(y)], y, group, specs, steps=STEPS, evaluate={"x": x})
    assert not results.failed
    for run, spec in enumerate(specs):
        scores = alone(x, y, group, spec)
        head = results.weights[run]
        assert np.abs(x @ head[:, :-1].T + head[:, -1] - scores).max() < CLOSE
        assert (results.predicted["x"][run, -1] == scores.argmax(1)).mean() > 0.98


def test_a_spec_has_its_method_s_defaults_and_sampler():
    assert HeadSpec(method="group-dro", hyper={"eta": 3}).hyper == {"eta": 3.0, "adjustment": 0.0}
    assert HeadSpec(method="jtt").hyper == make_method("jtt").hyper
    samplers = [HeadSpec(method=name).sampler for name in HEAD_METHODS]
    assert samplers == ["shuffle", "suby", "subg", "rwy", "rwg", "shuffle", "shuffle"]


@settings(max_examples=8, deadline=None)
@given(
    rows=st.integers(8, 60),
    numbers=st.integers(1, 40),
    classes=st.integers(2, 4),
    seed=st.integers(0, 99),
    rate=st.floats(1e-3, 0.3),
    decay=st.floats(0, 1),
)
def test_both_forms_agree(rows, numbers, classes, seed, rate, decay):
    x, y, group = rows_of(max(rows, 2 * classes), numbers, classes, seed)
    specs = [
        HeadSpec(method=name, learning_rate=rate, weight_decay=decay, seed=seed % 3) for name in HEAD_METHODS
    ]
    results = []
    for dual in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(heads, "is_dual", lambda rows, numbers, dual=dual: dual)
            results.append(train_heads(x[: len(y)], y, group, specs, steps=25, classes=classes))
    fixed = [at for at, spec in enumerate(specs) if spec.method != "jtt"]  # a tie may be marked or not
    assert np.abs(results[0].weights[fixed] - results[1].weights[fixed]).max() < CLOSE


@pytest.mark.parametrize("shape", [(60, 40), (200, 12)], ids=["dual", "primal"])
def test_nothing_depends_on_what_is_trained_together(shape, monkeypatch):
    x, y, group = rows_of(*shape)
    specs = [spec for method in HEAD_METHODS for spec in specs_of(method)]
    order = np.random.default_rng(0).permutation(len(specs))
    options = {"steps": STEPS, "evaluate": {"x": x}, "every": 10}
    whole = train_heads(x, *padded(x, y, group), specs, **options)
    monkeypatch.setattr(heads, "WORKING_SET", 5_000)
    shuffled = [specs[at] for at in order]
    parts = train_heads(
        x, *padded(x, y, group), shuffled, steps=STEPS, evaluate={"x": x}, every=10, workers=2
    )
    assert whole.steps == parts.steps == (10, 20, 26)
    assert np.abs(whole.weights[order] - parts.weights).max() < CLOSE
    assert (whole.predicted["x"][order] == parts.predicted["x"]).mean() > 0.999


def padded(x, y, group):
    more = len(x) - len(y)
    return np.concatenate([y, y[:more]]), np.concatenate([group, group[:more]])


@pytest.mark.parametrize("shape", [(60, 40), (200, 12)], ids=["dual", "primal"])
@pytest.mark.parametrize("method", ["erm", "group-dro", "jtt"])
def test_one_that_diverges_says_so_and_touches_no_other(shape, method):
    x, y, group = rows_of(*shape)
    good = [HeadSpec(method=method, learning_rate=0.1, seed=seed) for seed in range(3)]
    bad = HeadSpec(method=method, learning_rate=1e30, weight_decay=1e9)
    results = train_heads(x[: len(y)], y, group, [*good[:1], bad, *good[1:]], steps=STEPS, evaluate={"x": x})
    apart = train_heads(x[: len(y)], y, group, good, steps=STEPS, evaluate={"x": x})
    assert list(results.failed) == [1]
    assert "learning_rate, now 1e+30" in results.failed[1]
    assert (results.predicted["x"][1] == -1).all()
    assert np.abs(results.weights[[0, 2, 3]] - apart.weights).max() < CLOSE
    assert (results.predicted["x"][[0, 2, 3]] == apart.predicted["x"]).all()


@pytest.mark.parametrize(
    "wrong",
    [{"method": "dann"}, {"method": "group-dro", "hyper": {"etta": 1}}, {"learning_rate": -1},
     {"weight_decay": float("nan")}],
)  # fmt: skip
def test_a_run_that_cannot_be_trained_is_refused(wrong):
    with pytest.raises(InputError):
        HeadSpec(**wrong)


@pytest.mark.parametrize("wrong", ["groups", "steps"])
def test_rows_that_cannot_be_trained_on_are_refused(wrong):
    x, y, group = rows_of(20, 5)
    if wrong == "groups":
        group = 0 * group
    with pytest.raises(InputError):
        train_heads(x[:20], y, group, [HeadSpec(method="subg")], steps=0 if wrong == "steps" else 2)


def test_first_weights_are_those_of_a_linear_layer():
    spec = HeadSpec(seed=3)
    torch.manual_seed(hash64(3, "baselines", "weights"))
    layer = torch.nn.Linear(17, 4)
    weights = first_weights(spec, 17, 4)
    assert torch.allclose(weights[:, :-1], layer.weight, atol=1e-7)
    assert torch.allclose(weights[:, -1], layer.bias, atol=1e-7)
