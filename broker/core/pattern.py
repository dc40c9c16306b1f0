"""Patterns of clients: for transactional ids (KIP-1152), and for the topics that a member subscribes to (KIP-848).

Syntax and meaning are those of RE2, of which Kafka uses a port to Java. A pattern comes from a client, and Python's own
engine can be kept busy for hours by a short one. RE2 matches in time linear in the length of what is matched, and
refuses what would become a large program. Where RE2 and its port differ in what they take for a pattern, it is refused.
"""

from __future__ import annotations

import re

MAX_LENGTH = 4_096
"""Characters of a pattern. Kafka has no limit but that of a string."""

MAX_MEMORY_BYTES = 1 << 18
"""Bytes that RE2 may use for a program and its states. They bound the work for each character."""

MAX_UNICODE_CLASSES = 20
"""Classes such as ``\\pL``, which have hundreds of ranges: RE2 takes half a millisecond to read one."""

_TIMES = r"\{(?:0|[1-9]\d*)(?:,(?:0|[1-9]\d*)?)?\}"
_PART = re.compile(
    rf"""\\Q.*?(?:\\E|\Z)
    | \\(?P<escape>.)
    | \[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*+\]?  # a class
    | \(\?P?<(?P<name>[^>]*)>?
    | {_TIMES}
    | \{{(?P<nested>[*+?]|{_TIMES})?  # a brace that stands for itself
    """,
    re.ASCII | re.DOTALL | re.VERBOSE,
)
"""What tells parts from each other that look alike. It takes a time linear in the length of the text."""

_GROUP_NAME = re.compile(r"\w+", re.ASCII)


class BadPattern(Exception):
    """A pattern that is not one, or is too large; the message says why."""


class Pattern:
    """A pattern that was read. RE2 lets other threads run while it reads and matches, so it need not be in their way.

    To read one takes 20 ms at the very most, and mostly a tenth of one.

    Raises:
        BadPattern: it does not parse, or is too large.
    """

    def __init__(self, text: str) -> None:
        import re2  # here: few brokers are ever sent a pattern, and all of them have to start

        if len(text) > MAX_LENGTH:
            raise BadPattern(f"a pattern of {len(text)} characters; {MAX_LENGTH} are allowed")
        if text.count("\\p") + text.count("\\P") > MAX_UNICODE_CLASSES:
            raise BadPattern(f"more than {MAX_UNICODE_CLASSES} Unicode classes")
        _refuse_what_only_re2_takes(text)
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_MEMORY_BYTES
        options.never_capture = True  # it takes a tenth of the time of one with groups
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise BadPattern(error.args[0].decode(errors="replace")) from None
        finally:
            re2.purge()  # it would keep clients' patterns, and what it knows about them

    def matches(self, text: str) -> bool:
        """Whether the whole text is of the pattern."""
        return self._compiled.fullmatch(text) is not None


def _refuse_what_only_re2_takes(text: str) -> None:
    """Look at the parts of a pattern. Of one that does not parse it may see other parts than there are.

    Raises:
        BadPattern: the port to Java refuses it.
    """
    names: list[str] = []
    for part in _PART.finditer(text):
        if part["escape"] == "C" or part["nested"]:
            raise BadPattern(f"not allowed: {part[0]}")
        if (name := part["name"]) is not None:
            if not _GROUP_NAME.fullmatch(name) or name in names:
                raise BadPattern(f"a group's name that is none, or there twice: {name}")
            names.append(name)
