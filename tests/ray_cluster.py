"""A real Ray cluster on this machine, and the ways in which it breaks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from shiftdata.data.executors.ray import QUIET


@contextmanager
def ray_cluster(cores: int = 1, **head: Any) -> Iterator[Any]:
    """A cluster of one node; `add_node` adds others. Each has an address of its own, 127.0.0.2 and so on."""
    os.environ |= QUIET
    from ray.cluster_utils import Cluster

    addresses = (f"127.0.0.{number}" for number in count(2))  # Ray replaces 127.0.0.1 by the machine's own

    class Network(Cluster):  # type: ignore[misc]
        def add_node(self, **options: Any) -> Any:
            return super().add_node(**{"node_ip_address": next(addresses)} | options)

    cluster = Network(initialize_head=True, head_node_args={"num_cpus": cores} | head)
    try:
        yield cluster
    finally:
        cluster.shutdown()


def workers(node: Any) -> list[int]:
    """The processes of a node that do jobs at the moment, or wait for one."""
    raylet = node.all_processes["raylet"][0].process.pid
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == raylet:
                title = (stat.parent / "cmdline").read_text()  # a raylet ends with its agents
                found += [int(stat.parent.name)] if title.startswith(("ray::IDLE", "ray::attempt")) else []
    return found


def kill_worker(node: Any) -> bool:
    """Kill one of a node's workers; False if there is none."""
    for pid in workers(node)[:1]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def kill_node(cluster: Any, node: Any) -> None:
    """Kill all of a node at once, as a power cut does."""
    cluster.remove_node(node, allow_graceful=False)
