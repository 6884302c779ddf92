"""Losses for targets with classes of their own: a class for unknown rows, and decisions about them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, normalize, one_hot

from shiftdata.baselines.losses.reduce import State, check_1d
from shiftdata.baselines.losses.target import entropy
from shiftdata.baselines.losses.transport import TINY, balanced_transport, unbalanced_plan, unbalanced_scaling

__all__ = ["UniOT", "osbp", "ovanet", "ovanet_unknown", "uan_scores", "uan_weights"]
__all__ += ["with_unknown"]


def with_unknown(logits: Tensor, unknown: Tensor) -> Tensor:
    """Return the logits and one more: above all others in rows where `unknown` holds, else below."""
    last = torch.where(unknown, logits.amax(1) + 1, logits.amin(1) - 1)
    return torch.cat([logits, last[:, None]], 1)


def osbp(logits: Tensor) -> Tensor:
    """Return the mean BCE(p_unknown, 1/2) of target rows, with K + 1 logits (Saito et al., ECCV 2018).

    The head behind `reverse_gradient` pulls p_unknown, of the last class, to 1/2; the encoder pushes it away.
    """
    logs = log_softmax(logits, 1)
    return -(logs[:, -1] + logs[:, :-1].logsumexp(1)).mean() / 2


def ovanet(logits_open: Tensor, y: Tensor) -> Tensor:
    """Return mean (-log p_y + max_{k != y} -log(1 - p_k)) / 2 (Saito and Saenko, ICCV 2021).

    `logits_open` (rows x 2 x classes) have a softmax of two for each class: 1 - p_k, then p_k. The loss of
    target rows is `entropy(logits_open).mean()`.
    """
    logs = log_softmax(logits_open, 1)
    positive = -logs[:, 1].gather(1, y[:, None]).squeeze(1)
    rest = (-logs[:, 0]).masked_fill(one_hot(y, logs.shape[2]).bool(), -torch.inf)
    return ((positive + rest.amax(1)) / 2).mean()


def ovanet_unknown(logits: Tensor, logits_open: Tensor) -> Tensor:
    """Return a mask of unknown rows: p_k < 1/2 for the likeliest class k by `logits`."""
    margin = logits_open[:, 0] - logits_open[:, 1]
    return margin.gather(1, logits.argmax(1, keepdim=True)).squeeze(1) > 0


def unit_range(weight: Tensor) -> Tensor:
    """Scale a batch's weights to the range 0 to 1; equal ones become 1."""
    check_1d(weight=weight)
    spread = weight.max() - weight.min()
    return torch.where(spread > 0, (weight - weight.min()) / spread, 1)


def uan_scores(logits: Tensor, logits_domain: Tensor) -> Tensor:
    """Return w_t = d' - H(p) / log K of target rows; below a threshold (-.5) a row is unknown (UAN).

    d' is the probability of the source by a discriminator that reads detached features.
    """
    return logits_domain.sigmoid() - entropy(logits) / math.log(max(2, logits.shape[1]))


def uan_weights(
    logits: Tensor,
    logits_domain: Tensor,
    logits_target: Tensor,
    logits_domain_target: Tensor,
    temperature: float = 10.0,
) -> tuple[Tensor, Tensor]:
    """Return the importance of source and target rows for `dann` (UAN: You et al., CVPR 2019).

    w_s = H(softmax(f / temperature)) / log K - d' and w_t of `uan_scores`, each brought to 0 to 1 within the
    batch and divided by its mean, without a gradient. SMA multiplies (B,) by (B, 1): its weights do nothing.
    """
    source = unit_range(-uan_scores(logits / temperature, logits_domain).detach())
    target = unit_range(uan_scores(logits_target, logits_domain_target).detach())
    return source / source.mean(), target / target.mean()


def swapped_prediction(own: Tensor, neighbours: Tensor, further: Tensor, temperature: float = 0.1) -> Tensor:
    """Return PCD: rows and their neighbours as targets of each other, and rows of themselves (UniOT).

    All are cosines with prototypes of clusters, q the shares that `balanced_transport` gives to all of them
    together; `further` rows take part in that alone. With p = softmax(cosines / temperature) it is
    mean(-(q' log p + q log p') / 2 - q log p) / 2, ' of the neighbour (Chang et al., NeurIPS 2022).
    """
    with torch.no_grad():
        shares = balanced_transport(torch.cat([own, neighbours, further]))
    mine, theirs = shares[: len(own)], shares[len(own) : 2 * len(own)]
    logs, logs_theirs = (log_softmax(cosines / temperature, 1) for cosines in (own, neighbours))
    local = -(theirs * logs + mine * logs_theirs).sum(1).mean() / 2
    return (local - (mine * logs).sum(1).mean()) / 2


def common_classes(shares: Tensor, columns: Tensor, rows: float) -> Tensor:
    """Return each row's class in a plan of sum 1, -1 if it is not confident or its class is not common.

    A row is confident if its largest share is above 1 / rows, a class common if it gets 1 / K (UniOT).
    """
    share, label = shares.max(1)
    return torch.where((share > 1 / rows) & (columns[label] >= 1 / len(columns)), label, -1)


