"""The tokens for the HTTP port: a file with lines ``NAME TOKEN`` or ``NAME sha256:HEX``, read again when it changes."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from ottla.broker.logger import Logger
from ottla.broker.net.keystores import others_may_read
from ottla.broker.settings import BadSetting

CONSOLE = "console"
"""The name of a token without one, and of everybody where there are no tokens."""
FEWEST_CHARACTERS = 16
TOKEN_BYTES = 32
LOOK_MS = 1_000
"""The file is looked at so often, and not before somebody sends a token."""
HASHED = "sha256:"

_Sign = tuple[int, int, int]


class Tokens:
    """Who knows which token. Of tokens it keeps no more than digests.

    Args:
        file: where they stand.
        now_ms: a clock.

    Raises:
        BadSetting: a line is no token, or there is none.
        OSError, UnicodeDecodeError: the file cannot be read.
    """

    def __init__(self, file: str, log: Logger, now_ms: Callable[[], int]) -> None:
        self._path = Path(file)
        self._log = log
        self._now_ms = now_ms
        self._sign, mode = _look(self._path)
        if others_may_read(file):
            log.warning("Others on this machine can read the tokens for HTTP", file=file, mode=f"{mode & 0o777:03o}")
        self._names = read_tokens(self._path)
        self._look_ms = now_ms() + LOOK_MS
        self._told = ""

    def digest_of(self, token: bytes) -> bytes | None:
        """What a token is known by; None if it is nobody's. It takes as long for each."""
        self._read_again()
        given, found = sha256(token).digest(), None
        for known in self._names:
            if hmac.compare_digest(known, given):
                found = known
        return found

    def name_of(self, digest: bytes) -> str | None:
        """Whose token that is; None once it is in the file no more."""
        self._read_again()
        return self._names.get(digest)

    def _read_again(self) -> None:
        now_ms = self._now_ms()
        if now_ms < self._look_ms:
            return
        self._look_ms = now_ms + LOOK_MS
        try:
            sign, _ = _look(self._path)
            if sign == self._sign:
                return
            self._sign = sign
            self._names = read_tokens(self._path)
        except (BadSetting, OSError, UnicodeDecodeError) as error:
            if str(error) != self._told:
                self._told = str(error)
                self._log.error("Tokens for HTTP cannot be read: those that there were stay", reason=self._told)
            return
        self._told = ""
        self._log.info("Tokens for HTTP were read again", tokens=len(self._names))


def _look(path: Path) -> tuple[_Sign, int]:
    """What tells whether a file has changed, and its mode."""
    found = path.stat()
    return (found.st_mtime_ns, found.st_size, found.st_ino), found.st_mode


def read_tokens(path: Path) -> dict[bytes, str]:
    """The names in a file, by the digests of their tokens. Lines that begin with ``#`` say nothing.

    Raises:
        BadSetting: a line is no token, or there is none; the text shows no part of it.
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    names: dict[bytes, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"ottla.http.token.file={str(path)!r}, line {number}"
        if len(words) > 2:
            raise BadSetting(f"{where}: write NAME TOKEN, or a token alone")
        name, token = (CONSOLE, words[0]) if len(words) == 1 else words
        if not token.startswith(HASHED):
            if len(token) < FEWEST_CHARACTERS:
                raise BadSetting(
                    f"{where}: a token has at least {FEWEST_CHARACTERS} characters; `ottla token new NAME` makes one"
                )
            digest = sha256(token.encode()).digest()
        elif re.fullmatch("[0-9a-f]{64}", hexadecimal := token.removeprefix(HASHED).lower()):
            digest = bytes.fromhex(hexadecimal)
        else:
            raise BadSetting(
                f"{where}: after {HASHED} come 64 digits of hexadecimal; `ottla token new NAME` writes them"
            )
        names[digest] = name
    if not names:
        raise BadSetting(f"ottla.http.token.file={str(path)!r}: there is no token in it")
    return names


def new_token(name: str) -> tuple[str, str]:
    """A new token, and the line of the file by which it is known."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return token, f"{name} {HASHED}{sha256(token.encode()).hexdigest()}"


def append_line(path: Path, line: str) -> None:
    """Add a line to a file of tokens, which need not exist. Nobody but its owner may read a new one. Raises OSError."""
    with open(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())
