"""Amounts of memory: what people write, and what is shown."""

from __future__ import annotations

import pytest

from serve_app.units import format_bytes, parse_bytes


@pytest.mark.parametrize(("written", "count"), [
    ("500MiB", 524_288_000),
    ("500 MiB", 524_288_000),
    ("0.5GiB", 536_870_912),
    (".5gib", 536_870_912),
    ("700Mi", 734_003_200),
    ("1M", 1_000_000),
    ("1 kB", 1_000),
    ("2GB", 2_000_000_000),
    ("1Ti", 2**40),
    ("512B", 512),
    ("524288000", 524_288_000),
    ("524_288_000", 524_288_000),
    (524_288_000, 524_288_000),
    (1.5e9, 1_500_000_000),
    (0, 0),
])
def test_reads_what_people_write(written: str | float, count: int) -> None:
    assert parse_bytes(written) == count


@pytest.mark.parametrize("written", ["", "MiB", "500 Mo", "-1MiB", "1,5GiB", "five", "5 MiBs", -1, True, None,
                                     float("nan"), float("inf")])
def test_refuses_anything_else(written: object) -> None:
    with pytest.raises(ValueError, match="not an amount of memory"):
        parse_bytes(written)  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "shown"), [
    (0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (524_288_000, "500 MiB"), (536_870_912, "512 MiB"),
    (1_610_612_736, "1.5 GiB"), (2**30 - 1, "1 GiB"), (2**40, "1 TiB"), (5 * 2**50, "5120 TiB"),
])
def test_shows_the_largest_unit(count: int, shown: str) -> None:
    assert format_bytes(count) == shown


@pytest.mark.parametrize("count", [1, 300 * 2**20, 2**30, 7 * 2**40])
def test_what_is_shown_reads_back(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == count
