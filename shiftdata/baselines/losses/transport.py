"""Optimal transport: balanced in a few rounds, unbalanced, and exact between two batches."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from shiftdata.data.arrays import one_of
from shiftdata.extras import require

__all__ = ["balanced_transport", "exact_transport", "jdot", "jdot_cost", "unbalanced_plan"]
__all__ += ["unbalanced_scaling"]

ROUNDS = 1000  # of the unbalanced transport, at most
TOLERANCE = 1e-6  # of log v
TINY = 1e-300  # sums that underflow to 0 neither divide nor go into a logarithm


def balanced_transport(similarity: Tensor, regularisation: float = 0.05, rounds: int = 3) -> Tensor:
    """Return each row's shares of the columns, about as much of each column in all (Cuturi, NeurIPS 2013).

    Sinkhorn's rounds on exp(similarity / regularisation): columns, then rows, are divided by their sums.
    """
    # On logarithms: exp(s / .05) of cosines near 1 times many rows would overflow 16 bits, and sums lose
    # digits.
    logs = similarity / regularisation
    for _ in range(rounds):
        logs = logs - logs.logsumexp(0, keepdim=True)
        logs = logs - logs.logsumexp(1, keepdim=True)
    return logs.exp()


def unbalanced_scaling(
    similarity: Tensor, mass: Tensor, regularisation: float = 0.01, penalty: float = 0.5
) -> Tensor:
    """Return v of the plan P_ij = u_i exp(s_ij / r) v_j, in double precision (Chizat et al., 2018).

    P minimises sum P (r log P - r - s) + m KL(P 1 | a) + m KL(P' 1 | b), with similarities s, rows of equal
    mass a (of sum 1), the `mass` b of the columns, r = `regularisation` and m = `penalty`. As u_i follows
    from v and row i of s alone, new rows can be coupled later: `unbalanced_plan`.
    """
    # Alternate the two conditions of the minimum, with K = exp(s / r) and the power m / (m + r), which is 1
    # in a balanced transport:  u = (a / K v)^power,  v = (b / K' u)^power.  On the processor: launching
    # hundreds of rounds on few columns on an accelerator takes longer than computing them here.
    # No logarithms as in `balanced_transport`: cosines / .01 are within +-100, and double reaches e^709.
    kernel = torch.exp(similarity.detach().cpu().double() / regularisation)
    mass, power = mass.detach().cpu().double(), penalty / (penalty + regularisation)
    v = torch.full_like(mass, 1 / len(mass))
    for _ in range(ROUNDS):
        u = (1 / len(kernel) / (kernel @ v).clamp(min=TINY)) ** power
        before, v = v, (mass / (kernel.T @ u).clamp(min=TINY)) ** power
        if (v.clamp(min=TINY) / before.clamp(min=TINY)).log().abs().max() < TOLERANCE:
            break
    return v


def unbalanced_plan(
    similarity: Tensor, v: Tensor, rows: float, regularisation: float = 0.01, penalty: float = 0.5
) -> Tensor:
    """Return the mass that each row of 1 / rows gives to each column in the plan of `unbalanced_scaling`."""
    weighted = torch.exp(similarity.detach().cpu().double() / regularisation) * v
    reached = weighted.sum(1, keepdim=True).clamp(min=TINY)  # K v: the formula of u, times K_ij v_j
    return (1 / rows / reached) ** (penalty / (penalty + regularisation)) * weighted


def squared_distances(z: Tensor, other: Tensor) -> Tensor:
    """Return the squared distances of all pairs, exactly 0 for equal rows."""
    return torch.cdist(z, other, compute_mode="donot_use_mm_for_euclid_dist").square()


def exact_transport(cost: Tensor) -> Tensor:
    """Return the cheapest plan from equal masses on the rows to equal masses on the columns.

    With as many rows as columns a cheapest plan is a permutation (Birkhoff): the assignment problem. Other
    shapes are a linear programme. Needs scipy. With a cost that is not finite the plan is uniform.
    """
    rows, columns = cost.shape
    c = cost.detach().cpu().double().numpy()
    if not np.isfinite(c).all():
        return torch.full_like(cost, 1 / cost.numel())
    optimize, sparse = (require(f"scipy.{part}", "an optimal transport") for part in ("optimize", "sparse"))
    if rows == columns:
        plan = torch.zeros_like(cost)
        plan[optimize.linear_sum_assignment(c)] = 1 / rows
        return plan
    # Plan entries in row order: A_eq sums them over each row, then over each column.
    of_rows = sparse.kron(sparse.eye_array(rows), np.ones((1, columns)))
    of_columns = sparse.kron(np.ones((1, rows)), sparse.eye_array(columns))
    masses = np.concatenate([np.full(rows, 1 / rows), np.full(columns, 1 / columns)])
    solved = optimize.linprog(
        c.ravel(), A_eq=sparse.vstack([of_rows, of_columns]), b_eq=masses, method="highs"
    )
    return torch.from_numpy(np.asarray(solved.x).reshape(c.shape)).to(cost)


def jdot_cost(
    y: Tensor,
    z: Tensor,
    z_target: Tensor,
    logits_target: Tensor,
    distance: float = 0.01,
    label: float = 1.0,
    variant: str = "paper",
) -> Tensor:
    """Return DeepJDOT's cost of each source row (y, z) with each target row (Damodaran et al., ECCV 2018).

    distance |z_i - z_j|^2 + label L(y_i, f_j), L the cross-entropy (`paper`), or |onehot(y_i) - p_j|^2
    (`fixed`). `code` (SMA): the cosine *similarity* of z_i and z_j and the probability p_j[y_i], both of
    the wrong sign: it couples the rows that are least alike.
    """
    one_of("variant", variant, ("fixed", "paper", "code"))
    if variant == "code":
        alike = normalize(z, dim=1) @ normalize(z_target, dim=1).T
        return distance * alike + label * logits_target.softmax(1).T[y]
    if variant == "fixed":
        losses = squared_distances(one_hot(y, logits_target.shape[1]).to(z), logits_target.softmax(1))
    else:
        losses = -logits_target.log_softmax(1).T[y]
    return distance * squared_distances(z, z_target) + label * losses


def jdot(cost: Tensor, plan: Tensor | None = None) -> Tensor:
    """Return sum gamma_ij cost_ij, gamma = `plan` or `exact_transport(cost)` (DeepJDOT).

    The authors solve for the plan in eval mode by the cost of `fixed`, and train that of `paper`.
    """
    return ((exact_transport(cost) if plan is None else plan) * cost).sum()
