r"""Backslash escapes in options (``\t``, ``\n``, ``\x1f``), and kcat's format of a record."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.observe.printable import printable

if TYPE_CHECKING:
    from ottla.clients import ConsumerRecord

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\", "e": b"\x1b"}
_TOKEN = re.compile(r"\\x([0-9A-Fa-f]{2})|\\(.)|\\$|%(.)|%$", re.DOTALL)

Piece: TypeAlias = Callable[["ConsumerRecord[Any, Any]"], bytes]


def unescape(text: str) -> bytes:
    r"""``\t`` and the like in their bytes.

    Raises:
        ValueError: an escape that does not exist.
    """
    return b"".join(part for part in _parts(text, {}) if isinstance(part, bytes))


def compile_format(text: str, *, is_safe: bool = False) -> Callable[[ConsumerRecord[Any, Any]], bytes]:
    r"""A function that prints a record as kcat's ``-f`` does.

    ``%s`` value, ``%S`` its length, ``%k`` key, ``%K`` its length, ``%t`` topic, ``%p`` partition, ``%o`` offset,
    ``%T`` timestamp in Unix ms, ``%h`` headers as ``a=1,b=2``, ``%%`` a percent sign; escapes as in `unescape`.
    The length of null is -1, and null is printed as nothing.

    Args:
        is_safe: what the record holds goes to a terminal, which no control character of it may reach but tabs and line
            breaks. The escapes of the format itself are followed.

    Raises:
        ValueError: an escape or a letter that does not exist.
    """
    parts = _parts(text, _LETTERS)

    def render(record: ConsumerRecord[Any, Any]) -> bytes:
        return b"".join(part if isinstance(part, bytes) else shown(part(record)) for part in parts)

    shown = _for_terminal if is_safe else bytes
    return render


def _for_terminal(data: bytes) -> bytes:
    text = data.decode(errors="backslashreplace")
    return "".join(one if one in "\n\t" else printable(one) for one in text).encode()


def _parts(text: str, letters: dict[str, Piece]) -> list[bytes | Piece]:
    parts: list[bytes | Piece] = []
    at = 0
    for match in _TOKEN.finditer(text):
        letter = match[3]
        if letter is None and match[0].startswith("%"):
            if letters:
                raise ValueError(f"{text!r} ends in a single %: write %% for a percent sign")
            continue
        if letter is not None and not letters:
            continue  # percent signs mean nothing here
        parts.append(text[at : match.start()].encode())
        at = match.end()
        if match[1] is not None:
            parts.append(bytes([int(match[1], 16)]))
        elif letter is not None:
            parts.append(_letter(text, letter, letters))
        elif match[2] in _ESCAPES:
            parts.append(_ESCAPES[match[2]])
        else:
            raise ValueError(f"{match[0]!r} in {text!r} is no escape: known are \\n \\r \\t \\0 \\e \\\\ and \\xNN")
    parts.append(text[at:].encode())
    return [part for part in parts if part != b""]


def _letter(text: str, letter: str, letters: dict[str, Piece]) -> bytes | Piece:
    if letter == "%":
        return b"%"
    if letter not in letters:
        known = " ".join(f"%{one}" for one in letters)
        raise ValueError(f"%{letter} in {text!r} means nothing: known are {known} and %%")
    return letters[letter]


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _headers(record: ConsumerRecord[Any, Any]) -> bytes:
    return b",".join(name.encode() + b"=" + (value if value is not None else b"NULL") for name, value in record.headers)


_LETTERS: dict[str, Piece] = {
    "s": lambda record: record.value or b"",
    "S": lambda record: _length(record.value),
    "k": lambda record: record.key or b"",
    "K": lambda record: _length(record.key),
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "h": _headers,
}
