"""The distance of two pictures by their pixels: aligned, with brightness and contrast fitted.

The middle of both pictures is aligned by Gauss-Newton, first on 16 x 16 pixels, which most pairs that merely
look alike do not pass, then on 32 x 32. What is left is measured cell by cell: the worst cells count, for a
letter in another font differs in a few places, and a copy nowhere. The unit is the contrast of the pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.evaluation.duplicates.neighbours import Form, neighbours

Floats: TypeAlias = NDArray[np.float32]

#: Pixels of a side of the small pictures that propose and sift pairs, and of those that decide.
COARSE, SIDE = 16, 32
#: Cells of a side; those at each edge where a caption or a frame may lie, which align nothing.
CELLS, RIM = 16, 3
#: Neighbours of each picture in each of three searches; and their least correlation.
NEIGHBOURS, LEAST = 8, 0.5
#: Pairs that are aligned at once, and steps of each alignment.
PAIRS, STEPS, FINE_STEPS, FIT_STEPS = 1024, 5, 4, 6
#: Root mean square errors of the small pictures, as a share of their contrast, that a pair may have.
MOST_ERROR = 0.3
#: That up to which a caption or a frame may be all that differs.
SAME_MIDDLE = 0.12
#: Bounds of scale and shift, as a share of half a side, and of the gain.
MOST_MOVE, GAINS = 0.12, (0.4, 2.5)
#: Grey levels below which contrast does not count: noise of an empty picture.
LEAST_CONTRAST = 12.0
#: Cells that a caption or a frame may cover, and the worst ones whose mean is the distance.
CAPTION, FRAME, WORST = 3, 3, 6
#: A caption or a frame changes so large a part of its edge.
COVERED = 0.6
#: The part of a cell that must lie inside both pictures.
LEAST_SHARE = 0.7
FAR = 9.0
#: Bounds of the usual threshold, and its share of the distance of look-alikes.
THRESHOLDS, SHARE = (0.07, 0.25), 0.6
#: Share and lower bound of a pair's own threshold, where many pictures look alike.
OWN_SHARE, LEAST_THRESHOLD = 0.3, 0.02
GREY = np.array([0.299, 0.587, 0.114], np.float32)


@dataclass(frozen=True)
class Small:
    """Grey pictures of 16 x 16, slightly blurred, as an encoder."""

    size = COARSE
    modality = "image"
    fingerprint = "near-duplicates 1"

    def __call__(self, pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
        blurred: NDArray[np.uint8] = np.rint(_blur(pictures @ GREY)).astype(np.uint8)
        return blurred


class Sifted(NamedTuple):
    """Pairs that may be near-duplicates: the second, perhaps mirrored and moved, is compared with the first.

    The first is the brighter one: what is saturated cannot be made dark again. `moves` has scale and shift
    of x and of y, gain and offset; `error` is that of the middle.
    """

    rows: IntArray
    moves: Floats
    mirrored: NDArray[np.bool_]
    error: Floats

    def part(self, at: slice) -> Sifted:
        return Sifted(self.rows[at], self.moves[at], self.mirrored[at], self.error[at])


def _signed(pictures: NDArray[Any], rim: int = 0) -> Floats:
    """Return pictures without their mean as vectors: their cosine is their correlation."""
    inner = pictures[:, rim : COARSE - rim, rim : COARSE - rim].reshape(len(pictures), -1).astype(np.float32)
    signed: Floats = inner - inner.mean(1, keepdims=True)
    return signed


def candidates(small: NDArray[np.uint8], origins: IntArray, splits: IntArray) -> IntArray:
    """Return pairs of nearest neighbours: by whole pictures, by their middle, and by mirror images."""
    searches: tuple[tuple[Form, Form], ...] = (
        (_signed, _signed),
        (_middle, _middle),
        (_middle, lambda block: _middle(block[:, :, ::-1])),
    )
    found = [
        neighbours(small, origins, splits, NEIGHBOURS, form=form, query=query, least=LEAST)
        for form, query in searches
    ]
    return np.unique(np.concatenate(found), axis=0)


def _middle(pictures: NDArray[Any]) -> Floats:
    return _signed(pictures, RIM * COARSE // CELLS)


def sift(small: NDArray[np.uint8], pairs: IntArray) -> Sifted:
    """Return the pairs whose small pictures agree once they are aligned."""
    kept = [_sift(small, pairs[start : start + PAIRS]) for start in range(0, max(1, len(pairs)), PAIRS)]
    return Sifted(*(np.concatenate(part) for part in zip(*kept, strict=True)))


def _sift(small: NDArray[np.uint8], pairs: IntArray) -> Sifted:
    a, b = (small[end].astype(np.float32) for end in pairs.T)
    swapped = a.mean((1, 2)) < b.mean((1, 2))
    pairs = np.where(swapped[:, None], pairs[:, ::-1], pairs)
    a, b = (small[end].astype(np.float32) for end in pairs.T)
    x, y, z = _middle(a), _middle(b), _middle(b[:, :, ::-1])
    mirrored = (x * z).sum(1) > (x * y).sum(1) + 1e-3 * (x * x).sum(1)
    b[mirrored] = b[mirrored][:, :, ::-1]
    start = np.tile(np.array([0, 0, 0, 0, 1, 0], np.float32), (len(a), 1))
    moves = _aligned(a, b, start, STEPS)
    rms = np.minimum(_error(a, b, moves), _error(a, b, _still(moves)))
    good = rms <= MOST_ERROR
    return Sifted(pairs[good], moves[good], mirrored[good], rms[good])


def _error(a: Floats, b: Floats, moves: Floats) -> Floats:
    """Return the root mean square error of the middle, as a share of its contrast."""
    warped, inside = _warped(b[..., None], moves)
    fitted = np.clip(_brighter(warped[..., 0], moves[:, 4], moves[:, 5]), 0, 255)
    weight = _weight(COARSE) * inside
    mean = (weight * (fitted - a) ** 2).sum((1, 2)) / np.maximum(weight.sum((1, 2)), 1)
    contrast = np.minimum(_middle(a).std(1), _middle(fitted).std(1))
    error: Floats = np.sqrt(mean) / np.maximum(contrast, LEAST_CONTRAST)
    return error


def distances(pixels: NDArray[np.uint8], sifted: Sifted) -> Floats:
    """Return the distance of each pair; its rows are those of `pixels`, n x 32 x 32 x 3."""
    parts = [np.empty(0, np.float32)]
    for start in range(0, len(sifted.rows), PAIRS):
        at = slice(start, start + PAIRS)
        a, b = (pixels[end].astype(np.float32) for end in sifted.rows[at].T)
        mirrored = sifted.mirrored[at]
        b[mirrored] = b[mirrored][:, :, ::-1]
        same = sifted.error[at] <= SAME_MIDDLE
        moves = _aligned(_blur(a) @ GREY, _blur(b) @ GREY, sifted.moves[at], FINE_STEPS)
        parts.append(np.minimum(_distances(a, b, _still(moves), same), _distances(a, b, moves, same)))
    return np.concatenate(parts)


def usual_thresholds(count: int, pairs: IntArray, distance: Floats) -> Floats:
    """Return the largest distance of near-duplicates for each pair, by how much pictures here look alike.

    It is a share of the distance within which one picture in a hundred has five look-alikes, in bounds. Where
    that is below the lower bound, as among letters, each pair has a threshold of its own: a smaller share of
    the distance of the fifth look-alike of either picture. A T in one font is a T in many others.
    """
    ends, both = np.concatenate(pairs.T), np.tile(distance, 2)
    order = np.lexsort((both, ends))
    ends, both = ends[order], both[order]
    place = np.arange(len(ends)) - np.searchsorted(ends, ends)
    fifth = np.ones(count, np.float32)
    fifth[ends[place == 4]] = np.minimum(both[place == 4], 1)
    usual = SHARE * float(np.quantile(fifth, 0.01))
    if usual >= THRESHOLDS[0]:
        return np.full(len(pairs), min(usual, THRESHOLDS[1]), np.float32)
    own = np.clip(OWN_SHARE * fifth[pairs].min(1), LEAST_THRESHOLD, THRESHOLDS[0])
    return np.asarray(own, np.float32)


def _still(moves: Floats) -> Floats:
    """Return the gain and offset alone: most copies lie where their original does."""
    return moves * np.array([0, 0, 0, 0, 1, 1], np.float32)


def _distances(a: Floats, b: Floats, moves: Floats, same: NDArray[np.bool_]) -> Floats:
    """Compare pictures under given moves; those of the `same` middle also without a caption or a frame."""
    warped, inside = _warped(b, moves)
    best = np.full(len(a), FAR, np.float32)
    for kept, edge in _areas():
        if edge.any():
            best[same] = np.minimum(best[same], _worst(a[same], warped[same], inside[same], kept, edge))
        else:
            best = _worst(a, warped, inside, kept, edge)
    return best


def _worst(
    a: Floats, warped: Floats, inside: Floats, kept: NDArray[np.bool_], edge: NDArray[np.bool_]
) -> Floats:
    """Return the error of the worst cells among those kept; `FAR` where nothing covers the edge."""
    share = _blur(_cells(inside[..., None]))[..., 0]
    pixels = np.kron(kept, np.ones((SIDE // CELLS, SIDE // CELLS), bool))
    fitted = _as_bright(a, warped, inside * pixels)
    # With its sign: where one picture is sharper or noisier than the other, errors cancel within a cell.
    signed = _cells((fitted - a) * inside[..., None])
    error = np.abs(_blur(signed)).mean(-1) / np.maximum(share, 0.25)
    error[share < LEAST_SHARE] = 0
    contrast = np.minimum(_contrast(a, pixels), _contrast(fitted, pixels))
    worst = np.sort(error[:, kept], axis=1)[:, -WORST:].mean(1)
    distance = worst / np.maximum(contrast, LEAST_CONTRAST)
    if edge.any():  # what covers an edge differs along most of it
        covered = error[:, edge] > 2 * np.maximum(worst, 4)[:, None]
        distance[covered.mean(1) < COVERED] = FAR
    result: Floats = distance
    return result


def _areas() -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield the cells to compare, without a caption or a frame, with the edge that must differ then."""
    whole = np.ones((CELLS, CELLS), bool)
    yield whole, ~whole
    for below in (False, True):
        kept, edge = whole.copy(), ~whole
        kept[slice(-CAPTION, None) if below else slice(0, CAPTION)] = False
        edge[-1 if below else 0] = True
        yield kept, edge
    kept = np.zeros_like(whole)
    kept[FRAME:-FRAME, FRAME:-FRAME] = True
    edge = whole.copy()
    edge[1:-1, 1:-1] = False
    yield kept, edge


