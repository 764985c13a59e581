"""Strictness that Serve's schema lacks: it drops unknown keys in silence, and takes some blocks unread."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from serve_app.config_file import Finding, join


def problems(value: Any, model: type[BaseModel], path: str = "") -> Iterator[Finding]:
    """What ``model``, and the models nested in it, have against a value: unknown keys and invalid values."""
    yield from _invalid(value, model, path)
    yield from _nested(value, model, path)


def _nested(value: Any, kind: Any, path: str) -> Iterator[Finding]:
    """Unknown keys anywhere below, and invalid values in blocks that ``kind`` also takes unread."""
    if isinstance(value, list):
        items = next((args for args in map(get_args, _options(kind, list)) if args), ())
        for index, item in enumerate(value if items else ()):
            yield from _nested(item, items[0], f"{path}[{index}]")
        return
    models = _options(kind, BaseModel)
    if not isinstance(value, dict) or not models:
        return                      # a value, or a mapping that is free to hold anything
    model = models[0]
    if _options(kind, dict):
        yield from _invalid(value, model, path)
    known = {name: field.annotation for name, field in model.model_fields.items()}
    known |= {field.alias: field.annotation for field in model.model_fields.values() if field.alias}
    for key, below in value.items():
        if key in known:
            yield from _nested(below, known[key], join(path, key))
        else:
            yield Finding(join(path, str(key)), f"unknown key{_hint(str(key), known)}")


def _options(kind: Any, wanted: type) -> list[Any]:
    """The alternatives of an annotation (itself, or a union's members) that are of the wanted kind."""
    origin = getattr(kind, "__origin__", None) or kind
    if isinstance(origin, type) and issubclass(origin, wanted):
        return [kind]
    if isinstance(origin, type) and issubclass(origin, (list, dict)):
        return []                   # what such a one holds is no alternative to it
    return [found for option in get_args(kind) for found in _options(option, wanted)]


def _hint(key: str, known: Mapping[str, Any]) -> str:
    """Where the key may belong, or which one was meant."""
    for name, kind in known.items():
        if any(key in model.model_fields for model in _options(kind, BaseModel)):
            return f"; it belongs under {name}"
    close = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(sorted(known))}"


def _invalid(value: Any, model: type[BaseModel], path: str) -> Iterator[Finding]:
    try:
        model.model_validate(copy.deepcopy(value))      # Serve's validators write into what they check
    except ValidationError as error:
        for detail in error.errors():
            if detail["type"] != "extra_forbidden":     # found along with all other unknown keys
                yield Finding(_place(value, detail["loc"], path), _message(detail))
    except Exception as error:      # Serve's validators import what the file names, and trust its shape
        yield Finding(path, f"{type(error).__name__}: {error}")


def _place(value: Any, location: tuple[Any, ...], path: str) -> str:
    """The dotted path of pydantic's location, without the names of union members that pydantic puts in."""
    for position, part in enumerate(location):
        if isinstance(value, dict) and (part in value or position == len(location) - 1):
            path, value = join(path, str(part)), value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            path, value = f"{path}[{part}]", value[part]
    return path


def _message(detail: Any) -> str:
    if detail["type"] == "missing":
        return "is missing"
    given = detail["input"]
    shown = f" (it is {given!r})" if isinstance(given, (str, int, float)) or given is None else ""
    return str(detail["msg"]).removeprefix("Value error, ") + shown
