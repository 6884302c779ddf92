"""Adapters of streams against their authors' code, over the same batches: the logits of every step.

PEERS has files of the authors' repositories: tent.py (DequanWang/tent), eata.py (mr-eggplant/EATA), sar.py
and sam.py (mr-eggplant/SAR), cifar/cotta.py as cotta.py (qinenergy/cotta), the folder core of BIT-DA/RoTTA,
and adapt_helpers.py and train_helpers.py of zhangmarvin/memo's imagenet-exps/utils as a folder `utils`. What
they import to augment pictures is not needed: both sides get one view without chance. The network is in
float64, without dropout, and rates are high, so that the steps differ.
"""

from __future__ import annotations

import copy
import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from scripts.compare_losses.comparing import Comparison, value
from shiftdata.baselines.networks import Network
from shiftdata.baselines.test_time import adapter_class

CLASSES, ROWS, STEPS = 4, 16, 8
Answer = Callable[[Tensor], Tensor]


@contextmanager
def processor() -> Iterator[None]:
    """Let `.cuda()` stay on the processor, and import what is not installed as a mock."""
    names = ("torchvision", "torchvision.transforms", "torchvision.transforms.functional", "my_transforms")
    names += ("torchvision.models", "torchvision.datasets", "yacs", "yacs.config", "utils.third_party")
    missing = [name for name in names if name not in sys.modules]
    sys.modules.update((name, MagicMock()) for name in missing)
    cuda, print_of = Tensor.cuda, sys.stdout
    Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
    sys.stdout = open("/dev/null", "w")  # noqa: SIM115 - the authors' code prints
    try:
        yield
    finally:
        sys.stdout.close()
        Tensor.cuda, sys.stdout = cuda, print_of  # type: ignore[method-assign]
        for name in missing:
            sys.modules.pop(name, None)


def view(x: Tensor) -> Tensor:
    """Return another view of pictures, the same each time."""
    return 0.8 * x + 0.3 * x.flip(3)


def pictures(generator: torch.Generator) -> Sequence[Tensor]:
    """Draw source rows and the batches of a stream whose mean and contrast move, in float64."""
    x = torch.randn(STEPS + 2, ROWS, 3, 8, 8, generator=generator, dtype=torch.float64)
    steps = torch.arange(STEPS + 2, dtype=torch.float64).view(-1, 1, 1, 1, 1)
    return [(1 + 0.1 * steps) * x + 0.2 * steps]


