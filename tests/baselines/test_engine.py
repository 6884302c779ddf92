"""The engine: rates, schedules, precision, frozen norms, whole batches, streams that go on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from shiftdata.baselines import Training, make_method
from shiftdata.baselines.method import Stage
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.training import optimizer_of
from shiftdata.errors import InputError
from tests.baselines.problems import same, trainer_of, weights_of


@pytest.mark.parametrize(("batch", "steps"), [(30, 2), (32, 2), (59, 2), (60, 1)])
def test_a_pass_over_the_target_leaves_no_row_out(data, batch, steps):
    trainer = trainer_of(make_method("bn-adapt"), data, backbone="mlp-bn", batch=batch)
    assert trainer.steps_of(Stage("adapt", passes=1)) == steps  # of 60 rows
    assert trainer.steps_of(Stage("first", share=0.19)) == 4  # 3.8 of 20


def test_each_part_of_a_run_has_a_seed_of_its_own_and_of_the_run(data):
    def seeds(seed):
        seen = []

        class Seen(ERM):
            def setup(self, network, data):
                super().setup(network, data)
                seen.append(torch.initial_seed())

            def stages(self):
                return [Stage("first", share=0.1), Stage("second", share=0.1)]

            def begin(self, stage, trainer):
                seen.append(torch.initial_seed())

            def after_step(self, batch):
                seen.append(torch.initial_seed())

            def finish(self, trainer):
                seen.append(torch.initial_seed())

        trainer_of(Seen(), data, seed=seed).run()
        return seen

    first, again, other = seeds(0), seeds(0), seeds(1)
    assert first == again
    assert len(first) == len(other) == 1 + 2 + 4 + 1
    assert len({*first, *other}) == 16


def test_a_target_without_rows_is_a_reason_for_methods_that_read_it_alone(data):
    empty = replace(data, target=data.target[:0])
    trainer_of(make_method("erm"), empty, steps=1).run()
    with pytest.raises(InputError, match="reads unlabelled rows, and the set has none"):
        trainer_of(make_method("dann"), empty, steps=1)


def test_frozen_norms_keep_their_statistics_and_train_their_weights(data):
    trainer = trainer_of(make_method("erm"), data, backbone="mlp-bn", frozen_norm=True)
    norm = trainer.network.encoder[1]
    trainer.run()
    assert torch.equal(norm.running_mean, torch.zeros_like(norm.running_mean))
    assert not torch.equal(norm.weight, torch.ones_like(norm.weight))
    free = trainer_of(make_method("erm"), data, backbone="mlp-bn")
    free.run()
    assert not torch.equal(free.network.encoder[1].running_mean, norm.running_mean)


def test_one_row_has_no_batch_statistics(data):
    with pytest.raises(InputError, match="a batch of one row: take a larger batch"):
        trainer_of(make_method("erm"), data, backbone="mlp-bn", batch=1).run()
    trainer_of(make_method("erm"), data, backbone="mlp-bn", batch=1, frozen_norm=True).run()
    trainer_of(make_method("erm"), data, batch=1).run()


def test_the_encoder_may_have_a_rate_of_its_own(data):
    still = trainer_of(make_method("erm"), data, encoder_rate=0.0, weight_decay=0.0)
    before = weights_of(still)
    still.run()
    after = weights_of(still)
    names = list(still.network.state_dict())
    for name, *pair in zip(names, before, after, strict=True):
        assert torch.equal(*pair) == name.startswith("encoder")


def test_the_seed_and_the_order_of_evaluations_decide_nothing_else(data):
    first = trainer_of(make_method("erm"), data)
    second = trainer_of(make_method("erm"), data, evaluate_every=3)
    torch.manual_seed(5)
    first.run()
    torch.manual_seed(6)
    second.run()
    assert same(first, second)
    assert [entry["step"] for entry in second.progress.history] == [3, 6, 9, 12, 15, 18, 20]


def test_evaluations_need_a_set_to_select_by(data):
    alone = replace(data, select=data.select[:0], select_y=data.select_y[:0])
    with pytest.raises(InputError, match="needs a set with the role 'select'"):
        trainer_of(make_method("erm"), alone, evaluate_every=3).run()


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_optimisers_have_all_their_settings(optimizer):
    given = Training(optimizer=optimizer, learning_rate=0.1, weight_decay=0.2, momentum=0.3)
    built = optimizer_of([{"params": [torch.zeros(1, requires_grad=True)], "lr": 0.1}], given)
    assert type(built).__name__.lower() == optimizer
    (group,) = built.param_groups
    assert (group["lr"], group["weight_decay"], group.get("momentum", 0.3)) == (0.1, 0.2, 0.3)


@pytest.mark.parametrize(
    "given", [{"steps": 0}, {"batch": -1}, {"learning_rate": -1}, {"threads": 0}, {"schedule": "cosin"}]
)
def test_settings_out_of_range_are_refused(given):
    with pytest.raises(InputError):
        Training(**given)
