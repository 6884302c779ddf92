"""RLSbench as data: its pairs, and how source and target of each dataset are cut into halves."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import shiftdata as sd
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.protocols.base import named
from shiftdata.evaluation.protocols.halves import RLSBENCH
from shiftdata.evaluation.protocols.rlsbench import canonical
from shiftdata.evaluation.tasks import LeakWarning
from tests.evaluation.protocols.made import column, kinds, labels

HALVES = ("source_train", "source_test", "target_train", "target_test")
Lists = Callable[[str, int, int], dict[str, int]]


def rows(
    domains: Sequence[str], each: int = 100, n_labels: int = 3, lists: Lists = lambda *_: {}, origin: str = ""
) -> sd.Metadata:
    """`each` rows of each label in each domain, label k having k times `each` more."""
    lines = []
    for domain in domains:
        for label in range(n_labels):
            for number in range(each * (label + 1)):
                key = f"{domain}-{label}-{number:04}"
                params = {"file": f"{number:04}.jpg", "lists": lists(domain, label, number)}
                lines.append(
                    {
                        "key": key,
                        "y": f"label{label}",
                        "a": domain,
                        "origin": origin.format(label=label, number=number) or key,
                        "fold": number * 37 % 100,
                        "params": json.dumps(params),
                    }
                )
    table = pa.Table.from_pylist(lines)
    fold = "fold" if "{number}" in origin and "{label}" not in origin else None
    known = sd.metadata_from_table(table, label="y", nuisance="a", origin="origin", fold=fold)
    by_key = dict(zip(table["key"].to_pylist(), table["params"].to_pylist(), strict=True))
    params = pa.array([by_key[key] for key in known.table["key"].to_pylist()])
    return replace(known, source=known.table.append_column("params", params))


def sizes(task: sd.Task) -> list[int]:
    return [len(task.sets[name]) for name in HALVES]


def test_the_benchmark_has_14_datasets_56_pairs_and_560_tasks():
    every = sd.rlsbench()
    assert len(every) == len({protocol.words() for protocol in every}) == 560
    pairs = Counter(protocol.rlsbench for protocol in every if protocol.alpha is None and not protocol.seed)
    assert pairs == {
        **dict.fromkeys(("cifar10", "cifar100"), 5),
        **dict.fromkeys(("camelyon17", "fmow", "visda", "civilcomments"), 3),
        **dict.fromkeys(("entity13", "entity30", "living17", "nonliving26"), 4),
        **dict.fromkeys(("office_home", "domainnet", "retiring_adults"), 4),
        "mimic_readmission": 6,
    }
    assert {protocol.alpha for protocol in every} == {None, 10, 3, 1, 0.5}
    assert len(sd.rlsbench("cifar10", alphas=[3], seeds=[1])) == 5
    assert "cifar10_2" in {protocol.target for protocol in sd.rlsbench("cifar10", variant="files")}
    assert all(
        parse_protocol(protocol.words()) == protocol
        for protocol in (*canonical("visda"), *canonical("camelyon17"))
    )
    with pytest.raises(NotFoundError, match="dataset of RLSbench"):
        sd.rlsbench("cinic10")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_source_that_is_a_target_too_is_cut_the_same_for_every_target(seed):
    known = rows(["train", "validation", "test"])
    own, other = (
        sd.task(known, "label-shift", rlsbench="visda", target=target, alpha=None, seed=seed)
        for target in ("train", "test")
    )
    assert sizes(own) == pytest.approx([384, 96, 96, 24], abs=3)
    assert sizes(other) == pytest.approx([384, 96, 480, 120], abs=3)
    assert column(own, "source_train", "key") == column(other, "source_train", "key")
    assert kinds(other, "target_test") == {"test"}
    assert own.report().leaks == other.report().leaks == 0
    again = sd.task(known, "label-shift", rlsbench="visda", target="test", alpha=None, seed=seed + 1)
    assert column(again, "source_train", "key") != column(other, "source_train", "key")


def test_a_pool_has_shares_of_its_own_and_a_source_that_is_no_target_the_usual_ones():
    own = sd.task(rows(RLSBENCH_DOMAINS["fmow"]), canonical("fmow")[0])
    assert sizes(own) == pytest.approx([360, 60, 108, 72], abs=3)  # 59.5 and 10.5 per cent in whole folds
    other = sd.task(rows(RLSBENCH_DOMAINS["retiring_adults"]), canonical("retiring_adults")[0])
    assert sizes(other) == pytest.approx([480, 120, 480, 120], abs=3)


#: The domains that each dataset must have.
RLSBENCH_DOMAINS = {
    name: list(dict.fromkeys([*halves.source, *(domain for target in halves.targets for domain in target)]))
    for name, halves in RLSBENCH.items()
}


def test_the_validation_pictures_of_imagenet_select_and_do_nothing_else():
    def lists(domain: str, label: int, number: int) -> dict[str, int]:
        return {"val" if number < 10 else "train": number} if domain.startswith("imagenet_") else {}

    known = rows(RLSBENCH_DOMAINS["entity13"], lists=lists)
    task = sd.task(known, "label-shift", rlsbench="entity13", target="imagenet_2", alpha=None)
    assert set(column(task, "source_test", "key")) == {
        f"imagenet_1-{k}-{n:04}" for k in range(3) for n in range(10)
    }
    numbers = {
        int(key.rpartition("-")[2])
        for name in HALVES
        if name != "source_test"
        for key in column(task, name, "key")
    }
    assert min(numbers) == 10
    assert sizes(task) == pytest.approx([0.8 * 570, 30, 0.8 * 570, 0.2 * 570], abs=12)


@pytest.mark.parametrize("target", ["train", "val"])
def test_balanced_halves_have_as_many_rows_of_each_label(target):
    known = rows(RLSBENCH_DOMAINS["civilcomments"], n_labels=2)
    task = sd.task(known, "label-shift", rlsbench="civilcomments", target=target, alpha=None, seed=1)
    for name in HALVES:
        assert len(set(Counter(column(task, name, "label")).values())) == 1, name
        assert labels(task, name) == {0, 1}
    assert sum(sizes(task)) == pytest.approx({"train": 200, "val": 360}[target], abs=8)


def test_origins_of_both_sides_are_cut_apart():
    """Patients come back in later years."""
    known = rows(RLSBENCH_DOMAINS["mimic_readmission"], n_labels=2, origin="patient {label} {number}")
    for protocol in sd.rlsbench("mimic_readmission", alphas=[None]):
        assert sd.task(known, protocol, on_empty="report").report().leaks == 0


def split(y: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each label a share, and the rest: what the released code does."""
    state = np.random.RandomState(seed)
    chosen, rest = [], []
    for label in np.unique(y):
        mine = np.flatnonzero(y == label)
        drawn = state.choice(mine, int(share * len(mine)), replace=False)
        chosen.append(drawn)
        rest.append(np.setdiff1d(mine, drawn))
    return np.concatenate(chosen), np.concatenate(rest)


