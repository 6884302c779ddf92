"""Labels of pairs that may be the same picture; the most alike come first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.dataset import DatasetName, open_dataset
from shiftdata.data.look_alikes import nearest_pairs
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.labelling.examples import chosen_rows, pictures_of
from shiftdata.evaluation.labelling.purposes import DUPLICATES
from shiftdata.evaluation.labelling.table import Key
from shiftdata.evaluation.labelling.work import Item, Shown
from shiftdata.serve.pages.look_alikes import AT_ONCE, base_of, hashes_of
from shiftdata.serve.pages.rows import Rows

#: Bits of 64 in which the hashes of a pair differ at most, and pairs at most.
BITS, MOST_PAIRS = 10, 1000


class Duplicates:
    """Pairs of different origins, proposed by a hash of one picture an origin: that of the least severity."""

    purpose = DUPLICATES

    def __init__(
        self,
        name: DatasetName,
        base: str | None = None,
        conditions: Sequence[str] = (),
        on_done: Callable[[int, int], object] = lambda count, total: None,
    ) -> None:
        dataset = open_dataset(name)
        self.rows = pictures_of(dataset, base or base_of(dataset.manifest))
        rows = _one_an_origin(self.rows, chosen_rows(self.rows, conditions))
        keys = self.rows.metadata.keys(rows).to_pylist()
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self._rows, self._names = rows[order], [keys[one] for one in order]
        hashes = []
        for some in np.array_split(self._rows, -(-len(rows) // AT_ONCE)):
            hashes.append(hashes_of(self.rows, some))
            on_done(len(some), len(rows))
        self._pairs, self._apart = nearest_pairs(np.concatenate(hashes), MOST_PAIRS, BITS)
        if not len(self._pairs):
            raise InputError(
                f"no two of {len(rows):,} pictures of {dataset.manifest.name}/{self.rows.base} are alike: "
                f"their hashes differ in more than {BITS} of 64 bits"
            )
        self.keys: list[Key] = [(self._names[one], self._names[two]) for one, two in self._pairs.tolist()]
        self.title = f"{dataset.manifest.title}: {self.rows.base}"

    def item(self, number: int) -> Item:
        details = self.rows.details(self._rows[self._pairs[number]])
        names = self.rows.metadata.labels
        pictures = [Shown(f"{names[one['label']]}, {one['origin']}") for one in details]
        apart = f"in {self._apart[number]} of 64 bits"
        return Item(title=" and ".join(self.keys[number]), facts={"hashes differ": apart}, pictures=pictures)

    def picture(self, number: int, place: int) -> bytes:
        if place >= 2:
            raise NotFoundError(f"picture {place} does not exist here: a pair has 0 and 1")
        return self.rows.examples([int(self._rows[self._pairs[number, place]])])[0]

    def knows(self, key: Key) -> bool:
        return bool((self.rows.metadata.rows_of(pa.array([*key], pa.large_string())) >= 0).all())


def _one_an_origin(rows: Rows, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of some rows one of each label and origin: that of the least severity, then the first one."""
    known = rows.metadata
    severity = np.nan_to_num(known.columns["severity"][chosen])
    group = known.label[chosen].astype(np.int64) * len(known.origin_names) + known.origin[chosen]
    order = np.lexsort((chosen, severity, group))
    firsts = np.flatnonzero(np.diff(group[order], prepend=-1))
    return chosen[order[firsts]]
