"""`shiftdata list`: the datasets on this machine."""

from __future__ import annotations

from shiftdata.cli.verbs import verb
from shiftdata.data.loading.plain_datasets import list_datasets
from shiftdata.data.places.catalog import VARIABLE, catalogued
from shiftdata.data.places.search import is_offline, search_path


@verb("""
    examples:
      shiftdata list
      SHIFTDATA_HOME=/data/shift shiftdata list
""")
def command() -> None:
    """Show the datasets on this machine, and what catalogs name: name, family, size, folder and licence.

    Looks in $SHIFTDATA_HOME, ./build/shift and ./shift, then in the catalogs of $SHIFTDATA_CATALOG.
    """
    datasets = list_datasets()
    width = max((len(dataset.name) for dataset in datasets), default=0) + 2
    for dataset in datasets:
        size = f"{dataset.rows:>10,} rows {dataset.bytes / 1e6:>9,.1f} MB"
        print(f"{dataset.name:<{width}}{dataset.family:<12}{size}  {dataset.where}")
        print(f"{'':<{width}}{dataset.license}")
    named = catalogued(offline=is_offline())
    for name in sorted(set(named) - {dataset.name for dataset in datasets}):
        print(f"{name}: in the catalog {named[name]}; it opens by its name, or `shiftdata fetch {name}`")
    if not datasets and not named:
        where = ", ".join(map(str, search_path()))
        print(
            f"no dataset in {where}. What to do:\n"
            "  SHIFTDATA_HOME=<folder of datasets>   if they are on this machine\n"
            f"  {VARIABLE}=<file or URL>    the catalog of your lab: lists and fetches what it has\n"
            "  shiftdata fetch <name or URL>         from the Hub, a server or a folder\n"
            "  shiftdata recipes                     what can be built here"
        )