def _contrast(pictures: Floats, pixels: NDArray[np.bool_]) -> Floats:
    contrast: Floats = pictures[:, pixels].std(axis=1).mean(-1)
    return contrast


def _cells(x: Floats) -> Floats:
    side = SIDE // CELLS
    cells: Floats = x.reshape(len(x), CELLS, side, CELLS, side, -1).mean((2, 4))
    return cells


def _aligned(a: Floats, b: Floats, moves: Floats, steps: int) -> Floats:
    """Return the moves, gain and offset by which grey pictures b become a: the least squares of the middle.

    Each step linearizes b(u (1 + scale) + shift) * gain + offset - a in the six numbers. A pixel that differs
    much has little weight, one that is saturated none. The diagonal is raised by 1 %: on a plain area a
    number may have no effect.
    """
    side = a.shape[1]
    u, middle = _places(side), _weight(side)
    for _ in range(steps):
        colours, inside = _warped(b[..., None], moves)
        warped = colours[..., 0]
        predicted = _brighter(warped, moves[:, 4], moves[:, 5])
        error, weight = _missed(predicted, a)
        typical = 3 * (np.abs(error) * inside * middle).mean((1, 2), keepdims=True)
        weight *= middle * inside / (1 + (error / np.maximum(typical, 6)) ** 2)
        along_x, along_y = np.zeros_like(warped), np.zeros_like(warped)
        gain = moves[:, 4, None, None] * (side / 4)  # pixels per unit of u, over two pixels
        along_x[:, :, 1:-1] = gain * (warped[:, :, 2:] - warped[:, :, :-2])
        along_y[:, 1:-1] = gain * (warped[:, 2:] - warped[:, :-2])
        columns = along_x * u, along_x, along_y * u[:, None], along_y, warped, np.ones_like(warped)
        jacobian = np.stack(columns, 1).reshape(len(a), 6, -1)
        weighted = jacobian * weight.reshape(len(a), 1, -1)
        normal = weighted @ jacobian.transpose(0, 2, 1)
        gradient = weighted @ error.reshape(len(a), -1, 1)
        scale = np.sqrt(np.maximum(np.diagonal(normal, axis1=1, axis2=2), 1e-6))
        normal = normal / (scale[:, :, None] * scale[:, None]) + 0.01 * np.eye(6, dtype=np.float32)
        step = np.linalg.solve(normal, gradient / scale[..., None])[..., 0] / scale
        moves = (moves - step).astype(np.float32)
        moves[:, :4] = np.clip(moves[:, :4], -MOST_MOVE, MOST_MOVE)
        moves[:, 4] = np.clip(moves[:, 4], *GAINS)
    return moves


