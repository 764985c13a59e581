"""The whole settings tree: what ``args`` in ``config.yaml`` may say, and the stages' own blocks.

What a running service can take without a restart (batching, replica counts, queue lengths) stands in
``config.yaml`` under ``deployments``; a stage's part of it is described in :mod:`deployments.settings`.
What is here shapes the application: a change of it replaces the replicas, one by one.
"""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field, model_validator

from deployments.families import FAMILIES
from deployments.settings import AcousticSettings, FrontendSettings, Strict, VocoderSettings

_OPENAI_VOICES = ("alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer",
                  "verse", "marin", "cedar")
_OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")


class Limits(Strict):
    """What one request, and all at once, may ask of the service."""

    characters: int = Field(20_000, ge=1, description="Longest input of a request, in characters; a longer one "
                            "is refused with 413.")
    whole_answer_characters: int = Field(4096, ge=1, description="Longest input that may be answered in one piece "
                                         "(stream: false), which holds all its audio in the ingress (about 3 KB a "
                                         "character); a longer one is refused with 413.")
    body_bytes: int = Field(1_000_000, ge=1_000, description="Largest request body; a larger one is refused "
                            "with 413.")
    concurrent_requests: int = Field(64, ge=1, description="Speech requests that one ingress replica works on; "
                                     "a further one is refused with 503 and Retry-After.")
    request_s: float = Field(600.0, gt=0, description="Time from arrival to the last byte; past it the request "
                             "ends: 504 before the first byte, a broken-off stream after it.")


class ServiceSettings(Strict):
    """``args`` of the application."""

    families: list[str] = Field(["hibari"], min_length=1, description="Voice families to serve, the default one "
                                "first. Each brings an acoustic and a vocoder deployment of its own.")
    voice_aliases: dict[str, str] = Field(dict.fromkeys(_OPENAI_VOICES, "heart"),
                                          description="Names that clients use, and the voices they get.")
    model_aliases: list[str] = Field(list(_OPENAI_MODELS), description="Model names that clients use; the voice "
                                     "then decides the family.")
    limits: Limits = Field(Limits(), description="What a request may ask for.")
    look_ahead: int = Field(2, ge=1, le=8, description="Utterances of one request under way at once. More hides "
                            "a slow stage and holds more audio in memory: up to one utterance each.")

    @model_validator(mode="after")
    def _known(self) -> Self:
        unknown = [name for name in self.families if name not in FAMILIES]
        if unknown:
            raise ValueError(f"unknown families {unknown}; known: {sorted(FAMILIES)}")
        voices = {voice.id for name in self.families for voice in FAMILIES[name].voices}
        missing = sorted(set(self.voice_aliases.values()) - voices)
        if missing:
            raise ValueError(f"no served family has the voices {missing}; served: {sorted(voices)}")
        return self


def user_config_types(families: list[str]) -> dict[str, type[BaseModel]]:
    """Deployment name → the settings that its ``user_config`` holds."""
    types: dict[str, type[BaseModel]] = {"text-frontend": FrontendSettings}
    for family in families:
        types[f"{family}-acoustic"] = AcousticSettings
        types[f"{family}-vocoder"] = VocoderSettings
    return types
