"""What the official client, and our own command, get from the speech API."""

from __future__ import annotations

import base64
import io
import json
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import torch

from benchmarks.harness import Service
from serve_app.__main__ import main
from serve_app.settings import ServiceSettings
from tests.conftest import speech
from tests.integration.test_independence import samples
from tests.unit.test_audio import FRAME, decode

TEXT = "Good morning, everyone."
MEDIA_TYPES = {"mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac",
               "wav": "audio/wav", "pcm": "audio/pcm"}
VOICES = ("alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer", "verse", "marin",
          "cedar")
MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")


@pytest.fixture
def ai(service: Service) -> Iterator[openai.OpenAI]:
    """The official client, as its users make it; a failure is shown, not retried."""
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0) as opened:
        yield opened


@pytest.fixture
def reference(client: httpx.Client) -> bytes:
    return client.post("/v1/audio/speech", json=speech(TEXT)).content


@pytest.mark.parametrize("audio_format", MEDIA_TYPES)
def test_plain_create(ai: openai.OpenAI, reference: bytes, audio_format: Any) -> None:
    answer = ai.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, response_format=audio_format)
    assert answer.response.headers["content-type"] == MEDIA_TYPES[audio_format]
    excess = decode(audio_format, answer.content).size - len(reference) // 2
    assert 0 <= excess < (FRAME[audio_format] if audio_format in ("mp3", "aac") else 1)


def test_mp3_is_what_is_not_asked_for(ai: openai.OpenAI) -> None:
    answer = ai.audio.speech.create(model="tts-1", voice="alloy", input=TEXT)
    assert answer.response.headers["content-type"] == "audio/mpeg"


def test_with_streaming_response(ai: openai.OpenAI, reference: bytes, tmp_path: Path) -> None:
    with ai.audio.speech.with_streaming_response.create(
            model="gpt-4o-mini-tts", voice="coral", input=TEXT, response_format="pcm") as answer:
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["transfer-encoding"] == "chunked"
        assert answer.headers["x-request-id"]
        chunks = list(answer.iter_bytes())
    assert len(chunks) > 1
    assert b"".join(chunks) == reference
    with ai.audio.speech.with_streaming_response.create(
            model="tts-1", voice="nova", input=TEXT, response_format="pcm") as answer:
        answer.stream_to_file(tmp_path / "speech.pcm")
    assert (tmp_path / "speech.pcm").read_bytes() == reference


def events(lines: Iterator[str]) -> list[dict[str, Any]]:
    """Server-sent events, as any reader of them takes them apart."""
    text = "\n".join(lines)
    parsed = [json.loads(block.removeprefix("data: ")) for block in text.split("\n\n") if block.strip()]
    assert text.count("data: ") == len(parsed)
    return parsed


@pytest.mark.parametrize("audio_format", ["pcm", "mp3"])
def test_server_sent_events(ai: openai.OpenAI, client: httpx.Client, audio_format: Any) -> None:
    plain = client.post("/v1/audio/speech", json=speech(TEXT, response_format=audio_format)).content
    with ai.audio.speech.with_streaming_response.create(
            model="gpt-4o-mini-tts", voice="coral", input=TEXT, response_format=audio_format,
            stream_format="sse") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        *deltas, done = events(answer.iter_lines())
    assert len(deltas) > 1
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(delta["audio"], validate=True) for delta in deltas) == plain
    assert done["type"] == "speech.audio.done"
    usage = done["usage"]
    assert usage["input_tokens"] == len(TEXT)
    assert usage["output_tokens"] > 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_unknown_names_raise_what_the_client_documents(ai: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as model:
        ai.audio.speech.create(model="tts-9", voice="alloy", input=TEXT)
    assert (model.value.code, model.value.param, model.value.type) == (
        "model_not_found", "model", "invalid_request_error")
    with pytest.raises(openai.BadRequestError) as voice:
        ai.audio.speech.create(model="tts-1", voice="bob", input=TEXT)
    assert (voice.value.code, voice.value.param) == ("voice_not_found", "voice")
    assert isinstance(voice.value.body, dict)
    assert "'bob'" in voice.value.body["message"]
    assert voice.value.request_id
    with pytest.raises(openai.NotFoundError):
        ai.models.retrieve("tts-9")


def test_every_alias_speaks_as_heart(ai: openai.OpenAI, reference: bytes) -> None:
    settings = ServiceSettings()
    assert set(settings.voice_aliases) >= set(VOICES)
    assert set(settings.model_aliases) >= set(MODELS)
    pairs = [*((voice, "tts-1") for voice in VOICES), *(("alloy", model) for model in MODELS), ("heart", "hibari")]
    wrong = [pair for pair in pairs if ai.audio.speech.create(
        voice=pair[0], model=pair[1], input=TEXT, response_format="pcm").content != reference]
    assert wrong == []


def test_models_are_listed_and_retrieved(ai: openai.OpenAI) -> None:
    listed = [model.id for model in ai.models.list()]
    assert set(listed) == {"hibari", *MODELS}
    assert [ai.models.retrieve(name).id for name in listed] == listed


def test_instructions_are_accepted_and_said_to_be_ignored(ai: openai.OpenAI, reference: bytes) -> None:
    answer = ai.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, response_format="pcm",
                                    instructions="Whisper, please.")
    assert answer.response.headers["x-cosyserve-ignored"] == "instructions"
    assert answer.content == reference


def test_a_caller_s_request_id_comes_back(client: httpx.Client) -> None:
    for text, status in ((TEXT, 200), ("", 400)):
        answer = client.post("/v1/audio/speech", json=speech(text), headers={"x-request-id": "mine-1"})
        assert (answer.status_code, answer.headers["x-request-id"]) == (status, "mine-1")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch on one thread: more of them wait for each other where others compute too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_say_by_a_service_and_without_one_give_the_same_file(service: Service, tmp_path: Path) -> None:
    def spoken(name: str, *options: str) -> bytes:
        path = tmp_path / name
        assert main(["say", f"{TEXT} It is half past nine.", "-o", str(path), *options]) == 0
        with wave.open(io.BytesIO(path.read_bytes())) as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
            return file.readframes(file.getnframes())

    served, local = spoken("served.wav", "--url", service.url), spoken("local.wav", "--local")
    assert len(served) == len(local) > 48_000
    assert np.abs(samples(served) - samples(local)).max() <= 1
