"""`shiftdata fetch`: a dataset, or a part of it, from the first place that has it."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftdata.fetching.request import Outcome, Plan

#: Of one place; more would hide the others.
MOST_PROBLEMS = 5

EPILOG = """examples:
  shiftdata fetch sma_emoji                                  the whole dataset, into shift/sma_emoji
  shiftdata fetch sma_emoji --plan                           how much it is, and from where
  shiftdata fetch sma_emoji --config gf_k8_mu10              the rows of one canonical split
  shiftdata fetch sma_emoji --select style=leaves,rust       two styles, by their byte ranges
  shiftdata fetch cns_emoji --select 'severity<=1.5' --split test
  shiftdata fetch sma_emoji --from /mnt/usb/sma_emoji        a folder first, then the known places

A name is looked up in the catalogs of $SHIFTDATA_CATALOG (files or URLs, with commas between them) and
~/.config/shiftdata/catalog.json; without an entry, it is shift/<name> on the Hub. Each file is compared with
the manifest; from a place where it is missing or wrong the next one is asked. Run it again to go on after a
cut, or to mend a damaged folder.
"""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "fetch",
        help="fetch a dataset, or only a config, split or style of it, with every byte checked",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("dataset", help="a name, owner/name, a folder, or a URL (https://, hf://, s3://, ...)")
    verb.add_argument(
        "--from",
        dest="places",
        action="append",
        default=[],
        metavar="PLACE",
        help="a folder or URL to ask first; may be given more than once",
    )
    verb.add_argument("--out", type=Path, help="the folder to make (default: shift/<name>[-<part>])")
    verb.add_argument(
        "--config", help="only this base or canonical split (parts default to the default base)"
    )
    verb.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="COLUMN=VALUE[,VALUE...]",
        help="only rows with these values: style=leaves,rust, label=dog, 'severity<=1.5'",
    )
    verb.add_argument("--split", metavar="SPLIT[,SPLIT]", help="only train, validation or test")
    verb.add_argument("--plan", action="store_true", help="say what would be fetched, and stop")
    verb.add_argument("--offline", action="store_true", help="ask no network; say exactly what is missing")
    verb.add_argument("--replace", action="store_true", help="replace another version that is in the folder")
    verb.add_argument("--jobs", type=int, default=4, help="files at a time (default: 4)")
    verb.add_argument("--quiet", action="store_true", help="no progress bar")
    verb.set_defaults(run=run_fetch)


def run_fetch(options: argparse.Namespace) -> int:
    """Plan, fetch, and say what came from where."""
    from tqdm import tqdm

    from shiftdata.fetching.core import carry_out
    from shiftdata.fetching.request import Request

    request = Request(
        name=options.dataset,
        config=options.config,
        select=options.select,
        split=[one for one in options.split.split(",") if one] if options.split else None,
        out=options.out,
        places=options.places,
        offline=options.offline,
        replace=options.replace,
        jobs=options.jobs,
    )
    with ExitStack() as stack:
        # What tells how large the rest is comes before the plan: a part's metadata can be much.
        ahead = tqdm(desc="metadata", unit="B", unit_scale=True, leave=False, disable=options.quiet)
        bars: list[tqdm[Any]] = [stack.enter_context(ahead)]

        def agree(plan: Plan) -> bool:
            ahead.close()
            print("\n".join(_told(plan)), flush=True)
            hidden = options.quiet or options.plan or not plan.bytes
            bar = tqdm(total=plan.bytes, desc="fetch", unit="B", unit_scale=True, disable=hidden)
            bars.append(stack.enter_context(bar))
            return not options.plan

        outcome = carry_out(request, on_plan=agree, on_bytes=lambda count: bars[-1].update(count))
    if not options.plan:
        _print_summary(outcome)
    return 0


def _told(plan: Plan) -> list[str]:
    """The plan in lines."""
    files = f"{plan.files:,} files, " if plan.files else ""
    here = f", {plan.here / 1e6:,.1f} MB are here already" if plan.here else ""
    return [
        plan.title,
        f"  {files}{plan.bytes / 1e6:,.1f} MB to fetch{here}",
        f"  into {plan.out}, where {plan.free / 1e6:,.1f} MB are free",
        *(f"  from {place}" for place in plan.places),
        *(f"  note: {note}" for note in plan.notes),
    ]


def _print_summary(outcome: Outcome) -> None:
    supply = outcome.supply
    for source in supply.sources:
        size, files = supply.sizes[source.address], supply.files[source.address]
        if size:
            print(f"{size / 1e6:,.1f} MB, {files:,} whole files from {source.address}")
        problems = supply.problems.get(source.address, [])
        for problem in problems[:MOST_PROBLEMS]:
            print(f"  {source.address}: {problem}")
        if len(problems) > MOST_PROBLEMS:
            print(f"  {source.address}: {len(problems) - MOST_PROBLEMS:,} problems more")
    for note in outcome.notes:
        print(note)
    print(f"{outcome.folder}: load it with shiftdata.load_dataset({str(outcome.folder)!r})")