class UniOT(State):
    """The queue, the masses and the coupling of UniOT (Chang et al., NeurIPS 2022).

    z are features of length 1, `prototypes` those of classes, `centres` those of clusters. `common` (CCD)
    couples a queue of target rows and the batch with the classes, of masses beta <- momentum beta + (1 -
    momentum) (what each class got), and is the cross-entropy of the batch's rows with the common class that
    they have. `private` (PCD) is `swapped_prediction` with the nearest neighbours in queue and batch; SMA's
    code leaves it out. Before a coupling as many rows are made similar to a class (above `similar`) as are
    not: by confident ones that come again, or by points halfway to the farthest class.
    """

    def __init__(
        self,
        classes: int,
        width: int,
        size: int = 2000,
        momentum: float = 0.7,
        similar: float = 0.7,
        temperature: float = 0.1,
    ) -> None:
        super().__init__(
            queue=torch.zeros(size, width),
            queue_row=torch.full((size,), -1),
            mass=torch.full((classes,), 1 / classes),
            # The coupling that decides about a row: log v and the logarithm of the plan's sum, and its rows.
            price=torch.zeros(classes + 1),
            rows=torch.tensor(1),
        )
        self.momentum, self.similar, self.temperature = momentum, similar, temperature

    @torch.no_grad()
    def update(self, z: Tensor, row: Tensor) -> None:
        """Replace the oldest rows of the queue; `row` numbers rows of the target."""
        for queue, new in ((self.queue, z), (self.queue_row, row)):
            queue.copy_(torch.cat([queue, new])[-len(queue) :])

    def common(self, z: Tensor, prototypes: Tensor) -> Tensor:
        """Return CCD of a batch of target rows; renews masses and coupling."""
        drawn = torch.randint(len(self.queue), (len(self.queue),)).to(z.device)
        label, columns = self.couple(torch.cat([self.queue[drawn], z.detach()]), prototypes)
        self.mass.copy_(self.momentum * self.mass + (1 - self.momentum) * columns.to(self.mass))
        label = label[-len(z) :].to(z.device)
        losses = cross_entropy(z @ prototypes.T / self.temperature, label, ignore_index=-1, reduction="sum")
        return losses / (label >= 0).sum().clamp(min=1)

    def private(self, z: Tensor, row: Tensor, centres: Tensor) -> Tensor:
        """Return PCD of a batch of target rows; no row is its own neighbour."""
        others, numbers = torch.cat([self.queue, z]), torch.cat([self.queue_row, row])
        alike = (z @ others.T).detach().masked_fill(numbers == row[:, None], -1)
        drawn = torch.randint(len(self.queue), (len(centres),)).to(z.device)
        nearest = others[alike.argmax(1)]
        cosines = (z @ centres.T, nearest @ centres.T, self.queue[drawn] @ centres.T)
        return swapped_prediction(*cosines, self.temperature)

    @torch.no_grad()
    def couple(self, z: Tensor, prototypes: Tensor) -> tuple[Tensor, Tensor]:
        """Couple rows with classes, by which `predict` decides from now on; return labels and masses."""
        # Adaptive filling, as in the class's docstring: with |missing| more rows, similar and other rows are
        # equally many. Above 0 too few are similar: rows with a label in a first coupling come again.
        similarity = own = similarities(z, prototypes)
        missing = len(z) - 2 * int((own.amax(1) > self.similar).sum())
        if missing > 0:
            added = own[self._solve(own)[0] >= 0]
        else:
            farthest = prototypes[own.argmin(1).to(z.device)]
            added = similarities(normalize(z + farthest, dim=1), prototypes)
        if len(added):
            similarity = torch.cat([added[torch.randint(len(added), (abs(missing),))], own])
        label, columns, price = self._solve(similarity)
        self.price.copy_(price.clamp(min=TINY).log())
        self.rows.fill_(len(similarity))
        return label[-len(z) :], columns

    def _solve(self, similarity: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows' labels, each class's share of the mass, and v with the plan's sum."""
        v = unbalanced_scaling(similarity, self.mass)
        plan = unbalanced_plan(similarity, v, len(similarity))
        total, columns = plan.sum(), plan.sum(0) / plan.sum()
        return common_classes(plan / total, columns, len(plan)), columns, torch.cat([v, total[None]])

    @torch.no_grad()
    def predict(self, z: Tensor, prototypes: Tensor) -> Tensor:
        """Return log P_ik of each row by itself, P of sum 1, and log(1 / rows) for unknown, as logits."""
        price, rows = self.price.cpu().double().exp(), float(self.rows)
        shares = unbalanced_plan(similarities(z, prototypes), price[:-1], rows) / price[-1]
        unknown = shares.new_full((len(shares), 1), 1 / rows)
        return torch.cat([shares.clamp(min=TINY), unknown], 1).log().to(z)


def similarities(z: Tensor, prototypes: Tensor) -> Tensor:
    """Return the cosine of each row with each prototype, in double precision and on the processor."""
    return (z.detach() @ prototypes.detach().T).cpu().double()
