"""Settings of trials: keyed by names, inside their ranges, the same after a kill; TPE finds a maximum."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.baselines import METHODS, Hyper, Training, make_method
from shiftdata.bench.sweep import Search, applied, drawn, suggested
from shiftdata.errors import InputError, NotFoundError

RATE = Hyper(0.01, low=1e-4, high=1e-1, log=True)
SPACE = {"learning_rate": RATE, "up": Hyper(20, choices=(4, 20, 50)), "eta": Hyper(0.1, low=0, high=1)}


@given(st.integers(0, 5), st.integers(1, 500))
def test_a_number_depends_on_its_own_name_alone(seed, trial):
    whole = drawn(SPACE, seed, "jtt", trial)
    assert drawn({"eta": SPACE["eta"]}, seed, "jtt", trial) == {"eta": whole["eta"]}
    assert 1e-4 <= whole["learning_rate"] <= 1e-1
    assert whole["up"] in (4, 20, 50)
    assert drawn(SPACE, seed, "erm", trial) != whole


def test_draws_fill_their_ranges_evenly_on_their_scale():
    made = [drawn(SPACE, 0, "jtt", trial) for trial in range(1, 2001)]
    logs = [math.log10(settings["learning_rate"]) for settings in made]
    assert sum(logs) / len(logs) == pytest.approx(-2.5, abs=0.05)
    assert sum(settings["eta"] for settings in made) / len(made) == pytest.approx(0.5, abs=0.02)
    assert [
        sum(settings["up"] == value for settings in made) / len(made) for value in (4, 20, 50)
    ] == pytest.approx([1 / 3] * 3, abs=0.04)


def test_tpe_is_a_function_of_the_past_and_finds_a_maximum():
    space = {"learning_rate": RATE}
    past: list[tuple[dict[str, float], float]] = []
    for _ in range(25):
        settings = suggested(space, 0, ("study", "erm"), past)
        assert settings == suggested(space, 0, ("study", "erm"), list(past))
        at = settings.get("learning_rate", 0.01)
        past.append((settings, -abs(math.log10(at) + 3.2)))
    late = [settings for settings, _ in past[15:]]
    random = [drawn(space, 0, "erm", trial) for trial in range(15, 25)]
    off = [
        sum(abs(math.log10(settings["learning_rate"]) + 3.2) for settings in some) for some in (late, random)
    ]
    assert off[0] < 0.6 * off[1]


def test_tpe_goes_on_over_trials_that_failed():
    past = [(drawn(SPACE, 0, "jtt", trial), math.nan if trial % 2 else 0.5) for trial in range(8)]
    made = suggested(SPACE, 0, ("study", "jtt"), past)
    assert set(made) == set(SPACE)


@pytest.mark.parametrize("name", METHODS)
def test_every_range_gives_numbers_that_the_method_takes(name):
    search = Search(kind="random", trials=3)
    for trial in range(1, 6):
        settings = drawn(search.space_of(name), 0, name, trial)
        make_method(name, **settings)


def test_wrappers_bring_their_numbers():
    assert {"trade_off"} <= Search().space_of("rs+rw+dann").keys()
    assert Search().space_of("dann").keys() <= Search().space_of("rw+dann").keys()


def test_settings_of_the_training_and_of_the_method_are_told_apart():
    training, own = applied(Training(), {"batch": 15.7, "learning_rate": 0.5, "eta": 0.2, "up": 4})
    assert (training.batch, training.learning_rate) == (16, 0.5)
    assert own == (("eta", 0.2), ("up", 4))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"kind": "random", "trials": 0}, "1 or more"),
        ({"trials": 3}, "one trial"),
        ({"kind": "tpe", "trials": 3, "rule": "last"}, "needs a score"),
    ],
)
def test_bad_searches_are_refused(given, why):
    with pytest.raises((InputError, NotFoundError), match=why):
        Search(**given)
