"""Rules that change which groups and labels a model sees: subsets, weights, batches, label shift.

`make_sampler("subg", labels=..., groups=..., seed=0)` makes any of them; `SAMPLERS` lists them. Peers and
their exact rules: BalancingGroups (SUBY, SUBG, RWY, RWG), DomainBed (per domain), RLSbench (Dirichlet, RS).
The order of an epoch is `shiftdata.data.loading.order`.
"""

from shiftdata.data.loading.order import Batches as Batches
from shiftdata.data.loading.order import FixedRows as FixedRows
from shiftdata.data.loading.order import Ranks as Ranks
from shiftdata.data.loading.order import RowSampler as RowSampler
from shiftdata.data.loading.order import Sampler as Sampler
from shiftdata.evaluation.sampling.batches import CellBatches as CellBatches
from shiftdata.evaluation.sampling.cells import cells_of as cells_of
from shiftdata.evaluation.sampling.registry import SAMPLERS as SAMPLERS
from shiftdata.evaluation.sampling.registry import make_sampler as make_sampler
from shiftdata.evaluation.sampling.rows import Reweighted as Reweighted
from shiftdata.evaluation.sampling.rows import dirichlet_marginal as dirichlet_marginal
