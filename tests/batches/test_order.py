"""Which examples make which batch, on which rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.loading.batches.order import Order, place_in_world
from shiftdata.sampling import make_sampler


def orders(sampler, batch_size, world, **options):
    return [Order(sampler, batch_size, rank=rank, world=world, **options) for rank in range(world)]


@given(st.integers(1, 200), st.integers(1, 17), st.integers(1, 9), st.integers(0, 5))
def test_ranks_share_the_order_evenly(examples, batch_size, world, epoch):
    sampler = make_sampler("shuffle", labels=np.zeros(examples, int), seed=3)
    each = [order.of(epoch) for order in orders(sampler, batch_size, world)]
    assert len({len(batches) for batches in each}) == 1
    assert len({tuple(map(len, batches)) for batches in each}) == 1
    shares = np.stack([np.concatenate(batches) for batches in each])
    mixed = shares.T.ravel()  # ranks take turns
    np.testing.assert_array_equal(mixed[:examples], sampler.rows_of(epoch))
    np.testing.assert_array_equal(mixed[examples:], np.resize(sampler.rows_of(epoch), len(mixed))[examples:])
    assert len(mixed) - examples < world


@given(st.integers(1, 200), st.integers(1, 17), st.integers(1, 9))
def test_drop_last_repeats_nothing_and_fills_every_batch(examples, batch_size, world):
    sampler = make_sampler("shuffle", labels=np.zeros(examples, int))
    if examples // world < batch_size:
        with pytest.raises(InputError, match="has no batch"):
            Order(sampler, batch_size, world=world, drop_last=True)
        return
    made = [batch for order in orders(sampler, batch_size, world, drop_last=True) for batch in order.of(0)]
    rows = np.concatenate(made)
    assert {len(batch) for batch in made} == {batch_size}
    assert len(np.unique(rows)) == len(rows) == world * batch_size * (examples // world // batch_size)


def test_batches_of_a_sampler_stay_whole_on_every_rank():
    groups = np.repeat(np.arange(6), 20)
    sampler = make_sampler("n-groups", groups=groups, batch_size=8, n_groups_per_batch=2)
    each = [order.of(1) for order in orders(sampler, 8, 4)]
    assert [len(batches) for batches in each] == [4] * 4  # 15 batches: the first comes again
    whole = list(sampler.items_of(1))
    assert [each[number % 4][number // 4].tolist() for number in range(15)] == whole
    assert each[3][3].tolist() == whole[0]


def test_the_key_says_what_the_order_depends_on():
    def key(rule="shuffle", batch_size=4, **options):
        sampler = make_sampler(rule, labels=[0, 1] * 10, seed=options.pop("seed", 0))
        return Order(sampler, batch_size, **options).key

    assert key() == key() == key(rank=1, world=1)
    others = [key("rwy"), key(batch_size=5), key(seed=1), key(drop_last=True), key(world=2)]
    assert len({key(), *others}) == 6
    assert Order(np.arange(4), 2).key != Order(np.arange(4)[::-1], 2).key


def test_a_sampler_of_batches_is_refused():
    with pytest.raises(InputError, match="leave out its batch_size"):
        Order(make_sampler("shuffle", labels=[0, 1], batch_size=2), 2)


@pytest.mark.parametrize("given", [(0, None), (None, 2), (2, 2), (-1, 2)])
def test_rank_and_world_go_together(given):
    with pytest.raises(InputError, match="rank and world together"):
        place_in_world(*given)


def test_alone_without_torch_distributed():
    assert place_in_world(None, None) == (0, 1)
    assert place_in_world(1, 3) == (1, 3)
