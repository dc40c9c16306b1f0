"""The listener of the other nodes: who comes by it, and what he may do."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from ottla.broker.app import Broker
from ottla.broker.core.security.authorizer import STANDARD_AUTHORIZER
from ottla.broker.endpoints import BETWEEN_NODES
from ottla.broker.runtime.mechanisms import NODE_MECHANISM, node_exchange, node_password
from ottla.broker.setting_sources import load
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import TopicWithIndexes
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
from ottla.protocol.sasl.exchange import AuthenticationFailed
from tests.support.peer import Peer

MARKER = WritableTxnMarker(
    producer_id=7,
    producer_epoch=0,
    transaction_result=True,
    topics=[TopicWithIndexes(name="orders", partition_indexes=[0])],
    coordinator_epoch=0,
)


def log_in(peer: Peer, node_id: int, password: str) -> str:
    """Come as a node does; gives why not, or nothing."""
    words = NODE_MECHANISM.words
    assert peer.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=words)).error_code == 0
    exchange = node_exchange(node_id, password)
    token: bytes | None = exchange.first()
    while token is not None:
        answer = peer.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            return str(answer.error_message)
        token = exchange.answer(answer.auth_bytes)
    return ""


def new_broker(password: str | None) -> Broker:
    settings = load({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}).settings
    return Broker(settings, directory=None, node_password=password)


def marked(peer: Peer) -> int:
    """What a broker says to the end of a transaction."""
    answer = peer.ask(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[MARKER]))
    return int(answer.markers[0].topics[0].partitions[0].error_code)


async def test_nodes_come_by_a_listener_of_their_own() -> None:
    broker = new_broker("secret")
    await broker.start()
    try:
        door = broker.between_nodes
        assert door is not None
        assert (door.name, door.host) == (BETWEEN_NODES, "127.0.0.1")
        assert BETWEEN_NODES not in [one.name for one in broker.endpoints]

        def come() -> None:
            with Peer(door.port) as peer:
                assert log_in(peer, 2, "secret") == ""
                assert marked(peer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # and not CLUSTER_AUTHORIZATION_FAILED
                wanted = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
                created = peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[wanted], timeout_ms=1_000))
                assert created.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            with Peer(broker.port) as client:
                assert marked(client) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

        await asyncio.to_thread(come)
    finally:
        await broker.stop()


async def test_nobody_else_comes_by_it() -> None:
    broker = new_broker("secret")
    await broker.start()
    try:
        door = broker.between_nodes
        assert door is not None

        def come() -> None:
            with Peer(door.port) as peer:
                assert log_in(peer, 2, "another") != ""
            with Peer(door.port) as peer, pytest.raises(ConnectionError):
                marked(peer)

        await asyncio.to_thread(come)
    finally:
        await broker.stop()


async def test_a_broker_that_is_alone_has_none() -> None:
    broker = new_broker(None)
    await broker.start()
    await broker.stop()
    assert broker.between_nodes is None


def test_who_listens_at_the_port_of_a_node_learns_nothing() -> None:
    """A node that answers has to know the password, too."""
    exchange = node_exchange(1, "secret")
    nonce = exchange.first().rpartition(b"r=")[2]
    exchange.answer(b"r=" + nonce + b"X,s=c2FsdA==,i=4096")
    with pytest.raises(AuthenticationFailed):
        exchange.answer(b"v=AAAA")


def test_the_password_stays_and_is_nobody_elses_to_read(tmp_path: Path) -> None:
    password = node_password(tmp_path)
    assert node_password(tmp_path) == password
    assert stat.S_IMODE((tmp_path / "nodes.secret").stat().st_mode) == 0o600
