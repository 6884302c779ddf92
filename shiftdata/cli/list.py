"""`shiftdata list`: the datasets on this machine."""

from __future__ import annotations

import click

from shiftdata.cli.verbs import verb
from shiftdata.data.loading.plain_datasets import list_datasets
from shiftdata.data.places.catalog import VARIABLE, catalogued
from shiftdata.data.places.search import is_offline, search_path


@verb("""
    examples:
      shiftdata list
      SHIFTDATA_HOME=/data/shift shiftdata list
      shiftdata list --rlsbench               the pairs of source and target of RLSbench
""")
@click.option("--rlsbench", "benchmark", is_flag=True, help="Instead, the 560 tasks of RLSbench.")
def command(benchmark: bool) -> None:
    """Show the datasets on this machine, and what catalogs name: name, family, size, folder and licence.

    Looks in $SHIFTDATA_HOME, ./build/shift and ./shift, then in the catalogs of $SHIFTDATA_CATALOG.
    """
    if benchmark:
        return _print_rlsbench()
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
            "  python -m builders list               from a checkout of shiftdata: what can be built"
        )
    return None


def _print_rlsbench() -> None:
    """Print the pairs, and how to make a task of one."""
    from shiftdata.evaluation.protocols.base import named
    from shiftdata.evaluation.protocols.halves import RLSBENCH
    from shiftdata.evaluation.protocols.rlsbench import ALPHAS, SEEDS, rlsbench

    pairs = rlsbench(alphas=[None], seeds=[SEEDS[0]])
    for pair in pairs:
        source, target = (" + ".join(names) for names in (RLSBENCH[pair.rlsbench].source, named(pair.target)))
        print(f"{pair.rlsbench:<20}{source:<32}-> {target}")
    alphas = ", ".join("none" if alpha is None else f"{alpha:g}" for alpha in ALPHAS)
    print(
        f"\n{len(pairs)} pairs, alpha {alphas}, seeds {' and '.join(map(str, SEEDS))}: "
        f"{len(rlsbench())} tasks. One of them:\n"
        "  shiftdata task visda label-shift rlsbench=visda target=validation alpha=3 seed=1"
    )
