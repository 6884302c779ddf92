"""Every protocol: any order of rows, disjoint origins, filters, the registry."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.data.format.conditions import rows_matching
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.protocols import parse_protocol, protocol, protocols
from shiftdata.evaluation.tasks import LeakWarning
from tests.evaluation.protocols.made import NICO, metadata
from tests.properties import share

SHARED = metadata(6, NICO, 20)
WHOLE = metadata(6, NICO, 20, shared=False)
STEPPED = metadata(3, 3, 20, severities=(0.0, 1.0, 2.0))

CASES = {
    "group-fairness": {"k": 4, "mu": 0.2},
    "group-fairness@code": {"k": 4, "mu": 0.2},
    "group-fairness@code-binary": {"k": 4, "mu": 0.5},
    "uda": {"source": "rock", "target": "dim"},
    "uda@paired": {"source": "rock", "target": "dim"},
    "unida": {"source": "rock", "target": "dim", "shared": 2, "source_private": 2, "target_private": 1},
    "leave-one-domain-out": {"test": "rock"},
    "leave-one-group-out": {"group": 2, "groups": "nico++"},
    "classic-dg": {"split": 2},
    "domainbed": {"test": "rock"},
    "domainbed-v2": {"test": ("rock", "dim")},
    "oracle": {"test": ("rock", "dim")},
    "oracle*": {"test": "rock"},
    "flexible-dg": {"minor": 3, "test": 2, "per_domain": 4},
    "flexible-dg@compositional": {"minor": 3, "test": 2, "per_domain": 4},
    "label-shift": {"alpha": 3, "source": "rock", "target": "dim"},
    "label-shift@code": {"alpha": 3, "replacement": True},
}
#: Cut by fold, or kept by quantile: with seed 0 each set is a filter.
PURE = [name for name in CASES if not name.startswith(("flexible", "label-shift"))]
#: Whose seed draws classes and styles, and cuts nothing anew.
DRAWS_NAMES = [name for name in PURE if name.startswith("group-fairness")]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("seed", [0, 5])
def test_order_of_rows_never_matters_and_nothing_leaks(name, shared, seed):
    params = {**CASES[name], "seed": seed}
    first = sd.task(SHARED if shared else WHOLE, name, on_empty="report", **params)
    again = sd.task(metadata(6, NICO, 20, shared=shared, order=3), name, on_empty="report", **params)
    assert first.content_id() == again.content_id()
    assert first.report().leaks == 0
    assert all(len(rows) for rows in first.sets.values())
    assert [first.sets[first.set_of(role)].role for role in ("fit", "test")] == ["fit", "test"]
    assert first.history.metrics
    assert repr(first).startswith(f"<Task {first.describe()} of rows: ")
    if seed:
        assert (
            first.content_id() != sd.task(first.metadata, name, on_empty="report", **CASES[name]).content_id()
        )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rows", [SHARED, WHOLE], ids=["shared", "whole"])
@pytest.mark.parametrize("seed", [0, 5])
def test_filters_keep_the_same_rows_or_a_reason_is_given(name, rows, seed):
    result = sd.task(rows, name, on_empty="report", seed=seed, **CASES[name])
    for set_name, filters in result.filters().items():
        assert (filters is None) == bool(result.sets[set_name].reason)
        if filters is not None:
            remaining = rows_matching(rows.table, filters)["key"].to_pylist()
            assert remaining == rows.table["key"].take(result.sets[set_name].indices).to_pylist()
    pure = name in (DRAWS_NAMES if seed else PURE)
    assert pure <= all(filters is not None for filters in result.filters().values())


@share(0.5)
@given(st.sampled_from(PURE), st.sampled_from(["severity<=1", "severity==0", "severity==0,2"]))
def test_pure_filters_commute(name, condition):
    params = {"source": "kind0", "target": "kind2", "test": "kind1", "group": 1, "k": 2, "mu": 0.5}
    params |= {"groups": (("kind0",), ("kind1",)), "shared": 1, "source_private": 1, "target_private": 1}
    known = {protocol_of.id: protocol_of.parameters() for protocol_of in protocols()}[name.split("@")[0]]
    if name == "classic-dg":
        return
    protocol_of = protocol(name, **{param: value for param, value in params.items() if param in known})
    condition = parse_protocol(condition)
    left = sd.task(STEPPED, protocol_of & condition, on_empty="report")
    right = sd.task(STEPPED, condition & protocol_of, on_empty="report")
    assert left.content_id() == right.content_id()
    assert left.metadata is STEPPED
    for set_name, filters in left.filters().items():
        remaining = rows_matching(STEPPED.table, filters)["key"].to_pylist()
        assert remaining == STEPPED.table["key"].take(left.sets[set_name].indices).to_pylist()


@pytest.mark.parametrize("name", ["uda", "leave-one-domain-out", "domainbed", "domainbed-v2"])
def test_the_leaking_variant_warns_only_where_it_leaks(name):
    params = {"source": "rock", "target": "dim"} if name == "uda" else {"test": "rock"}
    with pytest.warns(LeakWarning, match="origins are on two sides"):
        leaking = sd.task(SHARED, f"{name}@paper", **params)
    assert leaking.report().leaks
    assert "leak" in str(leaking.report())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not sd.task(WHOLE, f"{name}@paper", on_empty="report", **params).report().leaks


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("group-fairnes", {}, "did you mean 'group-fairness'"),
        (
            "group-fairness",
            {"k": 2, "mo": 0.1},
            "unknown parameter of group-fairness 'mo'; did you mean 'mu'",
        ),
        ("group-fairness", {"k": 2}, "needs mu"),
        ("group-fairness@cod", {"k": 2, "mu": 0.1}, "did you mean 'code'"),
        ("group-fairness@2", {"k": 2, "mu": 0.1}, "has version 1 here, got 2"),
        ("group-fairness", {"k": 1, "mu": 0.1}, "k must be at least 2"),
        ("group-fairness", {"k": 2, "mu": float("nan")}, "mu must be above 0"),
        ("oracle@paper", {"test": "rock"}, "unknown parameter of oracle 'variant'"),
        ("group-fairness", {"k": "two", "mu": 0.1}, "cannot take"),
        ("group-fairness", {"k": 2, "mu": 1.5}, "at most 1"),
        ("group-fairness", {"k": 2, "mu": 0.1, "nu": (0.9, 0.2)}, "0 < low <= high <= 1"),
        ("uda", {"source": "rock", "target": "rock"}, "two nuisances"),
        ("uda", {}, "uda needs source, target"),
        ("label-shift", {"alpha": 0}, "alpha is above 0"),
        ("label-shift", {"alpha": 1, "source": "rock"}, "give source= and target=, "),
        ("classic-dg", {"split": 4}, "split is 1, 2 or 3"),
        ("leave-one-group-out", {"group": 1, "groups": "nico"}, "did you mean 'nico\\+\\+'"),
        ("oracle*", {"test": ("a", "b")}, "the name of one domain"),
        ("flexible-dg", {"dominant": 0}, "at least 1"),
    ],
)
def test_bad_parameters_are_answered(name, params, message):
    with pytest.raises(InputError, match=message):
        protocol(name, **params)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("group-fairness", {"k": 7, "mu": 0.1}, "k=7 needs as many labels, and training has 6"),
        ("uda", {"source": "rock", "target": "din"}, "unknown a 'din'; did you mean 'dim'"),
        ("unida", {"source": "rock", "target": "dim"}, "takes 10 shared, 5 and 5 private classes"),
        ("domainbed-v2", {"test": NICO}, "10 of the 10 domains"),
        ("flexible-dg", {}, "takes 2 dominant, 12 minor and 6 test"),
        ("continuous", {}, "has no severities"),
        ("leave-one-group-out", {"group": 1, "groups": "domainnet"}, "unknown a 'clipart'"),
    ],
)
def test_what_the_rows_cannot_give_is_answered(name, params, message):
    with pytest.raises(InputError, match=message):
        sd.task(SHARED, name, **params)


def test_protocols_are_listed_with_parameters_and_papers():
    listed = {each.id: each for each in protocols()}
    parameters = listed["group-fairness"].parameters()
    assert (parameters["k"], parameters["seed"], parameters["variant"]) == ("(required)", 0, "")
    assert all(each.paper and each.about for each in listed.values())
    with pytest.raises(NotFoundError, match="Known: classic-dg"):
        protocol("nothing")
