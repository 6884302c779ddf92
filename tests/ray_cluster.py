"""A real Ray cluster on this machine, and the ways in which it breaks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ray_cluster(cores: int = 1) -> Iterator[Any]:
    """A cluster of one node; `add_node(num_cpus=...)` adds others."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cores})
    try:
        yield cluster
    finally:
        cluster.shutdown()
