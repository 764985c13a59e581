"""Every format, decoded back: whole, without clicks, and saying truly how long it is."""

from __future__ import annotations

import base64
import io
import json
import struct
import wave
from itertools import accumulate

import httpx
import numpy as np
import pytest

from benchmarks.harness import Service
from serve_app.audio import FORMATS
from tests.conftest import speech
from tests.integration.test_independence import TEXTS, same
from tests.unit.test_audio import FRAME, PRIMING, RATE, Wave, decode

TEXT = " ".join(TEXTS[1:8])      # several sentences, long enough for windows of every size
LOSSLESS = ("pcm", "wav", "flac")
LOUD = 0.01                     # of full scale: speech, not breath
FRAME_SAMPLES = 300             # of the acoustic features, at 80 a second: windows are cut at them
UNKNOWN_SIZE = 0xFFFFFFFF


@pytest.fixture(scope="module")
def spoken(service: Service) -> dict[str, httpx.Response]:
    """Format → the answer, streamed as by default."""
    with httpx.Client(base_url=service.url, timeout=120) as client:
        return {name: client.post("/v1/audio/speech", json=speech(TEXT, response_format=name)) for name in FORMATS}


@pytest.fixture(scope="module")
def pcm(spoken: dict[str, httpx.Response]) -> Wave:
    return decode("pcm", spoken["pcm"].content)


@pytest.fixture(scope="module")
def joins(service: Service, pcm: Wave) -> list[int]:
    """Where one window of audio ends and the next begins, utterances' ends included, in samples.

    An event carries a window, whole.
    """
    answer = httpx.post(f"{service.url}/v1/audio/speech", json=speech(TEXT, stream_format="sse"), timeout=120)
    *deltas, _ = (json.loads(event.removeprefix("data: ")) for event in answer.text.split("\n\n") if event)
    ends = list(accumulate(len(base64.b64decode(delta["audio"])) // 2 for delta in deltas))
    assert ends[-1] == pcm.size
    assert all(end % FRAME_SAMPLES == 0 for end in ends)
    return ends[:-1]


def slack(audio_format: str) -> int:
    """Samples by which a format may be longer: its last frame, where it cannot say where the sound ends."""
    return FRAME[audio_format] - 1 if audio_format in PRIMING else 0


@pytest.mark.parametrize("audio_format", FORMATS)
def test_decodes_to_the_same_sound_to_the_very_end(spoken: dict[str, httpx.Response], pcm: Wave,
                                                   audio_format: str) -> None:
    heard = decode(audio_format, spoken[audio_format].content)
    assert 0 <= heard.size - pcm.size <= slack(audio_format)
    heard = heard[:pcm.size]
    if audio_format in LOSSLESS:
        assert np.abs(heard - pcm).max() <= 4 / 32768       # as far as a request's own audio may vary
    assert np.corrcoef(heard, pcm)[0, 1] > 0.99
    end = int(np.flatnonzero(np.abs(pcm) > LOUD)[-1])
    for seconds in (0.3, 0.03):                             # the last word; the last of it
        tail = slice(end - int(seconds * RATE), end)
        assert np.corrcoef(heard[tail], pcm[tail])[0, 1] > 0.9
        assert np.std(heard[tail]) == pytest.approx(np.std(pcm[tail]), rel=0.15)


@pytest.mark.parametrize("audio_format", FORMATS)
def test_no_click_at_a_join(spoken: dict[str, httpx.Response], joins: list[int], audio_format: str) -> None:
    jumps = np.abs(np.diff(decode(audio_format, spoken[audio_format].content)))
    assert len(joins) >= 8
    clicks = []
    for join in joins:
        at = jumps[join - 2:join + 1].max()                 # lossy codecs may smear a click by a sample
        around = np.concatenate([jumps[join - 480:join - 2], jumps[join + 1:join + 480]])
        if at > around.max() + 2 / 32768:
            clicks.append((join, at, around.max()))
    assert clicks == []
    assert max(jumps[join - 1] for join in joins) <= np.delete(jumps, [join - 1 for join in joins]).max()


def test_a_click_would_be_seen(spoken: dict[str, httpx.Response], joins: list[int]) -> None:
    """The two checks above find a window that does not continue the one before it."""
    broken = samples_with_a_break(spoken["pcm"].content, joins)
    with pytest.raises(AssertionError):
        test_no_click_at_a_join({"pcm": httpx.Response(200, content=broken)}, joins, "pcm")


def samples_with_a_break(pcm: bytes, joins: list[int]) -> bytes:
    """The PCM, upside down from the join that lies in the loudest place."""
    signal = np.frombuffer(pcm, "<i2").copy()
    signal[max(joins, key=lambda join: int(np.abs(signal[join - 1:join + 1].astype(int)).min())):] *= -1
    return signal.tobytes()


@pytest.mark.parametrize("audio_format", FORMATS)
def test_in_one_piece_with_its_length(client: httpx.Client, pcm: Wave, audio_format: str) -> None:
    answer = client.post("/v1/audio/speech", json=speech(TEXT, response_format=audio_format, stream=False))
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["content-type"] == FORMATS[audio_format].media_type
    heard = decode(audio_format, answer.content)
    assert 0 <= heard.size - pcm.size <= slack(audio_format)
    assert np.corrcoef(heard[:pcm.size], pcm)[0, 1] > 0.99


def test_wav_states_its_sizes_where_they_are_known(spoken: dict[str, httpx.Response],
                                                   client: httpx.Client) -> None:
    whole = client.post("/v1/audio/speech", json=speech(TEXT, response_format="wav", stream=False)).content
    with wave.open(io.BytesIO(whole)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        assert same(file.readframes(file.getnframes()), spoken["pcm"].content)
    assert struct.unpack("<I", whole[4:8]) == (len(whole) - 8,)

    streamed = spoken["wav"].content
    assert struct.unpack("<4sI4s", streamed[:12]) == (b"RIFF", UNKNOWN_SIZE, b"WAVE")
    assert struct.unpack("<4sI", streamed[36:44]) == (b"data", UNKNOWN_SIZE)
    assert same(streamed[44:], spoken["pcm"].content)


@pytest.mark.parametrize("audio_format", FORMATS)
def test_headers(spoken: dict[str, httpx.Response], audio_format: str) -> None:
    headers = spoken[audio_format].headers
    assert headers["content-type"] == FORMATS[audio_format].media_type
    assert headers["transfer-encoding"] == "chunked"
    assert headers["x-accel-buffering"] == "no"             # or a proxy in front would hold the stream back
    assert headers["x-request-id"]
