"""DescribeUserScramCredentials (key 50): who has SCRAM credentials. KIP-554."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@struct
class UserName:
    """A user who is asked for."""

    name: str = wire(String)


@message(versions=range(1), flexible_from=0)
class DescribeUserScramCredentialsRequest(Message):
    """Ask for the credentials of users; None or none for those of all users."""

    users: list[UserName] | None = wire(ArrayOf(UserName), nullable_since=0)


@struct
class CredentialInfo:
    """The public part of a credential: 1 SCRAM-SHA-256 or 2 SCRAM-SHA-512, and its iterations."""

    mechanism: int = wire(Int8)
    iterations: int = wire(Int32)


@struct
class DescribeUserScramCredentialsResult:
    """The credentials of one user."""

    user: str = wire(String)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    credential_infos: list[CredentialInfo] = wire(ArrayOf(CredentialInfo))


@message(versions=range(1), flexible_from=0)
class DescribeUserScramCredentialsResponse(Message):
    """The users and their credentials."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    results: list[DescribeUserScramCredentialsResult] = wire(ArrayOf(DescribeUserScramCredentialsResult))
