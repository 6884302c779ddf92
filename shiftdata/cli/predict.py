"""`shiftdata predict`: a model that comes trained on a task."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

from shiftdata.cli.task import task_arguments, task_of
from shiftdata.cli.train import print_result, processes, result_options, unseen, values_of
from shiftdata.cli.verbs import GOES_ON, verb
from shiftdata.errors import InputError
from shiftdata.extras import require

HEAD = "How features become labels: auto, labels, zero-shot, probe or knn; none of DATASET explains them."


@verb(
    """
    examples:
      shiftdata predict                                            list the models and heads, what is missing
      shiftdata predict sma_glyphs gf_k8_mu5 --model rapidocr      reads letters; nothing is trained
      shiftdata predict sma_glyphs gf_k8_mu5 --model efficientnet-lite0 --size 96    a linear probe
      shiftdata predict pacs leave-one-domain-out test=sketch --model timm:resnet50.a1_in1k --head knn
      shiftdata predict pacs --model open_clip:ViT-B-32/openai --option 'prompts=prompts.txt'
      shiftdata predict cns --model hf:microsoft/resnet-50 --option compete=all --folder predictions/resnet
      shiftdata predict sma_glyphs --model onnx:mine.onnx          mine.toml says how it reads pictures
      shiftdata predict sma_glyphs --model torch:mine.py:make      runs mine.py, as python would

    Features are kept in the user's cache folder: a stopped prediction goes on, another head is quick.
    With --folder: run.json (model, sha256 of the weights, preprocessing, commit), predictions with scores.
    On several GPUs: torchrun --nproc-per-node 4 -m shiftdata predict ... --device cuda
    Models need: pip install 'shiftdata[models]'; those of timm and open_clip torchvision besides.
    """,
    interrupted=GOES_ON,
)
@task_arguments(required=False, none="; none lists models and heads")
@click.option("--model", metavar="NAME", help="The trained model: timm:NAME, hf:owner/name, ..")
@click.option("--head", default="auto", help=HEAD)
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the head.")
@click.option("--set", "sets", multiple=True, metavar="SET", help="[default: test and validation sets]")
@click.option("--size", type=click.IntRange(1), help="Pixels of a side.  [default: the model's own]")
@click.option(
    "--precision", type=click.Choice(["float32", "bfloat16"]), default="float32", help="Of the encoder."
)
@result_options
def command(
    dataset: str | None,
    protocol: tuple[str, ...],
    model: str | None,
    options: tuple[str, ...],
    sets: tuple[str, ...],
    size: int | None,
    form: str,
    quiet: bool,
    **settings: Any,
) -> None:
    """Predict a task by a model that comes trained, and print the official metrics of its test set."""
    require("torch", "a trained model")
    from shiftdata.baselines.pretrained.load import load
    from shiftdata.baselines.pretrained.predicting import predict

    if dataset is None:
        return _print_models()
    if model is None:
        raise InputError("give --model NAME; `shiftdata predict` lists them")
    given = values_of("--option", options, "k=20", _number_or_text) | unseen(quiet)
    chosen, loaded = task_of(dataset, protocol, settings), load(model, size=size)
    with processes(settings["device"]) as first:
        result = predict(chosen, loaded, sets=sets or None, **settings, **given)
    if first:
        about = result.about
        why = f": {about['head']['auto']}" if "auto" in about["head"] else ""
        print_result(result, form, settings["folder"], f"{loaded.name}, head {about['method']}{why}")
    return None


def _number_or_text(text: str) -> Any:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _print_models() -> None:
    import inspect

    from shiftdata.baselines.pretrained.heads import HEADS
    from shiftdata.baselines.pretrained.load import SOURCES

    print("models:")
    for source in SOURCES.values():
        print(f"    {source.form:<26}{source.summary}")
        if missing := source.missing:
            print(f"{'':<30}not here: {missing}")
    print("\nheads:")
    for name, head in HEADS.items():
        known = list(inspect.signature(head).parameters)[3:]
        print(f"    {name:<12}{(head.__doc__ or '').splitlines()[0]}")
        print(f"{'':<16}options: {', '.join(known)}")
