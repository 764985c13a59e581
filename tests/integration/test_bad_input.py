"""Whatever a client sends: a clear answer in the API's error shape, or speech; and the next request is as ever."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from benchmarks.harness import Service
from tests.conftest import speech
from tests.integration.test_catalogue import error_of
from tests.integration.test_scaling import until

TEXT = "Hello there."
JSON = {"content-type": "application/json"}
MISSING = "missing_required_parameter"
LOG_S = 20.0


@dataclass(frozen=True)
class Bad:
    """A body, and what its answer must say."""

    name: str
    body: bytes
    param: str | None
    code: str
    status: int = 400
    content_type: str = "application/json"


def bad(name: str, param: str | None, code: str = "invalid_value", status: int = 400, **fields: Any) -> Bad:
    """A request that is right but for these fields; ``...`` leaves one out."""
    body = {key: value for key, value in {**speech(TEXT), **fields}.items() if value is not ...}
    return Bad(name, json.dumps(body).encode(), param, code, status)


def raw(name: str, body: bytes, code: str = "invalid_json", status: int = 400,
        content_type: str = "application/json") -> Bad:
    """A body that is no request."""
    return Bad(name, body, None, code, status, content_type)


def spoken(text: str) -> bytes:
    return json.dumps(speech(text)).encode()


CASES = [
    *(bad(name, "input", "nothing_to_speak", input=text) for name, text in {
        "empty": "", "blanks": " \t\r\n\u3000\u00a0", "punctuation": "?! ... — ; (,)", "emoji": "😀 👍🏽 👩‍🚀",
        "zero-width": "\u200b\u200d\ufeff", "controls": "\x00\x01\x1b", "lone-surrogate": "\ud800",
        "right-to-left": "שלום עולם", "other-script": "你好，世界。", "combining-marks": "\u0301" * 50,
        "private-use": "\ue000\U000f0000", "20000-marks": "?" * 20_000,
    }.items()),
    *(bad(f"{field}-{kind}", field, **{field: value})
      for field in ("model", "input", "voice", "response_format")
      for kind, value in {"null": None, "number": 5, "list": ["a"], "boolean": True}.items()),
    *(bad(f"{field}-missing", field, MISSING, **{field: ...}) for field in ("model", "input", "voice")),
    bad("input-object", "input", input={"text": TEXT}),
    bad("voice-unknown", "voice", "voice_not_found", voice="bob"),
    bad("voice-empty", "voice", "voice_not_found", voice=""),
    *(bad(f"{field}-surrogate", field, **{field: "\ud800"})
      for field in ("model", "voice", "response_format", "instructions", "stream_format")),
    bad("voice-id-unknown", "voice", "voice_not_found", voice={"id": "bob"}),
    bad("voice-without-id", "voice", MISSING, voice={}),
    bad("voice-id-number", "voice", voice={"id": 5}),
    bad("voice-endless", "voice", voice="x" * 100_000),
    bad("model-unknown", "model", "model_not_found", 404, model="tts-9"),
    bad("model-endless", "model", model="x" * 100_000),
    bad("format-unknown", "response_format", response_format="ogg"),
    bad("format-endless", "response_format", response_format="x" * 100_000),
    *(bad(f"speed-{speed}"[:20], "speed", speed=speed) for speed in (
        0, -1, 0.249, 4.001, float("nan"), float("inf"), float("-inf"), "1", True, None, [], 10**400)),
    *(bad(f"seed-{seed}"[:20], "seed", seed=seed) for seed in (-1, 2**63, 1.5, "1", True, None, 10**400)),
    bad("instructions-endless", "instructions", instructions="x" * 4097),
    bad("instructions-number", "instructions", instructions=5),
    bad("stream_format-unknown", "stream_format", stream_format="websocket"),
    bad("characters", "input", "input_too_long", 413, input="a" * 20_001),
    bad("unstreamed-characters", "input", "input_too_long", 413, input="Hello. " * 600, stream=False),
    raw("body", b'{"input": "' + b"a" * 1_000_000 + b'"}', "too_large", 413),
    raw("nothing", b""), raw("broken", b'{"input": '), raw("trailing", spoken(TEXT) + b"}"), raw("array", b"[1]"),
    raw("string", b'"speak"'), raw("null", b"null"), raw("not-utf-8", b'{"input": "\xff"}'),
    raw("endless-number", b'{"seed": ' + b"9" * 5000 + b"}"),
    raw("nested-arrays", b"[" * 400_000), raw("nested-objects", b'{"a":' * 100_000),
    *(raw(f"type-{content_type or 'none'}", spoken(TEXT), "unsupported_media_type", 415, content_type)
      for content_type in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x")),
]


def post(client: httpx.Client, body: bytes, content_type: str = "application/json") -> httpx.Response:
    headers = {"content-type": content_type} if content_type else {}
    return client.post("/v1/audio/speech", content=body, headers=headers)


@pytest.fixture(scope="module")
def reference(service: Service) -> bytes:
    return httpx.post(f"{service.url}/v1/audio/speech", json=speech(TEXT)).content


@pytest.fixture(autouse=True)
def no_harm(client: httpx.Client, reference: bytes) -> Iterator[None]:
    """After whatever was sent, a normal request gives what it gave before."""
    yield
    assert post(client, spoken(TEXT)).content == reference


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refused(client: httpx.Client, case: Bad) -> None:
    answer = post(client, case.body, case.content_type)
    assert answer.status_code == case.status, answer.text[:500]
    error = error_of(answer)
    assert (error["param"], error["code"]) == (case.param, case.code)
    assert len(answer.content) < 1000, "an error does not send everything back"
    if case.code == "nothing_to_speak":
        assert any(word in str(error["message"]) for word in ("empty", "nothing that can be spoken"))


@pytest.mark.parametrize("text", [
    "Hel\u200blo\u200d there.", "\ufeffHello there.", "He\u00adllo there.", "\u202eHello there.\u202c",
    "Hello\x00 there.\x07", "Hello \ud800 there.", "Hello\tthere.", "  Hello\r\nthere.\n\n", "Hello ☃ there.",
    "Hello 😀 there.", "Hello שלום there.", "שלום Hello there.", "Ｈｅｌｌｏ there.",
], ids=ascii)
def test_what_cannot_be_spoken_is_spoken_around(client: httpx.Client, reference: bytes, text: str) -> None:
    answer = post(client, spoken(text))
    assert answer.status_code == 200
    assert answer.content == reference


@pytest.mark.parametrize("fields", [
    {"voice": {"id": "heart"}}, {"voice": {"id": "nova", "extra": 1}}, {"speed": 1}, {"seed": 0},
    {"instructions": None}, {"stream": True}, {"stream": None}, {"stream": "\ud800"},
    {"language": "en", "ref_audio": None, "extra_body": {"a": [1, {}]}, "\ud800": 1, "user": 7},
], ids=str)
def test_what_the_api_does_not_know_is_ignored(client: httpx.Client, reference: bytes,
                                                     fields: dict[str, Any]) -> None:
    answer = post(client, json.dumps({**speech(TEXT), **fields}).encode())
    assert answer.status_code == 200
    assert answer.content == reference


@pytest.mark.parametrize("body", [
    spoken(TEXT).decode().encode("utf-16"), b"\xef\xbb\xbf" + spoken(TEXT),
    spoken(TEXT)[:-1] + b', "deep": ' + b"[" * 900 + b"]" * 900 + b"}",
], ids=["utf-16", "byte-order-mark", "deep"])
def test_unusual_json(client: httpx.Client, reference: bytes, body: bytes) -> None:
    assert post(client, body).content == reference
    assert post(client, body, "Application/JSON; charset=utf-8").content == reference


def test_a_character_outside_the_alphabet_is_reported_in_the_log(service: Service, client: httpx.Client) -> None:
    assert post(client, spoken("Hello \u2fa1 there.")).status_code == 200
    until(lambda: "\\u2fa1" in service.log.read_text(encoding="utf-8", errors="replace"), LOG_S, "it in the log")


@pytest.mark.parametrize(("piece", "pieces", "whole"), [
    ("thequickbrownfoxjumpsoverthelazydog", 28, 10_000),     # letters without a space
    ("271828182845904523536028747135266249775724709369995", 8, 5_000),
], ids=["letters", "digits"])
def test_endless_words(client: httpx.Client, piece: str, pieces: int, whole: int) -> None:
    """The longest begins to sound; as much of it as a test has time for is spoken in proportion."""
    text = (piece * (whole // len(piece) + 1))[:whole]
    with client.stream("POST", "/v1/audio/speech", json=speech(text)) as answer:
        assert answer.status_code == 200
        assert len(next(answer.iter_raw())) > 1000
    once, often = (post(client, json.dumps(speech(piece * times, speed=2)).encode()).content
                   for times in (1, pieces))
    assert len(often) / len(once) == pytest.approx(pieces, rel=0.2)
