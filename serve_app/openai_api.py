"""The speech API's shapes: what a request may say, and how an answer or an error looks.

Follows the OpenAI API description of ``/v1/audio/speech``; keys that it does not know are ignored, as
clients of many servers send them.
"""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any, Literal

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deployments.errors import BadRequest, SpeechError, TooLarge
from serve_app.audio import FORMATS


class UnsupportedMediaType(SpeechError):
    """The body is not JSON by its own word."""

    status = 415
    code = "unsupported_media_type"


Name = Annotated[str, Field(max_length=256)]
"""What a client calls a voice, a model or a format; short enough to be quoted in an error."""


class VoiceReference(BaseModel):
    """A voice by its id."""

    model_config = ConfigDict(strict=True)

    id: Name


class SpeechRequest(BaseModel):
    """Body of ``POST /v1/audio/speech``."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    model: Name
    input: str
    voice: Name | VoiceReference
    instructions: str | None = Field(None, max_length=4096)
    response_format: Name = "mp3"
    speed: float = Field(1.0, ge=0.25, le=4.0)
    stream_format: Literal["audio", "sse"] = "audio"
    stream: Any = None
    """An extension: ``false`` answers in one piece with a Content-Length (and a WAV with its true length)."""
    seed: int = Field(0, ge=0, lt=2**63)
    """An extension: seeds the audio's noise; the same request and seed give the same audio."""

    @property
    def voice_id(self) -> str:
        """The voice's name, however it was given."""
        return self.voice if isinstance(self.voice, str) else self.voice.id


async def read_speech_request(request: Request, *, body_bytes: int, characters: int) -> SpeechRequest:
    """The request's body, checked. Raises :class:`SpeechError` that says what is wrong with it."""
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise UnsupportedMediaType(f"the body must be application/json, not {content_type or 'untyped'}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > body_bytes:
            raise TooLarge(f"the body is over this service's limit of {body_bytes} bytes")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}", code="invalid_json") from error
    if not isinstance(fields, dict):
        raise BadRequest("the body must be a JSON object", code="invalid_json")
    if isinstance(text := fields.get("input"), str):
        # Joins surrogate pairs, and puts U+FFFD for a lone one, which no other part could even print.
        fields["input"] = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        asked = SpeechRequest.model_validate(fields)
    except ValidationError as error:
        raise _said(error) from error
    if asked.response_format not in FORMATS:
        raise BadRequest(f"unknown response_format {asked.response_format!r}; known: {', '.join(FORMATS)}",
                         param="response_format")
    if len(asked.input) > characters:
        raise TooLarge(f"the input has {len(asked.input)} characters; this service takes {characters}",
                       param="input", code="input_too_long")
    if not asked.input.strip():
        raise BadRequest("the input is empty", param="input", code="nothing_to_speak")
    return asked


def _said(error: ValidationError) -> BadRequest:
    """The first field that is wrong, and how."""
    errors = error.errors(include_input=False, include_url=False)
    param = str(errors[0]["loc"][0])
    # Of a union's complaints (a voice is a name or an object), the one that got furthest into what was sent.
    first = max((each for each in errors if each["loc"][0] == param), key=lambda each: len(each["loc"]))
    place = param if len(first["loc"]) < 3 else f"{param}.{first['loc'][-1]}"
    code = "missing_required_parameter" if first["type"] == "missing" else "invalid_value"
    return BadRequest(f"{place}: {first['msg']}", param=param, code=code)


def error_response(error: SpeechError) -> JSONResponse:
    """The error in the API's shape, with the headers that its clients act on."""
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    return JSONResponse(error_body(error), error.status, headers)


def error_body(error: SpeechError) -> dict[str, Any]:
    """``{"error": {message, type, param, code}}``, all four present."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def sse(event: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"


def sse_delta(audio: bytes) -> bytes:
    """The event that carries some encoded audio."""
    return sse({"type": "speech.audio.delta", "audio": base64.b64encode(audio).decode("ascii")})


def sse_done(characters: int, frames: int) -> bytes:
    """The last event. Tokens are counted as characters of text in and frames of audio out."""
    return sse({"type": "speech.audio.done", "usage": {
        "input_tokens": characters, "output_tokens": frames, "total_tokens": characters + frames}})


def model_object(name: str) -> dict[str, Any]:
    """A model, as ``/v1/models`` lists it."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "cosyserve"}
