from __future__ import annotations

import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.sampling import (
    SAMPLERS,
    Batches,
    CellBatches,
    Ranks,
    cells_of,
    dirichlet_marginal,
    make_sampler,
)
from shiftdata.evaluation.sampling.batches import STRETCH
from shiftdata.evaluation.sampling.rows import largest_counts

#: 2 labels x 3 nuisances, group = label * 3 + nuisance, all sizes different.
SIZES = [40, 6, 3, 5, 30, 12]
GROUPS = np.repeat(np.arange(6), SIZES)
LABELS = GROUPS // 3
NUISANCES = GROUPS % 3
N = len(GROUPS)
#: Numbers that some rule needs, each for every row.
CODES = {"labels": LABELS, "groups": GROUPS, "nuisances": NUISANCES}

#: What the rows 0, 0, 0, 1, 1, 2 are drawn as.
PINNED = [
    ({"name": "shuffle"}, [0, 3, 5, 1, 2, 4]),
    ({"name": "suby"}, [1, 5, 4]),
    ({"name": "rwy"}, [5, 0, 1, 5, 4, 5]),
    ({"name": "per-domain", "batch_size": 3}, [[2, 4, 5], [1, 3, 5]]),
]

#: What each rule needs beside labels, groups and a seed.
EXTRA = {
    "per-domain": {"batch_size": 12},
    "pseudo-balanced": {"pseudo_labels": LABELS},
}

sizes = st.lists(st.integers(1, 30), min_size=1, max_size=12)


def sampler_of(name, **options):
    return make_sampler(name, **{**CODES, "seed": 0, **EXTRA.get(name, {}), **options})


def flat(items):
    """Rows, whether one by one or in batches."""
    return np.concatenate([np.atleast_1d(item) for item in items])


def ways(name, **options):
    """A rule's sampler of rows, if it makes one, and its sampler of batches."""
    batched = sampler_of(name, **{"batch_size": 8, **EXTRA.get(name, {}), **options})
    return [batched] if isinstance(batched, CellBatches) else [sampler_of(name, **options), batched]


def epochs_of(loader, count):
    return [[batch.tolist() for (batch,) in loader] for _ in range(count)]


# --- what every sampler promises ------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLERS)
def test_an_epoch_is_a_function_of_seed_names_and_epoch(name):
    sampler, other = sampler_of(name), sampler_of(name)
    first, second = list(sampler), list(sampler)
    assert first != second
    assert [list(other), list(other)] == [first, second]
    assert [list(sampler.items_of(epoch)) for epoch in (1, 0)] == [second, first]  # which changes nothing
    sampler.set_epoch(3)
    third = list(sampler)
    assert third != first
    for epoch in (1, 2):  # what came before does not matter
        other.set_epoch(epoch)
        list(islice(other, 2))
    assert list(other) == third
    sampler.set_epoch(0)
    assert list(sampler) == first
    assert list(sampler_of(name, seed=1)) != first
    assert list(sampler_of(name, names=("sma_brd", "gf_k8_mu10"))) != first


