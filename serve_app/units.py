"""Amounts of memory, as people write them and as Ray counts them."""

from __future__ import annotations

import re

_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_AMOUNT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?|\.[0-9]+)\s*([kmgt]i?)?b?", re.IGNORECASE)


def parse_bytes(amount: str | float) -> int:
    """Bytes of an amount such as ``500MiB``, ``0.5 GiB``, ``700Mi``, ``2GB`` or ``524288000``.

    As in Kubernetes, ``Mi`` is 2**20 and ``M`` is 10**6; case and a final ``B`` make no difference.

    Raises:
        ValueError: it is not an amount of memory.
    """
    if isinstance(amount, (int, float)) and not isinstance(amount, bool) and 0 <= amount < float("inf"):
        return round(amount)
    match = _AMOUNT.fullmatch(amount.strip()) if isinstance(amount, str) else None
    if not match:
        raise ValueError(f"{amount!r} is not an amount of memory; write it like 500MiB or 0.5GiB")
    return round(float(match[1]) * (_DECIMAL | _BINARY)[(match[2] or "").lower()])


def format_bytes(count: float) -> str:
    """``524288000`` as ``500 MiB``: the largest binary unit, with one decimal at most."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while power + 1 < len(units) and round(count / 1024**power, 1) >= 1024:
        power += 1
    return f"{count / 1024**power:.1f}".removesuffix(".0") + f" {units[power]}"
