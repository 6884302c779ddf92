from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.stable import content_hash, hash64, ranks, rng, uniform

names = st.text(max_size=8)


def test_values_are_fixed_for_ever():
    # Every published fold, quantile and draw rests on these; a change here breaks them all.
    assert hash64("sma_glyphs", "fold", "bird/dove") == 8753232572237993745
    assert uniform("group-fairness@1", 0, "nu", "bird") == 0.6578731100175768
    assert ranks(list("abcdef"), "salt").tolist() == [4, 2, 0, 5, 1, 3]
    assert content_hash("a", b"b") == "facdde7abf1eac5b301273ab2e282f79bab0100f058833a7b8bdf9f80741e149"


def test_equal_in_a_process_with_another_hash_seed():
    code = "from shiftdata.stable import hash64; print(hash64('a', 1))"
    seeds = ("1", "2")
    outputs = {
        subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}) for seed in seeds
    }
    assert outputs == {f"{hash64('a', 1)}\n".encode()}


@given(st.lists(names, min_size=1, max_size=4), st.lists(names, min_size=1, max_size=4))
def test_other_names_give_another_hash(first, second):
    assert (hash64(*first) == hash64(*second)) == (first == second)
    assert (content_hash(*first) == content_hash(*second)) == (first == second)


@given(st.lists(names))
def test_uniform_is_in_the_unit_interval(parts):
    assert 0 <= uniform(*parts) < 1


@given(st.lists(names, unique=True), st.randoms())
def test_ranks_do_not_depend_on_the_order_of_names(given_names, random):
    shuffled = random.sample(given_names, len(given_names))
    rank_of = dict(zip(given_names, ranks(given_names, "x").tolist(), strict=True))
    assert [rank_of[name] for name in shuffled] == ranks(shuffled, "x").tolist()
    assert sorted(rank_of.values()) == list(range(len(given_names)))


def test_rng_is_keyed_by_names():
    first, again, other = rng(0, "d", "step", "k"), rng(0, "d", "step", "k"), rng(0, "d", "step", "l")
    draws = first.integers(1000, size=5)
    assert np.array_equal(draws, again.integers(1000, size=5))
    assert not np.array_equal(draws, other.integers(1000, size=5))
