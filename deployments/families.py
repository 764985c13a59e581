"""The voice families: which classes serve each stage, and which voices exist. Data only.

To add a family: one file a stage, and one entry here. Classes are named, not imported, so that reading this
table pulls in no network.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from deployments.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice, called as its users call it."""

    id: str
    name: str
    language: str
    """BCP 47 tag of the language that it speaks best."""


@dataclass(frozen=True, slots=True)
class Family:
    """Voices that share their networks."""

    id: str
    acoustic: str
    """``module:Class`` of its :class:`~deployments.contracts.AcousticNetwork`."""
    vocoder: str
    """``module:Class`` of its :class:`~deployments.contracts.VocoderNetwork`."""
    sample_rate: int
    frames_per_s: int
    seconds_per_symbol: float
    """Mean duration of a symbol at speed 1, to foresee when a listener runs dry."""
    voices: tuple[Voice, ...]


FAMILIES: dict[str, Family] = {family.id: family for family in (
    Family(
        id="hibari",
        acoustic="deployments.acoustic.hibari:HibariAcoustic",
        vocoder="deployments.vocoder.hibari:HibariVocoder",
        sample_rate=24000,
        frames_per_s=80,
        seconds_per_symbol=0.062,
        voices=(Voice("heart", "Heart", "en-US"),),
    ),
)}


def family_of_voice(voice: str, families: tuple[str, ...] = tuple(FAMILIES)) -> Family:
    """The family, of those served, that has this voice. Raises :class:`BadRequest` where none has."""
    for name in families:
        if any(voice == known.id for known in FAMILIES[name].voices):
            return FAMILIES[name]
    known_ids = [known.id for name in families for known in FAMILIES[name].voices]
    raise BadRequest(f"unknown voice {voice!r}; known: {', '.join(known_ids)}", param="voice",
                     code="voice_not_found")


def load_class(path: str) -> Any:
    """The class that ``module:Class`` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
