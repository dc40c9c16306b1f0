"""Before authentication: the handshake, tokens raw and framed, what fails, and when the end comes."""

from __future__ import annotations

import os

from ottla.protocol.apis import ApiKey
from tests.differential.random_logins import FIRST_TOKENS, MECHANISMS, PLAIN_TOKENS, STRANGERS
from tests.differential.talks import Final, dialled, logged_in, said, wrapped
from tests.differential.tracing import Trace
from tests.differential.users import NAMED, PLAIN, SCRAM, framed, login, password, plain

ALICE = plain("alice", password("alice"))
FIRST = b"n,,n=alice,r=abc"
METADATA = STRANGERS[0][1]


def versions(version: int = 3, software: str = "ottla") -> bytes:
    return framed(ApiKey.API_VERSIONS, version, client_software_name=software, client_software_version="1")


def handshake(version: int = 1, mechanism: str = PLAIN) -> bytes:
    return framed(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)


def conversation(t: Trace, *frames: bytes | Final) -> None:
    """On a connection of its own."""
    t.note("a connection", None)
    talk = dialled(t)
    for number, frame in enumerate(frames):
        if talk.wire.closed:
            break
        said(t, talk, f"frame {number}", frame)


def trace_secured_good_logins(t: Trace) -> None:
    """20.1: 1, 2, 9, 12."""
    for version in range(3):
        token = wrapped(ALICE, version)
        conversation(t, versions(), handshake(), token, METADATA)
        conversation(t, handshake(), token, METADATA)
        for user in NAMED:
            first = b"n,,n=" + user.encode() + b",r=abc"
            final = Final(first, password(user), version)
            conversation(t, handshake(1, SCRAM), wrapped(first, version), final, METADATA)
    conversation(t, handshake(0), wrapped(ALICE, None), versions(), METADATA)
    conversation(t, handshake(0, SCRAM), wrapped(FIRST, None), Final(FIRST, password("alice"), None), versions())


def trace_secured_versions(t: Trace) -> None:
    """20.1: 3, 4."""
    conversation(t, versions(99), versions(), handshake(), wrapped(ALICE, 2), METADATA)
    conversation(t, versions(), versions(), handshake())
    conversation(t, versions(3, ""), versions(), handshake(), wrapped(ALICE, 2))
    for version in (*range(5), 5, -1):
        conversation(t, versions(version), versions(version), handshake())


def trace_secured_handshakes(t: Trace) -> None:
    """20.1: 5, 6, 16."""
    for version in range(2):
        for mechanism in MECHANISMS:
            conversation(t, handshake(version, mechanism), handshake(version))
    conversation(t, handshake(), handshake())
    conversation(t, handshake(0), handshake(0))
    conversation(t, handshake(9))
    conversation(t, handshake(-1))
    conversation(t, *login("alice"), handshake(), wrapped(ALICE, 2), METADATA)


def trace_secured_tokens(t: Trace) -> None:
    """20.1: 10, 11, and what the mechanisms refuse of 20.2."""
    for version in (None, 0, 1, 2):
        begin = handshake(0 if version is None else 1)
        for token in PLAIN_TOKENS:
            conversation(t, begin, wrapped(token, version), METADATA)
    for token in FIRST_TOKENS:
        conversation(t, handshake(1, SCRAM), wrapped(token, 2), Final(token, password("alice"), 2), METADATA)
    for spoilt in (Final(FIRST, "wrong", 2), Final(FIRST, password("alice"), 2, 1)):
        conversation(t, handshake(1, SCRAM), wrapped(FIRST, 2), spoilt)
    conversation(t, handshake(0), wrapped(ALICE, 1))
    conversation(t, handshake(1), wrapped(ALICE, None))
    conversation(t, handshake(), wrapped(ALICE, 3))


def trace_secured_strangers(t: Trace) -> None:
    """20.1: 7, 8, 13, 14."""
    for _, frame in STRANGERS:
        conversation(t, frame, versions())
        conversation(t, versions(), frame, handshake())
        conversation(t, versions(99), frame, handshake())
        conversation(t, handshake(), frame, wrapped(ALICE, 2))
        conversation(t, *login("alice"), frame, METADATA)
    for size in (16, 1, 100):
        chance = t.random.randbytes(size) if size > 1 else os.fsencode("\0")
        conversation(t, len(chance).to_bytes(4, "big") + chance)


def trace_secured_on_other_listeners(t: Trace) -> None:
    """20.1: 15."""
    for version in range(2):
        t.call("anybody", ApiKey.SASL_HANDSHAKE, version, mechanism=PLAIN)
    for version in range(3):
        t.call("anybody", ApiKey.SASL_AUTHENTICATE, version, auth_bytes=ALICE)
    t.call("anybody", ApiKey.METADATA, 9, topics=[], allow_auto_topic_creation=False)


def trace_secured_many_requests_at_once(t: Trace) -> None:
    """Bytes behind the last token belong to the established connection."""
    talk = dialled(t)
    said(t, talk, "all at once", b"".join([versions(), *login("alice")]) + METADATA)
    for _ in range(3):
        said(t, talk, "nothing more", b"")
    talk = logged_in(t, "bob")
    said(t, talk, "as bob", METADATA)
