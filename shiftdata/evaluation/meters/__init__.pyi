from .bounds import Bounds as Bounds
from .bounds import bounds as bounds
from .concept import ConceptShift as ConceptShift
from .concept import concept_shift_on_features as concept_shift_on_features
from .covariate import CovariateShift as CovariateShift
from .covariate import covariate_shift as covariate_shift
