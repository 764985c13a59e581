"""Work in threads that are not left behind."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from serve_app.streaming import in_thread


async def test_a_cancelled_wait_ends_only_with_the_thread() -> None:
    began, may_end = threading.Event(), threading.Event()
    events: list[str] = []

    def work() -> None:
        began.set()
        may_end.wait(10)
        events.append("the thread let go")

    async def encode() -> None:
        try:
            await in_thread(threads, work)
        finally:
            events.append("closed")         # what an encoder's owner does next

    with ThreadPoolExecutor(1) as threads:
        task = asyncio.create_task(encode())
        await asyncio.to_thread(began.wait, 10)
        for _ in range(2):                  # a second cancel is no reason to let go sooner
            task.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            assert events == []
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert events == ["the thread let go", "closed"]


async def test_results_and_errors_come_back() -> None:
    def fail() -> None:
        raise ValueError("no")

    with ThreadPoolExecutor(1) as threads:
        assert await in_thread(threads, divmod, 7, 2) == (3, 1)
        with pytest.raises(ValueError, match="no"):
            await in_thread(threads, fail)