def _missed(predicted: Floats, a: Floats) -> tuple[Floats, Floats]:
    """Return errors, and weights: a saturated pixel that should be even brighter or darker counts 0.

    It keeps some weight, for without any the fit would jump to and fro.
    """
    beyond = ((a > 249) & (predicted > a)) | ((a < 3) & (predicted < a))
    return np.where(beyond, 0, predicted - a), np.where(beyond, np.float32(0.25), np.float32(1))


def _as_bright(a: Floats, warped: Floats, inside: Floats) -> Floats:
    """Return warped pictures with the brightness and contrast of a; each colour is saturated by itself."""
    gain, offset = np.ones(len(a), np.float32), np.zeros(len(a), np.float32)
    for _ in range(FIT_STEPS):
        predicted = _brighter(warped, gain, offset)
        error, weight = _missed(predicted, a)
        weight *= inside[..., None]
        target = predicted - error
        total = np.maximum(weight.sum((1, 2, 3)), 1e-3)
        x, y = ((weight * of).sum((1, 2, 3)) / total for of in (warped, target))
        apart = warped - x[:, None, None, None]
        spread = (weight * apart**2).sum((1, 2, 3))
        fit = (weight * apart * target).sum((1, 2, 3)) / np.maximum(spread, 1e-3)
        varied = spread > 25 * total  # a plain picture has no contrast to fit
        gain = np.where(varied, np.clip(fit, *GAINS), gain)
        offset = np.where(varied, y - gain * x, offset)
    fitted: Floats = np.clip(_brighter(warped, gain, offset), 0, 255)
    return fitted


