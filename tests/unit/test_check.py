"""The config check: what Serve itself would let through, and what must pass."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from serve_app.__main__ import main
from serve_app.app import build
from serve_app.check import Report, check
from serve_app.cross_checks import deployment_names
from serve_app.settings import ServiceSettings

CONFIG = Path(__file__).resolve().parents[2] / "config.yaml"
GIB = 2**30
WRITTEN: dict[str, Any] = yaml.safe_load(CONFIG.read_text("utf-8"))
INGRESS, FRONTEND, ACOUSTIC, VOCODER = range(4)

Edit = Callable[[dict[str, Any], list[dict[str, Any]]], object]


@pytest.fixture
def checked(tmp_path: Path) -> Callable[[Edit], Report]:
    """The report on config.yaml after an edit of (the whole, its deployments), on a roomy node."""
    def report(edit: Edit) -> Report:
        config = copy.deepcopy(WRITTEN)
        edit(config, config["applications"][0]["deployments"])
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(config), "utf-8")
        return check(path, 64 * GIB, 64)
    return report


def test_the_repository_s_own_config_passes() -> None:
    report = check(CONFIG, 16 * GIB, 8)
    assert report.ok, report
    assert not report.warnings
    assert str(report).endswith("ok")


def test_this_machine_is_the_default_node() -> None:
    node = check(CONFIG).node
    assert node.cpus >= 1
    assert node.memory > 100e6


def test_the_names_are_those_of_the_application() -> None:
    settings = ServiceSettings()
    ingress = build(settings)._bound_deployment
    frontend, stages = ingress.init_args[1:]
    bound = [frontend, *(stage for pair in stages.values() for stage in pair)]
    assert deployment_names(settings) == [ingress.name, *(each._bound_deployment.name for each in bound)]


@pytest.mark.parametrize(("edit", "place", "hint"), [
    (lambda c, d: d[VOCODER]["ray_actor_options"].update(memmory=1),
     "applications[0].deployments[3].ray_actor_options.memmory", "did you mean memory?"),
    (lambda c, d: c.update(http_option={}), "http_option", "did you mean http_options?"),
    (lambda c, d: c["http_options"].update(prot=1), "http_options.prot", "did you mean port?"),
    (lambda c, d: c.update(grpc_options={"prot": 1}), "grpc_options.prot", "did you mean port?"),
    (lambda c, d: c["logging_config"].update(loglevel=1), "logging_config.loglevel", "mean log_level?"),
    (lambda c, d: c["applications"][0].update(argz={}), "applications[0].argz", "did you mean args?"),
    (lambda c, d: c["applications"][0]["args"].update(lookahead=3), "applications[0].args.lookahead",
     "did you mean look_ahead?"),
    (lambda c, d: c["applications"][0]["args"]["limits"].update(chars=3),
     "applications[0].args.limits.chars", "characters"),
    (lambda c, d: d[ACOUSTIC].update(max_ongoing_request=3),
     "applications[0].deployments[2].max_ongoing_request", "did you mean max_ongoing_requests?"),
    (lambda c, d: d[ACOUSTIC].update(memory=3), "applications[0].deployments[2].memory",
     "it belongs under ray_actor_options"),
    (lambda c, d: d[ACOUSTIC].update(min_replicas=3), "applications[0].deployments[2].min_replicas",
     "it belongs under autoscaling_config"),
    (lambda c, d: d[ACOUSTIC]["autoscaling_config"].update(max_replica=3),
     "applications[0].deployments[2].autoscaling_config.max_replica", "did you mean max_replicas?"),
    (lambda c, d: d[ACOUSTIC]["autoscaling_config"].update(policy={"policy_functoin": "a:b"}),
     "applications[0].deployments[2].autoscaling_config.policy.policy_functoin", "mean policy_function?"),
    (lambda c, d: d[ACOUSTIC].update(request_router_config={"request_router_clas": "a:b"}),
     "applications[0].deployments[2].request_router_config.request_router_clas", "router_class?"),
    (lambda c, d: d[ACOUSTIC]["user_config"].update(wait=0),
     "applications[0].deployments[2].user_config.wait", "did you mean wait_s?"),
])
def test_an_unknown_key_is_an_error(checked: Callable[[Edit], Report], edit: Edit, place: str,
                                    hint: str) -> None:
    [error] = checked(edit).errors
    assert f" {place}: unknown key" in error
    assert hint in error


@pytest.mark.parametrize("edit", [
    lambda c, d: d[VOCODER]["ray_actor_options"].update(resources={"any": 1}, runtime_env={"env_vars": {}}),
    lambda c, d: c["applications"][0].update(runtime_env={"pip": []}),
    lambda c, d: d[VOCODER]["ray_actor_options"].update(label_selector={"cosyserve/memory": "high"}),
    lambda c, d: d[INGRESS].update(backpressure_config={"status_code": 429, "retry_after_s": 2}),
    lambda c, d: d[VOCODER].update(logging_config={"log_level": "DEBUG"}),
    lambda c, d: c["applications"][0]["args"].update(voice_aliases={"anyone": "heart"}),
])
def test_what_is_free_stays_free(checked: Callable[[Edit], Report], edit: Edit) -> None:
    report = checked(edit)
    assert report.ok, report


@pytest.mark.parametrize(("edit", "error"), [
    (lambda c, d: d[ACOUSTIC]["autoscaling_config"].update(min_replicas="two"),
     "deployments[2].autoscaling_config.min_replicas: Input should be a valid integer"),
    (lambda c, d: d[ACOUSTIC]["autoscaling_config"].update(min_replicas=3),
     "deployments[2].autoscaling_config: max_replicas (2) must be greater than or equal to min_replicas (3)"),
    (lambda c, d: d[ACOUSTIC].update(num_replicas=2), "deployments[2]: Manually setting num_replicas"),
    (lambda c, d: d[ACOUSTIC]["autoscaling_config"].update(policy={"policy_function": "no.such:thing"}),
     "deployments[2].autoscaling_config: ModuleNotFoundError"),
    (lambda c, d: d[FRONTEND]["user_config"].update(longest_utterance=401),
     "deployments[1].user_config.longest_utterance: Input should be less than or equal to 400 (it is 401)"),
    (lambda c, d: d[VOCODER]["user_config"].update(window_sizes=[80, 40]),
     "deployments[3].user_config: window_sizes must ascend"),
    (lambda c, d: c["applications"][0]["args"].update(families=["nobody"]), "args: unknown families"),
    (lambda c, d: c["applications"][0].pop("import_path"), "applications[0].import_path: is missing"),
    (lambda c, d: d[VOCODER].update(name="vocoder"), "deployments[3].name: unknown deployment 'vocoder'"),
    (lambda c, d: d[VOCODER].update(name="hibari-acoustic"), "deployments[3].name: a second block"),
    (lambda c, d: d[INGRESS].update(user_config={"threads": 1}), "[0].user_config: ingress has no"),
    (lambda c, d: d[VOCODER]["ray_actor_options"].update(memory=500), "memory: 500 is in bytes"),
    (lambda c, d: d[VOCODER]["ray_actor_options"].update(memory="much"), "memory: Input should be"),
    (lambda c, d: d[VOCODER]["ray_actor_options"].update(memory="0.5GiB"),
     "deployments[3].ray_actor_options.memory: Serve takes bytes only; write memory: 536870912  # 512 MiB"),
])
def test_an_invalid_value_is_an_error(checked: Callable[[Edit], Report], edit: Edit, error: str) -> None:
    errors = checked(edit).errors
    assert any(error in each for each in errors), errors


@pytest.mark.parametrize("text", ["", "- 1", "a: b", "applications: 3", "applications: [3]",
                                  "applications: [{import_path: 'serve_app.app:build', deployments: [3]}]",
                                  "applications: [{import_path: 'serve_app.app:build', args: 3}]",
                                  "applications: [{import_path: 'serve_app.app:build', deployments: [{}]}]",
                                  "applications: [{import_path: 'serve_app.app:build', deployments: "
                                  "[{name: ingress, ray_actor_options: 3}]}]",
                                  "applications: [{import_path: a, deployments: "
                                  "[{name: b, ray_actor_options: {memory: .inf}}]}]",
                                  "a: [", "\0", "a: &a [*a]", "1: 2"])
def test_anything_else_is_an_error_and_never_a_crash(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, "utf-8")
    assert not check(path).ok


def test_serve_itself_lets_them_through() -> None:
    """What this check is for: if this fails, Serve has become strict, and the check may become smaller."""
    config = copy.deepcopy(WRITTEN)
    config["applications"][0]["deployments"][VOCODER]["ray_actor_options"]["memmory"] = 1
    config["applications"][0]["deployments"][VOCODER]["autoscaling_config"]["min_replicas"] = "two"
    ServeDeploySchema.model_validate(config)


def test_a_repeated_key_is_an_error_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    text = CONFIG.read_text("utf-8")
    path.write_text(text.replace("  port: 8000\n", "  port: 8000\n  port: 8001\n"), "utf-8")
    [error] = check(path, 64 * GIB, 64).errors
    assert "http_options.port: stands twice, in lines 8 and 9" in error


@pytest.mark.parametrize(("edit", "warning"), [
    (lambda c, d: d.pop(VOCODER), "hibari-vocoder has no block"),
    (lambda c, d: d[ACOUSTIC].pop("max_ongoing_requests"), "deployments[2]: max_ongoing_requests is not set"),
    (lambda c, d: d[ACOUSTIC].update(max_ongoing_requests=4), "target_ongoing_requests: 16 is over"),
    (lambda c, d: d[ACOUSTIC]["ray_actor_options"].pop("memory"), "deployments[2]: no memory is reserved"),
    (lambda c, d: d[FRONTEND]["user_config"].update(longest_utterance=300), "bucket_edges: an utterance of"),
    (lambda c, d: d[ACOUSTIC]["user_config"].update(padded_symbols_cap=100), "symbols_cap: 100 does not"),
    (lambda c, d: d[VOCODER]["user_config"].update(padded_frames_cap=100), "padded_frames_cap: 100 does not"),
    (lambda c, d: d[INGRESS].update(max_ongoing_requests=64), "max_ongoing_requests: 64 leaves no room"),
    (lambda c, d: c["http_options"].update(request_timeout_s=30), "http_options.request_timeout_s: 30 ends"),
])
def test_what_does_not_go_together_is_a_warning(checked: Callable[[Edit], Report], edit: Edit,
                                                warning: str) -> None:
    report = checked(edit)
    assert report.ok, report
    assert any(warning in each for each in report.warnings), report.warnings


def test_reservations_are_added_up() -> None:
    report = check(CONFIG, 16 * GIB, 8)
    least = sum(row.memory * row.least for row in report.reservations)
    written = [block["ray_actor_options"]["memory"] for block in WRITTEN["applications"][0]["deployments"]]
    assert least == sum(written)
    assert {row.name for row in report.reservations} == set(deployment_names(ServiceSettings()))


def test_replicas_that_always_run_must_fit() -> None:
    report = check(CONFIG, 1 * GIB, 8)
    assert not report.ok
    assert any("hibari-vocoder: 1 of 1 replicas" in error and "500 MiB" in error for error in report.errors)
    assert not check(CONFIG, 16 * GIB, 0.8).ok


def test_replicas_that_load_adds_stay_pending() -> None:
    report = check(CONFIG, 2 * GIB, 8)
    assert report.ok, report
    assert any("stay pending" in warning for warning in report.warnings)


def test_more_nodes_have_more_room_but_no_larger_one() -> None:
    assert check(CONFIG, 1 * GIB, 2, nodes=2).ok
    assert not check(CONFIG, GIB // 4, 2, nodes=100).ok


def test_missing_blocks_count_with_serve_s_defaults(checked: Callable[[Edit], Report]) -> None:
    rows = {row.name: row for row in checked(lambda c, d: d.pop(VOCODER)).reservations}
    assert (rows["hibari-vocoder"].cpus, rows["hibari-vocoder"].memory) == (1, 0)


def test_write_puts_bytes_and_leaves_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CONFIG.read_text("utf-8")
    path = tmp_path / "config.yaml"
    readable = text.replace("memory: 314572800         # 300 MiB", "memory: 300MiB")
    readable = readable.replace("memory: 419430400         # 400 MiB", "memory: '0.5 Gi'   # enough")
    path.write_text(readable, "utf-8")
    common = [str(path), "--node-memory", "16GiB", "--node-cpus", "8"]
    assert main(["check", *common]) == 1
    assert "write memory: 314572800  # 300 MiB" in capsys.readouterr().out
    assert main(["check", "--write", *common]) == 0
    expected = text.replace("memory: 314572800         # 300 MiB", "memory: 314572800  # 300 MiB")
    expected = expected.replace("memory: 419430400         # 400 MiB",
                                "memory: 536870912   # 512 MiB; enough")
    assert path.read_text("utf-8") == expected


def test_numbers_in_quotes_count_as_serve_counts_them(checked: Callable[[Edit], Report]) -> None:
    def edit(_: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
        blocks[VOCODER]["autoscaling_config"].update(max_replicas="5", target_ongoing_requests="200")
        blocks[VOCODER]["ray_actor_options"].update(memory="1073741824", num_cpus="2")

    report = checked(edit)
    assert report.ok, report
    [row] = [row for row in report.reservations if row.name == "hibari-vocoder"]
    assert (row.cpus, row.memory, row.most) == (2, GIB, 5)
    assert any("200 is over" in warning for warning in report.warnings)


def test_write_where_blocks_share_an_anchor(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    text = """applications:
  - import_path: a:b
    deployments:
      - name: c
        ray_actor_options: &small
          memory: 1GiB
      - name: d
        ray_actor_options: *small
      - name: e
        ray_actor_options:
          <<: *small
          num_cpus: 0.5
"""
    path.write_text(text, "utf-8")
    assert main(["check", "--write", str(path), "--node-memory", "3GiB", "--node-cpus", "3"]) == 0
    assert path.read_text("utf-8") == text.replace("1GiB", "1073741824  # 1 GiB")


def test_write_to_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--write", str(tmp_path / "none.yaml")]) == 1
    assert "cannot be read" in capsys.readouterr().out


def test_write_within_braces(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    block = "{name: c, ray_actor_options: {memory: 1Gi}}"
    line = f"applications: [{{import_path: 'a:b', deployments: [{block}]}}]\n"
    path.write_text(line, "utf-8")
    assert main(["check", "--write", str(path), "--node-memory", "2GiB"]) == 0
    assert path.read_text("utf-8") == line.replace("1Gi", "1073741824")


def test_settings_are_all_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--settings"]) == 0
    shown = capsys.readouterr().out
    for key in ("look_ahead: int", "limits.request_s: float", "longest_utterance", "bucket_edges: list[int]",
                "window_sizes", "voice_aliases: dict[str, str]"):
        assert key in shown
