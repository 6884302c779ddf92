"""Texts that are no manifest; forged ones also go through every reader, in `test_datasets`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import IntegrityError, ShiftdataError
from tests.fuzz.mutations import DEEP, SEEDS, fuzzed, json_text, manifest_of, mutated, sealed
from tests.tiny import edit_manifest


@fuzzed(2)
@given(SEEDS)
def test_a_forged_manifest_is_one_or_our_error(tiny, seed):
    text = json_text(mutated(manifest_of(tiny), seed), seed)
    with suppress(ShiftdataError):
        Manifest.from_json(sealed(text))


def regressions() -> Iterator[tuple[str, Callable[[dict[str, Any]], object]]]:
    """Changes of a manifest that were once let through."""
    yield "a name that is a number", lambda raw: raw.update(name=7)
    yield "sizes as texts", lambda raw: raw["bases"][0]["splits"]["test"].update(rows="many")
    yield "no splits", lambda raw: raw["bases"][1].update(splits={})
    yield "a version that is a path", lambda raw: raw.update(version="../../x")
    yield "a base that is a path", lambda raw: raw["bases"][0].update(name="../../elsewhere")
    yield "an unknown field", lambda raw: raw.update(surprise=1)
    yield "half a surrogate pair", lambda raw: raw.update(title="\ud800")
    yield "not a number", lambda raw: raw.update(severities=[float("nan")])
    yield "nesting", lambda raw: raw.update(sample={"a": DEEP})
    yield (
        "a file named like a folder",
        lambda raw: raw["files"].update(data=next(iter(raw["files"].values()))),
    )


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in regressions()])
def test_regressions(change, tiny):
    raw = manifest_of(tiny)
    change(raw)
    text = json.dumps(raw, indent=1).replace(json.dumps(DEEP), "[" * 100_000 + "]" * 100_000)
    with pytest.raises(ShiftdataError):
        Manifest.from_json(sealed(text))


def test_a_part_of_which_no_data_file_is_listed(copy, tmp_path):
    def change(raw: dict[str, Any]) -> None:
        raw["files"] = {path: raw["files"][path] for path in raw["files"] if "data/mini/test-" not in path}

    edit_manifest(copy, change)
    with pytest.raises(IntegrityError, match="does not list data/mini/test-, which a part needs"):
        sd.fetch(copy, split="test", out=tmp_path / "out", offline=True)


@given(
    st.one_of(
        st.text(), st.sampled_from(["[" * 100_000, '{"format": ' * 50_000, "NaN", "9" * 5000, '"\\ud800"'])
    )
)
@example('{"format": 1}')
def test_any_text_is_a_manifest_or_our_error(text):
    with suppress(ShiftdataError):
        Manifest.from_json(text)
