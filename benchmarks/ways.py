"""The ways without Ray, each in a process of its own that answers a line at a time.

``python -m benchmarks.ways hibari`` (the package's own runtime) or ``… ours`` (our networks): for each line of
JSON text on standard input, one line of JSON on standard output with what speaking it cost.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator

SAMPLE_RATE = 24000


def _hibari() -> Callable[[str], Iterator[int]]:
    from hibari import Hibari

    runtime = Hibari(threads=1)
    return lambda text: (len(sentence) for sentence in runtime.stream(text, seed=0))


def _ours() -> Callable[[str], Iterator[int]]:
    import torch

    from serve_app.local import LocalSynthesizer

    torch.set_num_threads(1)
    synthesizer = LocalSynthesizer()
    return lambda text: (len(chunk) // 2 for chunk in synthesizer.pcm(text))


def main(way: str) -> None:
    """Warm up, say so, then speak what comes."""
    import psutil

    speak = {"hibari": _hibari, "ours": _ours}[way]()
    warm = "The quick brown fox jumps over the lazy dog. It does so again, and then once more, without a pause."
    assert sum(speak(warm))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        pieces = speak(json.loads(line))
        samples = next(pieces)
        first_s = time.perf_counter() - wall
        samples += sum(pieces)
        print(json.dumps({"audio_s": samples / SAMPLE_RATE, "first_s": first_s, "wall_s": time.perf_counter() - wall,
                          "cpu_s": time.process_time() - cpu,
                          "resident": psutil.Process().memory_info().rss}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
