"""``python -m serve_app check config.yaml``: what Serve says of a config too late, or never."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ray.serve.config import AutoscalingConfig
from ray.serve.schema import ServeDeploySchema

from serve_app.capacity import Node, Reservation, pending, this_node
from serve_app.config_file import UNREADABLE, ConfigFile, Finding, applications_of, blocks_of
from serve_app.cross_checks import deployment_names, errors_of, settings_of, warnings_of
from serve_app.describe import describe_settings
from serve_app.strict_schema import problems
from serve_app.units import format_bytes

BUILDER = "serve_app.app:build"


@dataclass(slots=True)
class Report:
    """What was found in a config."""

    node: Node
    nodes: int = 1
    reservations: list[Reservation] = field(default_factory=list)
    """Empty where the config is too wrong to add them up."""
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the config can be deployed."""
        return not self.errors

    def __str__(self) -> str:
        lines = [*_table(self), ""] if self.reservations else []
        lines += [f"error: {error}" for error in self.errors]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines if self.errors else [*lines, "ok"])


def check(path: str | Path, node_memory: int | None = None, node_cpus: float | None = None,
          nodes: int = 1) -> Report:
    """Check a config file against Serve's schema, the service's settings, and the nodes it is to run on.

    Args:
        path: the file that ``serve deploy`` would get.
        node_memory: Ray's ``memory`` resource of a node, in bytes; by default, what Ray would take of this
            machine if it started now.
        node_cpus: CPUs of a node; by default, this machine's.
        nodes: how many such nodes there are.
    """
    here = this_node()
    report = Report(Node(here.cpus if node_cpus is None else node_cpus,
                         here.memory if node_memory is None else node_memory), nodes)
    try:
        file = ConfigFile.read(Path(path))
    except UNREADABLE as error:
        report.errors.append(f"{path} cannot be read: {error}")
        return report

    def told(findings: Iterable[Finding]) -> list[str]:
        lines = [(file.line_of(finding.path), finding) for finding in dict.fromkeys(findings)]
        return [f"line {line}: {finding}" if line else str(finding) for line, finding in lines]

    report.errors += told(file.repeated)
    report.errors += told(
        Finding(place, f"Serve takes bytes only; write memory: {count}  # {format_bytes(count)}")
        for place, _, count in file.readable_memory())
    values = yaml.safe_load(file.in_bytes())
    of_serve = told(problems(values, ServeDeploySchema))
    report.errors += of_serve
    for place, application in _ours(values):
        report.errors += told(errors_of(application, place))
    if of_serve:
        return report
    values = _as_serve_reads(values)
    report.reservations = list(_reservations(values))
    _fit(report)
    if report.ok:
        for place, application in _ours(values):
            report.warnings += told(warnings_of(application, place, values.get("http_options", {})))
    return report


def run(arguments: argparse.Namespace) -> int:
    """The command. Returns its exit code."""
    path = Path(arguments.config)
    if arguments.settings:
        print(describe_settings())
        return 0
    if arguments.write:
        with contextlib.suppress(*UNREADABLE):      # the check says why
            file = ConfigFile.read(path)
            if (text := file.in_bytes()) != file.text:
                path.write_text(text, "utf-8")
    report = check(path, arguments.node_memory, arguments.node_cpus, arguments.nodes)
    print(report)
    return 0 if report.ok else 1


def _ours(values: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(place, application) for place, application in applications_of(values)
            if application.get("import_path") == BUILDER]


def _as_serve_reads(values: Any) -> dict[str, Any]:
    """What the file says, in the types that Serve makes of it: it takes ``"2"`` for a number, too."""
    plain: dict[str, Any] = ServeDeploySchema.model_validate(values).model_dump(exclude_unset=True)
    for place, application in applications_of(plain):
        for _, block in blocks_of(application, place):
            if block.get("autoscaling_config"):
                scaling = AutoscalingConfig.model_validate(block["autoscaling_config"])
                block["autoscaling_config"] = scaling.model_dump(exclude_unset=True)
    return plain


def _reservations(values: Any) -> Iterator[Reservation]:
    for place, application in applications_of(values):
        named = [block for _, block in blocks_of(application, place)]
        yield from map(Reservation.of, named)
        settings = settings_of(application) if application["import_path"] == BUILDER else None
        if settings:
            missing = set(deployment_names(settings)) - {block["name"] for block in named}
            yield from (Reservation.of({"name": name}) for name in sorted(missing))


def _fit(report: Report) -> None:
    """Say which replicas find no place."""
    rows = report.reservations
    at_least = pending(rows, report.node, report.nodes, at_most=False)
    at_most = pending(rows, report.node, report.nodes, at_most=True)
    for row, now, then in zip(rows, at_least, at_most, strict=True):
        each = f"each needs {row.cpus:g} CPUs and {format_bytes(row.memory)}"
        if now:
            report.errors.append(f"{row.name}: {now} of {row.least} replicas, those that always run, find no "
                                 f"place: {each}")
        elif then and not any(at_least):
            report.warnings.append(f"{row.name}: {then} of {row.most} replicas at max_replicas find no "
                                   f"place, and will stay pending: {each}")


def _table(report: Report) -> Iterator[str]:
    rows = report.reservations
    yield f"{'deployment':24}{'replicas':>10}{'each':>20}{'at min':>20}{'at max':>20}"
    for row in rows:
        replicas = f"{row.least}" if row.least == row.most else f"{row.least} to {row.most}"
        yield f"{row.name:24}{replicas:>10}" + "".join(
            _amount(row.cpus * count, row.memory * count) for count in (1, row.least, row.most))
    least = _amount(sum(row.cpus * row.least for row in rows), sum(row.memory * row.least for row in rows))
    most = _amount(sum(row.cpus * row.most for row in rows), sum(row.memory * row.most for row in rows))
    yield f"{'in all':54}{least}{most}"
    has = _amount(report.node.cpus, report.node.memory).strip()
    yield f"{'a node has' if report.nodes == 1 else f'each of {report.nodes} nodes has':54}{has:>20}"


def _amount(cpus: float, memory: float) -> str:
    return f"{f'{cpus:g} CPU':>9}{format_bytes(memory):>11}"
