"""cluster.yaml, by the checks that `ray up` makes before it asks the cloud for anything."""

from __future__ import annotations

import json
import re
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray._private.label_utils import validate_node_label_syntax
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import start

from serve_app.check import check

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster() -> dict[str, Any]:
    written = yaml.safe_load((ROOT / "cluster.yaml").read_text("utf-8"))
    prepared: dict[str, Any] = prepare_config(written)
    return prepared


def test_ray_accepts_it(cluster: dict[str, Any]) -> None:
    validate_config(cluster)
    json.dumps(cluster)             # ray up hashes it


def test_a_key_unknown_to_ray_is_refused(cluster: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="memmory"):
        validate_config({**cluster, "memmory": 1})


def test_no_replica_lands_on_the_head(cluster: dict[str, Any]) -> None:
    assert cluster["available_node_types"][cluster["head_node_type"]]["resources"]["CPU"] == 0


def test_labels_can_be_selected(cluster: dict[str, Any]) -> None:
    labels = [kind.get("labels", {}) for kind in cluster["available_node_types"].values()]
    for each in labels:
        validate_node_label_syntax(each)
    assert {"cosyserve/memory": "high"} in labels


def test_the_start_commands_use_options_that_ray_start_has(cluster: dict[str, Any]) -> None:
    known = {name for parameter in start.params for name in parameter.opts}
    for command in cluster["head_start_ray_commands"] + cluster["worker_start_ray_commands"]:
        given = {word.partition("=")[0] for word in shlex.split(command) if word.startswith("--")}
        assert given <= known


def test_the_image_has_the_installed_ray(cluster: dict[str, Any]) -> None:
    image = re.fullmatch(r"rayproject/ray:([\d.]+)-py311-cpu", cluster["docker"]["image"])
    assert image
    assert image[1] == version("ray")


def test_config_yaml_fits_the_worker_that_always_runs(cluster: dict[str, Any]) -> None:
    general = cluster["available_node_types"]["general"]
    report = check(ROOT / "config.yaml", general["resources"]["memory"], general["resources"]["CPU"],
                   nodes=general["min_workers"])
    assert report.ok, report
