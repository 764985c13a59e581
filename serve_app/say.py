"""``python -m serve_app say "text" -o out.wav``: a text into a file, by a running service or without one."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from deployments.errors import SpeechError

CONNECT_S = 10.0
READ_S = 600.0
_FORMAT_OF = {"ogg": "opus", "oga": "opus", "m4a": "aac", "raw": "pcm", "": "wav"}


class Refused(Exception):
    """The service has said no, or nothing; the message is for the user."""


def run(arguments: argparse.Namespace) -> int:
    """The command. Returns its exit code."""
    text = sys.stdin.read() if arguments.text == "-" else arguments.text
    audio_format = arguments.format or _format_of(arguments.output)
    asked = {"model": arguments.model, "input": text, "voice": arguments.voice, "speed": arguments.speed,
             "seed": arguments.seed, "response_format": audio_format}
    if audio_format == "wav" and arguments.output != "-":
        asked["stream"] = False         # in one piece, so that the file states its true length
    started = time.monotonic()
    try:
        count = save(local(asked) if arguments.local else ask(arguments.url, asked), arguments.output)
    except SpeechError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 1
    except (Refused, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.output}: {count} bytes in {time.monotonic() - started:.2f} s", file=sys.stderr)
    return 0


def ask(url: str, asked: dict[str, Any]) -> Iterator[bytes]:
    """The service's audio as it comes. Raises :class:`Refused` with the service's own message."""
    address = f"{url.rstrip('/')}/v1/audio/speech"
    try:
        timeout = httpx.Timeout(READ_S, connect=CONNECT_S)
        with httpx.stream("POST", address, json=asked, timeout=timeout) as answer:
            if answer.status_code != 200:
                raise Refused(_message(answer.status_code, answer.read()))
            yield from answer.iter_raw()
    except httpx.ConnectError as error:
        raise Refused(f"no service answers at {url}: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Refused(f"the service at {url} broke off: {error or type(error).__name__}") from error


def local(asked: dict[str, Any]) -> Iterator[bytes]:
    """The same audio, made in this process. Raises :class:`SpeechError`."""
    from deployments.errors import BadRequest
    from deployments.families import family_of_voice
    from serve_app.audio import encoder
    from serve_app.local import LocalSynthesizer
    from serve_app.settings import ServiceSettings

    voice = ServiceSettings().voice_aliases.get(asked["voice"], asked["voice"])
    family = family_of_voice(voice)
    if not 0.25 <= asked["speed"] <= 4.0:
        raise BadRequest("speed must be from 0.25 to 4")
    pcm = LocalSynthesizer(family.id).pcm(asked["input"], voice, asked["speed"], asked["seed"])
    samples = None
    if asked.get("stream") is False:
        whole = b"".join(pcm)
        pcm, samples = iter([whole]), len(whole) // 2
    coder = encoder(asked["response_format"], family.sample_rate, known_samples=samples)
    nothing = True
    for chunk in pcm:
        nothing = nothing and not chunk
        yield coder.feed(chunk)
    if nothing:
        raise BadRequest("the input holds nothing that can be spoken")
    yield coder.finish()


def save(chunks: Iterator[bytes], output: str) -> int:
    """Write the chunks to a file, or to standard output for ``-``; how many bytes they were.

    What fails before the first chunk leaves an earlier file as it was; a later failure leaves no half file.
    """
    count = 0
    if output == "-":
        for chunk in chunks:
            count += sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        return count
    first = next(chunks, b"")
    path = Path(output)
    try:
        with path.open("wb") as file:
            count += file.write(first)
            for chunk in chunks:
                count += file.write(chunk)
    except BaseException:
        if path.is_file():              # not a pipe or a device
            path.unlink()
        raise
    return count


def _format_of(output: str) -> str:
    extension = Path(output).suffix.removeprefix(".").lower()
    return _FORMAT_OF.get(extension, extension)


def _message(status: int, body: bytes) -> str:
    """The error's message in the speech API's shape, or whatever else was answered."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = body[:500].decode("utf-8", "replace").strip()
    return f"{message} ({status})"
