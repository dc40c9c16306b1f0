"""Recent usage: a rate over windows (KIP-13) and a bucket of tokens (KIP-599).

Both compute what Kafka's metrics compute, so that the same load is throttled for the same time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ottla.broker.settings import INT32_MAX

Sample = list[float]
"""Its begin, its last record (both in milliseconds) and the sum of its records."""

_BEGAN, _LAST, _SUM = range(3)


class Window(NamedTuple):
    """A rate is taken over ``samples`` windows of ``sample_ms``; the present one is among them and still open."""

    samples: int
    sample_ms: int


class Rate:
    """The sum of what was recorded in the windows, over the time that they cover."""

    __slots__ = ("_current", "_samples", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._samples: list[Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add to the present window; a negative value takes back what was added."""
        samples, window = self._samples, self._window
        if not samples:
            samples.append([now_ms, now_ms, 0.0])
        elif now_ms - samples[self._current][_BEGAN] >= window.sample_ms:
            # One more than there are windows: the oldest may have begun before the time that is looked at.
            self._current = (self._current + 1) % (window.samples + 1)
            if self._current == len(samples):
                samples.append([now_ms, now_ms, 0.0])
            else:
                samples[self._current][:] = [now_ms, now_ms, 0.0]
        sample = samples[self._current]
        sample[_LAST] = now_ms
        sample[_SUM] += value

    def per_second(self, now_ms: int) -> float:
        """The rate a second."""
        covered_ms = self.covered_ms(now_ms)
        return sum(sample[_SUM] for sample in self._samples) / (covered_ms / 1000)

    def covered_ms(self, now_ms: int) -> int:
        """The time that the rate is taken over: whole windows, all but the last of them even if there were fewer."""
        samples, window = self._samples, self._window
        for sample in samples:
            if now_ms - sample[_LAST] >= window.samples * window.sample_ms:
                sample[:] = [now_ms, now_ms, 0.0]
        if not samples:
            samples.append([now_ms, now_ms, 0.0])
        elapsed_ms = int(now_ms - min(sample[_BEGAN] for sample in samples))
        missing = window.samples - 1 - elapsed_ms // window.sample_ms
        return max(1, elapsed_ms + max(0, missing) * window.sample_ms)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Milliseconds without records until the rate is down to a limit; 0 if it is not above it."""
        rate = self.per_second(now_ms)
        return bounded((rate - limit) / limit * self.covered_ms(now_ms)) if rate > limit else 0


class TokenBucket:
    """Tokens that are refilled at the rate of a limit, up to what all windows together let through."""

    __slots__ = ("_tokens", "_updated_ms", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._tokens = math.inf
        self._updated_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        """The rest; less than nothing if more was taken."""
        burst = self._window.samples * self._window.sample_ms / 1000 * limit
        self._tokens = min(burst, self._tokens + limit * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        """Take tokens, be there as many or not."""
        self._tokens = self.tokens(limit, now_ms) - count

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Milliseconds until nothing is owed any more; 0 if nothing is."""
        tokens = self.tokens(limit, now_ms)
        return bounded(-tokens / limit * 1000) if tokens < 0 else 0


def bounded(wait_ms: float) -> int:
    """A time as an answer can say it: of those that are too long, the longest."""
    return INT32_MAX if wait_ms >= INT32_MAX else rounded(wait_ms)


def rounded(value: float) -> int:
    """The nearest whole number, of two the larger; what is no number is 0."""
    return math.floor(value + 0.5) if math.isfinite(value) else 0
