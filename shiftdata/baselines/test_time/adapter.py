"""The contract of adapters: a network that changes with each batch of a stream, and can start again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.nn.modules.batchnorm import _BatchNorm

from shiftdata.baselines.method import Configured
from shiftdata.baselines.methods.batch_norm import batch_statistics
from shiftdata.baselines.networks import batch_norms, norms
from shiftdata.baselines.test_time.views import RandomView
from shiftdata.errors import InputError

#: What an adapter must have: layers with statistics of a batch, any layers that normalise, pictures, or
#: batches of the source.
Need: TypeAlias = Literal["batch-norm", "norm", "pixels", "source"]
#: Makes another view of each picture of a batch, drawn by torch.
View: TypeAlias = Callable[[Tensor], Tensor]


class Adapter(Configured):
    """A copy of a network that adapts to a stream. An adapter of your own is a subclass with a `predict`.

    It gets the batches of the stream in their order, prepared for the network, and nothing else. Before each
    batch torch is seeded, so that a stream that comes again gives the same predictions.
    """

    needs: ClassVar[frozenset[Need]] = frozenset()
    #: Of stochastic gradient descent, which then replaces Adam.
    sgd_momentum: ClassVar[float | None] = None

    def __init__(self, network: nn.Module, *, view: View | None = None, **given: float) -> None:
        super().__init__(variant="fixed", **given)
        self.network, self.view = copy.deepcopy(network).requires_grad_(False), view or RandomView()
        self._need("batch-norm", batch_norms(self.network), "batch-norm layers")
        self._need(
            "norm", norms(self.network), "layers that normalise (batch, layer, group or instance norm)"
        )
        self.trained = list(self.setup())
        for parameter in self.trained:
            parameter.requires_grad_()
        self.network.eval()  # new layers too
        # With channels last and frozen weights before it, torch's gradient of group norm ends the process.
        for layer in self.network.modules():
            if isinstance(layer, nn.GroupNorm):
                layer.register_forward_pre_hook(lambda _, inputs: (inputs[0].contiguous(),))
        if "norm" in self.needs and not self.trained:
            kind = type(self).__name__
            raise InputError(f"{kind} adapts weights of layers that normalise, and those here have none")
        self._first = copy.deepcopy(self.network.state_dict())
        self.resets = 0
        self.restart()

    def _need(self, need: Need, layers: Sequence[nn.Module], name: str) -> None:
        if need in self.needs and not layers:
            raise InputError(
                f"{type(self).__name__} adapts {name}, and the network has none: take memo or another "
                "adapter, or another network, such as small-cnn"
            )

    def setup(self) -> Sequence[nn.Parameter]:
        """Change layers of the network, and return the parameters that are moved."""
        return []

    def restart(self) -> None:
        """Make the optimiser, and whatever else is remembered of the stream, as at its beginning."""
        if self.trained:
            self.optimizer = self.make_optimizer(self.trained)

    def make_optimizer(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimiser at the hyper-parameter `rate`: SGD where it has a momentum, else Adam."""
        if self.sgd_momentum is None:
            return torch.optim.Adam(parameters, lr=self.hyper["rate"])
        return torch.optim.SGD(parameters, lr=self.hyper["rate"], momentum=self.sgd_momentum)

    def remember(self, batches: Iterable[Tensor]) -> None:
        """Before the stream, get batches of the source, without labels; for adapters that need "source"."""

    def predict(self, x: Tensor) -> Tensor:
        """Return the logits of a batch, and adapt to it."""
        raise NotImplementedError(f"{type(self).__name__} has no predict")

    def reset(self) -> None:
        """Begin again with the network's first weights and statistics, and forget the stream."""
        self.network.load_state_dict(self._first)
        self.restart()
        self.resets += 1

    def descend(self, loss: Tensor) -> None:
        """Move the parameters down the gradient of a loss."""
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()


class Unadapted(Adapter):
    """No adaptation: the trained network in eval mode, which the others are compared with."""

    def predict(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = self.network(x)
        return logits


def by_batch(network: nn.Module, x: Tensor) -> Tensor:
    """Predict with the statistics of the batch in batch norm, all else in eval mode."""
    with batch_statistics(network, pooled=False):
        logits: Tensor = network(x)
    return logits


def affine(layers: Iterable[nn.Module]) -> list[nn.Parameter]:
    """Return scale and shift of the layers that have them."""
    weights = [getattr(layer, name, None) for layer in layers for name in ("weight", "bias")]
    return [weight for weight in weights if weight is not None]


def replace_batch_norms(network: nn.Module, make: Callable[[_BatchNorm], nn.Module]) -> None:
    """Put another layer instead of each batch norm that has running statistics."""
    for parent in list(network.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, _BatchNorm) and layer.running_mean is not None:
                setattr(parent, name, make(layer))


class BlendedNorm(nn.Module):
    """Batch norm with statistics N / (N + n) source + n / (N + n) batch (Schneider et al., 2020).

    N is the `strength` of the source, and n the number of rows, or `count` if given.
    """

    def __init__(self, layer: _BatchNorm, strength: float, count: int | None = None) -> None:
        super().__init__()
        self.layer, self.strength, self.count = layer, strength, count

    def forward(self, x: Tensor) -> Tensor:
        layer: Any = self.layer
        mean, var = torch.zeros_like(layer.running_mean), torch.ones_like(layer.running_var)
        with torch.no_grad():  # with momentum 1 the running statistics become the batch's
            batch_norm(x, mean, var, None, None, True, 1.0, layer.eps)
        share = self.strength / (self.strength + (self.count or len(x)))
        mean, var = mean.lerp(layer.running_mean, share), var.lerp(layer.running_var, share)
        return batch_norm(x, mean, var, layer.weight, layer.bias, False, 0.0, layer.eps)
