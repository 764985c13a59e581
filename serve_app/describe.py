"""Every setting, with its type, its default and what it does, from the settings themselves."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from serve_app.settings import ServiceSettings, user_config_types

_BOUNDS = {"ge": "at least", "gt": "over", "le": "at most", "lt": "under", "min_length": "length at least",
           "max_length": "length at most"}
WIDTH = 100


def describe_settings() -> str:
    """The settings of the service and of each stage, as a text for a terminal."""
    blocks: list[tuple[str, type[BaseModel]]] = [("args", ServiceSettings)]
    stages = user_config_types(["<family>"])
    blocks += [(f"user_config of {name}", model) for name, model in stages.items()]
    return "\n\n".join("\n".join(_block(title, model)) for title, model in blocks)


def _block(title: str, model: type[BaseModel]) -> Iterator[str]:
    yield title
    for name, field in _fields(model, ""):
        default = field.get_default(call_default_factory=True, validated_data={})
        shown = "required" if field.is_required() else f"default {to_json(default).decode()}"
        yield textwrap.fill(f"{name}: {_type(field)}, {shown}", WIDTH, initial_indent="  ",
                            subsequent_indent="      ")
        if field.description:
            yield textwrap.fill(field.description, WIDTH, initial_indent="      ", subsequent_indent="      ")


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _fields(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


def _type(field: FieldInfo) -> str:
    kind: Any = field.annotation
    shown = str(kind).replace("typing.", "") if get_args(kind) else getattr(kind, "__name__", str(kind))
    for bound in field.metadata:
        for key, words in _BOUNDS.items():
            if (value := getattr(bound, key, None)) is not None:
                shown += f", {words} {value}"
    return shown
