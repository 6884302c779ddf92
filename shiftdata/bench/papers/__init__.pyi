from .numbers import PAPERS as PAPERS
from .numbers import PublishedTable as PublishedTable
from .numbers import citation as citation
from .numbers import published_tables as published_tables
from .ranking import Ranking as Ranking
from .ranking import ranking as ranking
from .results import Results as Results
from .results import published as published
