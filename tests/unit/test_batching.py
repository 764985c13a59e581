"""Length-bucketed batching: what shares a batch, in which order, and what happens when things go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Sequence

import pytest
from ray.serve._private.common import DeploymentID, ReplicaID
from ray.serve._private.config import DeploymentConfig
from ray.serve.context import _set_internal_replica_context
from ray.serve.schema import ReplicaRank

from deployments.batching import BatchReport, BucketedBatcher
from deployments.contracts import Need
from deployments.errors import TooLarge

NOW = Need(later=False, due_s=0.0)


@pytest.fixture(autouse=True)
def replica_context() -> None:
    """`serve.batch` asks for the replica that it runs in; its queue is plain asyncio otherwise."""
    _set_internal_replica_context(
        replica_id=ReplicaID("test", DeploymentID("batching", "test")), servable_object=None,
        _deployment_config=DeploymentConfig.from_default(max_ongoing_requests=1000),
        rank=ReplicaRank(rank=0, node_rank=0, local_rank=0), world_size=1)


class Recorder:
    """A forward pass that notes its batches and can be held."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[str]]] = []
        self.reports: list[BatchReport] = []
        self.free = threading.Event()
        self.free.set()
        self.started = threading.Event()

    def __call__(self, edge: int, items: Sequence[str]) -> list[str | Exception]:
        self.batches.append((edge, list(items)))
        self.started.set()
        assert self.free.wait(10)
        if "poison" in items:
            raise MemoryError("batch failed")
        return [ValueError(item) if item.startswith("bad") else item.upper() for item in items]

    def batcher(self, edges: Sequence[int] = (10, 20, 40), cap: int = 40,
                wait_s: float = 0.0) -> BucketedBatcher[str, str]:
        return BucketedBatcher("test", self, edges=edges, cap=cap, wait_s=wait_s, report=self.reports.append)

    @contextlib.asynccontextmanager
    async def busy(self, batcher: BucketedBatcher[str, str]) -> AsyncIterator[None]:
        """Keeps the compute thread busy with an item of its own while the body queues others."""
        self.free.clear()
        self.started.clear()
        blocker = asyncio.ensure_future(batcher.submit("blocker", batcher.edges[-1], NOW))
        await asyncio.to_thread(self.started.wait, 10)
        yield
        self.free.set()
        await blocker


async def settle() -> None:
    """Let every queued item reach its heap; serve.batch hands over within a few turns of the loop."""
    for _ in range(50):
        await asyncio.sleep(0.001)


async def test_batches_hold_one_bucket_and_at_most_the_cap() -> None:
    recorder = Recorder()
    batcher = recorder.batcher()
    lengths = [3, 11, 40, 9, 20, 10, 15, 2, 8, 1, 39, 12]
    async with recorder.busy(batcher):
        waiting = [asyncio.ensure_future(batcher.submit(f"i{n}-{index}", n, NOW))
                   for index, n in enumerate(lengths)]
        await settle()
    assert await asyncio.gather(*waiting) == [f"I{n}-{index}" for index, n in enumerate(lengths)]
    low = {10: 0, 20: 10, 40: 20}
    for edge, items in recorder.batches[1:]:
        assert len(items) <= 40 // edge
        assert all(low[edge] < int(item[1:].split("-")[0]) <= edge for item in items)
    assert len(recorder.batches) == 1 + 2 + 2 + 2       # six up to 10, four up to 20, two up to 40: merged late


async def test_fragments_merge_when_compute_is_free() -> None:
    recorder = Recorder()
    batcher = recorder.batcher()
    async with recorder.busy(batcher):
        waiting = []
        for index in range(4):      # arrivals far enough apart that serve.batch hands each over alone
            waiting.append(asyncio.ensure_future(batcher.submit(f"i{index}", 10, NOW)))
            await settle()
    await asyncio.gather(*waiting)
    assert recorder.batches[1:] == [(10, ["i0", "i1", "i2", "i3"])]


async def test_order_is_by_need_across_buckets_and_arrivals() -> None:
    recorder = Recorder()
    batcher = recorder.batcher(cap=1)
    needs = {"far": Need(True, 9.0), "near": Need(True, 2.0), "first-late": Need(False, 8.0),
             "first-early": Need(False, 7.0)}
    lengths = {"far": 5, "near": 35, "first-late": 15, "first-early": 39}
    async with recorder.busy(batcher):
        waiting = [asyncio.ensure_future(batcher.submit(name, lengths[name], need))
                   for name, need in needs.items()]
        await settle()
    await asyncio.gather(*waiting)
    assert [items for _, items in recorder.batches[1:]] == [["first-early"], ["first-late"], ["near"], ["far"]]


