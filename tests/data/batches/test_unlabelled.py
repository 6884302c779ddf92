"""Sets whose role is unlabelled hand out nothing that names a row's class, its group or its key."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

import shiftdata as sd
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import SAMPLERS

torch = pytest.importorskip("torch")
DataLoader = pytest.importorskip("torch.utils.data").DataLoader

POISON = -77
HIDDEN_RULES = sorted(rule for rule, one in SAMPLERS.items() if one.needs in ("label", "group"))
OPTIONS = {
    "shuffle": {},
    "per-domain": {"batch_size": 10},
    "pseudo-balanced": {"on_empty": "drop"},
}


@pytest.fixture(scope="module")
def adapting(tiny) -> sd.Task:
    source, target = sd.task(tiny, base="extended").metadata.nuisances[:2]
    return sd.task(tiny, "uda", base="extended", source=source, target=target)


@pytest.fixture(scope="module", params=["its own role", "a second role"])
def hidden(request, tiny, adapting) -> tuple[sd.Task, str]:
    if request.param == "its own role":
        return adapting, "target_train"
    return sd.task(tiny, base="extended").also("test", "unlabelled"), "test"


def options_of(task, rule, name):
    guesses = {"pseudo_labels": np.zeros(len(task.sets[name]), int)} if rule == "pseudo-balanced" else {}
    return OPTIONS[rule] | guesses


def reachable(thing, path="", seen=None):
    """Every number, text and array that can be reached from an object by its attributes and items."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        thing = thing.numpy()
    if isinstance(thing, pa.Table):
        thing = thing.to_pydict()
    if isinstance(thing, str | int | float | np.ndarray | np.generic):
        yield path, thing
    elif isinstance(thing, Mapping):
        for name, value in thing.items():
            yield path, name
            yield from reachable(value, f"{path}.{name}", seen)
    elif isinstance(thing, list | tuple | set | frozenset):
        for number, value in enumerate(thing):
            yield from reachable(value, f"{path}.{number}", seen)
    else:
        for name, value in vars(thing).items() if hasattr(thing, "__dict__") else ():
            yield from reachable(value, f"{path}.{name}", seen)


def handed_out(task, name):
    """Everything that a method may have of an unlabelled set, by what gave it."""
    role = "unlabelled"
    examples = task.dataset(name, role=role, decode=False)
    yield "dataset", examples.__getitems__(range(len(examples)))
    yield (
        "examples",
        {name: one for name, one in vars(examples).items() if name[0] != "_" and name != "reader"},
    )
    yield "torch", list(DataLoader(task.dataset(name, role=role), batch_size=16))
    yield "table", task.table(name, role=role)
    yield "keys", task.keys(name, role=role)
    for rule in OPTIONS:
        options = options_of(task, rule, name)
        loader = task.loader(name, role=role, sampler=rule, seed=1, **({"batch_size": 8} | options))
        yield f"loader {rule}", list(loader)
        yield f"state {rule}", loader.state_dict()
        sampler = task.sampler(rule, name, role=role, **options)
        yield f"sampler {rule}", [sampler, repr(sampler), sampler.state, list(sampler)]
        yield f"weights {rule}", getattr(sampler, "weights", None)


def test_a_batch_of_an_unlabelled_set_has_neither_label_nor_group_nor_key(hidden):
    task, name = hidden
    keys = [int(key, 16) for key in task.keys(name, role="unlabelled")]
    assert keys == sorted(keys)
    nuisance = task.metadata.nuisance[task.rows(name, role="unlabelled")]
    examples = task.dataset(name, role="unlabelled")
    for loader in (
        task.loader(name, role="unlabelled", sampler="shuffle", seed=1),
        DataLoader(examples, batch_size=16),
    ):
        for x, known in loader:
            assert sorted(known) == ["key", "nuisance", "position"]
            position = known["position"].numpy()
            assert known["key"].dtype == torch.int64
            assert known["key"].numpy().view(np.uint64).tolist() == [keys[one] for one in position]
            assert known["nuisance"].tolist() == nuisance[position].tolist()
            assert x.shape[0] == len(position)


def test_nothing_that_is_handed_out_says_the_class(hidden):
    """The scan: no text that is a key or a label, and no column in which a class differs from the others."""
    task, name = hidden
    rows = task.rows(name, role="unlabelled")
    label, group = task.metadata.label[rows].astype(int), task.metadata.group[rows]
    n_rows, forbidden = len(rows), {*task.metadata.labels, *task.metadata.table["key"].to_pylist()}
    names = set()
    for what, given in handed_out(task, name):
        for path, value in reachable(given):
            names.add(path.rsplit(".", 1)[-1])
            if isinstance(value, str):
                assert value not in forbidden, (what, path)
                assert not any(value.startswith(f"{one}-") for one in task.metadata.labels), (what, path)
            if isinstance(value, np.ndarray) and value.size == n_rows and value.ndim == 1:
                for truth in (label, group):
                    assert not np.array_equal(value, truth), (what, path)
                if value.dtype.kind in "iuf" and np.ptp(value):
                    assert not tells_classes_apart(value.astype(float), label), (what, path)
    assert not names & {"y", "label", "group", "groups", "origin", "split", "fold", "quantile"}


