"""Streamed answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


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
