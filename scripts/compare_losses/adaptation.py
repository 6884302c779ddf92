"""Losses of adaptation, open sets and label shift against other packages and plain loops.

The loops follow the papers' formulas row by row and know nothing of our code. skada's DeepJDOT is the variant
`paper`, of equally many rows, and takes no others; its plan is POT's. Functions that have no gradient on
either side are compared by value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from importlib import import_module

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from scripts.compare_losses.comparing import Comparison, Draw, Function, two_sets, value
from shiftdata.baselines import losses
from shiftdata.baselines.losses.open_set import swapped_prediction

ROWS, CLASSES, FEATURES = 11, 4, 6


def normal(*shapes: tuple[int, ...], scale: float = 2.0) -> Draw:
    """Draw normal tensors."""
    return lambda generator: [
        scale * torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes
    ]


def labelled(*shapes: tuple[int, ...]) -> Draw:
    """Draw class numbers, then normal tensors."""

    def draw(generator: torch.Generator) -> Sequence[Tensor]:
        y = torch.randint(CLASSES, (ROWS,), generator=generator)
        return y, *normal(*shapes)(generator)

    return draw


def probabilities(logits: Tensor) -> Tensor:
    """Return the softmax of one row by its definition."""
    powers = torch.exp(logits - logits.max().detach())
    return powers / powers.sum()


def entropy_of(p: Tensor) -> Tensor:
    return -(p * p.log()).sum()


def peer(module: str, name: str, **options: object) -> Function:
    """Return a function of another package, or call a layer of pytorch-adapt."""

    def theirs(*inputs: Tensor) -> Tensor:
        function = getattr(import_module(module), name)
        loss: Tensor = (function(**options) if isinstance(function, type) else function)(*inputs)
        return loss

    return theirs


# Adversarial losses.


def dann_loop(source: Tensor, target: Tensor, w: Tensor, v: Tensor) -> Tensor:
    total = sum(-w[i] * torch.log(1 / (1 + torch.exp(-source[i]))) for i in range(len(source)))
    of_target = sum(-v[j] * torch.log(1 - 1 / (1 + torch.exp(-target[j]))) for j in range(len(target)))
    return (total / len(source) + of_target / len(target)) / 2


def dann_inputs(generator: torch.Generator) -> Sequence[Tensor]:
    source, target = normal((ROWS,), (7,))(generator)
    return source, target, *(torch.rand(size, generator=generator) + 0.1 for size in (ROWS, 7))


def cdan_map_loop(z: Tensor, logits: Tensor) -> Tensor:
    rows = [
        [p * number for p in probabilities(f) for number in row] for row, f in zip(z, logits, strict=True)
    ]
    return torch.stack([torch.stack(row) for row in rows])


def class_weights_scipy(confusion: Tensor, observed: Tensor) -> Tensor:
    """Non-negative least squares, the constraint as a row of much weight."""
    from scipy.optimize import nnls

    c, mu = confusion.numpy(), observed.numpy()
    rows, aims = np.vstack([c, 1e4 * c.sum(0)]), np.append(mu, 1e4)
    return torch.from_numpy(nnls(rows, aims)[0])


def confusions(generator: torch.Generator) -> Sequence[Tensor]:
    confusion = torch.rand(CLASSES, CLASSES, generator=generator) + 3 * torch.eye(CLASSES)
    observed = torch.rand(CLASSES, generator=generator) + 0.1
    return (confusion / confusion.sum()).double(), (observed / observed.sum()).double()


def adversarial_step_loop(x: Tensor, origin: Tensor, gradient: Tensor) -> Tensor:
    rows = []
    for row, start, g in zip(x, origin, gradient, strict=True):
        shift = row + 0.4 * g / g.norm() - start
        rows.append(start + shift * min(1.0, 0.5 / float(shift.norm())))
    return torch.stack(rows)


# Losses of the target.


def inverse(z: Tensor) -> Tensor:
    _, whitener = losses.whitening(z)
    return whitener @ whitener


def inverse_sklearn(z: Tensor) -> Tensor:
    from sklearn.covariance import ShrunkCovariance

    return torch.from_numpy(ShrunkCovariance(shrinkage=0.01).fit(z.numpy()).precision_)


# Transports.


def jdot(x: Tensor, y: Tensor) -> Tensor:
    """DeepJDOT: the first numbers of `x` say a row's class, those of `y` are logits."""
    return losses.jdot(losses.jdot_cost(x[:, :3].argmax(1), x, y, y[:, :3], 0.1, 1.0))


def jdot_skada(x: Tensor, y: Tensor) -> Tensor:
    from skada.deep.losses import deepjdot_loss

    loss: Tensor = deepjdot_loss(x[:, :3].argmax(1), y[:, :3], x, y, 0.1, 1.0)
    return loss


def exact_pot(cost: Tensor) -> Tensor:
    """The cost of a cheapest plan of other shapes than a square."""
    import ot

    masses = (np.full(size, 1 / size) for size in cost.shape)
    return (torch.from_numpy(ot.emd(*masses, cost.detach().numpy())) * cost).sum()


def cosines(x: Tensor, y: Tensor) -> Tensor:
    return (normalize(x, dim=1) @ normalize(y, dim=1).T).double()


def masses_of(columns: int) -> Tensor:
    return torch.arange(1.0, columns + 1).double() / sum(range(1, columns + 1))


def unbalanced(x: Tensor, y: Tensor) -> Tensor:
    """UniOT's: the similarity of what its transport couples, rows of `x` with rows of `y`."""
    alike = cosines(x, y)
    v = losses.unbalanced_scaling(alike, masses_of(len(y)))
    return (losses.unbalanced_plan(alike, v, len(x)) * alike).sum()


