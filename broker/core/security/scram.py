"""SCRAM credentials of users (KIP-554, RFC 5802): kept as keys that tell nothing of the password."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ottla.broker.core.refusal import Refusal
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )

LEAST_ITERATIONS = 4096
MOST_ITERATIONS = 16_384


class Mechanism(IntEnum):
    """A way to derive keys, by its number in requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


_HASHES: Mapping[Mechanism, Callable[..., Any]] = {
    Mechanism.SCRAM_SHA_256: hashlib.sha256,
    Mechanism.SCRAM_SHA_512: hashlib.sha512,
}


class Credential(NamedTuple):
    """The data by which a server checks a password and proves that it knows it (RFC 5802 section 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


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
    new_hash = _HASHES[Mechanism(wanted.mechanism)]
    client_key = hmac.digest(wanted.salted_password, b"Client Key", new_hash)
    server_key = hmac.digest(wanted.salted_password, b"Server Key", new_hash)
    return Credential(wanted.salt, wanted.iterations, new_hash(client_key).digest(), server_key)


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
