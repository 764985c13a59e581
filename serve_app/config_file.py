"""A config file as it is written: its values, where each stands, and what stands there twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from serve_app.units import format_bytes, parse_bytes

UNREADABLE = (OSError, ValueError, RecursionError, yaml.YAMLError)
"""What :meth:`ConfigFile.read` raises for a file that is none."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to say about a place in the file."""

    path: str
    """Dotted, such as ``applications[0].deployments[3].ray_actor_options``; empty for the whole file."""
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(slots=True)
class ConfigFile:
    """The file's text and what YAML makes of it."""

    path: Path
    text: str
    values: Any
    places: dict[str, yaml.Node] = field(default_factory=dict)
    """Dotted path → where its value stands."""
    repeated: list[Finding] = field(default_factory=list)
    """Keys that stand twice in one mapping; YAML takes the last and says nothing."""

    @classmethod
    def read(cls, path: Path) -> ConfigFile:
        """Read the file. Raises one of :data:`UNREADABLE`."""
        text = path.read_text("utf-8")
        file = cls(path, text, yaml.safe_load(text))
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            file._note(root, "")
        return file

    def _note(self, node: yaml.Node, path: str) -> None:
        self.places[path] = node
        if isinstance(node, yaml.SequenceNode):
            for index, child in enumerate(node.value):
                self._note(child, f"{path}[{index}]")
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, child in node.value:
                if key.tag == "tag:yaml.org,2002:merge":
                    continue        # what is merged in may be said again: that is what merging is for
                where = join(path, str(key.value))
                line = key.start_mark.line + 1
                if key.value in lines:
                    both = f"{lines[key.value]} and {line}"
                    self.repeated.append(Finding(where, f"stands twice, in lines {both}"))
                lines[key.value] = line
                self._note(child, where)

    def line_of(self, path: str) -> int | None:
        """The line of a path's value, or of the nearest thing around it that the file has."""
        while path not in self.places:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
            if not path:
                return None
        return self.places[path].start_mark.line + 1

    def readable_memory(self) -> Iterator[tuple[str, str, int]]:
        """(path, what is written, its bytes) of reservations in units that Serve itself refuses."""
        for path, options in self._actor_options():
            written = options.get("memory")
            if isinstance(written, str) and not _number(written):
                try:
                    yield f"{path}.memory", written, parse_bytes(written)
                except ValueError:
                    continue        # Serve's own schema says what is wrong with it

    def in_bytes(self) -> str:
        """The text with readable reservations as bytes, and what they were as a comment; else as it is."""
        text = self.text
        # By place, not by path: a block that others repeat by an anchor stands in the file once.
        spans = {(node.start_mark.index, node.end_mark.index): count
                 for path, _, count in self.readable_memory() if (node := self.places.get(path))}
        for (start, end), count in sorted(spans.items(), reverse=True):
            if text[start] in "&!":
                continue            # an anchor or a tag: too much for an edit of text
            rest, line_break, below = text[end:].partition("\n")
            gap, mark, comment = rest.partition("#")
            if not gap.strip():     # else: within braces, where a comment would hide what follows
                note = f"{format_bytes(count)}; {comment.strip()}" if mark else format_bytes(count)
                rest = f"{gap if mark else '  '}# {note}"
            text = text[:start] + str(count) + rest + line_break + below
        return text

    def _actor_options(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for application_path, application in applications_of(self.values):
            for path, block in blocks_of(application, application_path):
                if isinstance(options := block.get("ray_actor_options"), dict):
                    yield f"{path}.ray_actor_options", options


def join(path: str, key: str) -> str:
    """The dotted path of a mapping's key."""
    return f"{path}.{key}" if path else key


def applications_of(values: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, block) of each application, as far as the file has them."""
    return _mappings(values.get("applications") if isinstance(values, dict) else None, "applications")


def blocks_of(application: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, block) of each deployment of an application, as far as it has them."""
    return _mappings(application.get("deployments"), f"{path}.deployments")


def _mappings(items: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, item in enumerate(items if isinstance(items, list) else []):
        if isinstance(item, dict):
            yield f"{path}[{index}]", item


def _number(written: str) -> bool:
    try:
        float(written)
    except ValueError:
        return False
    return True
