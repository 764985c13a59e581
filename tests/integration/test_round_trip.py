"""Twenty sentences through HTTP, judged by speech recognition."""

from __future__ import annotations

import io

import httpx
import numpy as np
import pytest
import soundfile

from tests.conftest import speech
from tests.judge import heard, words

PLAIN = (
    "Good morning, everyone.",
    "The ferry to the islands leaves every morning at seven.",
    "Would you like some coffee before the meeting begins?",
    "She didn't know what to say, so she said nothing.",
    "\"We should go home,\" he whispered, \"before it gets dark.\"",
    "The old bridge, which was built by hand, has survived three floods, two fires and a war.",
    "Please turn off the lights when you leave the room.",
    "I can't believe how quickly the summer has gone!",
    "Take the second street on the left, then walk straight ahead for half a mile.",
    "The doctor asked whether the medicine had helped.",
    "Nobody in the village remembered the name of the river.",
    "If it rains tomorrow, we will visit the museum instead.",
    "Professor Johnson teaches history at the University of Chicago.",
    "Thank you for listening, and have a wonderful evening.",
)
READ_OTHERWISE = {       # as written -> as spoken
    "It costs $42.60 with delivery.":
        "it costs forty two dollars and sixty cents with delivery",
    "The train arrives at 9:30 PM on platform 4.":
        "the train arrives at nine thirty pm on platform four",
    "My sister was born on March 14th, 1987.":
        "my sister was born on march fourteenth nineteen eighty seven",
    "Dr. Smith will see you in ten minutes.":
        "doctor smith will see you in ten minutes",
    "About 25% of the students walk to school.":
        "about twenty five percent of the students walk to school",
    "In 2019 the company sold 1,250 bicycles.":
        "in twenty nineteen the company sold one thousand two hundred and fifty bicycles",
}
SENTENCES = {**{written: written.lower() for written in PLAIN}, **READ_OTHERWISE}


@pytest.mark.parametrize("written", SENTENCES, ids=lambda written: written[:24])
def test_every_word_is_heard(client: httpx.Client, written: str) -> None:
    answer = client.post("/v1/audio/speech", json=speech(written, response_format="wav", stream=False))
    assert answer.status_code == 200
    transcript = heard(answer.content)
    # "and" within a number is as often left out as said.
    assert _without_and(words(transcript)) == _without_and(words(SENTENCES[written])), transcript


def test_the_audio_is_neither_clipped_nor_mostly_silence(client: httpx.Client) -> None:
    for written in SENTENCES:
        answer = client.post("/v1/audio/speech", json=speech(written, response_format="wav", stream=False))
        samples, rate = soundfile.read(io.BytesIO(answer.content), dtype="float32")
        assert 0.05 < np.abs(samples).max() < 0.999, written
        loud = np.flatnonzero(np.abs(samples) > 0.01)
        assert loud[0] < 0.5 * rate, written
        assert len(samples) - loud[-1] < 0.6 * rate, written


def _without_and(spoken: list[str]) -> list[str]:
    return [word for word in spoken if word != "and"]
