"""One training in several processes: each holds the whole batch and encodes its share of the rows.

Each process reads its share of a batch (`Loader(share="batch")`) and gathers the rest. The encoder takes
nearly all of the time; everything else (losses over groups and domains, a method's memory, its draws) is
computed by every process from the same tensors. So a method that knows nothing of processes takes the same
steps as in one, and any process's state is a whole checkpoint.

    forward    z = gather(encoder(x of this process))     the features of all rows, in every process
    backward   dz -> world * dz of this process

The mean of the gradients over processes is then, for the encoder, the sum over all rows; all other parameters
have equal gradients everywhere, and their mean changes nothing. Batch norm takes its statistics from the rows
of all processes, so that a step does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.overrides import TorchFunctionMode

from shiftdata.evaluation.sampling import Ranks
from shiftdata.stable import hash64


class SharedEncoder:
    """Calls an encoder on this process's share of a batch, and returns the features of the whole batch.

    Every process encodes all rows in eval mode (one may predict while the others do not), where the input
    needs a gradient, and where there are fewer rows than processes. Random layers draw independently in each
    process, without touching the generator outside of the encoder.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._seed = self._calls = 0

    def __deepcopy__(self, memo: Any) -> SharedEncoder:
        return self  # a copied network draws from the same count

    def __call__(self, encoder: nn.Module, x: Tensor) -> Tensor:
        rank, world = self.ranks.rank, self.ranks.world
        if not encoder.training or x.requires_grad or len(x) < world:
            features: Tensor = encoder(x)
            return features
        shares = torch.tensor_split(x, world)
        with self._draws(x.device), _GlobalStatistics():
            own = encoder(shares[rank])
        return _gather(own, [len(share) for share in shares], rank)

    @contextmanager
    def _draws(self, device: torch.device) -> Iterator[None]:
        """Seed random layers by the step's seed, the calls since it was set, and the process."""
        seed = torch.initial_seed()
        self._calls = self._calls + 1 if seed == self._seed else 0
        self._seed = seed
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(hash64(seed, "encoder", self._calls, self.ranks.rank))
            yield


class _GlobalStatistics(TorchFunctionMode):
    """Batch norm, of whatever module calls it, with the statistics of the rows of all processes."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (_batch_norm if func is batch_norm else func)(*args, **(kwargs or {}))


def _batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Compute `torch.nn.functional.batch_norm`, in training over the rows of all processes."""
    if not training:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    axes, shape = [0, *range(2, x.ndim)], [1, -1, *[1] * (x.ndim - 2)]
    wide = x if x.dtype == torch.float64 else x.float()
    count = wide.new_tensor([x.numel() / x.shape[1]])
    totals = _sum(torch.cat([wide.sum(axes), count]))
    mean, n = totals[:-1] / totals[-1], totals[-1]
    centred = wide - mean.view(shape)  # in two passes: E x^2 - (E x)^2 cancels digits
    variance = _sum(centred.square().sum(axes)) / n
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((variance * n / (n - 1)).to(running_var.dtype), momentum)
    scale = torch.rsqrt(variance + eps) * (1 if weight is None else weight)
    normed: Tensor = centred * scale.view(shape) + (0 if bias is None else bias.view(shape))
    return normed.to(x.dtype)


class _Gather(torch.autograd.Function):
    """The rows of all processes, in order; the gradient of this process's rows times the processes."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, sizes: Sequence[int], rank: int) -> Tensor:
        begin = sum(sizes[:rank])
        ctx.own, ctx.world = slice(begin, begin + sizes[rank]), len(sizes)
        sent = own.new_zeros(max(sizes), *own.shape[1:])  # all_gather needs equal shapes
        sent[: len(own)] = own
        received = [torch.empty_like(sent) for _ in sizes]
        torch.distributed.all_gather(received, sent)
        return torch.cat([part[:size] for part, size in zip(received, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient[ctx.own] * ctx.world, None, None


class _Sum(torch.autograd.Function):
    """The sum over all processes; so is its gradient."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        total = own.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return _sum(gradient)


_gather: Callable[[Tensor, Sequence[int], int], Tensor] = _Gather.apply
_sum: Callable[[Tensor], Tensor] = _Sum.apply


class GradientSharing:
    """The mean of each gradient over all processes, taken while the backward pass goes on.

    A parameter's gradient is sent once it is complete; all processes compute the same graph, so that they
    send in one order.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], world: int) -> None:
        self.world = world
        self._sent: list[tuple[Any, Tensor]] = []
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._send)  # type: ignore[no-untyped-call]
            for parameter in parameters
            if world > 1 and parameter.requires_grad
        ]

    def close(self) -> None:
        """Remove the hooks from the parameters."""
        for hook in self._hooks:
            hook.remove()

    def wait(self) -> None:
        """Wait for the sums that are under way, and divide them."""
        for work, gradient in self._sent:
            work.wait()
            gradient /= self.world
        self._sent.clear()

    def _send(self, parameter: Tensor) -> None:
        assert parameter.grad is not None  # it is complete
        self._sent.append((torch.distributed.all_reduce(parameter.grad, async_op=True), parameter.grad))


def average(tensors: Iterable[Tensor]) -> None:
    """Replace tensors of each process by their mean over all of them."""
    world = Ranks.of().world
    if world > 1:
        for tensor in tensors:
            torch.distributed.all_reduce(tensor)
            tensor /= world


def gathered(own: Tensor, ranks: Ranks) -> Tensor:
    """Return the rows of all processes in order, where each may have another number of them."""
    if ranks.world == 1:
        return own
    sizes = [torch.zeros(1, dtype=torch.int64, device=own.device) for _ in range(ranks.world)]
    torch.distributed.all_gather(sizes, torch.full_like(sizes[0], len(own)))
    with torch.no_grad():
        return _gather(own, torch.cat(sizes).tolist(), ranks.rank)


def same_everywhere(tensors: Iterable[Tensor]) -> None:
    """Copy the first process's tensors to all: weights that each drew, sums that differ in rounding."""
    if Ranks.of().world > 1:
        for tensor in tensors:
            torch.distributed.broadcast(tensor, 0)


def from_first(value: Any) -> Any:
    """Return the first process's value."""
    values = [value]
    if Ranks.of().world > 1:
        torch.distributed.broadcast_object_list(values, 0)
    return values[0]
