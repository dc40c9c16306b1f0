"""Users of both brokers, and the bytes with which they log in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request
from ottla.protocol.sasl.scram import Mechanism, salted_password
from tests.support.requests import request

SLOTS = 48
"""So many random traces have users of their own at a time: rules about the cluster are seen by all."""
LETTERS = "abcde"
NAMED = ("alice", "bob", "admin")
"""Of traces that are written by hand; each has SCRAM credentials, too."""
SUPER_USERS = ("User:admin", *(f"User:s{slot}e" for slot in range(SLOTS)))

DELAY_MS = 1000
"""How long who fails to authenticate waits: long enough to be told from what comes at once."""
LIFETIME_MS = 3000
"""How long a session of SCRAM lasts in the profile ``lenient``."""
PLAIN, SCRAM = "PLAIN", "SCRAM-SHA-512"
OF_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SALT, ITERATIONS = b"salt of them all", 4096
CORRELATION = 7


def password(user: str) -> str:
    return f"{user}-secret"


def jaas() -> str:
    """The users that PLAIN knows, as Kafka's settings name them."""
    users = [*NAMED, *(f"s{slot}{letter}" for slot in range(SLOTS) for letter in LETTERS)]
    options = " ".join(f'user_{user}="{password(user)}"' for user in users)
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {options};"


def scram_credentials() -> list[dict[str, Any]]:
    """Those of `NAMED`, as AlterUserScramCredentials takes them."""
    kind = Mechanism.SCRAM_SHA_512
    return [
        {
            "name": user,
            "mechanism": kind,
            "iterations": ITERATIONS,
            "salt": SALT,
            "salted_password": salted_password(kind, password(user), SALT, ITERATIONS),
        }
        for user in NAMED
    ]


def framed(key: ApiKey, version: int, /, **fields: Any) -> bytes:
    """A request of any version, also of one that the codecs do not have (with the nearest layout)."""
    entry = api(key)
    served = entry.request.versions
    nearest = min(max(version, served[0]), served[-1])
    body = entry.request.layout(nearest).encode(request(key, fields))
    flexible = entry.request_header_version(nearest) == 2
    return frame_request(key, version, CORRELATION, "c", body, flexible=flexible)


def plain(user: str, secret: str, authorization: str = "") -> bytes:
    return f"{authorization}\0{user}\0{secret}".encode()


def login(user: str) -> Sequence[bytes]:
    """The frames of a login by PLAIN."""
    return (
        framed(ApiKey.SASL_HANDSHAKE, 1, mechanism=PLAIN),
        framed(ApiKey.SASL_AUTHENTICATE, 0, auth_bytes=plain(user, password(user))),
    )
