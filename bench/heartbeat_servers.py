"""The servers of the heartbeat benchmark, the groups on them, and the generator that loads them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMANDS = {
    "bare": [sys.executable, str(HERE / "bare_server.py")],
    "mock": [sys.executable, str(HERE / "mock_server.py")],
    "ottla": [
        *(sys.executable, "-m", "ottla.cli.main", "serve", "--listen", "127.0.0.1:0", "--ephemeral"),
        # Long enough for all members of a group to join its first generation.
        *("--set", "group.initial.rebalance.delay.ms=1000"),
    ],
}
MEMBERS_PER_GROUP = 20
SESSION_TIMEOUT_MS = 1_800_000
"""Kafka's largest (group.max.session.timeout.ms): nobody expires while another server has its turn."""
START_SECONDS = 20.0
STOP_SECONDS = 5.0
WARM_UP_SECONDS = 0.5
PATIENCE_SECONDS = 30.0

API_VERSIONS, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 18, 11, 12, 14
HEARTBEAT_VERSION = 4
MEMBER_ID_REQUIRED = 79
NOT_READY = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: ask again."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What one connection heartbeats as."""

    group_id: str
    member_id: str
    generation: int


@dataclass(slots=True)
class Server:
    """A running server process and where it listens."""

    name: str
    pid: int
    host: str
    port: int
    identities: list[Identity] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Run:
    """What the generator measured in one run; see heartbeat_load.c."""

    responses: int
    seconds: float
    per_second: float
    p50_us: float
    p99_us: float
    errors: int
    first_error: int
    server_cpu_seconds: float
    generator_cpu_seconds: float
    server_waited_seconds: float
    generator_waited_seconds: float

    @property
    def cpu_us(self) -> float:
        """Server CPU in microseconds per heartbeat."""
        return self.server_cpu_seconds / self.responses * 1e6


class BenchError(Exception):
    """A server could not be started or measured."""


def _string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class Member:
    """One connection that takes one member through JoinGroup v5 and SyncGroup v3."""

    def __init__(self, server: Server, group_id: str) -> None:
        self._socket = socket.create_connection((server.host, server.port), timeout=PATIENCE_SECONDS)
        self._correlation_id = 0
        self.group_id = group_id
        self.member_id = ""
        self.leader_id = ""
        self.generation = -1
        self.member_ids: list[str] = []

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
        self.send(JOIN_GROUP, 5, body + struct.pack(">i", 1) + _string("range") + _bytes(b""))

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

    def send_sync(self, member_ids: Sequence[str]) -> None:
        """Ask for the assignment; the leader brings an empty one for everybody."""
        body = _string(self.group_id) + struct.pack(">i", self.generation) + _string(self.member_id)
        body += _string(None) + struct.pack(">i", len(member_ids))
        self.send(SYNC_GROUP, 3, body + b"".join(_string(name) + _bytes(b"") for name in member_ids))

    def receive_sync(self) -> None:
        """Take the answer to a SyncGroup."""
        if error := struct.unpack_from(">h", self.receive(), 4)[0]:
            raise BenchError(f"SyncGroup of {self.group_id} answered error {error}")

    def close(self) -> None:
        """Close the connection; the member stays in its group."""
        self._socket.close()


def join_all(members: Sequence[Member]) -> None:
    """Bring every member into its group's first generation."""
    waiting = list(members)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while waiting:
        for member in waiting:
            member.send_join()
        errors = [(member, member.receive_join()) for member in waiting]
        waiting = [member for member, error in errors if error]
        for member, error in errors:
            if error and (error not in NOT_READY | {MEMBER_ID_REQUIRED} or time.monotonic() > deadline):
                raise BenchError(f"JoinGroup of {member.group_id} answered error {error}")
        if any(error in NOT_READY for _, error in errors):
            time.sleep(0.1)
    if len({(m.group_id, m.generation) for m in members}) != len({m.group_id for m in members}):
        raise BenchError("the members of a group did not meet in one generation")


