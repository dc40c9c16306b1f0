"""Users in lines of text: what ``ottla users hash`` prints, and ``--users-file`` and users of PLAIN are read from.

A line is ``alice:SCRAM-SHA-512$8192:salt$storedkey:serverkey``, the last three in Base64; ``#`` begins a comment.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode

from ottla.broker.core.security.scram import MOST_ITERATIONS, Credentials
from ottla.protocol.sasl.scram import LEAST_ITERATIONS, MECHANISMS, Credential, Mechanism

_BASE64 = "[A-Za-z0-9+/]+={0,2}"
_LINE = re.compile(rf"(.+):([A-Z0-9-]+)\$([0-9]{{1,9}}):({_BASE64})\$({_BASE64}):({_BASE64})")


class BadUsersFile(ValueError):
    """A line that cannot be read; the message names it by its number, and shows nothing of it."""


def user_line(user: str, mechanism: Mechanism, credential: Credential) -> str:
    """A user as a line."""
    salt, stored, server = (
        b64encode(one).decode() for one in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"{user}:{mechanism.words}${credential.iterations}:{salt}${stored}:{server}"


def parse_users(text: str) -> Credentials:
    """The users of a file.

    Raises:
        BadUsersFile: a line is none of `user_line`, or names a user and mechanism again.
    """
    found: dict[tuple[str, Mechanism], Credential] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        mechanism = match and MECHANISMS.get(match[2])
        if match is None or mechanism is None:
            raise BadUsersFile(f"line {number}: write what `ottla users hash` prints, name:MECHANISM$iterations:…")
        iterations = int(match[3])
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            allowed = f"{LEAST_ITERATIONS} to {MOST_ITERATIONS}"
            raise BadUsersFile(f"line {number}: {iterations} iterations; allowed are {allowed}")
        try:
            salt, stored, server = (b64decode(one, validate=True) for one in match.groups()[3:])
        except ValueError:
            raise BadUsersFile(f"line {number}: its keys are not in Base64") from None
        size = mechanism.hash().digest_size
        if len(stored) != size or len(server) != size:
            raise BadUsersFile(f"line {number}: the keys of {mechanism.words} have {size} bytes")
        if (match[1], mechanism) in found:
            raise BadUsersFile(f"line {number}: the user has a line for {mechanism.words} already")
        found[match[1], mechanism] = Credential(salt, iterations, stored, server)
    return found
