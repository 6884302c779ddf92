"""The base of all results: JSON, figures and names as text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np


class Record:
    """Base of the results, all frozen dataclasses."""

    #: Properties that `to_dict` adds to the fields.
    derived: ClassVar[tuple[str, ...]] = ()
    #: Fields that `to_dict` leaves out, since others sum them up.
    omitted: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Fields and main derived figures as JSON values; nan becomes None."""
        fields = [field.name for field in dataclasses.fields(cast(Any, self))]
        names = [name for name in (*fields, *self.derived) if name not in self.omitted]
        return {name: plain(getattr(self, name)) for name in names}


def plain(value: Any) -> Any:
    """Convert a value to JSON types; numbers that are not finite become None."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def number(value: float, digits: int = 4) -> str:
    """Format a figure for a table; nan is a dash."""
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"


def some(names: Sequence[Any], most: int = 3) -> str:
    """The first few names.

    >>> some(["dove", "gull", "hawk", "wren"]), some(["dove"])
    ('dove, gull, hawk, ...', 'dove')
    """
    return ", ".join([*map(str, names[:most]), *(["..."] if len(names) > most else [])])
