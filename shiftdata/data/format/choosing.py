"""Rows of a table by the values of their columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.errors import not_found


def chosen_rows(
    table: pa.Table, chosen: Mapping[str, str | int | Iterable[str | int]], names: Collection[str]
) -> pa.Table:
    """Return the rows with the given values of columns; a value that no row has is refused.

    `names` are the columns by which rows may be chosen.
    """
    for name, wanted in chosen.items():
        if name not in names:
            raise not_found("name to choose by", name, names)
        column = table[name]
        values = [str(value) for value in ([wanted] if isinstance(wanted, str | int) else wanted)]
        present = {str(value) for value in column.to_pylist() if value is not None}
        for value in values:
            if value not in present:
                raise not_found(name, value, present)
        table = table.filter(pc.is_in(column.cast(pa.string()), pa.array(values, pa.string())))
    return table