@pytest.mark.parametrize("name", SAMPLERS)
def test_items_are_python_numbers_of_rows_and_as_many_as_len(name):
    for sampler in ways(name):
        items = list(sampler)
        assert len(items) == len(sampler)  # of the next epoch too
        assert {type(row) for item in items for row in (item if isinstance(item, list) else [item])} == {int}
        assert set(flat(sampler).tolist()) <= set(range(N))


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("batch_size", [None, 12])
def test_resuming_yields_the_rest(name, batch_size):
    options = {} if batch_size is None else {"batch_size": batch_size}
    whole = sampler_of(name, **options)
    whole.set_epoch(2)
    items = list(whole)
    whole.set_epoch(2, start=2)
    state = json.loads(json.dumps(whole.state))
    again = sampler_of(name, **options)
    again.restore(state)
    assert len(again) == len(items) - 2
    assert list(again) == items[2:]
    assert len(json.dumps(state)) < 100
    with pytest.raises(InputError, match="is not of this sampler"):
        sampler_of(name, seed=5, **options).restore(state)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_torch_loader_takes_them_and_each_epoch_is_drawn_anew(name, workers):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.arange(N))
    how = {"num_workers": workers, "persistent_workers": workers > 0}
    *by_rows, batched = ways(name)
    expected = [list(batched.items_of(epoch)) for epoch in range(3)]
    assert expected[0] != expected[1] != expected[2]
    loaders = [DataLoader(data, batch_sampler=batched, **how)]
    loaders += [DataLoader(data, sampler=rows, batch_size=8, **how) for rows in by_rows]
    for loader in loaders:
        assert epochs_of(loader, 3) == expected
        assert len(loader) == len(expected[0])


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_an_epoch_left_early_is_not_drawn_again_and_any_epoch_resumes(batched, workers):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.arange(N))

    def made():
        sampler = sampler_of("rwg", **({"batch_size": 8} if batched else {}))
        chosen = {"batch_sampler": sampler} if batched else {"sampler": sampler, "batch_size": 8}
        return sampler, DataLoader(data, num_workers=workers, **chosen)

    _, whole = made()
    epochs = epochs_of(whole, 4)
    sampler, loader = made()
    assert epochs_of(loader, 1) == epochs[:1]
    iteration = iter(loader)
    seen = [next(iteration)[0].tolist() for _ in range(5)]
    assert seen == epochs[1][:5]
    state = json.loads(json.dumps(sampler.state))  # workers have drawn ahead, which it does not show
    assert (state["epoch"], state["start"]) == (1, 0)
    del iteration
    assert epochs_of(loader, 1) == epochs[2:3]
    assert sampler.state["epoch"] == 2  # the epoch that ended
    again, loader = made()
    again.restore(state)
    assert epochs_of(loader, 2) == epochs[1:3]
    again, loader = made()
    again.set_epoch(state["epoch"], state["start"] + (5 if batched else 40))
    assert len(loader) == len(epochs[1]) - 5
    assert epochs_of(loader, 2) == [epochs[1][5:], epochs[2]]
    assert len(loader) == len(epochs[1])


# --- ranks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLERS)
def test_ranks_share_an_epoch_evenly_and_redraw_alike(name):
    for whole, *ranks in zip(ways(name), *(ways(name, rank=rank, world=5) for rank in range(5)), strict=True):
        for epoch in range(2):
            items = [np.atleast_2d(np.array(list(each.items_of(epoch)), object)) for each in ranks]
            assert len({each.size for each in items}) == 1
            rows = [flat(list(each)) for each in ranks]  # the next epoch of each, without a word
            assert [flat(list(each.items_of(epoch))).tolist() for each in ranks] == [r.tolist() for r in rows]
            assert len({len(each) for each in rows}) == 1
            if not isinstance(whole, CellBatches):
                order = (whole.sampler if isinstance(whole, Batches) else whole).rows_of(epoch)
                mixed = np.stack(rows).T.ravel()
                assert mixed.tolist() == np.resize(order, len(mixed)).tolist()
                assert 0 <= len(mixed) - len(order) < 5


