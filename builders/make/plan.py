"""Plan: which blocks each base is made of."""

from __future__ import annotations

from collections.abc import Sequence

from builders.make import assign
from builders.make.render import Block, cut_into_blocks
from builders.recipe import Recipe
from builders.sample import Item


def plan_blocks(
    recipe: Recipe, bases: Sequence[str], items: Sequence[Item], fold_of: dict[str, int]
) -> dict[str, list[Block]]:
    """The blocks of each base. A larger base is the blocks of the smaller ones and some more."""
    plan: dict[str, list[Block]] = {}
    for layer in ("content", "shift"):
        blocks: list[Block] = []
        taken: set[str] = set()
        of_layer = [base for base in recipe.bases if base.layer == layer]
        for base in sorted(of_layer, key=lambda base: base.per_group or len(items) + 1):
            picked = assign.pick(items, fold_of, base)
            blocks = blocks + cut_into_blocks(
                recipe, layer, [item for item in picked if item.key not in taken]
            )
            taken |= {item.key for item in picked}
            if base.name in bases:
                plan[base.name] = blocks
    return {base.name: plan[base.name] for base in recipe.bases if base.name in plan}
