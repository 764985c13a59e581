"""The `say` command: what it asks of a service, and the same stages in one process without Ray."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from serve_app.__main__ import main
from serve_app.local import LocalSynthesizer

TEXT = "The quick brown fox jumps over the lazy dog. It costs nine dollars."


@pytest.fixture(scope="module")
def synthesizer() -> LocalSynthesizer:
    return LocalSynthesizer("hibari")


def samples_of(pcm: Iterator[bytes]) -> np.ndarray[Any, np.dtype[np.int16]]:
    return np.frombuffer(b"".join(pcm), "<i2")


def test_it_speaks(synthesizer: LocalSynthesizer) -> None:
    samples = samples_of(synthesizer.pcm(TEXT))
    seconds = len(samples) / synthesizer.family.sample_rate
    assert 2.5 < seconds < 9
    assert 300 < np.sqrt(np.mean(samples.astype(float) ** 2)) < 10_000


def test_the_first_sound_comes_in_a_small_window(synthesizer: LocalSynthesizer) -> None:
    family = synthesizer.family
    first = next(synthesizer.pcm(TEXT))
    assert len(first) == 2 * 40 * family.sample_rate // family.frames_per_s


def test_the_seed_decides(synthesizer: LocalSynthesizer) -> None:
    one, same, other = (b"".join(synthesizer.pcm("Hello there.", seed=seed)) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_speed_shortens(synthesizer: LocalSynthesizer) -> None:
    normal, fast = (len(b"".join(synthesizer.pcm(TEXT, speed=speed))) for speed in (1.0, 2.0))
    assert 1.5 < normal / fast < 2.5


def test_utterances_follow_one_another(synthesizer: LocalSynthesizer) -> None:
    utterances = list(synthesizer.utterances(TEXT * 30))
    assert utterances[0].start == 0
    assert utterances[-1].end == len(TEXT * 30)
    assert all(a.end == b.start for a, b in pairwise(utterances))


def test_no_ray_is_imported(tmp_path: Path) -> None:
    output = tmp_path / "out.wav"
    code = ("import sys; from serve_app.__main__ import main; "
            f"code = main(['say', 'Hello.', '--local', '-o', {str(output)!r}]); "
            "sys.exit(code or 'ray' in sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    info = soundfile.info(output)
    assert (info.samplerate, info.channels) == (24000, 1)
    assert 0.3 < info.duration < 3


def test_help_imports_nothing_heavy() -> None:
    code = ("import sys\nfrom serve_app.__main__ import main\n"
            "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
            "sys.exit(bool({'ray', 'torch', 'numpy', 'pydantic', 'httpx'} & set(sys.modules)))")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL)


class Service:
    """Answers as it is told, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.status, self.body, self.promised = 200, b"sound", 5
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                service.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(service.status)
                self.send_header("Content-Length", str(service.promised))
                self.end_headers()
                self.wfile.write(service.body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    thread = threading.Thread(target=service.server.serve_forever, args=(0.05,))
    thread.start()
    yield service
    service.server.shutdown()
    service.server.server_close()
    thread.join()


def test_it_asks_for_what_was_said(service: Service, tmp_path: Path) -> None:
    output = tmp_path / "out.ogg"
    assert main(["say", "Hello.", "-o", str(output), "--url", service.url, "--voice", "nova",
                 "--speed", "1.5", "--seed", "7"]) == 0
    assert service.asked == [{"model": "tts-1", "input": "Hello.", "voice": "nova", "speed": 1.5, "seed": 7,
                              "response_format": "opus"}]
    assert output.read_bytes() == b"sound"


def test_a_wav_file_is_asked_for_in_one_piece(service: Service, tmp_path: Path) -> None:
    assert main(["say", "Hello.", "-o", str(tmp_path / "out.wav"), "--url", service.url]) == 0
    assert service.asked[0]["stream"] is False


def test_the_text_can_come_from_standard_input(service: Service, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("From a pipe."))
    assert main(["say", "-", "-o", str(tmp_path / "out.mp3"), "--url", service.url]) == 0
    assert service.asked[0]["input"] == "From a pipe."


def test_the_service_s_message_is_shown(service: Service, tmp_path: Path,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    service.status = 400
    service.body = json.dumps({"error": {"message": "unknown voice 'bo'"}}).encode()
    service.promised = len(service.body)
    output = tmp_path / "out.mp3"
    output.write_bytes(b"an earlier one")
    assert main(["say", "Hello.", "-o", str(output), "--url", service.url]) == 1
    assert capsys.readouterr().err == "error: unknown voice 'bo' (400)\n"
    assert output.read_bytes() == b"an earlier one"


def test_a_broken_off_stream_leaves_no_half_file(service: Service, tmp_path: Path,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    service.promised = 10
    assert main(["say", "Hello.", "-o", str(tmp_path / "out.mp3"), "--url", service.url]) == 1
    assert "broke off" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_no_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["say", "Hello.", "-o", str(tmp_path / "out.mp3"), "--url", "http://127.0.0.1:9"]) == 1
    assert "no service answers at http://127.0.0.1:9" in capsys.readouterr().err


def test_voices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["voices"]) == 0
    assert "heart" in (shown := capsys.readouterr().out)
    assert "alloy" in shown
