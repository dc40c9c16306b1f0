"""Before authentication: the handshake, tokens raw and framed, what fails, and when the end comes."""

from __future__ import annotations

import os
import time

from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import frame_request
from tests.differential.random_logins import FIRST_TOKENS, MECHANISMS, PLAIN_TOKENS, STRANGERS
from tests.differential.talks import Final, dialled, logged_in, said, wrapped
from tests.differential.tracing import Trace
from tests.differential.users import (
    CORRELATION,
    LIFETIME_MS,
    NAMED,
    PLAIN,
    SCRAM,
    framed,
    login,
    password,
    plain,
)

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
    for version in (3, 99, -1):
        for tags in (b"", b"\0", b"\1\7\1x", b"\1\7\5x", b"\xff\xff"):
            conversation(t, frame_request(ApiKey.API_VERSIONS, version, CORRELATION, "c", tags, flexible=False))


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


def trace_lenient_failures_come_at_once(t: Trace) -> None:
    """20.1: 17."""
    for version in (None, 2):
        begin = 0 if version is None else 1
        for token in PLAIN_TOKENS:
            conversation(t, handshake(begin), wrapped(token, version))
        conversation(t, handshake(begin, SCRAM), wrapped(FIRST, version), Final(FIRST, "wrong", version), METADATA)
        conversation(t, handshake(begin, "plain"))
    for _, frame in STRANGERS:
        conversation(t, frame)
        conversation(t, handshake(), frame)


def trace_lenient_sessions(t: Trace) -> None:
    """20.3: 35 to 38, 40."""
    again = handshake(1, SCRAM), wrapped(FIRST, 2), Final(FIRST, password("alice"), 2)
    bobs = b"n,,n=bob,r=abc"

    def session(label: str, *steps: bytes | Final | float) -> None:
        t.note(label, None)
        talk = dialled(t)
        for number, step in enumerate((*again, *steps)):
            if talk.wire.closed:
                break
            if isinstance(step, float):
                time.sleep(step)
            else:
                said(t, talk, f"step {number}", step)

    over_s = LIFETIME_MS / 1000 + 0.3
    session("of both handshakes the second comes too soon", METADATA, *again, handshake(1, SCRAM), METADATA)
    session("renewed, and renewed again", METADATA, *again, METADATA, 1.2, *again, METADATA)
    session("renewed by the oldest tokens", handshake(1, SCRAM), wrapped(FIRST, 0), Final(FIRST, password("alice"), 0))
    session("over", METADATA, over_s, METADATA)
    session("over, and renewed", over_s, *again, METADATA, over_s, METADATA)
    session("over, and its versions", over_s, versions())
    session("over, and a handshake that is not served", over_s, handshake(9))
    session("the end is postponed", over_s - 1.2, *again, 1.2, METADATA)
    session("somebody else", handshake(1, SCRAM), wrapped(bobs, 2), Final(bobs, password("bob"), 2), METADATA)
    session("a wrong password", handshake(1, SCRAM), wrapped(FIRST, 2), Final(FIRST, "wrong", 2), METADATA)
    session("another mechanism", handshake(), wrapped(ALICE, 2), METADATA)
    session("a mechanism that there is not", handshake(1, "plain"), METADATA)
    session("by raw tokens", handshake(0, SCRAM), wrapped(FIRST, None), Final(FIRST, password("alice"), None), METADATA)
    session("versions in between", handshake(1, SCRAM), versions(), wrapped(FIRST, 2))
    session("a request in between", handshake(1, SCRAM), METADATA, wrapped(FIRST, 2))
    session("versions first", versions(), *again, METADATA)