def unbalanced_pot(x: Tensor, y: Tensor) -> Tensor:
    import ot

    alike, rows = cosines(x, y), np.full(len(x), 1 / len(x))
    plan = ot.unbalanced.sinkhorn_knopp_unbalanced(
        rows, masses_of(len(y)).numpy(), -alike.detach().numpy(), 0.01, 0.5, reg_type="entropy",
        stopThr=1e-12, numItermax=10000,
    )  # fmt: skip
    return (torch.from_numpy(plan) * alike).sum()


def balanced(x: Tensor, y: Tensor) -> Tensor:
    return losses.balanced_transport(cosines(x, y), 0.1, rounds=2000).double()


def balanced_pot(x: Tensor, y: Tensor) -> Tensor:
    import ot

    masses = (np.full(size, 1 / size) for size in (len(x), len(y)))
    plan = ot.sinkhorn(*masses, -cosines(x, y).numpy(), 0.1, stopThr=1e-12, numItermax=10000)
    return len(x) * torch.from_numpy(plan)


# Open sets.


def osbp_loop(logits: Tensor) -> Tensor:
    unknown = [probabilities(f)[-1] for f in logits]
    return torch.stack([-(p.log() + (1 - p).log()) / 2 for p in unknown]).mean()


def ovanet_loop(y: Tensor, logits: Tensor) -> Tensor:
    total = logits.sum() * 0
    for label, pairs in zip(y.tolist(), logits, strict=True):
        p = [probabilities(pairs[:, k])[1] for k in range(CLASSES)]
        hardest = max((p[k] for k in range(CLASSES) if k != label), key=float)
        total = total - p[label].log() - (1 - hardest).log()
    return total / 2 / len(y)


def uan_loop(f: Tensor, d: Tensor, f_target: Tensor, d_target: Tensor) -> Tensor:
    """You et al.: entropies as shares of the largest, sigmoids, then 0 to 1 and a mean of 1."""
    largest = math.log(CLASSES)
    source = [
        entropy_of(probabilities(f[i] / 10)) / largest - 1 / (1 + torch.exp(-d[i])) for i in range(len(f))
    ]
    target = [
        1 / (1 + torch.exp(-d_target[j])) - entropy_of(probabilities(f_target[j])) / largest
        for j in range(len(f_target))
    ]
    parts = []
    for scores in (torch.stack(source), torch.stack(target)):
        scaled = (scores - scores.min()) / (scores.max() - scores.min())
        parts.append(scaled * len(scaled) / scaled.sum())
    return torch.cat(parts)


def swapped_loop(own: Tensor, near: Tensor, far: Tensor) -> Tensor:
    q = torch.exp(torch.cat([own, near, far]).detach().double() / 0.05)
    for _ in range(3):
        q = q / q.sum(0)
        q = q / q.sum(1, keepdim=True)
    total = own.sum() * 0
    for i in range(len(own)):
        p, p_near = probabilities(own[i] / 0.5), probabilities(near[i] / 0.5)
        mine, theirs = q[i].float(), q[len(own) + i].float()
        total = total - ((theirs * p.log()).sum() + (mine * p_near.log()).sum()) / 2 - (mine * p.log()).sum()
    return total / 2 / len(own)


Z, LOGITS, PAIRS = (ROWS, FEATURES), (ROWS, CLASSES), (ROWS, 2, CLASSES)
ADAPT, POT, LAYERS = ("pytorch_adapt",), ("ot",), "pytorch_adapt.layers"

COMPARISONS = (
    Comparison("Reversal, pytorch-adapt", partial(losses.reverse_gradient, coefficient=0.3),
               peer(LAYERS, "GradientReversal", weight=0.3), normal(Z), ADAPT),
    Comparison("DANN with weights, loop", losses.dann, dann_loop, dann_inputs),
    Comparison("CDAN's map, loop", lambda z, f: losses.cdan_map(z, f.softmax(1)), cdan_map_loop,
               normal(Z, LOGITS)),
    value("IW-DANN's weights, scipy", losses.class_weights, class_weights_scipy, confusions, ("scipy",)),
    value("Adversarial step, loop", partial(losses.adversarial_step, step=0.4, radius=0.5),
          adversarial_step_loop, normal(Z, Z, Z, scale=0.2)),
    Comparison("TENT, pytorch-adapt", losses.tent, peer(LAYERS, "EntropyLoss"), normal(LOGITS), ADAPT),
    Comparison("MCD, pytorch-adapt", losses.mcd, peer(LAYERS, "MCDLoss"), two_sets(20, 20, 16), ADAPT),
    value("DARE's whitening, scikit-learn", inverse, inverse_sklearn, normal((40, FEATURES)), ("sklearn",)),
    Comparison("DeepJDOT, skada", jdot, jdot_skada, two_sets(20, 20, 16), ("skada", "ot")),
    Comparison("Exact transport, POT", losses.jdot, exact_pot, normal((7, 12)), POT),
    Comparison("UniOT's transport, POT", unbalanced, unbalanced_pot, two_sets(20, 7, 16), POT),
    value("Balanced transport, POT", balanced, balanced_pot, two_sets(20, 7, 16), POT),
    Comparison("OSBP, loop", losses.osbp, osbp_loop, normal((ROWS, CLASSES + 1))),
    Comparison("OVANet, loop", lambda y, f: losses.ovanet(f, y), ovanet_loop, labelled(PAIRS)),
    value("UAN's weights, loop", lambda *logits: torch.cat(losses.uan_weights(*logits)), uan_loop,
          normal(LOGITS, (ROWS,), (9, CLASSES), (9,))),
    Comparison("UniOT's PCD, loop", partial(swapped_prediction, temperature=0.5), swapped_loop,
               normal(LOGITS, LOGITS, (5, CLASSES), scale=0.1)),
)  # fmt: skip
