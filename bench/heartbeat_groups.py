"""The groups of the heartbeat benchmark: real ones, formed before the load."""

from __future__ import annotations

import selectors
import socket
import struct
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, islice

from servers import BenchError, Load, Server

MEMBERS_PER_GROUP = 20
SESSION_TIMEOUT_MS = 1_800_000
"""Kafka's largest (group.max.session.timeout.ms): nobody expires while another server has its turn."""
PATIENCE_SECONDS = 60.0
SETTLES_SECONDS = 0.3
"""A server has read by then what was sent."""
QUIET_SECONDS = 1.5
"""Longer than the initial delay of those that wait for more members."""

API_VERSIONS, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 18, 11, 12, 14
HEARTBEAT_VERSION = 4
MEMBER_ID_REQUIRED = 79
NOT_READY = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: ask again."""

HEARTBEAT_RESPONSE_BYTES = 16
"""Length 4, correlation id 4, header tags 1, throttle 4, error 2, tags 1."""
HEARTBEAT_ERROR_AT = 13


@dataclass(frozen=True, slots=True)
class Identity:
    """The member as which one connection heartbeats."""

    group_id: str
    member_id: str
    generation: int


def _string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class Member:
    """One connection that takes one member through JoinGroup v5 and SyncGroup v3."""

    def __init__(self, server: Server, group_id: str, subscription: bytes = b"") -> None:
        self._subscription = subscription
        self._address = server.host, server.port
        self._correlation_id = 0
        self.group_id = group_id
        self.member_id = ""
        self.leader_id = ""
        self.generation = -1
        self.member_ids: list[str] = []
        self.connect()

    def connect(self) -> None:
        """Connect, or connect again after `close`, as the member that it is."""
        self._socket = socket.create_connection(self._address, timeout=PATIENCE_SECONDS)

    def send(self, api_key: int, api_version: int, body: bytes) -> None:
        """Send one request with a version 1 header."""
        self._correlation_id += 1
        frame = struct.pack(">hhi", api_key, api_version, self._correlation_id) + _string("bench") + body
        self._socket.sendall(_bytes(frame))

    def receive(self) -> bytes:
        """The body of the answer to the request sent last."""
        size, correlation_id = struct.unpack(">ii", self._exactly(8))
        if correlation_id != self._correlation_id:
            raise BenchError(f"correlation id {correlation_id} instead of {self._correlation_id}")
        return self._exactly(size - 4)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if not (more := self._socket.recv(size - len(data))):
                raise BenchError("the server closed a connection while groups were formed")
            data += more
        return data

    def check_versions(self) -> None:
        """Ask for ApiVersions: proves that the connection was accepted and Heartbeat v4 is served."""
        self.send(API_VERSIONS, 0, b"")
        answer = self.receive()
        ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[6:])}
        low, high = ranges.get(HEARTBEAT, (0, -1))
        if not low <= HEARTBEAT_VERSION <= high:
            raise BenchError(f"Heartbeat v{HEARTBEAT_VERSION} is not served, only {low} to {high}")

    def send_join(self) -> None:
        """Ask to be in the group's next generation."""
        body = _string(self.group_id) + struct.pack(">ii", SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS)
        body += _string(self.member_id) + _string(None) + _string("consumer")
        self.send(JOIN_GROUP, 5, body + struct.pack(">i", 1) + _string("range") + _bytes(self._subscription))

    def receive_join(self) -> int:
        """Take the answer to a JoinGroup; returns its error code."""
        answer = self.receive()
        error, self.generation = struct.unpack_from(">hi", answer, 4)
        at = 10
        texts = []
        for _ in range(3):
            size = max(struct.unpack_from(">h", answer, at)[0], 0)
            texts.append(answer[at + 2 : at + 2 + size].decode())
            at += 2 + size
        _, self.leader_id, self.member_id = texts
        return int(error)

    def send_sync(self, member_ids: Sequence[str], assignment: bytes = b"") -> None:
        """Ask for the assignment; the leader brings the same one for everybody."""
        body = _string(self.group_id) + struct.pack(">i", self.generation) + _string(self.member_id)
        body += _string(None) + struct.pack(">i", len(member_ids))
        self.send(SYNC_GROUP, 3, body + b"".join(_string(name) + _bytes(assignment) for name in member_ids))

    def receive_sync(self) -> None:
        """Take the answer to a SyncGroup."""
        if error := struct.unpack_from(">h", self.receive(), 4)[0]:
            raise BenchError(f"SyncGroup of {self.group_id} answered error {error}")

    def send_heartbeat(self) -> None:
        """Say that it is there."""
        self.send(HEARTBEAT, 0, _string(self.group_id) + struct.pack(">i", self.generation) + _string(self.member_id))

    def fileno(self) -> int:
        """Of its connection, so that it can be waited for."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection; the member stays in its group."""
        self._socket.close()


