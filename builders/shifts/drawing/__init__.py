"""Drawing helpers of styles, weather, corruptions and contexts."""

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

import numpy as np
from PIL import Image

__all__ = ["Draw", "drawn_in"]

Draw: TypeAlias = Callable[[np.random.Generator], Image.Image]


def drawn_in(*modules: ModuleType) -> dict[str, Draw]:
    """The public functions that some modules define, by name."""
    functions = (draw for module in modules for draw in vars(module).values() if inspect.isfunction(draw))
    own = {module.__name__ for module in modules}
    mine = {draw.__name__: draw for draw in functions if draw.__module__ in own}
    return {name: mine[name] for name in sorted(mine) if not name.startswith("_")}
