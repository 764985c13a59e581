"""What an operator can tune in a stage while it runs: the ``user_config`` of its deployment.

Strict: an unknown key is an error, since Serve itself drops unknown keys without a word.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

SMALLEST_WINDOW = 20
Edges = Annotated[list[int], Field(min_length=1)]


class Strict(BaseModel):
    """A settings block that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StageSettings(Strict):
    """What every stage has."""

    threads: int = Field(1, ge=1, description="Threads of one replica's compute. Two replicas of one thread do "
                         "more than one replica of two.")
    stuck_after_s: float = Field(120.0, gt=0, description="A batch that computes longer than this makes the "
                                 "replica unhealthy, and Ray replaces it.")


class FrontendSettings(StageSettings):
    """The text frontend."""

    longest_utterance: int = Field(240, ge=64, le=400, description="Symbols (phonemes, spaces, punctuation) "
                                   "in one utterance at most; longer sentences are cut at clauses.")


class BatchSettings(StageSettings):
    """A stage that batches."""

    wait_s: float = Field(0.0, ge=0, le=0.3, description="How long an item waits for company. 0 still "
                          "batches under load: a batch is formed when the compute thread is free.")


class AcousticSettings(BatchSettings):
    """An acoustic model."""

    bucket_edges: Edges = Field([20, 40, 60, 80, 100, 120, 160, 240], description="Upper edges of the length "
                                "buckets, in symbols. A last bucket up to the model's own limit is implied.")
    padded_symbols_cap: int = Field(240, ge=1, description="Symbols in one batch at most, padding included: "
                                    "memory of a batch against throughput.")

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        _check_ascending("bucket_edges", self.bucket_edges)
        return self

    def edges(self, longest: int) -> list[int]:
        """All buckets' edges, for a model that takes ``longest`` symbols."""
        return [*(edge for edge in self.bucket_edges if edge < longest), longest]


class VocoderSettings(BatchSettings):
    """A vocoder."""

    window_sizes: Edges = Field([40, 80, 160, 320], description="Window sizes in frames (hibari: 80 a second). "
                                "The smallest makes the first sound; the largest sets memory, and how long a "
                                "first sound can have to wait for compute.")
    padded_frames_cap: int = Field(320, ge=1, description="Frames in one batch at most, padding included.")

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        _check_ascending("window_sizes", self.window_sizes)
        if self.window_sizes[0] < SMALLEST_WINDOW:
            raise ValueError(f"a window of {self.window_sizes[0]} frames is under {SMALLEST_WINDOW}: nearly all of "
                             "its work would be its neighbours'")
        return self


def _check_ascending(name: str, edges: list[int]) -> None:
    if edges != sorted(set(edges)) or edges[0] < 1:
        raise ValueError(f"{name} must ascend from 1 or more: {edges}")
