"""What all encoders share: the interface, whole samples only, and nothing after the end."""

from __future__ import annotations

from abc import ABC, abstractmethod

SAMPLE_BYTES = 2    # s16le


class Encoder(ABC):
    """One stream in the making. Once finished or closed it refuses more (``ValueError``)."""

    def __init__(self) -> None:
        self._closed = False

    def feed(self, pcm: bytes) -> bytes:
        """Take whole samples (s16le mono); give the bytes that are ready, perhaps none.

        An empty chunk is welcome, and brings out the header of the formats that have one ready (wav, opus).
        Half a sample (an odd number of bytes) is refused with ``ValueError`` and leaves the stream as it was.
        """
        self._refuse_if_closed()
        if len(pcm) % SAMPLE_BYTES:
            raise ValueError(f"{len(pcm)} bytes are not whole 16-bit samples")
        return self._take(pcm)

    def finish(self) -> bytes:
        """Give what is left of the stream, and release the encoder.

        ``ValueError`` when a length was promised (``known_samples``) and not kept.
        """
        self._refuse_if_closed()
        try:
            return self._end()
        finally:
            self.close()

    def close(self) -> None:
        """Release an encoder that is abandoned midway. Harmless when it is finished or closed already."""
        if not self._closed:
            self._closed = True
            self._release()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ValueError("this encoder is closed")

    @abstractmethod
    def _take(self, pcm: bytes) -> bytes:
        """Encode ``pcm``, whole samples, perhaps none."""

    @abstractmethod
    def _end(self) -> bytes:
        """Flush the codec and give the tail."""

    def _release(self) -> None:  # noqa: B027  most hold nothing
        """Let go of what the codec holds. Called once, after ``_end`` or instead of it."""


class Outlet:
    """The file that codecs write to, which forgets bytes once they have left. No ``seek``: nothing is mended."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))     # libsndfile's buffer is its own
        return len(data)

    def drain(self) -> bytes:
        """What was written since the last call."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data
