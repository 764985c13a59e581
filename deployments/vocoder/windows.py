"""How an utterance is cut into windows of a few fixed sizes, and what comes of each; the same for every family.

Few shapes keep a vocoder's memory flat and let windows of many requests share a batch. Each window costs
its size and the context on both of its sides, so the cover of least cost is sought.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from deployments.contracts import Float32


def plan(frames: int, sizes: Sequence[int], context: int, first_small: bool) -> list[tuple[int, int, int]]:
    """Windows that follow one another and cover exactly ``[0, frames)``.

    Args:
        frames: length of the utterance.
        sizes: the shapes that exist, in frames, in any order.
        context: frames recomputed on each side of a window.
        first_small: whether the first window has the smallest size, because someone waits for a request's
            first sound. The next ones grow, so that a request that has just begun to sound does not hold up
            another one's first sound with its largest window. The rest is covered at least cost.

    Returns:
        ``(start, frames, size)`` of each window; ``frames`` is ``size`` except in the last one, where it may
        be less. The same arguments give the same plan.

    Raises:
        ValueError: there are no sizes, or one of the numbers is out of range.
    """
    if not sizes or min(sizes) < 1 or context < 0 or frames < 0:
        raise ValueError(f"no plan for {frames} frames in windows of {list(sizes)} with context {context}")
    ordered = tuple(sorted(set(sizes), reverse=True))
    chosen = [ordered[-1]] if first_small and frames else []
    if first_small:
        for size in ordered[-2:0:-1]:       # the sizes between the smallest and the largest, growing
            if sum(chosen) + size > frames:
                break
            chosen.append(size)
    chosen += _cover(frames - sum(chosen), ordered, context)
    windows, start = [], 0
    for size in chosen:
        windows.append((start, min(size, frames - start), size))
        start += size
    return windows


def _cover(frames: int, sizes: tuple[int, ...], context: int) -> tuple[int, ...]:
    """The sizes that cover ``frames``, largest first."""
    largest = sizes[0]
    # Far from the end the largest size, which wastes the least on context; the last few windows are weighed.
    whole = max(0, frames // largest - 2)
    return (largest,) * whole + _cheapest(frames - whole * largest, sizes, context)[1]


@lru_cache(maxsize=4096)
def _cheapest(frames: int, sizes: tuple[int, ...], context: int) -> tuple[int, tuple[int, ...]]:
    """(cost, sizes in descending order); of equal costs, the one with the larger windows."""
    if frames <= 0:
        return 0, ()
    best: tuple[int, tuple[int, ...]] | None = None
    for i, size in enumerate(sizes):
        # Only sizes up to this one may follow: each set of sizes is looked at once.
        cost, rest = _cheapest(frames - size, sizes[i:], context)
        cost += size + 2 * context
        if best is None or cost < best[0]:
            best = cost, (size, *rest)
    assert best is not None
    return best


def pcm(samples: Float32) -> bytes:
    """A window's samples in [-1, 1] as s16le mono."""
    return (np.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()
