"""Defaults and ranges of every method are facts of its sources: a change of one must be meant."""

from __future__ import annotations

from shiftdata.baselines.methods import METHODS, method_class
from tests.paths import ROOT

GOLDEN = ROOT / "tests/golden" / "hyper.tsv"


def lines() -> list[str]:
    """Every hyper-parameter in a line: what `scripts/regenerate_goldens.py` writes."""
    every = ["method\tname\tdefault\tlow\thigh\tlog\tchoices\tvariants"]
    for method in METHODS:
        kind = method_class(method)
        every.append(f"{method}\t(draws)\t{kind.sampler}")
        for name, hyper in sorted(kind.space().items()):
            numbers = (hyper.default, hyper.low, hyper.high, hyper.log, hyper.choices, hyper.variants)
            every.append("\t".join(map(str, (method, name, *numbers))))
    return every


def test_defaults_and_ranges_are_those_on_record():
    assert lines() == GOLDEN.read_text().splitlines()