@given(st.integers(1, 200), st.integers(1, 17), st.integers(1, 9))
def test_drop_last_repeats_nothing_and_fills_every_batch(rows, batch_size, world):
    options = {"labels": np.zeros(rows, int), "batch_size": batch_size, "drop_last": True, "world": world}
    if rows // world < batch_size:
        with pytest.raises(InputError, match="drop_last leaves none"):
            make_sampler("shuffle", rank=0, **options)
        return
    batches = [batch for rank in range(world) for batch in make_sampler("shuffle", rank=rank, **options)]
    assert {len(batch) for batch in batches} == {batch_size}
    assert len(np.unique(batches)) == world * batch_size * (rows // world // batch_size)


def test_a_state_is_of_one_world_and_any_rank():
    state = sampler_of("rwg", rank=0, world=2).state
    sampler_of("rwg", rank=1, world=2).restore(state)
    for other in ({}, {"rank": 0, "world": 3}, {"rank": 0, "world": 2, "drop_last": True}):
        with pytest.raises(InputError, match="is not of this sampler"):
            sampler_of("rwg", **other).restore(state)
    state = sampler_of("rwg").state
    for options in ({"name": "rwy"}, {"seed": 1}, {"names": ("a",)}):
        with pytest.raises(InputError, match="is not of this sampler"):
            sampler_of(**{"name": "rwg", **options}).restore(state)


def test_ranks_are_those_of_torch_distributed(monkeypatch):
    torch = pytest.importorskip("torch")

    assert Ranks.of() == Ranks(0, 1)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    assert Ranks.of() == Ranks(1, 3)
    assert list(sampler_of("rwg")) == list(sampler_of("rwg", rank=1, world=3))
    assert Ranks.of(0, 2) == Ranks(0, 2)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_place_outside_an_epoch_is_refused(name):
    sampler = sampler_of(name)
    with pytest.raises(InputError, match="epoch must be at least 0"):
        sampler.set_epoch(-1)
    with pytest.raises(InputError, match=f"start must be between 0 and the {len(sampler)} items"):
        sampler.set_epoch(0, start=len(sampler) + 1)
    sampler.set_epoch(0, start=len(sampler))
    assert list(sampler) == []


@pytest.mark.parametrize(("options", "drawn"), PINNED)
def test_draws_do_not_change_between_versions(options, drawn):
    codes = [0, 0, 0, 1, 1, 2]
    assert list(make_sampler(labels=codes, groups=codes, nuisances=codes, seed=1, **options)) == drawn


# --- subsets --------------------------------------------------------------------------------------


def test_rows_that_are_chosen_once_depend_on_seed_and_names():
    def chosen(**given):
        return tuple(sorted(make_sampler("suby", labels=LABELS, **given)))

    every = [chosen(), chosen(seed=1), chosen(names=("a",)), chosen(names=("b",))]
    assert len(set(every)) == 4
    assert chosen() == every[0]


def test_each_row_of_a_group_is_as_likely_kept():
    times = Counter(row for seed in range(2000) for row in sampler_of("subg", seed=seed))
    for group, size in enumerate(SIZES):
        rows = np.flatnonzero(group == GROUPS)
        expected = 2000 * 3 / size
        spread = 5 * np.sqrt(2000 * 3 / size * (1 - 3 / size))
        assert all(abs(times[row] - expected) <= spread for row in rows.tolist())


# --- empty groups and labels ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in SAMPLERS if SAMPLERS[name].needs])
def test_an_empty_group_is_never_passed_over_in_silence(name):
    needs = SAMPLERS[name].needs
    by = needs.removeprefix("pseudo_")
    codes = np.where(GROUPS >= 2, GROUPS + 2, GROUPS)  # 2 and 3 are empty
    options = {f"{needs}s": codes}
    with pytest.raises(InputError, match=f"2 of 8 {by}s have no row: 2, 3. Pass on_empty='drop'"):
        sampler_of(name, **options)
    with pytest.raises(InputError, match=f"3 of 9 {by}s have no row: 2, 3, 8"):
        sampler_of(name, **options, ids=range(9))
    dropping = sampler_of(name, **options, on_empty="drop")
    assert set(codes[flat(dropping)].tolist()) <= {0, 1, 4, 5, 6, 7}
    named = {"ids": [0, 1, 5, 4, 6, 7]}
    assert list(sampler_of(name, **options, **named)) == list(dropping.items_of(0))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60))
def test_cells_hold_every_row_once(codes):
    cells = cells_of(codes, on_empty="drop")
    parts = np.split(cells.order, cells.starts[1:])
    assert sorted(cells.order.tolist()) == list(range(len(codes)))
    assert [part.tolist() for part in parts] == [
        np.flatnonzero(np.array(codes) == code).tolist() for code in cells.ids
    ]
    assert cells.ids.tolist() == sorted(set(codes))


