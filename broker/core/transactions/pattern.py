"""Patterns for transactional ids (KIP-1152): RE2's syntax and RE2 itself, as Kafka uses its port to Java.

A pattern comes from a client, and Python's own engine can be kept busy for hours by a short one. RE2 matches in time
linear in the length of what is matched, and refuses what would become a large program.
"""

from __future__ import annotations

MAX_LENGTH = 4_096
"""Characters of a pattern. Kafka has no limit but that of a string."""

MAX_MEMORY_BYTES = 1 << 18
"""Bytes that RE2 may use for a program and its states. They bound the work for each character."""


class BadPattern(Exception):
    """A pattern that is not one, or is too large; the message says why."""


class Pattern:
    """A pattern that was read. RE2 lets other threads run while it reads and matches, so it need not be in their way.

    Raises:
        BadPattern: it does not parse, or is too large.
    """

    def __init__(self, text: str) -> None:
        import re2  # here: few brokers are ever sent a pattern, and all of them have to start

        if len(text) > MAX_LENGTH:
            raise BadPattern(f"a pattern of {len(text)} characters; {MAX_LENGTH} are allowed")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_MEMORY_BYTES
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise BadPattern(str(error)) from None
        finally:
            re2.purge()  # it would keep clients' patterns, and what it knows about them

    def matches(self, text: str) -> bool:
        """Whether the whole text is of the pattern."""
        return self._compiled.fullmatch(text) is not None
