"""What every replica shares: settings that change while it runs, one compute thread, health and metrics."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ray.serve import metrics

from deployments.batching import BatchReport, BucketedBatcher, Item, Result
from deployments.memory import peak_resident_bytes, reserved_bytes, resident_bytes
from deployments.settings import StageSettings

log = logging.getLogger("ray.serve")

Settings = TypeVar("Settings", bound=StageSettings)

MEMORY_SAMPLE_S = 1.0


@dataclass(frozen=True, slots=True)
class StageStatus:
    """One replica's state, as the front and the tools ask for it."""

    stage: str
    resident_bytes: int
    peak_bytes: int
    reserved_bytes: int | None
    batches: int
    items: int
    compute_s: float
    padded_share: float
    """Share of all padded cost so far that held nothing."""
    queued: int
    edges: list[int]
    """Edges of its buckets, as set now."""
    refused: str | None
    """Why the newest settings were refused, where they were."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """How a stage batches, as its settings say."""

    edges: list[int]
    cap: int
    wait_s: float = 0.0


class Stage(ABC, Generic[Settings, Item, Result]):
    """Base of the stage deployments: a subclass says what its settings are and what it computes.

    Everything it computes, warm-up included, runs on the batcher's one thread: two passes at once would only
    fight over cores and double the peak memory, and the event loop never blocks.
    """

    settings_type: type[Settings]

    def __init__(self, name: str) -> None:
        self.name = name
        self.settings: Settings | None = None
        self.refused: str | None = None
        self._batcher: BucketedBatcher[Item, Result] | None = None
        self._batches = self._items = 0
        self._cost = self._padded_cost = self._compute_s = 0.0
        self._sampled_s = 0.0
        self._metrics: dict[str, Any] = {}
        for kind, key, description, boundaries in _METRICS:
            arguments = {"boundaries": boundaries} if boundaries else {}
            metric = kind(f"cosyserve_{key}", description=description, tag_keys=("stage",), **arguments)
            metric.set_default_tags({"stage": name})
            self._metrics[key] = metric

    @abstractmethod
    def buckets(self, settings: Settings) -> Buckets:
        """How the settings batch."""

    @abstractmethod
    def prepare(self, settings: Settings) -> None:
        """Make the settings that are not about batching hold. Runs on the compute thread."""

    @abstractmethod
    def warm_up(self, edge: int) -> None:
        """Compute something in a bucket that is new. Runs on the compute thread."""

    @abstractmethod
    def forward(self, edge: int, items: Sequence[Item]) -> Sequence[Result | Exception]:
        """One outcome an item. Runs on the compute thread."""

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Serve calls this before the replica takes work, and whenever ``user_config`` changes.

        A replica that starts fails on settings that it cannot take. One that runs keeps its old ones and says
        so, in its log, its status and its metrics: Serve would replace it, and a slip of the pen in a live
        edit must not end a working stage.
        """
        try:
            await self._take(user_config)
        except Exception as error:
            if self.settings is None:
                raise
            self.refused = f"user_config of {self.name}: {error}"
            log.error("%s: new settings refused, the old ones stay: %s", self.name, error)
        else:
            self.refused = None
        self._metrics["settings_refused"].set(int(self.refused is not None))

    async def _take(self, user_config: dict[str, Any]) -> None:
        settings = self.settings_type.model_validate(user_config)
        buckets = self.buckets(settings)
        known = self._batcher.edges if self._batcher else []
        batcher = self._batcher or BucketedBatcher(
            self.name, self.forward, edges=buckets.edges, cap=buckets.cap, wait_s=buckets.wait_s,
            report=self._report)
        await batcher.run(self.prepare, settings)
        for edge in sorted(set(buckets.edges) - set(known)):
            await batcher.run(self.warm_up, edge)
        batcher.configure(edges=buckets.edges, cap=buckets.cap, wait_s=buckets.wait_s)
        self._batcher, self.settings = batcher, settings
        log.info("%s: %s", self.name, settings.model_dump_json())

    @property
    def batcher(self) -> BucketedBatcher[Item, Result]:
        """The batcher; Serve configures a replica before it gives it work."""
        assert self._batcher is not None
        return self._batcher

    def check_health(self) -> None:
        """Serve calls this every few seconds; raising makes it replace the replica."""
        if self._batcher and self.settings and self._batcher.computing_for_s > self.settings.stuck_after_s:
            raise RuntimeError(f"{self.name}: one batch has been computing for more than "
                               f"{self.settings.stuck_after_s:g} s")
        self._sample_memory()

    async def status(self) -> StageStatus:
        """This replica's state; answering at all means that it can speak, since start-up warms it up."""
        return StageStatus(
            stage=self.name, resident_bytes=resident_bytes(), peak_bytes=peak_resident_bytes(),
            reserved_bytes=reserved_bytes(), batches=self._batches, items=self._items,
            compute_s=self._compute_s, padded_share=1 - self._cost / self._padded_cost if self._padded_cost else 0.0,
            queued=self.batcher.queued, edges=self.batcher.edges, refused=self.refused)

    def _report(self, batch: BatchReport) -> None:
        """Count a batch."""
        padded = batch.edge * batch.items
        self._batches += 1
        self._items += batch.items
        self._compute_s += batch.compute_s
        self._padded_cost += padded
        self._cost += padded * (1 - batch.padded_share)
        self._metrics["batch_items"].observe(batch.items)
        self._metrics["batch_padded_share"].observe(batch.padded_share)
        self._metrics["batch_wait_seconds"].observe(batch.wait_s)
        self._metrics["batch_compute_seconds"].observe(batch.compute_s)
        self._metrics["queued_items"].set(batch.queued)
        if time.monotonic() - self._sampled_s > MEMORY_SAMPLE_S:
            self._sample_memory()

    def _sample_memory(self) -> None:
        self._sampled_s = time.monotonic()
        self._metrics["resident_bytes"].set(resident_bytes())
        self._metrics["peak_resident_bytes"].set(peak_resident_bytes())
        self._metrics["reserved_bytes"].set(reserved_bytes() or 0)


_SECONDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
_METRICS: list[tuple[Any, str, str, list[float] | None]] = [
    (metrics.Histogram, "batch_items", "Items in a batch.", [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]),
    (metrics.Histogram, "batch_padded_share", "Share of a batch's padded cost that held nothing.",
     [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75]),
    (metrics.Histogram, "batch_wait_seconds", "Longest wait in a batch before its compute began.", _SECONDS),
    (metrics.Histogram, "batch_compute_seconds", "Compute time of a batch.", _SECONDS),
    (metrics.Gauge, "queued_items", "Items that wait for compute.", None),
    (metrics.Gauge, "resident_bytes", "Resident size of the replica's process.", None),
    (metrics.Gauge, "peak_resident_bytes", "Largest resident size so far.", None),
    (metrics.Gauge, "settings_refused", "1 while the replica runs on old settings: it refused newer ones.", None),
    (metrics.Gauge, "reserved_bytes", "Reserved for the replica (ray_actor_options.memory); 0 for none.", None),
]
