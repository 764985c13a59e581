"""HTTP routes: the speech API and what operators and its clients look for around it.

No postponed annotations here: Serve ships this class to its replicas, where FastAPI reads the routes' types.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.exceptions import HTTPException

from deployments.errors import BadRequest, NotFound, Overloaded, SpeechError, TimedOut, TooLarge
from deployments.families import FAMILIES, Family, Voice, family_of_voice
from serve_app.audio import FORMATS, encoder
from serve_app.cluster_metrics import cluster_metrics
from serve_app.openai_api import (
    SpeechRequest,
    error_body,
    error_response,
    model_object,
    read_speech_request,
    sse,
    sse_delta,
    sse_done,
)
from serve_app.pipeline import SAMPLE_BYTES, Pipeline, Speech, Stages
from serve_app.settings import ServiceSettings
from serve_app.streaming import AbandonableStream, HeadAsGet, in_thread

log = logging.getLogger("ray.serve")

ENCODER_THREADS = 2
READY_S = 2.0
"""A stage that does not answer within this is not ready."""

api = FastAPI(title="CosyServe", docs_url="/docs", redoc_url=None)
api.add_middleware(HeadAsGet)


@api.exception_handler(SpeechError)
async def _speech_error(_: Request, error: SpeechError) -> JSONResponse:
    return error_response(error)


@api.exception_handler(HTTPException)
async def _http_error(_: Request, error: HTTPException) -> JSONResponse:
    plain = BadRequest(str(error.detail), code={404: "not_found", 405: "method_not_allowed"}.get(error.status_code))
    return JSONResponse(error_body(plain), error.status_code, error.headers)     # a 405 says what is allowed


@api.exception_handler(RequestValidationError)
async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
    return error_response(BadRequest(str(error.errors()[0]["msg"])))


@api.exception_handler(Exception)
async def _unforeseen(_: Request, error: Exception) -> JSONResponse:
    log.exception("unforeseen failure", exc_info=error)
    return error_response(SpeechError("the service failed; its log says why"))


@serve.ingress(api)
class Ingress:
    """The service's front. Keeps no audio, but Serve's queue does: all that a slow client has not read yet."""

    def __init__(self, settings: ServiceSettings, frontend: DeploymentHandle[Any],
                 stages: dict[str, tuple[DeploymentHandle[Any], DeploymentHandle[Any]]]) -> None:
        self._settings = settings
        self._handles = {"text-frontend": frontend}
        for family, (acoustic, vocoder) in stages.items():
            self._handles |= {f"{family}-acoustic": acoustic, f"{family}-vocoder": vocoder}
        self._pipeline = Pipeline(frontend, {family: Stages(*pair) for family, pair in stages.items()},
                                  settings.look_ahead)
        self._encoding = ThreadPoolExecutor(ENCODER_THREADS, thread_name_prefix="encode")
        self._requests = 0

    @api.post("/v1/audio/speech")
    async def speech(self, request: Request) -> Response:
        """Speak ``input``."""
        limits = self._settings.limits
        asked = await read_speech_request(request, body_bytes=limits.body_bytes, characters=limits.characters)
        family, voice = self._voice(asked)
        if self._requests >= limits.concurrent_requests:
            raise Overloaded(f"{self._requests} requests are under way, the most that this replica takes")
        headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
        if asked.instructions:
            headers["X-CosyServe-Ignored"] = "instructions"
            log.warning("the voice %s takes no instructions; they are ignored", voice)
        speech = Speech(asked.input, family, voice, asked.speed, asked.seed)
        if asked.stream is False and asked.stream_format == "audio":
            return Response(await self._whole(asked, speech), 200, headers,
                            FORMATS[asked.response_format].media_type)
        chunks = self._spoken(asked, speech)
        first = await anext(chunks)       # what fails before the first byte is answered with its status
        media_type = ("text/event-stream" if asked.stream_format == "sse"
                      else FORMATS[asked.response_format].media_type)
        return AbandonableStream(first, chunks, media_type=media_type, headers=headers)

    def _voice(self, asked: SpeechRequest) -> tuple[Family, str]:
        settings = self._settings
        voice = settings.voice_aliases.get(asked.voice_id, asked.voice_id)
        family = family_of_voice(voice, tuple(settings.families))
        if asked.model not in (family.id, *settings.model_aliases):
            if asked.model in settings.families:
                raise BadRequest(f"the model {asked.model!r} has no voice {asked.voice_id!r}", param="voice",
                                 code="voice_not_found")
            raise NotFound(f"unknown model {asked.model!r}", param="model", code="model_not_found")
        return family, voice

    async def _pcm(self, speech: Speech) -> AsyncGenerator[bytes, None]:
        """The pipeline's PCM, within the time that a request has."""
        ends_s = time.monotonic() + self._settings.limits.request_s
        pcm = self._pipeline.pcm(speech)
        self._requests += 1
        try:
            while True:
                try:
                    async with asyncio.timeout(ends_s - time.monotonic()):
                        chunk = await anext(pcm, None)
                except TimeoutError as error:
                    raise TimedOut(f"the request took over {self._settings.limits.request_s:g} s") from error
                if chunk is None:
                    return
                yield chunk
        finally:
            self._requests -= 1
            await pcm.aclose()

    async def _spoken(self, asked: SpeechRequest, speech: Speech) -> AsyncGenerator[bytes, None]:
        """The answer's body, encoded as it is made."""
        pcm = self._pcm(speech)
        coder = encoder(asked.response_format, speech.family.sample_rate)
        as_sse = asked.stream_format == "sse"
        try:
            async for chunk in pcm:
                if encoded := await self._off_loop(coder.feed, chunk):
                    yield sse_delta(encoded) if as_sse else encoded
            if encoded := await self._off_loop(coder.finish):
                yield sse_delta(encoded) if as_sse else encoded
            if as_sse:
                seconds = speech.samples / speech.family.sample_rate
                yield sse_done(len(asked.input), round(seconds * speech.family.frames_per_s))
        except Exception as error:
            if speech.first_sound_s is None:
                raise
            log.error("broken off after %d samples: %r", speech.samples, error)
            if not as_sse:
                raise       # breaks the connection off: a client must not take the rest for the whole
            known = error if isinstance(error, SpeechError) else SpeechError("the service failed; its log says why")
            yield sse(error_body(known))
        finally:
            coder.close()
            await pcm.aclose()

    async def _whole(self, asked: SpeechRequest, speech: Speech) -> bytes:
        """The answer's body in one piece, for clients that want its length beforehand."""
        most = self._settings.limits.whole_answer_characters
        if len(asked.input) > most:
            raise TooLarge(f"the input has {len(asked.input)} characters; unstreamed, this service takes {most}",
                           param="input", code="input_too_long")
        pcm = b"".join([chunk async for chunk in self._pcm(speech)])
        coder = encoder(asked.response_format, speech.family.sample_rate, known_samples=len(pcm) // SAMPLE_BYTES)
        return await self._off_loop(lambda: coder.feed(pcm) + coder.finish())

    async def _off_loop(self, function: Callable[..., bytes], *args: bytes) -> bytes:
        """Encoding, off the event loop."""
        return await in_thread(self._encoding, function, *args)

    @api.get("/v1/models")
    async def models(self) -> dict[str, Any]:
        """The served families, and the names that stand for them."""
        return {"object": "list", "data": [model_object(name) for name in self._models()]}

    @api.get("/v1/models/{model}")
    async def model(self, model: str) -> dict[str, Any]:
        """One model."""
        if model not in self._models():
            raise NotFound(f"unknown model {model!r}", param="model", code="model_not_found")
        return model_object(model)

    @api.get("/v1/audio/models")
    async def audio_models(self) -> dict[str, Any]:
        """The models, as Open WebUI asks for them."""
        return {"models": [{"id": name} for name in self._models()]}

    @api.get("/v1/audio/voices")
    async def voices(self) -> dict[str, Any]:
        """The voices, under their own names and under those that clients use."""
        served: dict[str, tuple[Family, Voice]] = {voice.id: (FAMILIES[name], voice)
                                                   for name in self._settings.families
                                                   for voice in FAMILIES[name].voices}
        names = {**{voice: voice for voice in served}, **self._settings.voice_aliases}
        return {"voices": [{"id": name, "name": served[voice][1].name if name == voice else name.title(),
                            "voice": voice, "model": served[voice][0].id, "language": served[voice][1].language}
                           for name, voice in names.items()]}

    def _models(self) -> list[str]:
        return [*self._settings.families, *self._settings.model_aliases]

    @api.get("/v1/test")
    async def test(self) -> dict[str, str]:
        """What wyoming_openai probes."""
        return {"status": "ok"}

    @api.get("/health/live")
    async def live(self) -> dict[str, str]:
        """The front answers."""
        return {"status": "ok"}

    @api.get("/health/ready")
    async def ready(self) -> JSONResponse:
        """200 when every stage can speak, else 503; with each stage's word."""
        async def state(handle: DeploymentHandle[Any]) -> str:
            try:
                status = await asyncio.wait_for(handle.status.remote(), READY_S)
            except TimeoutError:
                return "no replica answers"
            except Exception as error:
                return f"{type(error).__name__}: {error}".splitlines()[0]
            return f"ok, but on old settings: {status.refused}" if status.refused else "ok"

        stages = dict(zip(self._handles, await asyncio.gather(*map(state, self._handles.values())), strict=True))
        ready = all(word.startswith("ok") for word in stages.values())
        return JSONResponse({"status": "ok" if ready else "not ready", "stages": stages}, 200 if ready else 503)

    @api.get("/metrics")
    async def metrics(self) -> PlainTextResponse:
        """The whole cluster's metrics, for Prometheus."""
        return PlainTextResponse(await cluster_metrics(), media_type="text/plain; version=0.0.4")
