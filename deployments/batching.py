"""Length-bucketed batching: one ``@serve.batch`` queue a bucket, merged late, ordered by need.

``serve.batch`` gathers the arrivals of one bucket: for at most the configured wait, and never with another
bucket's. Alone it would hand over fragments under load, because it closes a batch when the wait expires even
while the previous batch still runs, and its queue is first come, first served. So its handler only *offers*
the arrivals, and a batch is formed at the moment when the compute thread is free: from the bucket whose head
is needed soonest, filled with what else waits there, up to the bucket's cap.

Items are padded to their bucket's edge, so a cap on padded cost is a plain count, ``cap // edge``.
``batch_size_fn`` is not used: an error in it, or a cancelled head that is too large, ends the queue for good
(ray#66140).
"""

from __future__ import annotations

import asyncio
import bisect
import contextvars
import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ray import serve

from deployments.contracts import Need
from deployments.errors import TooLarge

Item = TypeVar("Item")
Result = TypeVar("Result")
Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one batch was and cost, for the metrics."""

    edge: int
    items: int
    padded_share: float
    """Share of the batch's padded cost that held nothing."""
    wait_s: float
    """The longest wait of an item, from arrival to the start of compute."""
    compute_s: float
    queued: int
    """Items left waiting, over all buckets."""


@dataclass(slots=True, order=True)
class _Job(Generic[Item]):
    need: Need
    order: int
    item: Item = field(compare=False)
    cost: int = field(compare=False)
    edge: int = field(compare=False)
    arrived_s: float = field(compare=False)
    done: asyncio.Future[Any] = field(compare=False)