@pytest.mark.parametrize("groups", [300, 70_000])
def test_more_groups_than_eight_or_sixteen_bits_number(groups):
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(groups), 2))
    cells = cells_of(codes)
    assert (np.diff(codes[cells.order]) >= 0).all()
    chosen = make_sampler("subg", groups=np.append(codes, 0))
    assert sorted(np.append(codes, 0)[chosen.rows].tolist()) == sorted(codes.tolist())


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("rwg", GROUPS),
        ("uniform-groups", GROUPS),
        ("rwy", LABELS),
        ("class-balanced", LABELS),
        ("pseudo-balanced", LABELS),
    ],
)
def test_reweighting_draws_each_row_as_its_weight_says(name, codes):
    # The weights of BalancingGroups, WILDS and RLSbench are all 1 / (rows of the group), up to a factor.
    torch = pytest.importorskip("torch")
    from scipy import stats

    sampler = sampler_of(name)
    assert len(sampler) == N
    counts = np.bincount(codes)
    drawn = np.bincount(np.concatenate([sampler.rows_of(epoch) for epoch in range(2000)]), minlength=N)
    expected = 2000 * N / (len(counts) * counts[codes])
    assert stats.chisquare(drawn, expected).pvalue > 1e-3
    of_torch = torch.utils.data.WeightedRandomSampler(
        (N / counts[codes]).tolist(), 2000 * N, generator=torch.Generator().manual_seed(0)
    )
    table = np.stack([drawn, np.bincount(list(of_torch), minlength=N)])
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_subsets_and_weights_are_those_of_an_independent_count():
    # As BalancingGroups counts: a row's weight is rows / (rows of its label or group); the smallest cell
    # decides how many are kept of each, in one pass over a permutation.
    pairs = list(zip(LABELS.tolist(), NUISANCES.tolist(), strict=True))
    for rule, subset, names in (("rwg", "subg", pairs), ("rwy", "suby", LABELS.tolist())):
        times = Counter(names)
        theirs = np.array([N / times[name] for name in names])
        ours = sampler_of(rule).weights
        assert ours == pytest.approx(theirs / theirs.mean())
        assert ours.mean() == pytest.approx(1)
        chosen = Counter(names[row] for row in sampler_of(subset))
        assert chosen == dict.fromkeys(times, min(times.values()))


def test_predicted_labels_come_equally_often():
    predicted = np.arange(N) % 3
    sampler = sampler_of("pseudo-balanced", pseudo_labels=predicted)
    drawn = np.concatenate([sampler.rows_of(epoch) for epoch in range(30)])
    assert np.abs(np.bincount(predicted[drawn]) - 10 * N).max() < 150


# --- batches --------------------------------------------------------------------------------------


