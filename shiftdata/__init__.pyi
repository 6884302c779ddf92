"""The public names, and the module of each: `__init__.py` imports one when it is first used."""

from . import errors as errors
from .baselines import losses as losses
from .baselines import predict as predict
from .baselines import train as train
from .bench.papers import published as published
from .data.dataset import open_dataset as open_dataset
from .data.fetching import fetch as fetch
from .data.loading.plain_datasets import info as info
from .data.loading.plain_datasets import list_datasets as list_datasets
from .data.loading.plain_datasets import load_dataset as load_dataset
from .data.loading.tars import webdataset as webdataset
from .data.metadata import Metadata as Metadata
from .data.metadata import metadata_from_table as metadata_from_table
from .data.metadata import read_metadata as read_metadata
from .evaluation.export import export as export
from .evaluation.protocols import protocol as protocol
from .evaluation.protocols import task as task
from .evaluation.protocols.rlsbench import rlsbench as rlsbench
from .evaluation.tasks import Task as Task
from .evaluation.tasks import imagenet_outputs as imagenet_outputs
from .evaluation.verify import verify as verify

__version__: str
