"""Users of PLAIN: with their passwords (``user_alice="…"``), or with what SCRAM keeps of them.

To check a password against the latter takes milliseconds of CPU. What has succeeded is remembered for a minute, without
the password, so that clients which connect again cost nothing. What is refused costs as much as every other refusal.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from functools import partial
from hashlib import sha256

from ottla.broker.core.security.scram import Credentials
from ottla.protocol.sasl.exchange import Derivation
from ottla.protocol.sasl.jaas import KEY, BadJaas, parse_jaas
from ottla.protocol.sasl.scram import Credential, Mechanism, credential_of, salted_password

REMEMBERED_MS = 60_000
MOST_REMEMBERED = 10_000
_PREFIX = "user_"


def users_of_jaas(text: str) -> dict[str, str]:
    """The passwords in ``sasl.jaas.config``, by user; none for an empty text.

    Raises:
        BadJaas: it cannot be read, or is about another mechanism.
    """
    if not text.strip():
        return {}
    login = parse_jaas(text)
    if login.module != "PlainLoginModule":
        raise BadJaas(f"{KEY}: allowed for PLAIN is …PlainLoginModule, not {login.module}")
    return {key.removeprefix(_PREFIX): value for key, value in login.options.items() if key.startswith(_PREFIX)}


class PlainUsers:
    """The users of a listener.

    Args:
        passwords: by user.
        hashed: those that have no password here. Of a user's mechanisms the first counts.
        chance: 32 random bytes of this run, the key of what is remembered.
    """

    def __init__(self, passwords: Mapping[str, str], hashed: Credentials, chance: bytes) -> None:
        self._chance = chance
        self._digests = {user: sha256(password.encode()).digest() for user, password in passwords.items()}
        self._hashed: dict[str, tuple[Mechanism, Credential]] = {}
        for (user, mechanism), credential in hashed.items():
            self._hashed.setdefault(user, (mechanism, credential))
        self._most: dict[Mechanism, int] = {}  # iterations of those who are there
        for mechanism, credential in self._hashed.values():
            self._most[mechanism] = max(self._most.get(mechanism, 0), credential.iterations)
        # What a name costs that is nobody's here: as much as a wrong password of the costliest.
        mechanism, iterations = next(iter(self._most.items()), (Mechanism.SCRAM_SHA_512, 0))
        self._nobody = mechanism, Credential(chance, iterations, mechanism.hash(chance).digest(), b"")
        self._remembered: dict[bytes, int] = {}

    @property
    def known(self) -> Mapping[str, object]:
        """What is kept of each user's password."""
        return {**self._hashed, **self._digests}

    def check(self, user: str, password: str, now_ms: int) -> bool | Derivation:
        """Whether a password is a user's; or how to find out, with what `settle` remembers of it.

        A refusal is never had without the derivation, where anybody's takes one: its time would tell who is there.
        """
        known = self._digests.get(user, self._chance)
        # Of both the digest, as lengths differ, too.
        fits = hmac.compare_digest(sha256(password.encode()).digest(), known)
        if fits or not self._hashed:
            return fits
        until_ms = self._remembered.get(self._memory(user, password))
        if until_ms is not None and now_ms < until_ms:
            return True
        mechanism, credential = self._nobody if user in self._digests else self._hashed.get(user, self._nobody)
        return partial(self._derive, mechanism, credential, password)

    def _derive(self, mechanism: Mechanism, credential: Credential, password: str) -> bool:
        """Whether a password is that of a credential. What is not costs the same, whosever that is.

        So many iterations of each mechanism are done as the costliest user has: one's own, and then what is left.
        """
        salted = salted_password(mechanism, password, credential.salt, credential.iterations)
        shown = credential_of(mechanism, salted, credential.salt, credential.iterations)
        if hmac.compare_digest(shown.stored_key, credential.stored_key):
            return True
        for each, most in self._most.items():
            if left := most - credential.iterations * (each is mechanism):
                salted_password(each, password, self._chance, left)
        return False

    def settle(self, user: str, password: str, fits: bool, now_ms: int) -> bool:
        """Whether a password is a user's, by what the `Derivation` has given; if so, it is remembered."""
        if fits:
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.pop(next(iter(self._remembered)))
            self._remembered[self._memory(user, password)] = now_ms + REMEMBERED_MS
        return fits

    def _memory(self, user: str, password: str) -> bytes:
        return hmac.digest(self._chance, f"{len(user)}:{user}{password}".encode(), sha256)
