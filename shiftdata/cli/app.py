"""The command line: `shiftdata <verb>`."""

from __future__ import annotations

from collections.abc import Sequence

from shiftdata.cli.verbs import Table, Verbs

APP = Verbs(
    Table(
        "shiftdata.cli",
        {
            "Find and read": {
                "list": "Show the datasets on this machine.",
                "info": "Describe a dataset: configs, splits, classes, licence.",
                "load": "Print the first rows of a config.",
                "fetch": "Download a dataset, or a part of it; every byte is checked.",
                "verify": "Check a dataset against its manifest, wherever it is.",
                "duplicates": "Find near-duplicates, above all on both sides of a split.",
                "export": "Write a dataset as tars, or as folders that old code reads.",
                "explore": "Look at rows on a map: filter, compare predictions, select.",
                "gallery": "Make pages to look at datasets, groups, tasks and results.",
            },
            "Train and evaluate": {
                "task": "Make a task by a protocol: its sets, keys and filters.",
                "evaluate": "Judge predictions: the official metrics of a task, by name.",
                "train": "Train a reference method on a task, and judge it.",
                "pretrain": "Pretrain an encoder on a task's pictures, without labels.",
                "predict": "Predict a task by a model that comes trained, and judge it.",
                "adapt": "Adapt a trained network to the test of a task as a stream.",
                "sweep": "Train many methods on many tasks, with a search, into records.",
                "import": "Read what authors published about their runs, as records.",
                "report": "Report on sweeps: tables, comparisons, a page; compare two.",
                "submit": "Write predictions and a method card for a leaderboard.",
                "leaderboard": "Judge submissions again from their predictions, and rank them.",
                "published": "Show, draw, rank and export the numbers of five papers.",
            },
            "Make": {
                "calibrate": "Measure what small networks reach on the canonical splits.",
            },
            "Publish and serve": {
                "catalog": "Sign catalogs, check them, make and replace keys.",
                "serve": "Serve a folder of datasets as a Hub of your own.",
            },
        },
    ),
    points="shiftdata.verbs",
    name="shiftdata",
    help="Distribution-shift datasets: find and read them, train and evaluate, make and publish them.",
    epilog="""
    examples:
      shiftdata info sma_glyphs
      shiftdata fetch sma_glyphs --select style=amber,embers
      shiftdata task sma_glyphs group-fairness k=8 mu=0.1 --freeze mine.parquet
      shiftdata evaluate mine.parquet predictions.csv
      shiftdata train sma_glyphs group-fairness k=8 mu=0.1 --method rwg
      shiftdata build sma_glyphs
      shiftdata export sma_glyphs --help      explains a verb, with examples

    A dataset is looked for in $SHIFTDATA_HOME, ./build/shift and ./shift, then in the catalogs of
    $SHIFTDATA_CATALOG (files or URLs, with commas between them), then on the Hub.
    Exit status: 0 all well, 1 an error or problems in the data, 2 a command that cannot be read, 130 Ctrl-C.
    """,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb, and return the exit status."""
    return APP.run(arguments)