def order_of(domain: str, label: int, number: int) -> dict[str, int]:
    """Neither the order of names nor that of keys."""
    return {"files": (number * 7 + label * 3) % 100 * 3 + label}


def in_order(known: sd.Metadata, domain: str) -> tuple[np.ndarray, np.ndarray]:
    """The keys and labels of a domain as the code would list them."""
    mine = [row for row in known.table.to_pylist() if known.nuisances[row["a"]] == domain]
    mine.sort(key=lambda row: json.loads(row["params"])["lists"]["files"])
    return np.array([row["key"] for row in mine]), np.array([row["label"] for row in mine])


@pytest.mark.parametrize("seed", [42, 1234])
def test_by_the_files_halves_are_those_of_the_released_code(seed):
    known = rows(["train", "validation", "test"], each=30, lists=order_of)
    keys, y = in_order(known, "train")
    first, rest = split(y, 0.8, seed)
    fit, select = split(y[first], 0.8, seed)
    adapt, test = split(y[rest], 0.8, seed)
    task = sd.task(known, "label-shift@files", rlsbench="visda", target="train", alpha=None, seed=seed)
    expected = (first[fit], first[select], rest[adapt], rest[test])
    for name, mine in zip(HALVES, expected, strict=True):
        assert set(column(task, name, "key")) == set(keys[mine].tolist()), name
    other = sd.task(known, "label-shift@files", rlsbench="visda", target="test", alpha=None, seed=seed)
    assert column(other, "source_train", "key") == column(task, "source_train", "key")
    keys, y = in_order(known, "test")
    adapt, test = split(y, 0.8, seed)
    assert set(column(other, "target_test", "key")) == set(keys[test].tolist())


def test_by_the_files_labels_are_balanced_before_the_cut():
    known = rows(RLSBENCH_DOMAINS["civilcomments"], each=20, n_labels=2, lists=order_of)
    task = sd.task(known, "label-shift@files", rlsbench="civilcomments", target="val", alpha=None, seed=42)
    keys, y = in_order(known, "val")
    state = np.random.RandomState(42)
    drawn_rows = np.concatenate(
        [state.choice(np.flatnonzero(y == label), 20, replace=False) for label in (0, 1)]
    )
    expected = [set(keys[drawn_rows[part]].tolist()) for part in split(y[drawn_rows], 0.8, 42)]
    assert [set(column(task, name, "key")) for name in HALVES[2:]] == expected


