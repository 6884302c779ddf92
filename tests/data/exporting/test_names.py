"""Names as folders: safe, distinct, and left alone where they can be."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.data.exporting.folders.contents import folder_names

NAMES = st.lists(st.text(max_size=300), max_size=8, unique=True)


@given(NAMES, st.lists(st.text(max_size=8), max_size=3))
def test_any_names_make_folders_that_can_be_told_apart_anywhere(names, taken):
    found = folder_names(names, taken)
    assert len(found) == len(names)
    alike = [unicodedata.normalize("NFC", one.casefold()) for one in [*found, *set(taken)]]
    assert len(set(alike[: len(found)])) == len(found)
    assert not set(alike[: len(found)]) & set(alike[len(found) :])
    for one in found:
        assert 0 < len(one.encode()) < 230
        assert not any(sign in one for sign in '/\\<>:"|?*\0')
        assert len(one.split()) == 1  # lists divide their lines by spaces
        assert not one.startswith((".", "__"))  # `datasets` would not see it
        assert not one.endswith(".")


@given(st.lists(st.from_regex(r"[a-z0-9_][a-z0-9-][a-z0-9_.-]*[a-z0-9]", fullmatch=True), unique=True))
def test_plain_names_stay(names):
    assert folder_names(names) == names


@pytest.mark.parametrize(
    ("names", "folders"),
    [
        (["a/b", "a_b"], ["a_b-2", "a_b"]),  # one that can stay does
        (["Cat", "cat"], ["Cat", "cat-2"]),
        (["..", ".git", "__pycache__"], ["unnamed", "git", "_pycache__"]),
        (["hot dog", "hot\tdog"], ["hot_dog", "hot_dog-2"]),
        (["é", "e\u0301"], ["é", "é-2"]),
        (["日本"], ["日本"]),
    ],
)
def test_what_becomes_of_odd_names(names, folders):
    assert folder_names(names) == folders


def test_a_name_in_use_is_not_given_again():
    assert folder_names(["Keys.csv", "cat"], ["keys.csv"]) == ["Keys.csv-2", "cat"]