def _warped(pictures: Floats, moves: Floats) -> tuple[Floats, Floats]:
    """Return pictures scaled and shifted, n x side x side x colours, and which pixels lie inside of them."""
    side = pictures.shape[1]
    (across, inside_x), (down, inside_y) = (_sampling(moves[:, at], moves[:, at + 1], side) for at in (0, 2))
    colours = [down @ pictures[..., at] @ across.transpose(0, 2, 1) for at in range(pictures.shape[-1])]
    return np.stack(colours, -1), inside_y[:, :, None] * inside_x[:, None]


def _sampling(scale: Floats, shift: Floats, side: int) -> tuple[Floats, Floats]:
    """Return matrices that sample an axis at u (1 + scale) + shift, by cubic splines; which u lie inside."""
    at = ((_places(side) * (1 + scale[:, None]) + shift[:, None] + 1) * side - 1) / 2
    inside = ((at >= -0.5) & (at <= side - 0.5)).astype(np.float32)
    far = np.abs(np.clip(at, 0, side - 1)[..., None] - np.arange(side, dtype=np.float32))
    cubic = np.where(far < 1, (1.5 * far - 2.5) * far**2 + 1, ((2.5 - far / 2) * far - 4) * far + 2)
    cubic[far >= 2] = 0
    return cubic / cubic.sum(-1, keepdims=True), inside


def _places(side: int) -> Floats:
    """Return the centres of pixels from -1 to 1."""
    return ((2 * np.arange(side) + 1) / side - 1).astype(np.float32)


def _weight(side: int) -> Floats:
    rim = RIM * side // CELLS
    weight = np.zeros((side, side), np.float32)
    weight[rim:-rim, rim:-rim] = 1
    return weight


def _brighter(pictures: Floats, gain: Floats, offset: Floats) -> Floats:
    """Multiply each picture by its gain, and add its offset."""
    shape = (-1, *[1] * (pictures.ndim - 1))
    return np.asarray(gain.reshape(shape) * pictures + offset.reshape(shape), np.float32)


def _blur(x: Floats) -> Floats:
    """Blur by 1, 2, 1 along both sides."""
    edges = ((0, 0),) * (x.ndim - 3)
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1), *edges), mode="edge")
    tall = (wide[:, :, :-2] + 2 * wide[:, :, 1:-1] + wide[:, :, 2:]) / 4
    return np.asarray((tall[:, :-2] + 2 * tall[:, 1:-1] + tall[:, 2:]) / 4, np.float32)
