"""Ids and draws that hang on strings in the code: renaming one of those strings must not change them.

A recipe's id hashes the names of its steps' fields, a draw is keyed by the names given to `rng`, a task's id
by the names of its sets. `tests/golden/ids.tsv` has them; `python scripts/regenerate_goldens.py` writes it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import shiftdata as sd
from builders.recipe_files import embedded_recipes, load_recipe
from shiftdata.evaluation.metrics import bootstrap_rows
from shiftdata.evaluation.sampling import SAMPLERS, make_sampler
from shiftdata.stable import content_hash
from tests.evaluation.protocols.made import metadata
from tests.evaluation.protocols.test_every import CASES, NICO

GOLDEN = Path(__file__).parent / "golden" / "ids.tsv"


def lines() -> list[str]:
    """One line an id: kind, name, value."""
    return ["\t".join(line) for line in [*_recipes(), *_tasks(), *_draws(), *_intervals()]]


def _recipes() -> Iterator[tuple[str, str, str]]:
    for name in embedded_recipes():
        recipe = load_recipe(name)
        yield "recipe", name, recipe.recipe_id()
        yield "pixels", name, recipe.pixels_id()


def _tasks() -> Iterator[tuple[str, str, str]]:
    for shared in (True, False):
        rows = metadata(6, NICO, 20, shared=shared)
        for name, params in CASES.items():
            for seed in (0, 5):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    task = sd.task(rows, name.strip(), on_empty="report", **{**params, "seed": seed})
                yield "task", f"{name.strip()} {params} {seed=} {shared=}", task.content_id()


def _draws() -> Iterator[tuple[str, str, str]]:
    ids = np.random.default_rng(0).integers(4, size=(2, 200))
    for name in SAMPLERS:
        size = {"batch_size": 8} if name == "per-domain" else {}
        pseudo = {"pseudo_labels": ids[1]} if name == "pseudo-balanced" else {}
        sampler = make_sampler(
            name, labels=ids[0], groups=4 * ids[0] + ids[1], nuisances=ids[1], seed=3, names=("golden", "x"),
            **pseudo, **size,
        )  # fmt: skip
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            yield "sampler", f"{name} epoch {epoch}", content_hash(str(list(sampler)))


def _intervals() -> Iterator[tuple[str, str, str]]:
    labels, first = np.random.default_rng(1).integers(3, size=(3, 90))[:2]
    right = labels == first
    yield "interval", "bootstrap_rows", str(bootstrap_rows(lambda rows: float(right[rows].mean()), 90))