class BucketedBatcher(Generic[Item, Result]):
    """Batches items of like length on one compute thread.

    ``forward(edge, items)`` runs on that thread and returns one outcome an item: its result, or an exception
    that fails this item. What it raises fails the batch, which is then computed in halves.
    """

    def __init__(self, name: str, forward: Callable[[int, Sequence[Item]], Sequence[Result | Exception]], *,
                 edges: Sequence[int], cap: int, wait_s: float,
                 report: Callable[[BatchReport], None] = lambda _: None) -> None:
        self._name = name
        self._forward = forward
        self._report = report
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-compute")
        self._waiting: dict[int, list[_Job[Item]]] = {}
        self._gathering: dict[int, Any] = {}
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._drainer: asyncio.Task[None] | None = None
        self._computing_since: float | None = None
        self.configure(edges=edges, cap=cap, wait_s=wait_s)

    def configure(self, *, edges: Sequence[int], cap: int, wait_s: float) -> None:
        """Take new edges (ascending lengths), cap (padded cost of a batch) and wait, while running.

        What already waits keeps the bucket that it came in by. One item of any bucket is always admitted.
        """
        if not edges or list(edges) != sorted(set(edges)) or edges[0] < 1:
            raise ValueError(f"bucket edges must ascend from 1 or more: {list(edges)}")
        self.edges = list(edges)
        self.cap = cap
        for edge in self.edges:
            self._waiting.setdefault(edge, [])
            if edge not in self._gathering:
                self._gathering[edge] = self._gather(edge)
            self._gathering[edge].set_max_batch_size(self.cap_of(edge))
            self._gathering[edge].set_batch_wait_timeout_s(wait_s)

    def cap_of(self, edge: int) -> int:
        """The most items that a batch of this bucket holds."""
        return max(1, self.cap // edge)

    def bucket_of(self, length: int) -> int:
        """The smallest edge that holds ``length``. Raises :class:`TooLarge` past the last."""
        index = bisect.bisect_left(self.edges, length)
        if index == len(self.edges):
            raise TooLarge(f"an item of length {length} is longer than this stage takes ({self.edges[-1]})")
        return self.edges[index]

    async def submit(self, item: Item, length: int, need: Need, edge: int | None = None) -> Result:
        """The item's result. Cancelling the caller frees the item's place.

        ``edge`` names the bucket where the caller planned by the edges of a moment ago.
        """
        edge = self.bucket_of(length) if edge is None else edge
        if self._drainer is None:
            # In a context of its own: the first caller's request id is not every batch's.
            self._drainer = asyncio.get_running_loop().create_task(self._drain(), context=contextvars.Context())
        job = _Job(need, next(self._order), item, length, edge, time.monotonic(),
                   asyncio.get_running_loop().create_future())
        try:
            await self._gathering[edge](job)      # by position: serve.batch dies on keywords (ray#66140)
        except asyncio.CancelledError:
            job.done.cancel()                     # it may have been offered already
            raise
        result: Result = await job.done
        return result

    async def run(self, function: Callable[..., Returned], *args: object) -> Returned:
        """``function(*args)`` on the compute thread, between two batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    @property
    def queued(self) -> int:
        """Items that wait for compute."""
        return sum(len(jobs) for jobs in self._waiting.values())

    @property
    def computing_for_s(self) -> float:
        """How long the batch under way has been computing; 0 when idle."""
        since = self._computing_since
        return 0.0 if since is None else time.monotonic() - since

    def _gather(self, edge: int) -> Any:
        async def offer(jobs: list[_Job[Item]]) -> list[None]:
            for job in jobs:
                heapq.heappush(self._waiting[edge], job)
            self._wake.set()
            return [None] * len(jobs)

        offer.__name__ = offer.__qualname__ = f"{self._name}_up_to_{edge}"   # names Serve's own batch metrics
        return serve.batch(max_batch_size=self.cap_of(edge), batch_wait_timeout_s=0.0)(offer)

    def _take(self) -> list[_Job[Item]]:
        """The next batch: the soonest needed item and its bucket's next ones, up to the cap.

        A first sound shares its batch with other first sounds only: on a processor every companion would
        delay it by its own compute.
        """
        for jobs in self._waiting.values():
            while jobs and jobs[0].done.cancelled():
                heapq.heappop(jobs)
        heads = [jobs[0] for jobs in self._waiting.values() if jobs]
        if not heads:
            return []
        head = min(heads)
        waiting = self._waiting[head.edge]
        batch: list[_Job[Item]] = []
        while waiting and len(batch) < self.cap_of(head.edge) and waiting[0].need.later == head.need.later:
            job = heapq.heappop(waiting)
            if not job.done.cancelled():
                batch.append(job)
        return batch

    def _outcomes(self, edge: int, items: list[Item]) -> list[Result | Exception]:
        """One outcome an item. A batch that fails is halved and tried again, so that an item fails alone."""
        try:
            outcomes = list(self._forward(edge, items))
            if len(outcomes) != len(items):
                raise RuntimeError(f"{len(outcomes)} results for a batch of {len(items)}")
            return outcomes
        except Exception as error:      # whatever it was, the queue goes on
            if len(items) == 1:
                return [error]
        half = len(items) // 2
        return self._outcomes(edge, items[:half]) + self._outcomes(edge, items[half:])

    async def _drain(self) -> None:
        while True:
            await self._wake.wait()
            batch = self._take()
            if not batch:
                self._wake.clear()
                continue
            started = self._computing_since = time.monotonic()
            outcomes = await self.run(self._outcomes, batch[0].edge, [job.item for job in batch])
            self._computing_since = None
            for job, outcome in zip(batch, outcomes, strict=True):
                if job.done.cancelled():
                    continue
                if isinstance(outcome, Exception):
                    job.done.set_exception(outcome)
                else:
                    job.done.set_result(outcome)
            edge = batch[0].edge
            self._report(BatchReport(
                edge=edge, items=len(batch), padded_share=1 - sum(job.cost for job in batch) / (edge * len(batch)),
                wait_s=started - min(job.arrived_s for job in batch), compute_s=time.monotonic() - started,
                queued=self.queued))
