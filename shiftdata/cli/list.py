"""`shiftdata list`: the datasets on this machine."""

from __future__ import annotations

from shiftdata.cli.verbs import verb
from shiftdata.loading.plain_datasets import list_datasets
from shiftdata.places.search import search_path


@verb("""
    examples:
      shiftdata list
      SHIFTDATA_HOME=/data/shift shiftdata list
""")
def command() -> None:
    """Show the datasets on this machine: name, family, size, folder and licence.

    Looks in $SHIFTDATA_HOME, ./build/shift and ./shift.
    """
    datasets = list_datasets()
    width = max((len(one.name) for one in datasets), default=0) + 2
    for one in datasets:
        size = f"{one.rows:>10,} rows {one.bytes / 1e6:>9,.1f} MB"
        print(f"{one.name:<{width}}{one.family:<12}{size}  {one.where}")
        print(f"{'':<{width}}{one.license}")
    if not datasets:
        where = ", ".join(map(str, search_path()))
        print(f"no dataset in {where}: set SHIFTDATA_HOME, `shiftdata fetch` one, or build one (see README)")