def network() -> Network:
    """Return a network of two stages that is sure of itself, with statistics of a source."""
    torch.manual_seed(3)
    stages = [
        nn.Sequential(nn.Conv2d(inputs, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for inputs in (3, 8)
    ]
    layers = OrderedDict(layer1=stages[0], layer4=stages[1], pool=nn.AdaptiveAvgPool2d(2), flat=nn.Flatten())
    model = Network(nn.Sequential(layers), 32, CLASSES, stages).double()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean, layer.running_var = torch.randn(8).double() / 4, 1 + torch.rand(8).double()
    with torch.no_grad():
        model.head.weight *= 6
    return model


def streamed(answer: Answer, batches: Tensor) -> Tensor:
    """Return the logits of each batch, the torch seed being that of its number."""
    logits = []
    for step, x in enumerate(batches):
        torch.manual_seed(step)
        logits.append(answer(x).detach())
    return torch.stack(logits)


def ours(name: str, **hyper: float) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        adapter = adapter_class(name)(network(), view=view, **hyper)
        adapter.remember(x[:2])
        return streamed(adapter.predict, x[2:])

    return run


def theirs(make: Callable[[Network, Tensor], Answer]) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        with processor():
            return streamed(make(network(), x[:2]), x[2:])

    return run


def tent(model: Network, _: Tensor) -> Answer:
    peer = import_module("tent")
    model = peer.configure_model(model)
    answer: Answer = peer.Tent(model, torch.optim.Adam(peer.collect_params(model)[0], 0.05))
    return answer


def eata(model: Network, source: Tensor) -> Answer:
    peer = import_module("eata")
    model = peer.configure_model(model)
    parameters, names = peer.collect_params(model)
    squares = [torch.zeros_like(parameter) for parameter in parameters]
    for x in source:  # the loop of the authors' main.py
        logits = model(x)
        gradients = torch.autograd.grad(cross_entropy(logits, logits.max(1)[1]), parameters)
        squares = [
            square + gradient**2 / len(source) for square, gradient in zip(squares, gradients, strict=True)
        ]
    fishers = {
        name: [square, parameter.detach().clone()]
        for name, square, parameter in zip(names, squares, parameters, strict=True)
    }
    optimizer = torch.optim.SGD(parameters, 0.05, momentum=0.9)
    answer: Answer = peer.EATA(
        model, optimizer, fishers, 20.0, e_margin=0.6 * math.log(CLASSES), d_margin=0.8
    )
    return answer


def sar(model: Network, _: Tensor) -> Answer:
    peer, sam = import_module("sar"), import_module("sam")
    model = peer.configure_model(model)
    optimizer = sam.SAM(peer.collect_params(model)[0], torch.optim.SGD, lr=0.05, momentum=0.9)
    answer: Answer = peer.SAR(model, optimizer, margin_e0=0.6 * math.log(CLASSES))
    return answer


def cotta(confidence: float) -> Callable[[Network, Tensor], Answer]:
    def make(model: Network, _: Tensor) -> Answer:
        peer: Any = import_module("cotta")
        peer.get_tta_transforms = lambda: view
        model = peer.configure_model(model)
        optimizer = torch.optim.Adam(peer.collect_params(model)[0], 0.01)
        options = {"mt_alpha": 0.9, "rst_m": 0.05, "ap": confidence}
        answer: Answer = peer.CoTTA(model, optimizer, **options)
        return answer

    return make


def rotta(model: Network, _: Tensor) -> Answer:
    peer: Any = import_module("core.adapter.rotta")
    peer.get_tta_transforms = lambda cfg: view
    peer.timeliness_reweighting = lambda ages: (
        torch.exp(-torch.tensor(ages)) / (1 + torch.exp(-torch.tensor(ages)))
    )
    about = SimpleNamespace(
        MEMORY_SIZE=16, LAMBDA_T=1.0, LAMBDA_U=1.0, NU=0.1, UPDATE_FREQUENCY=16, ALPHA=0.05
    )
    cfg = SimpleNamespace(
        ADAPTER=SimpleNamespace(RoTTA=about),
        CORRUPTION=SimpleNamespace(NUM_CLASS=CLASSES),
        OPTIM=SimpleNamespace(STEPS=1),
    )
    answer: Answer = peer.RoTTA(cfg, model, lambda parameters: torch.optim.Adam(parameters, 0.05))
    return answer


def memo(model: Network, _: Tensor) -> Answer:
    """The authors' step of one picture; they print no logits, so these are of the network that it leaves."""
    peer: Any = import_module("utils.adapt_helpers")
    peer.tr_transforms = lambda picture: view(picture[None])[0]
    modified = import_module("utils.train_helpers")._modified_bn_forward

    def loss(logits: Tensor) -> tuple[Tensor, Tensor]:
        logs = logits - logits.logsumexp(dim=-1, keepdim=True)
        mean = logs.logsumexp(dim=0) - math.log(len(logs))
        return -(mean * torch.exp(mean)).sum(dim=-1), mean

    def answer(x: Tensor) -> Tensor:
        plain, nn.BatchNorm2d.forward = nn.BatchNorm2d.forward, modified
        torch.set_default_dtype(torch.float64)  # of the statistics that they make
        try:
            rows = []
            for picture in x:
                adapted = copy.deepcopy(model)
                optimizer = torch.optim.SGD(adapted.parameters(), 0.5)
                peer.adapt_single(adapted, picture, optimizer, loss, "", 1, 4, 16)
                nn.BatchNorm2d.prior = 16 / 17
                rows.append(adapted(picture[None]))
            return torch.cat(rows)
        finally:
            nn.BatchNorm2d.forward = plain
            torch.set_default_dtype(torch.float32)

    return answer


def blended(prior: float) -> Callable[[Network, Tensor], Answer]:
    """Layer by layer by the formula of Schneider et al., equation 1."""

    def make(model: Network, _: Tensor) -> Answer:
        def answer(x: Tensor) -> Tensor:
            share = prior / (prior + len(x))
            for stage in (model.encoder.layer1, model.encoder.layer4):
                convolution, norm, _ = stage
                z, shape = convolution(x), (1, -1, 1, 1)
                mean = share * norm.running_mean + (1 - share) * z.mean((0, 2, 3))
                var = share * norm.running_var + (1 - share) * z.var((0, 2, 3), correction=int(prior > 0))
                z = (z - mean.view(shape)) / (var.view(shape) + norm.eps).sqrt()
                x = torch.relu(z * norm.weight.view(shape) + norm.bias.view(shape))
            logits: Tensor = model.head(nn.functional.adaptive_avg_pool2d(x, 2).flatten(1))
            return logits

        return answer

    return make


SURE, HIGH = {"margin": 0.6}, 0.05
COMPARISONS: tuple[Comparison, ...] = (
    value("BN-adapt, formula", ours("bn-adapt"), theirs(blended(0)), pictures),
    value("BN-adapt with a prior, formula", ours("bn-adapt", prior=16), theirs(blended(16)), pictures),
    value("TENT over a stream, authors", ours("tent", rate=HIGH), theirs(tent), pictures, ("tent",)),
    value("EATA over a stream, authors", ours("eata", rate=HIGH, similarity=0.8, anchor=20, **SURE),
          theirs(eata), pictures, ("eata",)),
    value("SAR over a stream, authors", ours("sar", rate=HIGH, **SURE), theirs(sar), pictures,
          ("sar", "sam")),
    value("CoTTA over a stream, authors",
          ours("cotta", rate=0.01, keep=0.9, restore=0.05, confidence=0.99), theirs(cotta(0.99)), pictures,
          ("cotta",)),
    value("CoTTA, a sure source, authors",
          ours("cotta", rate=0.01, keep=0.9, restore=0.05, confidence=0.0), theirs(cotta(0.0)), pictures,
          ("cotta",)),
    value("MEMO over a stream, authors", ours("memo", rate=0.5, views=4), theirs(memo), pictures, ("utils",)),
    value("RoTTA over a stream, authors", ours("rotta", rate=HIGH, keep=0.9, memory=16), theirs(rotta),
          pictures, ("core",)),
)  # fmt: skip
