"""The README's recipe for pictures of one's own works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from PIL import Image

from builders.make import assign
from builders.make.build import plan_blocks
from builders.make.render import render_item
from builders.recipe import load_recipe

README = Path(__file__).parent.parent / "README.md"


def test_the_recipe_of_the_readme_makes_a_dataset(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (recipe_text,) = [block for block in blocks if "RECIPE = " in block]
    (tmp_path / "my_birds.py").write_text(recipe_text)
    rng = np.random.default_rng(0)
    for label in ("tit", "wren"):
        (tmp_path / "birds" / label).mkdir(parents=True)
        for number in range(24):
            photo = Image.fromarray(rng.integers(0, 255, (9, 12, 3), dtype=np.uint8)).resize((160, 120))
            photo.save(tmp_path / "birds" / label / f"{number}.jpg")
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("my_birds.py")
    items = recipe.album.items()
    assign.check_items(recipe, items)
    plan = plan_blocks(recipe, ["content", "mini"], items, assign.folds(items))
    assert {base: sum(b.weight for b in blocks) for base, blocks in plan.items()} == {
        "content": 48,
        "mini": 40 * 20,
    }
    painted = list(render_item(recipe, "shift", items[0]))
    assert [sample.nuisance for sample in painted] == list(recipe.shift.nuisances)
    assert {sample.image.size for sample in painted} == {(128, 128)}