def join_all(members: Sequence[Member]) -> None:
    """Bring every member into one generation of its group.

    A broker that does not wait for more members answers the first at once. The others then wait for that one: when
    nothing has come for a while, those that have their answer ask again.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    waiting = set(members)
    for member in members:
        member.send_join()
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member, selectors.EVENT_READ, member)
        while waiting:
            if time.monotonic() > deadline:
                raise BenchError(f"{len(waiting)} members of {len(members)} could not join")
            ready = [key.data for key, _ in selector.select(QUIET_SECONDS)]
            not_ready = False
            for member in ready:
                error = member.receive_join()
                if not error:
                    waiting.remove(member)
                elif error in NOT_READY | {MEMBER_ID_REQUIRED}:
                    not_ready |= error in NOT_READY
                    member.send_join()
                else:
                    raise BenchError(f"JoinGroup of {member.group_id} answered error {error}")
            if not_ready:
                time.sleep(0.1)
            if not ready:
                awaited = {member.group_id for member in waiting}
                for member in members:
                    if member.group_id in awaited and member not in waiting:
                        member.send_join()
                        waiting.add(member)
    if len({(m.group_id, m.generation) for m in members}) != len({m.group_id for m in members}):
        raise BenchError("the members of a group did not meet in one generation")


def sync_all(members: Sequence[Member], assignment: bytes = b"") -> None:
    """Give every member of a generation the same assignment."""
    groups: dict[str, list[str]] = {}
    for member in members:
        groups.setdefault(member.group_id, []).append(member.member_id)
    leaders = [m for m in members if m.member_id == m.leader_id]
    for follower in members:
        if follower.member_id != follower.leader_id:
            follower.send_sync([])
    # The mock cluster takes no SyncGroup any more once the leader's has arrived.
    time.sleep(SETTLES_SECONDS)
    for leader in leaders:
        leader.send_sync(groups[leader.group_id], assignment)
    for member in members:
        member.receive_sync()


class Crowd:
    """Groups whose members stay connected, and rebalance as often as they are told to."""

    def __init__(self, server: Server, members: int, size: int) -> None:
        name = uuid.uuid4()
        self._members = [Member(server, f"rebalanced-{name}-{number // size}") for number in range(members)]
        join_all(self._members)
        sync_all(self._members)

    def rebalance(self) -> float:
        """Have each leader join again, and then all others; how long it took, in seconds."""
        began = time.perf_counter()
        leaders = [one for one in self._members if one.member_id == one.leader_id]
        followers = [one for one in self._members if one.member_id != one.leader_id]
        for leader in leaders:
            leader.send_join()
        time.sleep(SETTLES_SECONDS)  # who comes before the rebalance has begun is told the old generation
        for follower in followers:
            follower.send_join()
        for member in self._members:
            if error := member.receive_join():
                raise BenchError(f"JoinGroup of {member.group_id} answered error {error}")
        sync_all(self._members)
        return time.perf_counter() - began - 2 * SETTLES_SECONDS

    def connect(self) -> None:
        """Connect again after `close`."""
        for member in self._members:
            member.connect()

    def close(self) -> None:
        """Close the connections; the members stay in their groups."""
        for member in self._members:
            member.close()


def form_groups(
    server: Server,
    connections: int,
    size: int = MEMBERS_PER_GROUP,
    prefix: str = "bench-group",
    assignment: bytes = b"",
    where: Callable[[str], bool] = lambda group_id: True,
) -> list[Identity]:
    """Form as many groups of up to ``size`` members as give each connection a member, with the same assignment.

    ``where`` says of a group's id whether the server coordinates it.

    Raises:
        BenchError: the server refused or did not answer.
    """
    ids = list(islice(filter(where, (f"{prefix}-{number:06d}" for number in count())), -(-connections // size)))
    if server.name == "bare":
        return [Identity(ids[i // size], f"bench-{uuid.UUID(int=i)}", 1) for i in range(connections)]
    members: list[Member] = []
    try:
        for i in range(connections):
            members.append(Member(server, ids[i // size]))
            members[-1].check_versions()
        join_all(members)
        sync_all(members, assignment)
    except OSError as error:
        raise BenchError(f"groups could not be formed: {error}") from error
    finally:
        for member in members:
            member.close()
    return [Identity(m.group_id, m.member_id, m.generation) for m in members]


def heartbeats(identities: Sequence[Identity]) -> Load:
    """Heartbeat v4 of each of them."""
    frames = []
    for identity in identities:
        header = struct.pack(">hhi", HEARTBEAT, HEARTBEAT_VERSION, 0) + _string("bench") + b"\0"
        body = compact(identity.group_id) + struct.pack(">i", identity.generation) + compact(identity.member_id)
        frames.append(header + body + b"\0\0")  # no group instance id, no tags
    return Load(frames, HEARTBEAT_RESPONSE_BYTES, HEARTBEAT_ERROR_AT)


def compact(text: str) -> bytes:
    """A compact string; ids of a benchmark are shorter than 127 bytes."""
    return bytes([len(text) + 1]) + text.encode()
