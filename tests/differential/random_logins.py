"""Random conversations before authentication: right ones, and such as are nearly right, piece by piece."""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random

from ottla.protocol.apis import ApiKey
from tests.differential.pairs import Move, move
from tests.differential.random_frames import damaged
from tests.differential.talks import Final, wrapped
from tests.differential.users import PLAIN, SCRAM, framed, password, plain

CONVERSATIONS = 4
Piece = tuple[str, bytes | Final]

# Names that are nobody's are left out for SCRAM, and what is not ASCII; and so are requests of other APIs with mistakes
# in them, which are not decoded before authentication: they are rows of docs/differences.md.
NOT_READ = ("METADATA", "HEARTBEAT", "FIND_COORDINATOR")
MECHANISMS = ("plain", "SCRAM-SHA-256", "GSSAPI", "OAUTHBEARER", "", "x" * 300)
PLAIN_TOKENS = (
    plain("alice", "wrong"),
    plain("nobody", "wrong"),
    plain("", "x"),
    plain("alice", ""),
    plain("alice", password("alice"), "alice"),
    plain("alice", password("alice"), "bob"),
    plain("ALICE", password("alice")),
    b"",
    b"alice",
    b"\0alice",
    b"\0\0",
    b"\0\0\0",
    b"\0alice\0alice-secret\0",
    b"\xff\0alice\0\xff",
)
FIRST_TOKENS = (
    b"n,a=alice,n=alice,r=abc",
    b"n,a=bob,n=alice,r=abc",
    b"n,,n=alice,r=abc,x=1",
    b"n,,n=alice,r=abc,tokenauth=true",
    b"n,,m=x,n=alice,r=abc",
    b"y,,n=alice,r=abc",
    b"p=tls-unique,,n=alice,r=abc",
    b"n,,n=ali=ce,r=abc",
    b"n,,n=,r=abc",
    b"n,,n=alice,r=",
    b"n,,n=alice",
    b"n,n=alice,r=abc",
    b"n,,r=abc,n=alice",
    b"n,,n=alice,r=a bc",
    b"n,,n=alice,r=abc,",
    b"\0alice\0alice-secret",
    b"",
    b"n",
)
STRANGERS = (
    ("METADATA", framed(ApiKey.METADATA, 9, topics=[{"name": "orders"}], allow_auto_topic_creation=False)),
    ("HEARTBEAT", framed(ApiKey.HEARTBEAT, 3, group_id="g", member_id="m")),
    ("FIND_COORDINATOR", framed(ApiKey.FIND_COORDINATOR, 2, key="g")),
    ("AUTHENTICATE-99", framed(ApiKey.SASL_AUTHENTICATE, 99, auth_bytes=b"x")),
    ("HANDSHAKE-9", framed(ApiKey.SASL_HANDSHAKE, 9, mechanism=PLAIN)),
    *((f"KEY-{key}", struct.pack(">ihhih", 10, key, 0, 7, -1)) for key in (4, 38, 41, 93, 999, -1)),
    ("VERSION-9", struct.pack(">ihhih", 10, 3, 99, 7, -1)),
    ("EMPTY", bytes(4)),
    ("SHORT", struct.pack(">ih", 2, 18)),
    ("NEGATIVE", struct.pack(">i", -5)),
    ("LONG", struct.pack(">i", 524_289)),
    ("ZEROS", struct.pack(">i", 16) + bytes(16)),
)


def _versions(r: Random) -> Piece:
    version = r.choice([0, 1, 2, 3, 3, 3, 4, 4, 5, 99, -1])
    software = r.choice(["ottla", "ottla", "ottla", "", "a b", "-x"])
    data = framed(ApiKey.API_VERSIONS, version, client_software_name=software, client_software_version="1.0")
    return f"VERSIONS-{version}", data


def _handshake(r: Random, version: int, mechanism: str) -> Piece:
    named = mechanism if r.random() < 0.85 else r.choice(MECHANISMS)
    return f"HANDSHAKE-{version}", framed(ApiKey.SASL_HANDSHAKE, version, mechanism=named)


def _tokens(r: Random, mechanism: str, version: int | None) -> list[Piece]:
    good = r.random() < 0.55
    if mechanism == PLAIN:
        token = plain("alice", password("alice")) if good else r.choice(PLAIN_TOKENS)
        return [("PLAIN", wrapped(token, version))]
    first = b"n,,n=alice,r=abc" if r.random() < 0.55 else r.choice(FIRST_TOKENS)
    final = Final(first, password("alice"), version)
    if not good:
        final = r.choice([replace(final, secret="wrong"), replace(final, cut=1)])
    pieces: list[Piece] = [("FIRST", wrapped(first, version)), ("FINAL", final)]
    if r.random() < 0.1:
        token = r.choice([b"", b"c=biws", b"c=biws,r=abc", b"p=eA=="])
        pieces[1] = ("FINAL", wrapped(token, version))
    return pieces


def _conversation(r: Random) -> list[Piece]:
    version = r.choice([0, 1, 1, 1])
    mechanism = r.choice([PLAIN, SCRAM])
    pieces = [_versions(r)] if r.random() < 0.6 else []
    pieces.append(_handshake(r, version, mechanism))
    wrap = r.choice([0, 1, 2, 2]) if version else None
    if r.random() < 0.05:  # a token in the other form
        wrap = None if version else 2
    pieces += _tokens(r, mechanism, wrap)
    pieces.append(r.choice([STRANGERS[0], _versions(r), _handshake(r, 1, mechanism), *_tokens(r, PLAIN, 1)]))
    for _ in range(r.choice([0, 0, 1, 1, 2])):
        _spoil(r, pieces)
    return pieces


def _spoil(r: Random, pieces: list[Piece]) -> None:
    """Make it wrong in one place."""
    at = r.randrange(len(pieces))
    label, data = pieces[at]
    match r.randrange(6):
        case 0 if len(pieces) > 1:
            del pieces[at]
        case 1:
            pieces.insert(at, pieces[at])
        case 2 if at:
            pieces[at - 1 : at + 1] = pieces[at], pieces[at - 1]
        case 3 | 4:
            pieces.insert(at, r.choice(STRANGERS))
        case _ if isinstance(data, bytes) and len(data) > 13:
            spoilt = damaged(r, data, 12)
            if not label.endswith(NOT_READ) and ("FIRST" not in label or b"n=alice," in spoilt):
                pieces[at] = f"DAMAGED-{label}", spoilt


def logins(r: Random) -> list[Move]:
    moves = []
    for _ in range(CONVERSATIONS):
        moves.append(move("dial"))
        moves += [move("say", label=label, what=what) for label, what in _conversation(r)]
    return moves
