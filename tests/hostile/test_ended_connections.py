"""Clients that send damaged frames on many connections and end their side: no connection outlives what it waits for.

Linux shows such connections in CLOSE_WAIT. A JoinGroup is answered all the same, as the client may wait for it: in a
group whose members are gone that takes until their sessions end (docs/decisions/0004-half-closed-connections.md).
"""

from __future__ import annotations

import select
import socket
import time
from random import Random

import pytest

from ottla.protocol.apis import ApiKey
from ottla.testing import BrokerProcess
from tests.hostile.fuzz_requests import CALLS
from tests.support.client import Client
from tests.support.requests import join_fields, request
from tests.support.rules import WITH_RULES
from tests.wire.requests import World

SEED = 20261123
CONNECTIONS = 400
SESSION_MS = 500
PATIENCE_S = 60


@pytest.mark.e2e
def test_damaged_frames_leave_no_connection_behind() -> None:
    rng = Random(SEED)
    settings = {
        **WITH_RULES,
        "group.min.session.timeout.ms": 1,
        "group.max.session.timeout.ms": SESSION_MS,
        "group.initial.rebalance.delay.ms": 0,
    }
    with BrokerProcess(settings=settings) as broker, Client(broker.port) as peer:
        frames = whole_frames(peer)
        left = {}
        for _ in range(CONNECTIONS):
            data = bytearray(rng.choice(frames))
            for _ in range(rng.choice((0, 1, 1, 2, 8))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            client = socket.create_connection(("127.0.0.1", broker.port))
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            client.setblocking(False)
            left[client] = bytes(data)
        await_ends(left)
        assert not left, f"seed {SEED}: {[data.hex() for data in left.values()]}"


def whole_frames(peer: Client) -> list[bytes]:
    """A frame of every API and version; as many join one group whose members never come back."""
    world = World(peer)
    frames = []
    for key, version in CALLS:
        if key is ApiKey.JOIN_GROUP:
            fields = join_fields("left") | {"session_timeout_ms": SESSION_MS}
            frames += [peer.frame(key, version, request(key, fields))] * 20
        elif key not in (ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS):
            frames.append(peer.frame(key, version, world.minimal(key, version)))
    return frames


def await_ends(left: dict[socket.socket, bytes]) -> None:
    """Take out those that the broker closes, until there are none or it takes too long."""
    poll = select.poll()
    by_number = {client.fileno(): client for client in left}
    for number in by_number:
        poll.register(number, select.POLLIN)
    deadline = time.monotonic() + PATIENCE_S
    while left and time.monotonic() < deadline:
        for number, _ in poll.poll(100):
            client = by_number[number]
            try:
                is_over = not client.recv(1 << 16)
            except ConnectionError:
                is_over = True
            if is_over:
                poll.unregister(number)
                del left[client]
                client.close()