async def test_a_first_sound_waits_for_no_companion() -> None:
    recorder = Recorder()
    batcher = recorder.batcher()
    async with recorder.busy(batcher):
        waiting = [asyncio.ensure_future(batcher.submit(name, 5, need)) for name, need in (
            ("later", Need(True, 1.0)), ("first", Need(False, 2.0)), ("first too", Need(False, 3.0)))]
        await settle()
    await asyncio.gather(*waiting)
    assert recorder.batches[1:] == [(10, ["first", "first too"]), (10, ["later"])]


async def test_one_failing_item_fails_alone() -> None:
    recorder = Recorder()
    batcher = recorder.batcher()
    async with recorder.busy(batcher):
        waiting = [asyncio.ensure_future(batcher.submit(name, 5, NOW)) for name in ("a", "bad one", "c")]
        await settle()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert len(recorder.batches[1][1]) == 3
    assert outcomes[0] == "A"
    assert isinstance(outcomes[1], ValueError)
    assert outcomes[2] == "C"


async def test_a_batch_that_fails_is_tried_in_halves() -> None:
    recorder = Recorder()
    batcher = recorder.batcher()
    async with recorder.busy(batcher):
        waiting = [asyncio.ensure_future(batcher.submit(name, 5, NOW)) for name in ("a", "b", "poison", "d")]
        await settle()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert (outcomes[0], outcomes[1], outcomes[3]) == ("A", "B", "D")
    assert isinstance(outcomes[2], MemoryError)
    assert [items for _, items in recorder.batches[1:]] == [
        ["a", "b", "poison", "d"], ["a", "b"], ["poison", "d"], ["poison"], ["d"]]


async def test_a_failed_batch_leaves_the_queue_working() -> None:
    batcher = Recorder().batcher()
    with pytest.raises(MemoryError):
        await batcher.submit("poison", 5, NOW)
    assert await batcher.submit("after", 5, NOW) == "AFTER"


async def test_a_cancelled_item_frees_its_place() -> None:
    recorder = Recorder()
    batcher = recorder.batcher()
    async with recorder.busy(batcher):
        leaving = [asyncio.ensure_future(batcher.submit(f"gone{index}", 5, NOW)) for index in range(4)]
        waiting = asyncio.ensure_future(batcher.submit("stays", 5, NOW))
        await settle()
        early = asyncio.ensure_future(batcher.submit("gone before it was queued", 5, NOW))
        await asyncio.sleep(0)
        for task in (*leaving, early):
            task.cancel()
        await settle()
    assert await waiting == "STAYS"
    await settle()
    assert recorder.batches[1:] == [(10, ["stays"])]
    assert batcher.queued == 0


async def test_too_long_an_item_is_refused_before_it_is_queued() -> None:
    recorder = Recorder()
    batcher = recorder.batcher()
    with pytest.raises(TooLarge):
        await batcher.submit("long", 41, NOW)
    assert recorder.batches == []


async def test_edges_cap_and_wait_change_while_items_wait() -> None:
    recorder = Recorder()
    batcher = recorder.batcher()
    async with recorder.busy(batcher):
        old = [asyncio.ensure_future(batcher.submit(f"old{index}", 15, NOW)) for index in range(2)]
        await settle()
        batcher.configure(edges=[16, 64], cap=64, wait_s=0.01)
        new = [asyncio.ensure_future(batcher.submit(f"new{index}", 15, NOW)) for index in range(4)]
        await asyncio.sleep(0.05)
        await settle()
    await asyncio.gather(*old, *new)
    assert recorder.batches[1:] == [(20, ["old0", "old1"]), (16, ["new0", "new1", "new2", "new3"])]
    assert await batcher.submit("longer", 64, NOW) == "LONGER"


async def test_a_wait_gathers_company_for_an_idle_thread() -> None:
    recorder = Recorder()
    batcher = recorder.batcher(wait_s=0.2)
    first = asyncio.ensure_future(batcher.submit("a", 5, NOW))
    await asyncio.sleep(0.05)
    await asyncio.gather(first, batcher.submit("b", 5, NOW))
    assert recorder.batches == [(10, ["a", "b"])]


async def test_reports_count_padding_and_waiting() -> None:
    recorder = Recorder()
    batcher = recorder.batcher()
    async with recorder.busy(batcher):
        waiting = [asyncio.ensure_future(batcher.submit(f"i{n}", n, NOW)) for n in (5, 10, 9)]
        await settle()
    await asyncio.gather(*waiting)
    await settle()
    report = recorder.reports[1]
    assert (report.edge, report.items) == (10, 3)
    assert report.padded_share == pytest.approx(1 - 24 / 30)
    assert report.wait_s > 0


@pytest.mark.parametrize("edges", [[], [0, 5], [5, 5], [9, 3]])
async def test_edges_must_ascend(edges: list[int]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        Recorder().batcher(edges=edges)
