"""CivilComments as WILDS cuts it: comments on news, toxic or not, and the people they speak of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow.compute as pc

from builders.raw.album import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.records import by_name
from builders.raw.tables import file_named, numbers, table_in
from builders.raw.tree import Tree
from builders.sample import BadItem, Json
from shiftdata.data.metadata.listing import ORDER
from shiftdata.stable import content_hash

TABLE = "all_data_with_identities.csv"
TEXT, TOXICITY, SPLIT = "comment_text", "toxicity", "split"
IDENTITIES = ("male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white")
SPLITS = ("train", "val", "test")
#: From here on a comment is toxic, and speaks of an identity.
HALF = 0.5
DIGITS = 20


@dataclass(frozen=True, kw_only=True)
class CivilComments:
    """The rows of `all_data_with_identities.csv`.

    `labels` are those of comments that are not toxic, and that are. Equal texts have one origin, whatever
    their labels and splits are.
    """

    code_version: ClassVar[int] = 1

    labels: tuple[str, str]

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every comment, with its place in the file."""
        file = file_named(tree, by_name(tree), TABLE, "all comments")
        table = table_in(tree, file, (TEXT, TOXICITY, SPLIT, *IDENTITIES))
        tree.keep(TEXT, file, lambda: table[TEXT])
        toxicity = numbers(tree, file, table, TOXICITY).to_pylist()
        named = {
            one: pc.greater_equal(numbers(tree, file, table, one), HALF).to_pylist() for one in IDENTITIES
        }
        splits, texts, places = table[SPLIT].to_pylist(), table[TEXT], Counter[str]()
        for part, (how, split) in enumerate(zip(toxicity, splits, strict=True)):
            place, places[split] = places[split], places[split] + 1
            text = texts[part].as_py()
            if why := _fault(text, how, split):
                yield Odd(file=f"{file}, row {part}", why=why)
                continue
            of: list[Json] = [one for one, values in named.items() if values[part]]
            yield Row(
                file=file,
                part=part,
                label=self.labels[how >= HALF],
                nuisance=split,
                origin=content_hash(text)[:DIGITS],
                across=True,
                stem=f"comment {part}",
                more={"identities": of, LISTS: {ORDER: part, split: place}},
            )

    def example(self, tree: Tree, file: str, part: int) -> str:
        """The text of a comment."""
        texts = tree.keep(TEXT, file, lambda: table_in(tree, file, (TEXT,))[TEXT])
        if part >= len(texts):
            raise BadItem("the file has become shorter")
        return str(texts[part].as_py())


def _fault(text: str, toxicity: float | None, split: str) -> str:
    """Why a row cannot be used."""
    if not text.strip():
        return "it has no text"
    if toxicity is None:
        return "it has no toxicity"
    return "" if split in SPLITS else f"its split is {split!r}, not one of {', '.join(SPLITS)}"
