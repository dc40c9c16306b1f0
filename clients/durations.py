"""Durations as people write them, in options and in files."""

from __future__ import annotations

import re

_ISO = re.compile(
    r"P(?=.)(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?=.)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_UNITS = {"w": "w", "d": "d", "h": "h", "m": "m(?:in|(?!s))", "s": "s", "ms": "ms"}
# Space belongs to the number behind it, so that a long run of spaces can be read in one way only.
_SHORT = re.compile(
    "(?=.)" + "".join(rf"(?:\s*(?P<{name}>\d+(?:\.\d+)?)\s*{unit})?" for name, unit in _UNITS.items()), re.ASCII
)
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
LONGEST_MS = 5_200 * 7 * 86_400_000
"""A duration that somebody means: a hundred years."""
_MILLISECONDS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def parse_duration_ms(text: str) -> int:
    """``10s``, ``1h30m``, ``500ms``, or ``PT1H30M`` (ISO 8601, as Kafka's tool takes it); 0 needs no unit.

    Minutes may be ``min``, and a unit may stand apart: ``0.5 min``.
    A number without a unit is refused: Kafka's tools mean milliseconds by some, minutes or seconds by others.

    Raises:
        ValueError: none of these, or more than `LONGEST_MS`.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        if float(text):
            raise ValueError(f"{text!r} has no unit: write {text}ms, {text}s or {text}m")
        return 0
    match = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no duration: write e.g. 30s, 1h30m or 500ms")
    found = sum(float(count) * _MILLISECONDS[unit] for unit, count in match.groupdict().items() if count)
    if found > LONGEST_MS:
        raise ValueError(f"{text[:20]!r} is too long: at most 5200w")
    return round(found)