def form_groups(server: Server, connections: int) -> list[Identity]:
    """Form as many groups of up to MEMBERS_PER_GROUP members as give each connection a member.

    Raises:
        BenchError: the server refused or did not answer.
    """
    if server.name == "bare":
        return [
            Identity(f"bench-group-{i // MEMBERS_PER_GROUP}", f"bench-{uuid.UUID(int=i)}", 1)
            for i in range(connections)
        ]
    members: list[Member] = []
    try:
        for i in range(connections):
            members.append(Member(server, f"bench-group-{i // MEMBERS_PER_GROUP}"))
            members[-1].check_versions()
        join_all(members)
        leaders = [m for m in members if m.member_id == m.leader_id]
        followers = [m for m in members if m.member_id != m.leader_id]
        for follower in followers:
            follower.send_sync([])
        # The mock cluster takes no SyncGroup any more once the leader's has arrived.
        time.sleep(0.3)
        for leader in leaders:
            leader.send_sync([m.member_id for m in members if m.group_id == leader.group_id])
        for member in members:
            member.receive_sync()
    except OSError as error:
        raise BenchError(f"groups could not be formed: {error}") from error
    finally:
        for member in members:
            member.close()
    return [Identity(m.group_id, m.member_id, m.generation) for m in members]


def compile_generator() -> Path:
    """Compile heartbeat_load.c if it changed; returns the program's path."""
    source, program = HERE / "heartbeat_load.c", HERE / ".build" / "heartbeat_load"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(exist_ok=True)
        subprocess.run(["cc", "-O2", "-Wall", "-o", str(program), str(source)], check=True)
    return program


def pinned(core: int | None) -> Callable[[], None] | None:
    """What a child process calls before it starts, so that all its threads stay on one core."""
    return None if core is None else lambda: os.sched_setaffinity(0, {core})


@contextlib.contextmanager
def running(name: str, core: int | None) -> Iterator[Server]:
    """Start a server in a process of its own, on one core if given, and end it afterwards.

    Raises:
        BenchError: it did not print its address in time.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            COMMANDS[name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            preexec_fn=pinned(core),
        )
        assert process.stdout is not None and process.stdin is not None
        try:
            overdue = threading.Timer(START_SECONDS, process.kill)
            overdue.start()
            address = re.fullmatch(r"(.+):(\d+)\n", process.stdout.readline())
            overdue.cancel()
            if address is None:
                process.kill()
                process.wait()
                log.seek(0)
                tail = log.read().decode(errors="replace").strip().splitlines()[-1:]
                raise BenchError(f"{name} did not start: {''.join(tail)}")
            yield Server(name, process.pid, address[1], int(address[2]))
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def measure(
    generator: Path, server: Server, connections: int, window: int, seconds: float, core: int | None, pace_us: int
) -> Run:
    """Put one load on one server; the generator runs on `core` if given.

    Raises:
        BenchError: the server closed a connection, stopped answering, or answered an error.
    """
    figures = (connections, window, WARM_UP_SECONDS, seconds, server.pid, pace_us)
    done = subprocess.run(
        [str(generator), server.host, str(server.port), *map(str, figures)],
        input="".join(f"{i.group_id} {i.member_id} {i.generation}\n" for i in server.identities),
        capture_output=True,
        text=True,
        preexec_fn=pinned(core),
    )
    if done.returncode:
        raise BenchError(f"{server.name}, {connections:,} at once: {done.stderr.strip()}")
    run = Run(**json.loads(done.stdout))
    if run.errors or not run.responses:
        raise BenchError(f"{server.name}, {connections:,} at once: {run.errors} errors, first {run.first_error}")
    return run


def choose_cores() -> tuple[int | None, int | None]:
    """A core for the server and one for the generator, not two threads of one core if that can be had."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return None, None
    server = cores[-1]
    siblings = Path(f"/sys/devices/system/cpu/cpu{server}/topology/thread_siblings_list")
    taken: set[int] = set()
    with contextlib.suppress(OSError):
        for part in siblings.read_text().strip().split(","):
            first, _, last = part.partition("-")
            taken.update(range(int(first), int(last or first) + 1))
    return server, next((core for core in cores if core not in taken), cores[0])
