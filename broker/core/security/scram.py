"""SCRAM credentials of users (KIP-554, RFC 5802): kept as keys that tell nothing of the password."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ottla.broker.core.refusal import Refusal
from ottla.protocol.errors import ErrorCode
from ottla.protocol.sasl.scram import LEAST_ITERATIONS, Credential, Found, Mechanism, credential_of

if TYPE_CHECKING:
    from ottla.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )

MOST_ITERATIONS = 16_384

Change: TypeAlias = "ScramCredentialDeletion | ScramCredentialUpsertion"
"""``mechanism`` as it came, maybe one that there is not."""

Credentials = Mapping[tuple[str, Mechanism], Credential]
"""By user and mechanism. Not to be changed."""


class Planned(NamedTuple):
    """The credentials with every change that can be made, and for each user why they cannot be changed, or None."""

    credentials: Credentials
    refusals: Mapping[str, Refusal | None]


def plan(credentials: Credentials, request: AlterUserScramCredentialsRequest) -> Planned:
    """Carry out every change that is allowed: one of each user in a request."""
    from ottla.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion  # a start needs none

    refusals: dict[str, Refusal | None] = {}
    changes: dict[str, Change] = {}
    wanted: list[Change] = [*request.deletions, *request.upsertions]
    for change in wanted:
        user = change.name
        if refusals.get(user) is not None:
            continue
        if changes.pop(user, None) is not None:
            text = "The credentials of a user may be changed once only"
            refusals[user] = Refusal(ErrorCode.DUPLICATE_RESOURCE, text)
            continue
        added = change if isinstance(change, ScramCredentialUpsertion) else None
        refusals[user] = refusal = _invalid(change, added, credentials)
        if refusal is None:
            changes[user] = change
    changed = dict(credentials)
    for change in changes.values():
        key = change.name, Mechanism(change.mechanism)
        if isinstance(change, ScramCredentialUpsertion):
            changed[key] = _credential(change)
        else:
            del changed[key]
    return Planned(changed, refusals)


def _invalid(change: Change, added: ScramCredentialUpsertion | None, credentials: Credentials) -> Refusal | None:
    if not change.name:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The name of a user may not be empty")
    if change.mechanism not in Mechanism.__members__.values():
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"There is no SCRAM mechanism {change.mechanism}")
    if added is not None:
        if not LEAST_ITERATIONS <= added.iterations <= MOST_ITERATIONS:
            text = f"Iterations may be {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    elif (change.name, Mechanism(change.mechanism)) not in credentials:
        return Refusal(ErrorCode.RESOURCE_NOT_FOUND, f"User '{change.name}' has no such credential")
    return None


def _credential(wanted: ScramCredentialUpsertion) -> Credential:
    return credential_of(Mechanism(wanted.mechanism), wanted.salted_password, wanted.salt, wanted.iterations)


def described(credentials: Credentials, users: Sequence[str]) -> dict[str, list[tuple[Mechanism, int]] | Refusal]:
    """Mechanisms and iterations by user, of all users if none are named; or why they are not told."""
    found: dict[str, list[tuple[Mechanism, int]]] = {}
    for (user, mechanism), credential in sorted(credentials.items()):
        found.setdefault(user, []).append((mechanism, credential.iterations))
    if not users:
        return dict(found)
    answer: dict[str, list[tuple[Mechanism, int]] | Refusal] = {}
    for user in users:
        if user in answer:
            answer[user] = Refusal(ErrorCode.DUPLICATE_RESOURCE, f"User '{user}' was asked for twice")
        else:
            unknown = Refusal(ErrorCode.RESOURCE_NOT_FOUND, f"User '{user}' has no credentials")
            answer[user] = found.get(user, unknown)
    return answer


class Lookup:
    """The users of a mechanism by name. A name that is nobody's has a made-up credential, which costs as much to try.

    The salt and the iterations of such a name are always the same, and look like those of most users: whoever asks for
    them does not learn that the name is unknown.

    Args:
        secret: of this broker, the same after a restart.
    """

    def __init__(self, credentials: Credentials, mechanism: Mechanism, secret: bytes) -> None:
        self._mechanism = mechanism
        self._secret = secret
        self._known = {user: one for (user, kind), one in credentials.items() if kind is mechanism}
        self._elsewhere = {user: kind for user, kind in credentials if kind is not mechanism}
        usable = [one for one in self._known.values() if one.iterations >= LEAST_ITERATIONS]
        self._iterations = _most([one.iterations for one in usable], LEAST_ITERATIONS)
        self._salt_length = _most([len(one.salt) for one in usable], 32)

    def __call__(self, user: str) -> Found:
        """The credential with which an exchange goes on."""
        made_up = self._made_up(user)  # for those who exist, too: it takes time
        known = self._known.get(user)
        if known is None:
            if (other := self._elsewhere.get(user)) is None:
                return Found(made_up, "nobody has the name")
            return Found(made_up, f"the user has no password for {self._mechanism.words}, but for {other.words}")
        if known.iterations < LEAST_ITERATIONS:
            least = f"fewer than {LEAST_ITERATIONS} are not accepted; set the password again"
            return Found(made_up, f"the user's credential has {known.iterations} iterations, and {least}")
        return Found(known)

    def _made_up(self, user: str) -> Credential:
        salt, stored_key, server_key = (
            hmac.digest(self._secret, f"{what} {self._mechanism.words} {user}".encode(), self._mechanism.hash)
            for what in ("salt", "stored key", "server key")
        )
        longer = salt * (self._salt_length // len(salt) + 1)
        return Credential(longer[: self._salt_length], self._iterations, stored_key, server_key)


def _most(numbers: Sequence[int], otherwise: int) -> int:
    """The number that there is most often; the first of several."""
    return Counter(numbers).most_common(1)[0][0] if numbers else otherwise


# ------------------------------------------------------------------------------------------------------------- stored


def credentials_state(credentials: Credentials) -> list[dict[str, Any]]:
    """The credentials as JSON has them."""
    return [
        {
            "user": user,
            "mechanism": mechanism.name,
            "salt": b64encode(one.salt).decode(),
            "iterations": one.iterations,
            "stored_key": b64encode(one.stored_key).decode(),
            "server_key": b64encode(one.server_key).decode(),
        }
        for (user, mechanism), one in credentials.items()
    ]


def credentials_from_state(state: Iterable[Mapping[str, Any]]) -> Credentials:
    """Read what `credentials_state` gave."""
    return {
        (row["user"], Mechanism[row["mechanism"]]): Credential(
            b64decode(row["salt"]), int(row["iterations"]), b64decode(row["stored_key"]), b64decode(row["server_key"])
        )
        for row in state
    }
