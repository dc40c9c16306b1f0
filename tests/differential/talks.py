"""A connection on which nobody is known yet: what is said on it, byte by byte, and what comes of that."""

from __future__ import annotations

import hmac
import re
import struct
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ProtocolError
from ottla.protocol.sasl.scram import Mechanism, salted_password
from tests.differential.real_kafka import TO_SASL
from tests.differential.tracing import Trace
from tests.differential.users import CORRELATION, DELAY_MS, framed, login
from tests.differential.wire import Sent, Wire, decoded, plain

SILENCE_S = 2.2
"""What is not answered within that is not answered: Kafka looks at who waits three times a second."""
CLOSE_S = 0.15
"""A connection that is closed with its last answer is closed within that."""


@dataclass(frozen=True)
class Final:
    """The second token of SCRAM: a proof that belongs to the challenge that came last.

    Attributes:
        first: the first token.
        cut: so many characters of the nonce are left out.
        version: of SaslAuthenticate; None: a raw token.
    """

    first: bytes
    secret: str
    version: int | None
    cut: int = 0


def wrapped(token: bytes, version: int | None) -> bytes:
    """A token in a frame of its own (None), or in SaslAuthenticate."""
    if version is None:
        return struct.pack(">i", len(token)) + token
    return framed(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)


class Talk:
    """One connection of a trace."""

    def __init__(self, trace: Trace, wire: Wire) -> None:
        self.wire = wire
        self.is_over = False
        self._trace = trace
        self._challenge = b""
        self._is_raw_scram = False
        self._names_scram = False
        self._asked: Sent | None = None
        self._since = 0.0

    def say(self, what: bytes | Final) -> None:
        data = what if isinstance(what, bytes) else wrapped(_final(what, self._challenge), what.version)
        self._asked = None
        self._names_scram = b"SCRAM" in data
        if len(data) >= 12:
            key, version, correlation_id = struct.unpack_from(">hhi", data, 4)
            if key in ApiKey._value2member_map_ and correlation_id == CORRELATION:
                self._asked = Sent(ApiKey(key), version, correlation_id)
        self._since = time.monotonic()
        self.wire.raw(data)

    def told(self, frame: bytes | None) -> dict[str, Any]:
        """What came: the answer, and whether it came, or the end did, at once or after the delay."""
        # A machine that is busy makes what comes at once come later, and what comes after the delay not sooner.
        late = time.monotonic() - self._since > 0.9 * DELAY_MS / 1000
        answer = "none" if frame is None else self._read(frame)
        if frame is None and not self.wire.closed:
            return {"answer": "silence"}
        if frame is None and self._is_raw_scram:  # Kafka does not wait then: a row of docs/differences.md
            return {"answer": answer}
        return {"answer": answer, "when": "late" if late else "soon"}

    def _read(self, frame: bytes) -> Any:
        try:
            if self._asked is not None:
                return self._answer(self._asked, frame)
        except (AssertionError, ProtocolError, ValueError, KeyError, struct.error):
            pass
        self._challenge = frame
        return _tidy(frame)

    def _answer(self, asked: Sent, frame: bytes) -> Any:
        answer = self._trace.tidy(asked.key, plain(decoded(asked, frame)))
        if asked.key is ApiKey.API_VERSIONS:  # what the brokers have differs
            return answer["error_code"]
        if asked.key is ApiKey.SASL_HANDSHAKE:
            self._is_raw_scram = self._names_scram and asked.version == 0
            answer["mechanisms"].sort()
        if asked.key is ApiKey.SASL_AUTHENTICATE:
            self._challenge = answer["auth_bytes"]
            answer["auth_bytes"] = _tidy(answer["auth_bytes"])
        return answer


def dialled(t: Trace) -> Talk:
    """A new connection to the listener with SASL."""
    wire = Wire(t.port + TO_SASL, None)
    t.wires.append(wire)
    return Talk(t, wire)


def said(t: Trace, talk: Talk, label: str, what: bytes | Final) -> None:
    """Say something, and note what comes of it."""
    talk.say(what)
    frame = talk.wire.frame(SILENCE_S)
    told = talk.told(frame)
    if frame is not None:
        talk.wire.frame(CLOSE_S)
    t.answers += 1
    t.note(f"{len(t.transcript)} say {label}", told | {"closed": talk.wire.closed})


def logged_in(t: Trace, user: str) -> Talk:
    talk = dialled(t)
    for frame in login(user):
        said(t, talk, "login", frame)
    return talk


def _tidy(token: bytes) -> str:
    """A token without what a broker makes up: its nonce, and what is signed with it."""
    text = token.decode("latin-1")
    text = re.sub(r"^r=(abc)?[^,]*", r"r=\1<nonce>", text)
    return re.sub(r"^v=.*", "v=<signature>", text)


def _final(what: Final, challenge: bytes) -> bytes:
    found = re.fullmatch(rb"r=([^,]+),s=([^,]*),i=(\d+)", challenge)
    head = re.match(rb"([^,]*,[^,]*,)(.*)", what.first, re.DOTALL)
    if found is None or head is None:
        return b"c=biws,r=nothing,p=bm90aGluZw=="
    kind = Mechanism.SCRAM_SHA_512
    salted = salted_password(kind, what.secret, b64decode(found[2]), int(found[3]))
    client_key = hmac.digest(salted, b"Client Key", kind.hash)
    bare = b"c=" + b64encode(head[1]) + b",r=" + found[1][: len(found[1]) - what.cut]
    signature = hmac.digest(kind.hash(client_key).digest(), b",".join((head[2], challenge, bare)), kind.hash)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return bare + b",p=" + b64encode(proof)