@given(sizes, st.integers(1, 40), st.booleans())
def test_batches_are_the_rows_cut_in_order(sizes, batch_size, drop_last):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = list(make_sampler("shuffle", labels=labels))
    assert sorted(rows) == list(range(sum(sizes)))
    cut = [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
    full = [batch for batch in cut if len(batch) == batch_size]
    options = {"labels": labels, "batch_size": batch_size, "drop_last": drop_last}
    if drop_last and not full:
        with pytest.raises(InputError, match="drop_last leaves none"):
            make_sampler("shuffle", **options)
    else:
        assert list(make_sampler("shuffle", **options)) == (full if drop_last else cut)


def test_marginals_are_rescaled_and_code_counts_every_class():
    nearly = dirichlet_marginal([0.25, 0.7500005], None)
    assert nearly.tolist() == pytest.approx([0.25, 0.75], abs=1e-6)
    assert nearly.sum() == pytest.approx(1, abs=1e-12)
    for wrong in ([0.25, 0.7501], [0.5, 0.5, 0.5, -0.5], [0.5, 0.5, np.nan, 0]):
        with pytest.raises(InputError, match="at least 0 and sum to 1"):
            dirichlet_marginal(wrong, None)
    base = [0.5, 0.5, 0]  # RLSbench's K is the number of classes, those without a row too
    assert (dirichlet_marginal(base, 2.0, variant="code") == dirichlet_marginal(base, 6.0)).all()


def test_batches_of_domains_resume_in_any_stretch():
    batches = make_sampler("per-domain", nuisances=np.arange(10_000) % 6, batch_size=12)
    whole = list(batches)
    assert len(whole) == 833 > 3 * STRETCH
    for start in (0, 1, STRETCH - 1, STRETCH, STRETCH + 5, 800, 833):
        batches.set_epoch(0, start)
        assert list(batches) == whole[start:]


def test_per_domain_batches_have_each_domain_in_order():
    from scipy import stats

    batches = sampler_of("per-domain")
    assert len(batches) == 8
    rows = np.array([list(batches.items_of(epoch)) for epoch in range(250)]).reshape(2000, 3, 4)
    assert (NUISANCES[rows] == np.arange(3)[:, None]).all()
    sizes = np.bincount(NUISANCES)
    drawn = np.bincount(rows.ravel(), minlength=N)
    expected = 2000 * 4 / sizes[NUISANCES]
    assert stats.chisquare(drawn, expected).pvalue > 1e-3  # every row of a domain as often
    # With replacement within a step too, as torch's RandomSampler(replacement=True) draws for DomainBed.
    repeats = np.mean([len(set(step)) < 4 for step in rows[:, 0].tolist()])
    distinct = np.prod([1 - k / sizes[0] for k in range(4)])
    assert repeats == pytest.approx(1 - distinct, abs=0.04)
    assert len(sampler_of("per-domain", batch_size=6)) == N // 6
    for wrong in (8, 0):
        with pytest.raises(
            InputError, match=f"the domains that have rows, both at least 1; got {wrong} and 3"
        ):
            sampler_of("per-domain", batch_size=wrong)
    with pytest.raises(InputError, match="batch_size 99 is above the 96 rows"):
        sampler_of("per-domain", batch_size=99)
    with pytest.raises(InputError, match=r"give batch_size=\.\.\."):
        sampler_of("per-domain", batch_size=None)


# --- Dirichlet ------------------------------------------------------------------------------------

BASE = np.array([0.5, 0.3, 0.15, 0.05])


def test_exact_shares_lose_no_row_to_rounding_and_tiny_ones_keep_nothing():
    assert largest_counts(np.array([29, 71]), np.array([0.29, 0.71])).tolist() == [29, 71]
    assert largest_counts(np.array([2, 1]), np.array([1.0, 5e-324])).tolist() == [2, 0]


@pytest.mark.parametrize(("variant", "total"), [("paper", 1), ("code", 4)])
@pytest.mark.parametrize("alpha", [0.5, 3.0, 10.0])
def test_drawn_marginals_have_the_dirichlets_mean_and_spread(variant, total, alpha):
    # Mean p and variance p (1 - p) / (1 + sum of the parameters): alpha p (paper), alpha K p (code).
    drawn = np.array([dirichlet_marginal(BASE, alpha, variant=variant, seed=seed) for seed in range(3000)])
    variance = BASE * (1 - BASE) / (1 + alpha * total)
    assert np.abs(drawn.mean(axis=0) - BASE).max() < 4 * np.sqrt(variance.max() / 3000)
    assert np.allclose(drawn.var(axis=0), variance, rtol=0.15)
    assert np.allclose(drawn.sum(axis=1), 1)


# --- make_sampler ---------------------------------------------------------------------------------


def test_names_are_sorted_and_the_nearest_is_suggested():
    assert list(SAMPLERS) == sorted(SAMPLERS)
    with pytest.raises(NotFoundError, match="unknown sampler 'subgroup'; did you mean"):
        sampler_of("subgroup")


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_a_rule_needs_is_asked_for(name):
    needs = SAMPLERS[name].needs
    missing = dict.fromkeys(CODES) if needs is None else {f"{needs}s": None}
    with pytest.raises(InputError, match=f"the sampler '{name}' needs"):
        sampler_of(name, **missing)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("shuffle", {"labels": LABELS[1:]}, "one number for each row, got labels of shape .95,., groups of"),
        ("rwy", {"pseudo_labels": LABELS}, "takes no pseudo_labels: leave them out, or use pseudo-balanced"),
        (
            "subg",
            {"groups": [[0, 1]] * N, "labels": None, "nuisances": None},
            "groups: give 1 dimension, got shape",
        ),
        ("subg", {"groups": [], "labels": None, "nuisances": None}, "groups: empty; give at least one row"),
        ("subg", {"groups": GROUPS + 0.5}, "groups: 96 of 96 are not whole numbers"),
        ("suby", {"labels": ["a"] * N}, "labels: numbers are needed, got"),
        ("subg", {"groups": GROUPS - 1}, "groups: .* are negative"),
        ("subg", {"groups": GROUPS + 10**9}, "groups must be consecutive numbers"),
        ("subg", {"on_empty": "ignore"}, "on_empty must be 'error' or 'drop'"),
        ("rwg", {"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ("subg", {"ids": range(4)}, "some rows are of group 4, 5, not among the 4 of ids"),
        ("rwg", {"rank": 2, "world": 2}, "rank and world together"),
        ("rwg", {"rank": 0}, "rank and world together"),
    ],
)
def test_what_cannot_be_used_is_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        sampler_of(name, **options)
