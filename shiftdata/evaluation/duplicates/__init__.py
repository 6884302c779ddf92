"""Near-duplicates: examples of different origins that show the same, above all on both sides of a split.

near_duplicates    compare the examples of a base -> Duplicates
summary_of         the result in a sentence
kept_duplicates    the last result for a dataset, from the user's cache; `keep` writes it
"""

from shiftdata.evaluation.duplicates.clusters import Cluster as Cluster
from shiftdata.evaluation.duplicates.clusters import Duplicates as Duplicates
from shiftdata.evaluation.duplicates.clusters import Member as Member
from shiftdata.evaluation.duplicates.clusters import keep as keep
from shiftdata.evaluation.duplicates.clusters import kept_duplicates as kept_duplicates
from shiftdata.evaluation.duplicates.clusters import summary_of as summary_of
from shiftdata.evaluation.duplicates.search import base_compared as base_compared
from shiftdata.evaluation.duplicates.search import near_duplicates as near_duplicates
from shiftdata.evaluation.duplicates.search import rows_compared as rows_compared
