"""`shiftdata fetch`: a dataset, or a part of it, from the first place that has it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from shiftdata.cli.verbs import GOES_ON, dataset_argument, progress, quiet_option, verb
from shiftdata.data.fetching.run import Plan, fetch
from shiftdata.data.fetching.sources import Sources

#: Problems that are printed of one place; more would hide the others.
MOST_PROBLEMS = 5


@verb(
    """
    examples:
      shiftdata fetch sma_glyphs                                 the whole dataset, into shift/sma_glyphs
      shiftdata fetch sma_glyphs --config gf_k8_mu10             the rows of one canonical split
      shiftdata fetch sma_glyphs --select style=amber,embers      two styles, by their byte ranges
      shiftdata fetch cns_glyphs --select 'severity<=1.5' --split test
      shiftdata fetch sma_glyphs --from /mnt/usb/sma_glyphs      a folder first, then the known places

    A name is looked up in the catalogs of $SHIFTDATA_CATALOG (files or URLs, with commas between them) and
    ~/.config/shiftdata/catalog.json; without an entry, it is shift/<name> on the Hub.
    """,
    interrupted=GOES_ON,
)
@dataset_argument
@click.option("--from", "places", multiple=True, metavar="PLACE", help="Ask this place first; repeatable.")
@click.option("--key", metavar="KEY", help="A public key, or its file, that must have signed what comes.")
@click.option("--out", type=Path, metavar="DIR", help="The folder to make. [default: shift/<name>[-<part>]]")
@click.option("--config", metavar="NAME", help="Only this base or canonical split.")
@click.option("--select", multiple=True, metavar="CONDITION", help="Only rows with style=amber,embers ...")
@click.option("--split", metavar="SPLIT,...", help="Only these splits, or sets of a canonical split.")
@click.option("--offline", is_flag=True, help="Use no network; print exactly what is missing.")
@click.option("--replace", is_flag=True, help="Replace another version that is in the folder.")
@click.option("--jobs", type=click.IntRange(min=1), default=4, metavar="N", help="Files at a time.")
@quiet_option
def command(dataset: str, split: str | None, quiet: bool, **options: Any) -> None:
    """Download a dataset, or only a config, split or style of it.

    Every file is compared with the manifest; where one is missing or wrong, the next place is asked. Run the
    same command again to go on after an interruption, or to repair a damaged folder.
    """
    plans: list[Plan] = []
    with ExitStack() as stack:
        # The metadata of a part comes before its plan, and can be much.
        bar = stack.enter_context(progress("metadata", None, "B", quiet=quiet))

        def begin(plan: Plan) -> None:
            nonlocal bar
            bar.close()
            plans.append(plan)
            print(f"{plan.title}\n  {plan.bytes / 1e6:,.1f} MB to fetch into {plan.target}")
            for note in plan.notes:
                print(f"  note: {note}")
            bar = stack.enter_context(progress("fetch", plan.bytes, "B", quiet=quiet or not plan.bytes))

        splits = split.split(",") if split else None
        folder = fetch(
            dataset, split=splits, on_plan=begin, on_bytes=lambda count: bar.update(count), **options
        )
    _print_sources(plans[0].sources)
    print(f"{folder}: load it with shiftdata.load_dataset({str(folder)!r})")


def _print_sources(sources: Sources) -> None:
    for store in sources.stores:
        size, files = sources.sizes[store.address], sources.files[store.address]
        if size:
            print(f"{size / 1e6:,.1f} MB, {files:,} whole files from {store.address}")
        problems = sources.problems.get(store.address, [])
        more = [f"{len(problems) - MOST_PROBLEMS:,} more problems"] if len(problems) > MOST_PROBLEMS else []
        for problem in [*problems[:MOST_PROBLEMS], *more]:
            print(f"  {store.address}: {problem}")
