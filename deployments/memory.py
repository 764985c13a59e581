"""What a replica's process holds, against what was reserved for it."""

from __future__ import annotations

import psutil
import ray


def resident_bytes() -> int:
    """Resident size of this process now."""
    return int(psutil.Process().memory_info().rss)


def peak_resident_bytes() -> int:
    """The largest resident size that this process ever had (Linux: VmHWM)."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise OSError("the kernel reports no VmHWM")


def reserved_bytes() -> int | None:
    """This replica's reservation (``ray_actor_options.memory``); None where none was made."""
    reserved = ray.get_runtime_context().get_assigned_resources().get("memory")
    return int(reserved) if reserved else None
