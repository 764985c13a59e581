"""What stands around the speech route: models, voices, health, metrics, and the answer to a wrong address."""

from __future__ import annotations

from collections import defaultdict

import httpx
import pytest

from tests.conftest import speech
from tests.integration.test_scaling import until
from tests.integration.test_speech_api import MODELS, VOICES

STAGES = {"text-frontend", "hibari-acoustic", "hibari-vocoder"}
GETS = ("/v1/models", "/v1/models/tts-1", "/v1/audio/voices", "/v1/audio/models", "/v1/test", "/health/live",
        "/health/ready")
EXPORTED_S = 40.0       # Ray exports every 10 s, and collects before that


def error_of(answer: httpx.Response) -> dict[str, str | None]:
    """The error, which has the API's whole shape."""
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    error: dict[str, str | None] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert error["type"] == ("server_error" if answer.status_code >= 500 else "invalid_request_error")
    assert isinstance(error["code"], str | None)
    return error


def test_models(client: httpx.Client) -> None:
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert {model["id"] for model in listed["data"]} == {"hibari", *MODELS}
    for model in listed["data"]:
        assert set(model) == {"id", "object", "created", "owned_by"}
        assert client.get(f"/v1/models/{model['id']}").json() == model
    assert client.get("/v1/audio/models").json() == {"models": [{"id": model["id"]} for model in listed["data"]]}


@pytest.mark.parametrize("name", ["tts-9", "%20", "%00", "%ED%A0%80", "x" * 4000])
def test_unknown_model(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/v1/models/{name}")
    assert answer.status_code == 404
    error = error_of(answer)
    assert (error["param"], error["code"]) == ("model", "model_not_found")


def test_voices_are_objects(client: httpx.Client) -> None:
    voices = client.get("/v1/audio/voices").json()["voices"]
    assert all(isinstance(voice["id"], str) and isinstance(voice["name"], str) for voice in voices)
    ids = [voice["id"] for voice in voices]
    assert len(ids) == len(set(ids))
    assert set(ids) == {"heart", *VOICES}       # which speak: test_every_alias_speaks_as_heart


def test_probes(client: httpx.Client) -> None:
    assert client.get("/v1/test").json() == {"status": "ok"}
    assert client.get("/health/live").json() == {"status": "ok"}
    ready = client.get("/health/ready")
    assert ready.status_code == 200
    assert ready.json() == {"status": "ok", "stages": dict.fromkeys(STAGES, "ok")}


def samples_of(page: str) -> dict[str, dict[str, list[float]]]:
    """Our metrics: name → stage → values."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in page.splitlines():
        if line.startswith("ray_cosyserve_"):
            name, labels = line.split("{", 1)
            stage = labels.split('stage="')[1].split('"')[0]
            found[name.removeprefix("ray_cosyserve_")][stage].append(float(line.rsplit(" ", 1)[1]))
    return found


def test_metrics_of_every_stage(client: httpx.Client) -> None:
    client.post("/v1/audio/speech", json=speech("One request at least."))
    names = [*(f"{histogram}_{part}" for part in ("count", "sum", "bucket") for histogram in (
        "batch_items", "batch_padded_share", "batch_wait_seconds", "batch_compute_seconds")),
        "queued_items", "resident_bytes", "reserved_bytes"]

    def page() -> dict[str, dict[str, list[float]]]:
        answer = client.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain")
        return samples_of(answer.text)

    def complete() -> bool:
        found = page()
        return all(found[name][stage] for name in names for stage in STAGES)

    until(complete, EXPORTED_S, f"{names} of every stage")
    found = page()
    for stage in STAGES:
        assert min(found["batch_items_count"][stage]) >= 1
        assert min(found["resident_bytes"][stage]) > 50e6
        assert set(found["reserved_bytes"][stage]) <= {419430400, 524288000}        # as config.yaml has them
        assert min(found["queued_items"][stage]) >= 0


def test_metrics_are_one_page_that_prometheus_takes(client: httpx.Client) -> None:
    heads = [line for line in client.get("/metrics").text.splitlines() if line.startswith("# TYPE")]
    assert heads
    assert len(heads) == len(set(heads))


@pytest.mark.parametrize("path", GETS)
def test_head_answers_as_get_does_without_a_body(client: httpx.Client, path: str) -> None:
    get, head = client.get(path), client.head(path)
    assert (head.status_code, head.headers["content-type"], head.content) == (
        200, get.headers["content-type"], b"")


@pytest.mark.parametrize(("method", "path", "allowed"), [
    ("GET", "/v1/audio/speech", "POST"), ("HEAD", "/v1/audio/speech", "POST"),
    ("PUT", "/v1/audio/speech", "POST"), ("OPTIONS", "/v1/audio/speech", "POST"),
    ("OPTIONS", "/v1/models", "GET"), ("DELETE", "/v1/models/tts-1", "GET"), ("POST", "/health/live", "GET"),
])
def test_wrong_method(client: httpx.Client, method: str, path: str, allowed: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed
    if method != "HEAD":
        assert error_of(answer)["code"] == "method_not_allowed"


@pytest.mark.parametrize(("method", "path"), [
    ("GET", "/"), ("GET", "/v1"), ("GET", "/v1/speech"), ("POST", "/v1/audio/transcriptions"),
    ("GET", "/v1/models/a/b"), ("GET", "/..%2f..%2fetc%2fpasswd"),
])
def test_unknown_path(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 404
    assert error_of(answer)["code"] == "not_found"


def test_the_routes_are_described(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/v1/audio/speech", "/v1/models", "/v1/audio/voices"} <= set(paths)
    assert client.get("/docs").status_code == 200
