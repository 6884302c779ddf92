"""Scenes: each is drawn, the same again; the object stays in sight; the knob turns evenly."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from PIL import Image

from builders.albums.glyphs import LETTERS, GlyphAlbum
from builders.sample import Sample
from builders.shifts.contexts import scene as compose
from builders.shifts.contexts.domains import COMMON, DOMAINS, KINDS, UNIQUE, unique_of
from builders.shifts.contexts.scene import PLAIN, Make, Stage, in_context
from builders.shifts.contexts.scenery import tile
from builders.shifts.steps import Contexts
from shiftdata.stable import rng
from tests.thirds import a_third

ALBUM = GlyphAlbum(ink="drawn")
ITEMS = ALBUM.items()
SCENES = {f"{domain}/{make.__name__}": make for domain, makes in DOMAINS.items() for make in makes}


def stage(*names: str | int, size: int = 64, strength: float = 1.0) -> Stage:
    return Stage(size, rng("test", *names), strength)


def cutout(number: int) -> Image.Image:
    return ALBUM.load(ITEMS[number * 97 % len(ITEMS)])


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image, dtype=np.float64)


def drawn(number: int, make: Make, setting: Stage) -> tuple[np.ndarray, np.ndarray]:
    """A cut-out in a scene, and where it can be seen: where a black or a white one changes the picture."""
    scene, seed, cut = make(setting), setting.rng.bytes(8).hex(), cutout(number)

    def composed(picture: Image.Image) -> np.ndarray:
        again = Stage(setting.size, rng("test", seed), setting.strength)
        return pixels(in_context(picture, lambda _: scene, again))

    def coloured(tone: str, opacity: int) -> np.ndarray:
        silhouette = Image.new("RGB", cut.size, tone)
        silhouette.putalpha(cut.getchannel("A").point(lambda part: min(part, opacity)))
        return composed(silhouette)

    with mock.patch.object(compose, "_cast_shadow"):
        with mock.patch.object(compose, "_set_apart"):
            without = coloured("black", opacity=1)
            apart = [np.abs(coloured(tone, opacity=255) - without).max(axis=2) for tone in ("black", "white")]
        return composed(cut), np.maximum(*apart) > 12


@pytest.mark.parametrize("name", a_third(SCENES))
def test_a_scene_shows_the_object_and_it_does_not_sink_into_it(name):
    """Its pixels differ from the mean colour round it, over four objects."""
    apart = []
    for number in range(4):
        image, seen = drawn(number, SCENES[name], stage(name, number))
        assert 0.015 < seen.mean() < 1
        apart.append(np.abs(image[seen] - image[~seen].mean(axis=0)).mean())
    assert np.mean(apart) > 20


@pytest.mark.parametrize("domain", a_third(DOMAINS))
def test_the_knob_turns_evenly_from_the_bare_object_to_the_whole_context(domain):
    steps = (0.0, 0.25, 0.5, 0.75, 1.0)
    shown, distance = np.zeros(len(steps)), np.zeros(len(steps))
    for number in range(3):
        make = DOMAINS[domain][number % len(DOMAINS[domain])]
        bare = drawn(number, make, stage("knob", number, strength=0))[0]
        for step, strength in enumerate(steps):
            image, seen = drawn(number, make, stage("knob", number, strength=strength))
            shown[step] += seen.mean() / 3
            distance[step] += np.abs(image - bare).mean() / 3
    # Three quarters of the way over, an object may cover more of where it stood than it does at a half.
    assert (np.diff(distance) > (-2 if domain == "upside_down" else 0)).all()
    if domain in COMMON:
        assert (np.diff(shown) < 0).all()


def test_without_strength_every_domain_is_the_same_plain_picture():
    made = {in_context(cutout(5), make, stage(strength=0)).tobytes() for make in SCENES.values()}
    assert len(made) == 1
    assert tuple(made.pop()[:3]) == PLAIN


def test_the_table_gives_each_class_ten_unique_domains_two_of_each_kind():
    of = {label: unique_of(label) for label in LETTERS}
    assert all(len(set(names)) == 10 for names in of.values())
    assert len(set(of.values())) == 20
    kind_of = {make.__name__: kind for kind, makes in KINDS.items() for make in makes}
    for names in of.values():
        assert sorted(kind_of[name] for name in names) == sorted([*KINDS] * 2)
    used = [name for names in of.values() for name in names]
    assert set(used) == set(UNIQUE)
    assert all(5 <= used.count(name) <= 8 for name in UNIQUE)


def test_tiles_of_a_material_differ_and_repeat_without_a_seam():
    tiles = {tile(stage("tile", number), "turf").tobytes() for number in range(12)}
    assert len(tiles) > 2
    one = pixels(tile(stage("tile"), "snow"))
    assert (one[:, 255] == one[:, 256]).all()
    assert (one[0] == one[-1]).all()


def test_the_step_gives_each_content_the_domains_of_its_class():
    item = next(item for item in ITEMS if item.label == "B")
    step = Contexts(seed=0, dataset="d", size=64, strength=0.5)
    made = list(step(iter([Sample(item=item, key=item.key, example=ALBUM.load(item))])))
    assert [sample.nuisance for sample in made] == [*COMMON, *unique_of("B")]
    assert {sample.severity for sample in made} == set(step.severities) == {0.5}
    assert len({sample.key for sample in made}) == 20
    assert {sample.params["scene"] for sample in made[:10]} <= {name.split("/")[1] for name in SCENES}
    other = Contexts(seed=1, dataset="d", size=64, strength=0.5)
    assert step.fingerprint() != other.fingerprint()
    assert step.nuisances == tuple(DOMAINS)
