"""What the replicas reserve, against what the nodes have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ray._private.utils import estimate_available_memory, get_num_cpus, resolve_object_store_memory

AUTO_MAX_REPLICAS = 100
"""What Serve takes for ``num_replicas: auto``."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Node:
    """What Ray may hand out of one machine."""

    cpus: float
    memory: float
    """Ray's ``memory`` resource, in bytes."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one deployment reserves."""

    name: str
    cpus: float
    """Per replica."""
    memory: float
    """Per replica, in bytes; 0 for no reservation."""
    least: int
    """Replicas at all times."""
    most: int

    @classmethod
    def of(cls, block: dict[str, Any]) -> Reservation:
        """From a deployment's block, validated by Serve; what it leaves out is as Serve has it."""
        options = block.get("ray_actor_options") or {}
        cpus = options.get("num_cpus")
        scaling = block.get("autoscaling_config")
        replicas = block.get("num_replicas")
        if scaling or replicas == "auto":
            scaling = scaling or {}
            least = scaling.get("min_replicas", 1)
            most = scaling.get("max_replicas", AUTO_MAX_REPLICAS if replicas == "auto" else 1)
        else:
            least = most = replicas or 1
        return cls(block["name"], 1.0 if cpus is None else cpus, options.get("memory") or 0.0, least, most)


def this_node() -> Node:
    """What Ray would take of this machine if it started now.

    The memory is what is free, less the object store: 30 % of it, or less where /dev/shm is smaller.
    """
    free = estimate_available_memory()
    cpus = get_num_cpus(override_docker_cpu_warning=True)
    return Node(float(cpus), free - resolve_object_store_memory(free))


def pending(reservations: Sequence[Reservation], node: Node, nodes: int, *, at_most: bool) -> list[int]:
    """How many replicas of each deployment find no place on this many nodes.

    Places are given in the order of the list: first the replicas that always run, then, ``at_most``, those
    that load would add.
    """
    free = [[node.cpus, node.memory] for _ in range(nodes)]

    def place(wanted: Reservation) -> bool:
        for room in free:
            if room[0] + _ROUNDING >= wanted.cpus and room[1] >= wanted.memory:
                room[0] -= wanted.cpus
                room[1] -= wanted.memory
                return True
        return False

    left = [sum(not place(wanted) for _ in range(wanted.least)) for wanted in reservations]
    if at_most:
        added = [sum(not place(wanted) for _ in range(wanted.most - wanted.least)) for wanted in reservations]
        left = [before + more for before, more in zip(left, added, strict=True)]
    return left