def test_by_the_files_validation_pictures_are_not_drawn():
    def lists(domain: str, label: int, number: int) -> dict[str, int]:
        return order_of(domain, label, number) | ({"val": number} if number % 5 == 0 else {})

    known = rows(RLSBENCH_DOMAINS["entity13"], each=20, lists=lists)
    task = sd.task(known, "label-shift@files", rlsbench="entity13", target="imagenet_2", alpha=None, seed=42)
    expected = {}
    for domain in ("imagenet_1", "imagenet_2"):
        keys, y = in_order(known, domain)
        trains = np.array([int(key[-4:]) % 5 > 0 for key in keys])
        expected[domain] = [set(keys[trains][part].tolist()) for part in split(y[trains], 0.8, 42)]
    assert set(column(task, "source_train", "key")) == expected["imagenet_1"][0]
    assert [set(column(task, name, "key")) for name in HALVES[2:]] == expected["imagenet_2"]


def test_corruptions_of_the_same_pictures_are_no_reason_to_halve_a_target():
    known = rows(RLSBENCH_DOMAINS["cifar10"], each=20)
    table = known.table.to_pylist()
    shared = [
        {
            "key": row["key"],
            "y": str(row["label"]),
            "a": known.nuisances[row["a"]],
            "origin": f"{'train' if known.nuisances[row['a']] == 'train' else 'test'} {row['key'][-6:]}",
        }
        for row in table
    ]
    again = sd.metadata_from_table(pa.Table.from_pylist(shared), label="y", nuisance="a", origin="origin")
    task = sd.task(again, "label-shift", rlsbench="cifar10", target="frost_4", alpha=None)
    assert sizes(task) == pytest.approx([96, 24, 96, 24], abs=2)


def test_by_the_files_two_lists_are_the_halves_of_cifar10_2():
    def lists(domain: str, label: int, number: int) -> dict[str, int]:
        return order_of(domain, label, number) | ({"test" if number < 5 else "train": number})

    known = rows([*RLSBENCH_DOMAINS["cifar10"], "cifar10_2"], each=20, lists=lists)
    task = sd.task(known, "label-shift@files", rlsbench="cifar10", target="cifar10_2", alpha=None)
    assert {int(key[-4:]) for key in column(task, "target_test", "key")} == set(range(5))
    assert len(task.sets["target_train"]) == 120 - 15


def test_by_the_files_patches_of_one_slide_leak_with_a_warning():
    def lists(domain: str, label: int, number: int) -> dict[str, int]:
        return order_of(domain, label, number) | ({"id_val": number} if number % 10 == 0 else {})

    known = rows(RLSBENCH_DOMAINS["camelyon17"], each=30, n_labels=2, lists=lists, origin="slide {number}")
    with pytest.warns(LeakWarning):
        task = sd.task(known, "label-shift@files", rlsbench="camelyon17", target="center_1", alpha=None)
    assert all(int(key[-4:]) % 10 == 0 for key in column(task, "source_test", "key"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakWarning)
        sd.task(known, "label-shift", rlsbench="camelyon17", target="center_1", alpha=None)


@pytest.mark.parametrize("name", RLSBENCH)
def test_every_pair_makes_a_task_of_its_domains(name):
    known = rows(
        RLSBENCH_DOMAINS[name],
        each=20,
        lists=lambda domain, label, number: {"val" if number < 4 else "train": number},
    )
    for protocol in sd.rlsbench(name, seeds=[0]):
        task = sd.task(known, protocol, on_empty="report")
        assert kinds(task, "source_train") == set(RLSBENCH[name].source)
        assert kinds(task, "target_test") <= set(named(protocol.target))
        assert task.report().leaks == 0


def test_bad_input_says_what_to_do():
    known = rows(["train", "validation", "test"], each=5)
    for words, message in (
        ("label-shift rlsbench=cinic10 target=test", "rlsbench names one of its datasets"),
        ("label-shift rlsbench=visda source=train target=test", "give the target alone"),
        ("label-shift rlsbench=cifar10 target=train", "the source is not a target of its own; targets: test"),
        ("label-shift@files source=train target=test", "give rlsbench="),
    ):
        with pytest.raises(InputError, match=message):
            sd.task(known, f"{words} alpha=none")
