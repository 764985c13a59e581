"""Window plans, as properties over many lengths, sizes and contexts."""

from itertools import pairwise

import pytest

from deployments.vocoder.windows import plan

SIZE_SETS = [(40, 80, 160, 320), (20,), (160, 40), (60, 100, 140)]
LENGTHS = [*range(1, 130), 159, 160, 161, 319, 320, 321, 400, 719, 1280, 3999]


def cost(windows: list[tuple[int, int, int]], context: int) -> int:
    return sum(size + 2 * context for _, _, size in windows)


def least_costs(frames: int, sizes: tuple[int, ...], context: int) -> list[int]:
    """Of each length up to this one, by trying everything."""
    least = [0]
    for length in range(1, frames + 1):
        least.append(min(least[max(0, length - size)] + size + 2 * context for size in sizes))
    return least


@pytest.mark.parametrize("sizes", SIZE_SETS)
@pytest.mark.parametrize("first_small", [False, True])
def test_windows_follow_one_another_and_cover_exactly(sizes: tuple[int, ...], first_small: bool) -> None:
    for frames in LENGTHS:
        windows = plan(frames, sizes, 29, first_small)
        assert windows[0][0] == 0
        assert all(start + length == following for (start, length, _), (following, _, _) in pairwise(windows))
        assert windows[-1][0] + windows[-1][1] == frames
        assert all(0 < length <= size and size in sizes for _, length, size in windows)
        assert all(length == size for _, length, size in windows[:-1]), "only the last may be part empty"


@pytest.mark.parametrize("sizes", SIZE_SETS)
def test_the_first_sound_waits_for_the_smallest_window_only(sizes: tuple[int, ...]) -> None:
    for frames in LENGTHS:
        first, *rest = plan(frames, sizes, 29, first_small=True)
        assert first == (0, min(frames, min(sizes)), min(sizes))
        grown = [size for size, planned in zip(sorted(set(sizes))[1:-1], rest, strict=False) if planned[2] == size]
        begun = min(frames, min(sizes)) + sum(grown)
        later = plan(max(0, frames - begun), sizes, 29, first_small=False)
        assert [(length, size) for _, length, size in rest[len(grown):]] == [
            (length, size) for _, length, size in later]


def test_windows_grow_after_the_first_sound() -> None:
    assert [size for _, _, size in plan(1000, (40, 80, 160, 320), 29, True)][:4] == [40, 80, 160, 320]
    assert [size for _, _, size in plan(100, (40, 80, 160, 320), 29, True)] == [40, 80]


@pytest.mark.parametrize("sizes", SIZE_SETS)
@pytest.mark.parametrize("context", [0, 8, 29, 100])
def test_what_ends_an_utterance_is_covered_at_least_cost(sizes: tuple[int, ...], context: int) -> None:
    for frames, least in enumerate(least_costs(3 * max(sizes) - 1, sizes, context)):
        assert cost(plan(frames, sizes, context, False), context) == least


def test_long_utterances_are_mostly_largest_windows() -> None:
    windows = plan(10_000, (40, 80, 160, 320), 29, first_small=False)
    assert [size for _, _, size in windows[:29]] == [320] * 29


def test_a_split_is_taken_where_it_is_cheaper() -> None:
    assert [w[2] for w in plan(200, (40, 160, 320), 29, False)] == [160, 40]
    assert [w[2] for w in plan(200, (40, 160, 320), 100, False)] == [320]


def test_order_and_repetition_of_sizes_do_not_matter() -> None:
    assert plan(777, (320, 40, 80, 160), 29, True) == plan(777, (40, 80, 160, 320, 40), 29, True)


def test_nothing_needs_no_windows() -> None:
    assert plan(0, (40, 160), 29, first_small=True) == []


@pytest.mark.parametrize(
    ("frames", "sizes", "context"), [(10, (), 1), (10, (0, 40), 1), (-1, (40,), 1), (10, (40,), -1)]
)
def test_nonsense_is_refused(frames: int, sizes: tuple[int, ...], context: int) -> None:
    with pytest.raises(ValueError, match="no plan"):
        plan(frames, sizes, context, False)
