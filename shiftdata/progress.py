"""Progress bars: a line in a terminal, a widget or a line in a notebook, nothing where nobody watches."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from tqdm import tqdm

F = TypeVar("F", bound=Callable[..., Any])


def in_notebook() -> bool:
    """Return True in a kernel, whose standard error is not a terminal and is shown all the same."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def progress(title: str, total: int | None, unit: str, *, quiet: bool = False, **options: Any) -> tqdm[Any]:
    """Return a progress bar; none where standard error is neither a terminal nor a notebook's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in a notebook without ipywidgets it warns, and writes a line
        from tqdm.auto import tqdm
    shown = {"disable": True if quiet else False if in_notebook() else None, "unit_scale": True}
    return tqdm(total=total, desc=title, unit=unit, **(shown | options))


def shows(title: str, **units: str) -> Callable[[F], F]:
    """Decorate a function that reports counts to listeners: a bar shows them where none is given.

    `units` has the names of the listeners. They are called with a number of further units, or with the
    number that is done and the total. Of several processes the first has the bar.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def showing(*args: Any, **given: Any) -> Any:
            if any(name.startswith("on_") for name in given):
                return function(*args, **given)
            with progress(title, None, "", quiet=os.environ.get("RANK", "0") != "0") as bar:
                shown = () if bar.disable else units.items()
                return function(*args, **given, **{name: partial(_show, bar, unit) for name, unit in shown})

        return cast(F, showing)

    return decorate


def _show(bar: tqdm[Any], unit: str, *counts: int) -> None:
    if bar.unit != unit:  # rows were read before the first step
        bar.reset()
    bar.unit = unit
    done, bar.total = counts if len(counts) == 2 else (bar.n + counts[0], bar.total)
    bar.update(done - bar.n)
