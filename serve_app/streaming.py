"""Answers on their way: streams that stop when their client leaves, work in threads, HEAD."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

Result = TypeVar("Result")


async def in_thread(threads: Executor, function: Callable[..., Result], *args: object) -> Result:
    """The function's result, computed in a thread. Returns only when the thread has let go.

    A cancelled await would come back at once, while the thread works on: whoever then closed what the
    function works on, such as an encoder, would pull it away from under the codec.
    """
    work = asyncio.get_running_loop().run_in_executor(threads, function, *args)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:      # again: the thread is no sooner done for it
                continue
        raise


class AbandonableStream(StreamingResponse):
    """A stream whose source is closed however the sending ends, so that a client that leaves stops the work.

    ``first`` was taken from ``rest`` already: what fails before it could still be answered with a status.
    """

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None], **options: Any) -> None:
        self._rest = rest
        super().__init__(self._chunks(first), **options)

    async def _chunks(self, first: bytes) -> AsyncGenerator[bytes, None]:
        yield first
        async for chunk in self._rest:
            yield chunk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._rest.aclose()


class HeadAsGet:
    """Answers HEAD wherever GET answers, as HTTP asks and probes do. The server sends no body to HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)
