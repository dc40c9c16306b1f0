"""What keeps guests of the HTTP port apart: the cookies of browsers, and the wrong tokens of addresses."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from typing import Final

COOKIE_MS: Final = 12 * 3_600_000
"""How long a cookie is good for."""
MOST_COOKIES: Final = 1_000
"""Only those get one who know a token; the oldest goes."""
WRONG_IN_A_ROW: Final = 5
"""So many wrong tokens of an address are answered each for itself."""
WRONG_MS: Final = 60_000
"""In such a time."""
MOST_ADDRESSES: Final = 10_000
ENTRY_MS: Final = 600_000
"""That a token lets somebody in is told once in this time."""


class Cookies:
    """Browsers that have logged in. A cookie is a random number, of which only the digest is kept."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._known: dict[bytes, tuple[bytes, int]] = {}  # the oldest first

    def new(self, token: bytes) -> str:
        """A cookie for somebody who knows a token.

        Args:
            token: its digest.
        """
        if len(self._known) >= MOST_COOKIES:
            del self._known[next(iter(self._known))]
        cookie = secrets.token_urlsafe(32)
        self._known[_digest(cookie)] = token, self._now_ms() + COOKIE_MS
        return cookie

    def token_of(self, cookie: str) -> bytes | None:
        """The digest of the token that a cookie stands for; None if the cookie is none of ours, or not any more."""
        found = self._known.get(digest := _digest(cookie))
        if found is None:
            return None
        token, ends_ms = found
        if self._now_ms() < ends_ms:
            return token
        del self._known[digest]
        return None

    def end(self, cookie: str) -> None:
        """Forget a cookie."""
        self._known.pop(_digest(cookie), None)


class Guesses:
    """Wrong tokens, by address, so that nobody tries many."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._wrong: dict[str, deque[int]] = {}  # the oldest address first

    def wrong(self, address: str) -> int:
        """Count a wrong token. Returns for how many milliseconds the address has used up its tries; 0: not yet."""
        now_ms = self._now_ms()
        times = self._wrong.pop(address, None) or deque()
        while times and times[0] <= now_ms - WRONG_MS:
            times.popleft()
        if len(self._wrong) >= MOST_ADDRESSES:
            del self._wrong[next(iter(self._wrong))]
        self._wrong[address] = times
        if len(times) >= WRONG_IN_A_ROW:
            return times[0] + WRONG_MS - now_ms
        times.append(now_ms)
        return 0


class Entries:
    """Who came with which token from where: told once in a while, as each request shows the token anew."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._told: dict[tuple[bytes, str], int] = {}  # the oldest first

    def is_new(self, token: bytes, address: str) -> bool:
        """Whether it is to be told that somebody came.

        Args:
            token: its digest.
        """
        who, now_ms = (token, address), self._now_ms()
        if now_ms - self._told.get(who, -ENTRY_MS) < ENTRY_MS:
            return False
        self._told.pop(who, None)
        if len(self._told) >= MOST_ADDRESSES:
            del self._told[next(iter(self._told))]
        self._told[who] = now_ms
        return True


def _digest(cookie: str) -> bytes:
    return sha256(cookie.encode()).digest()
