"""AlterUserScramCredentials (key 51): set and remove SCRAM credentials. KIP-554."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Bytes, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@struct
class ScramCredentialDeletion:
    """A credential to be removed: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    name: str = wire(String)
    mechanism: int = wire(Int8)


@struct
class ScramCredentialUpsertion:
    """A credential to be set. The client has salted the password; the broker never sees it."""

    name: str = wire(String)
    mechanism: int = wire(Int8)
    iterations: int = wire(Int32)
    salt: bytes = wire(Bytes)
    salted_password: bytes = wire(Bytes)


@message(versions=range(1), flexible_from=0)
class AlterUserScramCredentialsRequest(Message):
    """Remove and set credentials."""

    deletions: list[ScramCredentialDeletion] = wire(ArrayOf(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = wire(ArrayOf(ScramCredentialUpsertion))


@struct
class AlterUserScramCredentialsResult:
    """The outcome for one user."""

    user: str = wire(String)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)


@message(versions=range(1), flexible_from=0)
class AlterUserScramCredentialsResponse(Message):
    """The outcome for each user."""

    throttle_time_ms: int = wire(Int32)
    results: list[AlterUserScramCredentialsResult] = wire(ArrayOf(AlterUserScramCredentialsResult))
