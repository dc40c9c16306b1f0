"""One case: a guest makes something worth attacking, then sends requests that are more or less wrong."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from random import Random
from typing import Any

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request
from ottla.protocol.primitives import uvarint_bytes
from tests.hostile.fuzz_guest import Fault, Guest, Stopwatch
from tests.hostile.fuzz_logins import Talk
from tests.hostile.fuzz_requests import CALLS, Known, Writer, body_of, weight
from tests.hostile.logins import log_in
from tests.support.client import batch
from tests.support.peer import ConnectionClosed
from tests.support.requests import fetch_fields, request
from tests.wire.requests import TOPIC, VALID, World, one_of_everything

COMPACT, PACKED = "wire-compact", "wire-packed"
LOGINS = {"mighty": "PLAIN", "limited": "SCRAM-SHA-256"}
"""How users log in: one may do everything, and the other what rules allow."""
MOST_BYTES = 4 << 20
"""How large a request may be, about."""
STANDING = {TOPIC: {}, COMPACT: {"cleanup_policy": "compact"}, PACKED: {"compression_type": "gzip"}}
"""The topics that there always are, and their settings."""


class FuzzWorld(World):
    """The topics are there already, and names tell the case."""

    def __init__(self, guest: Guest, name: str) -> None:
        self.peer = guest
        self.name = name
        self.topic_id = guest.topic_id(TOPIC)
        self.made = 0

    def fresh(self, kind: str) -> str:
        self.made += 1
        return f"{self.name}-{kind}-{self.made}"


ROUND = 1_000_000
"""The numbers of the cases of one round begin at a multiple of this."""
FOR_USERS = [
    call for call in CALLS if call[0] not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
]
"""What nobody may ask before he has said who he is."""
WITHOUT_QUOTAS = [call for call in CALLS if call[0] is not ApiKey.ALTER_CLIENT_QUOTAS]


def has_quotas(number: int) -> bool:
    """Whether cases of this round set quotas: where there is one, all requests take another way through the broker."""
    return bool(number // ROUND % 2)


class Case:
    """A numbered case of a seed: the same number sends the same, as far as the broker answers the same.

    Args:
        ports: of the listener that asks nobody who he is, and of the one that does, if there is one.
        watch: of the thread that plays it.
        counts: requests sent by API, shared by all cases.
        most_items: how long an array may be made.
    """

    def __init__(
        self,
        ports: tuple[int, int | None],
        seed: int,
        number: int,
        watch: Stopwatch,
        counts: Counter[str],
        most_items: int,
    ) -> None:
        self.port, self.login_port = ports
        self.name = f"fuzz-{number}"
        self.rng = Random(f"{seed}:{number}")
        self.calls = CALLS if has_quotas(number) else WITHOUT_QUOTAS
        self.watch = watch
        self.counts = counts
        self.known = Known()
        self.writer = Writer(self.rng, self.known, most_items)
        self.sent: list[bytes] = []
        self.longest_s = 0.0
        self.refused = 0
        self.world: FuzzWorld | None = None

    def run(self) -> None:
        """Play it.

        Raises:
            Fault: the broker has done what it must not.
        """
        with self.guest() as honest, self.guest() as second:
            try:
                self.world = FuzzWorld(honest, self.name)
                for prologue in self.rng.sample(PROLOGUES, self.rng.choice((0, 1, 2, 3))):
                    prologue(self.world, self.known, honest, second)
            except (AssertionError, IndexError):
                self.known.note("group_id", self.name)  # another guest has taken away what this one needed
            except (ConnectionClosed, OSError):
                self.refused += 1
                self.world = None
            if self.login_port is not None and self.rng.random() < 0.5:
                for _ in range(4):
                    Talk(self.login_port, self.rng, self.watch, self.plausible, self.sent).run(self.counts)
            self.attack()
            self.longest_s = max(self.longest_s, honest.longest_s, second.longest_s)

    def guest(self) -> Guest:
        client_id = "__admin_client" if self.rng.random() < 0.1 else self.name
        return Guest(self.port, self.watch, client_id, self.counts)

    def attacker(self) -> Guest:
        """A guest who may do everything, or who has said that he is somebody who may do little."""
        who = self.rng.choice((None, *LOGINS)) if self.login_port is not None else None
        if self.login_port is None or who is None:
            return self.guest()
        guest = Guest(self.login_port, self.watch, self.name, self.counts)
        if error := log_in(guest, LOGINS[who], who):
            raise Fault(f"{who} cannot log in with the right password: error {error}")
        return guest

    def attack(self) -> None:
        """A few connections full of it."""
        for _ in range(self.rng.choice((1, 2, 3))):
            try:
                with self.attacker() as guest:
                    try:
                        for _ in range(self.rng.randrange(1, 10)):
                            self.throw(guest)
                            if not self.listen(guest):
                                break
                    finally:
                        self.longest_s = max(self.longest_s, guest.longest_s)
            except (ConnectionClosed, OSError):
                self.refused += 1

    def throw(self, guest: Guest) -> None:
        frames = [self.frame(guest) for _ in range(self.rng.choice((1, 1, 1, 2, 4, 12)))]
        data = b"".join(frames)
        chance = self.rng.random()
        if chance < 0.02:
            data = data[: self.rng.randrange(len(data))]
        elif chance < 0.03:
            data += struct.pack(">i", self.rng.choice((0, -1, -(2**31), 2**31 - 1, 104_857_601, 9000, 1 << 20)))
        elif chance < 0.04:
            data += self.rng.choice((b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\1\0", self.rng.randbytes(50)))
        self.sent.append(data)
        guest.throw(data)

    def listen(self, guest: Guest) -> bool:
        """See to the answers, or do not; says whether the connection goes on."""
        chance = self.rng.random()
        if chance < 0.03:
            guest.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if chance < 0.06:
            return False
        if chance < 0.09:
            guest.socket.shutdown(socket.SHUT_WR)
            guest.await_end()
            return False
        for answer in guest.settle():
            self.known.learn(answer)
        return not guest.due

    # Requests

    def frame(self, guest: Guest) -> bytes:
        key, version = self.rng.choice(self.calls)
        message = self.message(key, version)
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 5))):
            self.writer.mutate(message, version)
        body = self.encoded(*((key, version, message) if weight(message) <= MOST_BYTES else self.other()))
        flexible = api(key).request_header_version(version) == 2
        if flexible and self.rng.random() < 0.05:
            body = body[:-1] + self.tags()
        number = self.rng.randrange(1 << 31)
        frame = frame_request(key, version, number, guest.client_id, body, flexible=flexible)
        return self.spoilt(frame) if self.rng.random() < 0.2 else frame

    def plausible(self, correlation_id: int) -> bytes:
        """A request with nothing wrong, but for who sends it."""
        key, version = self.rng.choice(FOR_USERS)
        body = self.encoded(key, version, self.writer.request(key, version))
        flexible = api(key).request_header_version(version) == 2
        return frame_request(key, version, correlation_id, self.name, body, flexible=flexible)

    def message(self, key: ApiKey, version: int) -> Any:
        chance = self.rng.random()
        if chance < 0.05:
            return one_of_everything(api(key).request, version)
        if chance < 0.25 and key in VALID and self.world is not None:
            try:
                return request(key, VALID[key](self.world))
            except (AssertionError, IndexError):
                pass  # another guest has taken away what it needs
            except (ConnectionClosed, OSError):
                self.world = None
        return self.writer.request(key, version)

    def encoded(self, key: ApiKey, version: int, message: Any) -> bytes:
        try:
            return body_of(key, version, message)
        except (struct.error, AttributeError, TypeError, ValueError, OverflowError):
            return body_of(key, version, one_of_everything(api(key).request, version))

    def tags(self) -> bytes:
        """A tag section that nobody knows, or that lies."""
        rows = [
            (self.rng.choice((0, 1, 1, 99, 2**31 - 1)), self.rng.randbytes(self.rng.choice((0, 1, 30))))
            for _ in range(3)
        ]
        section = uvarint_bytes(self.rng.choice((3, 3, 2, 200, 2**31)))
        return section + b"".join(uvarint_bytes(tag) + uvarint_bytes(len(data)) + data for tag, data in rows)

    def spoilt(self, frame: bytes) -> bytes:
        """Bytes of it changed, behind its length mostly."""
        data = bytearray(frame)
        at = self.rng.randrange(4, len(data))
        match self.rng.randrange(9):
            case 0 | 1:
                for _ in range(self.rng.choice((1, 1, 2, 8))):
                    data[self.rng.randrange(4, len(data))] ^= 1 << self.rng.randrange(8)
            case 2:
                data[at : at + 4] = self.rng.choice(
                    (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\0")
                )
            case 3:
                del data[at:]
            case 4:
                data[at:at] = self.rng.randbytes(self.rng.choice((1, 4, 100)))
            case 5:
                data[at:] = self.encoded(*self.other())
            case 6:
                data[6:8] = struct.pack(">h", self.rng.choice((-1, 0, 1, 5, 12, 20, 32_767)))
            case 7:
                data[4:6] = struct.pack(">h", self.rng.choice((*ApiKey, -1, 4, 5, 17, 36, 68, 20_000, 32_767)) % 32_768)
            case _:
                data[12:14] = struct.pack(">h", self.rng.choice((-1, -2, 0, 1, 2000, 32_767)))
        if self.rng.random() < 0.9 and len(data) > 4:
            data[:4] = struct.pack(">i", len(data) - 4)
        return bytes(data)

    def other(self) -> tuple[ApiKey, int, Any]:
        key, version = self.rng.choice(self.calls)
        return key, version, self.writer.request(key, version)


# Prologues: states of groups, transactions and sessions for requests to meet


def stable_group(world: FuzzWorld, known: Known, honest: Guest, second: Guest) -> None:
    known.note_all(world.stable())


def joined_group(world: FuzzWorld, known: Known, honest: Guest, second: Guest) -> None:
    known.note_all(world.joined())


def rebalancing_group(world: FuzzWorld, known: Known, honest: Guest, second: Guest) -> None:
    """One member has joined, another waits for it."""
    group = world.fresh("group")
    joined = honest.stable(group, session_ms=1_000, rebalance_ms=1_000)
    known.note_all({"group_id": group, "member_id": joined.member_id, "generation_id": joined.generation_id})
    known.note("member_id", second.start_enter(group, session_ms=1_000, rebalance_ms=1_000))


def group_of_offsets(world: FuzzWorld, known: Known, honest: Guest, second: Guest) -> None:
    known.note("group_id", world.group_with_offsets())


def producer(world: FuzzWorld, known: Known, honest: Guest, second: Guest) -> None:
    known.note_all(world.producer())


def transaction(world: FuzzWorld, known: Known, honest: Guest, second: Guest) -> None:
    """Open, with a record in it."""
    made = world.transaction()
    known.note_all(made)
    name = made.pop("transactional_id")
    honest.produce(TOPIC, batch(b"v", base_sequence=0, is_transactional=True, **made), transactional_id=name)


def transaction_of_group(world: FuzzWorld, known: Known, honest: Guest, second: Guest) -> None:
    known.note_all(world.producer_with_group())


def session(world: FuzzWorld, known: Known, honest: Guest, second: Guest) -> None:
    """A fetch session."""
    told = honest.call(ApiKey.FETCH, 12, **fetch_fields(TOPIC, session_epoch=0))
    known.note("session_id", told.session_id)


def topic(world: FuzzWorld, known: Known, honest: Guest, second: Guest) -> None:
    name = world.topic()
    known.note_all({"topics": name, "topic_id": honest.topic_id(name)})
    honest.produce(name)


PROLOGUES = (
    stable_group,
    joined_group,
    rebalancing_group,
    group_of_offsets,
    producer,
    transaction,
    transaction_of_group,
    session,
    topic,
)
