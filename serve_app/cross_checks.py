"""What no single setting can know: whether the stages' settings go together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from deployments.settings import AcousticSettings, FrontendSettings, StageSettings, VocoderSettings
from serve_app.config_file import Finding, blocks_of, join
from serve_app.settings import ServiceSettings, user_config_types
from serve_app.strict_schema import problems
from serve_app.units import format_bytes

INGRESS = "ingress"
FRONTEND = "text-frontend"
SMALLEST_RESERVATION = 64 * 2**20
"""No replica's process is smaller; less is a number that was meant in another unit."""


def errors_of(application: dict[str, Any], path: str) -> Iterator[Finding]:
    """What the service's own settings have against an application block."""
    yield from problems(application.get("args", {}), ServiceSettings, f"{path}.args")
    settings = settings_of(application)
    if settings is None:
        return
    types = user_config_types(settings.families)
    names = deployment_names(settings)
    seen: set[str] = set()
    for where, block in blocks_of(application, path):
        name = block.get("name")
        if name not in names:
            yield Finding(f"{where}.name", f"unknown deployment {name!r}; with families {settings.families} "
                                           f"there are: {', '.join(names)}")
            continue
        if name in seen:
            yield Finding(f"{where}.name", f"a second block for {name!r}")
        seen.add(name)
        user_config = block.get("user_config")
        if name in types:
            yield from problems(user_config or {}, types[name], f"{where}.user_config")
        elif user_config is not None:
            yield Finding(f"{where}.user_config", f"{name} has no settings of its own; it takes args")
        options = block.get("ray_actor_options")
        memory = options.get("memory") if isinstance(options, dict) else None
        if isinstance(memory, (int, float)) and 0 < memory < SMALLEST_RESERVATION:
            yield Finding(f"{where}.ray_actor_options.memory",
                          f"{memory} is in bytes, and no replica fits in {format_bytes(memory)}")


def warnings_of(application: dict[str, Any], path: str, http_options: dict[str, Any]) -> Iterator[Finding]:
    """What runs, but hardly as it was meant. For an application without errors, validated by Serve."""
    settings = settings_of(application)
    assert settings is not None
    types = user_config_types(settings.families)
    blocks = {block["name"]: (where, block) for where, block in blocks_of(application, path)}
    for name in deployment_names(settings):
        if name in blocks:
            yield from _of_block(*blocks[name])
        else:
            yield Finding(f"{path}.deployments", f"{name} has no block: it runs with Serve's defaults, one "
                                                 "replica on one CPU without a memory reservation")
    stages = {name: model.model_validate(blocks[name][1].get("user_config") or {} if name in blocks else {})
              for name, model in types.items()}
    frontend = stages[FRONTEND]
    assert isinstance(frontend, FrontendSettings)
    for name, stage in stages.items():
        where = join(blocks[name][0] if name in blocks else path, "user_config")
        yield from _of_stage(stage, frontend.longest_utterance, where)
    if INGRESS in blocks:
        where, block = blocks[INGRESS]
        room, speeches = block.get("max_ongoing_requests"), settings.limits.concurrent_requests
        if room is not None and room <= speeches:
            yield Finding(f"{where}.max_ongoing_requests", f"{room} leaves no room beside the {speeches} "
                          "requests of args.limits.concurrent_requests: health checks will queue behind them")
    timeout_s, request_s = http_options.get("request_timeout_s"), settings.limits.request_s
    if timeout_s is not None and timeout_s < request_s:
        yield Finding("http_options.request_timeout_s", f"{timeout_s:g} ends requests, with 408, before "
                      f"args.limits.request_s ({request_s:g}) does")


def deployment_names(settings: ServiceSettings) -> list[str]:
    """The deployments that :func:`serve_app.app.build` makes."""
    return [INGRESS, *user_config_types(settings.families)]


def settings_of(application: dict[str, Any]) -> ServiceSettings | None:
    """The application's ``args``, where they are valid."""
    try:
        return ServiceSettings.model_validate(application.get("args", {}))
    except ValidationError:
        return None


def _of_block(where: str, block: dict[str, Any]) -> Iterator[Finding]:
    ongoing = block.get("max_ongoing_requests")
    target = (block.get("autoscaling_config") or {}).get("target_ongoing_requests")
    if ongoing is None:
        yield Finding(where, "max_ongoing_requests is not set; Serve's default lets 5 calls in and no more")
    elif target is not None and target > ongoing:
        yield Finding(f"{where}.autoscaling_config.target_ongoing_requests",
                      f"{target:g} is over max_ongoing_requests ({ongoing}): replicas are added only once "
                      "calls queue at their callers")
    if not (block.get("ray_actor_options") or {}).get("memory"):
        yield Finding(where, "no memory is reserved: Ray places its replicas as if they took none")


def _of_stage(stage: Any, longest_utterance: int, where: str) -> Iterator[Finding]:
    assert isinstance(stage, StageSettings)
    if isinstance(stage, AcousticSettings):
        if stage.bucket_edges[-1] < longest_utterance:
            last = stage.bucket_edges[-1]
            yield Finding(f"{where}.bucket_edges", f"an utterance of more than {last} symbols is padded to "
                          "the model's limit; let the last edge reach the frontend's longest_utterance "
                          f"({longest_utterance})")
        if stage.padded_symbols_cap < longest_utterance:
            cap = stage.padded_symbols_cap
            yield Finding(f"{where}.padded_symbols_cap", f"{cap} does not hold: one "
                          "utterance is always taken, and the frontend's longest_utterance is "
                          f"{longest_utterance}")
    if isinstance(stage, VocoderSettings) and stage.padded_frames_cap < stage.window_sizes[-1]:
        yield Finding(f"{where}.padded_frames_cap", f"{stage.padded_frames_cap} does not hold: one window is "
                      f"always taken, and the largest has {stage.window_sizes[-1]} frames")