def tells_classes_apart(value, label) -> bool:
    """Whether classes make up much of the variance of the ranks; by chance, a tenth of it or less."""
    ranked = np.argsort(np.argsort(value, kind="stable"))
    within = sum(ranked[label == one].var() * (label == one).mean() for one in np.unique(label))
    return 1 - within / ranked.var() > 0.4


def test_the_scan_finds_a_label(adapting):
    label = adapting.metadata.label[adapting.rows("target_train")].astype(int)
    assert tells_classes_apart(label + 0.01 * np.arange(len(label)), label)
    assert tells_classes_apart(np.arange(len(label), dtype=float), np.sort(label))  # in the order of a file


def test_poison_in_place_of_labels_and_groups_changes_nothing(tiny):
    """All is made again with the labels and groups of the hidden rows replaced: it must come out the same."""
    name, made = "target_train", []
    for _ in range(2):
        source, target = sd.task(tiny, base="extended").metadata.nuisances[:2]
        made.append(sd.task(tiny, "uda", base="extended", source=source, target=target))
    clean, poisoned = made
    expected = dict(handed_out(clean, name))
    rows, metadata = poisoned.rows(name), poisoned.metadata
    assert len(poisoned.label_ids) == 4  # kept by the task, which knows it from its fit set
    for column in (metadata.columns["label"], metadata.group):
        column.flags.writeable = True
        column[rows] = POISON
    assert (metadata.label[rows] == POISON).all()
    for what, given in handed_out(poisoned, name):
        ours, theirs = (
            [(path, value) for path, value in reachable(one) if "object at 0x" not in str(value)]
            for one in (given, expected[what])
        )
        assert len(ours) == len(theirs)
        for (path, one), (_, other) in zip(ours, theirs, strict=True):
            assert np.array_equal(one, other), (what, path)


def test_predictions_by_the_keys_of_batches_are_evaluated(hidden):
    task, name = hidden
    truth = task.metadata.label[task.rows(name, role="unlabelled")]
    for loader in (
        task.loader(name, role="unlabelled", sampler="shuffle"),
        DataLoader(task.dataset(name, role="unlabelled"), batch_size=7),
    ):
        batches = [(known["key"], truth[known["position"]]) for _, known in loader]
        keys, guesses = torch.cat([key for key, _ in batches]), np.concatenate([y for _, y in batches])
        assert task.evaluate(dict(zip(keys.tolist(), guesses.tolist(), strict=True)), name).overall == 1
        table = {"key": keys.numpy(), "prediction": guesses}
        assert task.evaluate(pa.table(table), name).overall == 1
    by_text = dict(zip(task.keys(name, role="unlabelled"), truth.tolist(), strict=True))
    assert task.evaluate(by_text, name).overall == 1
    assert (
        task.evaluate(
            dict(zip(task.keys(name), task.metadata.label[task.rows(name)], strict=True)), name
        ).overall
        == 1
    )


@pytest.mark.parametrize("rule", HIDDEN_RULES)
def test_samplers_that_need_labels_are_refused(hidden, rule):
    task, name = hidden
    needs = SAMPLERS[rule].needs
    for ask in (task.sampler, lambda *given, **how: task.loader(given[1], sampler=given[0], **how)):
        with pytest.raises(InputError, match=f"needs {needs}s, which are hidden in {name}: .*per-domain"):
            ask(rule, name, role="unlabelled")


def test_defaults_follow_roles(adapting):
    for made in (adapting.loader(), adapting.loader(role="fit"), adapting.loader("source_train")):
        assert made.examples.identity() == adapting.dataset("source_train").identity()
    assert len(adapting.sampler("shuffle")) == len(adapting.sets["source_train"])
    hidden = adapting.dataset(role="unlabelled")
    assert hidden.identity() == adapting.dataset("target_train").identity()
    with pytest.raises(InputError, match="target_test has the role test, not 'unlabelled'"):
        adapting.loader("target_test", role="unlabelled")


def test_a_damaged_picture_is_named_by_its_hash(copy):
    task = sd.task(copy, base="extended").also("test", "unlabelled")
    for path in (copy / "data" / "extended").glob("test-*"):
        path.write_bytes(path.read_bytes().replace(b"\x89PNG", b"\x89PNX"))
    with pytest.raises(Exception, match=rf"^{task.keys('test', role='unlabelled')[0]}, position 0 of"):
        task.dataset("test", role="unlabelled")[0]


def test_a_hidden_set_drawn_with_replacement_is_resampled_by_example(tiny):
    drawn = sd.task(tiny, "label-shift", alpha=1.0, replacement=True, on_empty="report")
    name = next(name for name, rows in drawn.sets.items() if rows.counts is not None)
    drawn = drawn.also(name, "unlabelled")
    sampler = drawn.sampler("shuffle", name, role="unlabelled")
    assert sorted(sampler) == list(range(len(drawn.sets[name])))
    counts = drawn.table(name, role="unlabelled")["count"].to_pylist()
    given = drawn.loader(name, role="unlabelled", batch_size=500)
    position = np.concatenate([known["position"] for _, known in given])
    assert np.bincount(position).tolist() == counts
