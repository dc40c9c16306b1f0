"""Lines to other nodes: what goes together, what comes of silence, and when connections are made and closed."""

import asyncio

import pytest

from ottla.broker.runtime import peers as subject
from ottla.broker.runtime.peers import BACKOFF_MAX_MS, BACKOFF_MS, IDLE_MS, Kind, Peers
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.protocol.sasl.exchange import AuthenticationFailed
from tests.shell.host import Clock, Log

VERSION = 4
LOUDLY = Kind(
    ApiKey.LIST_GROUPS,
    VERSION,
    lambda words: ListGroupsRequest(states_filter=list(words)),
    lambda words, answer: [group.group_id for group in answer.groups],
    most=3,
)
"""Words that come back in capitals."""


class Connection:
    def __init__(self, node):
        self.node, self.is_open = node, True

    async def ask(self, key, version, body):
        words = ListGroupsRequest.layout(version).decode(body).states_filter
        self.node.asked.append(words)
        await self.node.free.wait()
        if self.node.error is not None:
            raise self.node.error
        answer = ListGroupsResponse(groups=[ListedGroup(group_id=word.upper()) for word in words])
        return ListGroupsResponse.layout(version).encode(answer)

    def close(self):
        self.is_open = False


class Node:
    """Another node, and the way to it.

    Attributes:
        error: what comes in the place of an answer. refusal: in that of a connection.
        free: while it is not set, nothing is answered.
    """

    def __init__(self):
        self.clock, self.log = Clock(), Log()
        self.endpoint = "b", 9093
        self.connections, self.asked, self.told = [], [], []
        self.error = self.refusal = None
        self.free = asyncio.Event()
        self.free.set()
        self.peers = Peers(self._connect, lambda node_id: self.endpoint, self.clock, self.log)

    async def _connect(self, host, port):
        if self.refusal is not None:
            raise self.refusal
        self.connections.append(Connection(self))
        return self.connections[-1]

    def ask(self, *words, kind=LOUDLY):
        for word in words:
            self.peers.ask(2, kind, word, self.told.append)

    async def answers(self, *words):
        """Ask, and give what was told since the last time."""
        self.ask(*words)
        for _ in range(20):
            await asyncio.sleep(0)
        told = list(self.told)
        self.told.clear()
        return told

    @property
    def open(self):
        return [connection.is_open for connection in self.connections]


@pytest.fixture
async def node():
    return Node()


async def test_the_questions_of_a_turn_go_together(node):
    assert await node.answers("a", "b") == ["A", "B"]
    assert node.asked == [["a", "b"]]


async def test_while_one_is_open_the_next_ones_gather(node):
    node.free.clear()
    assert await node.answers("a") == []
    for word in "bcde":
        await node.answers(word)
    node.free.set()
    assert await node.answers() == ["A", "B", "C", "D", "E"]
    assert node.asked == [["a"], ["b", "c", "d"], ["e"]]
    assert node.open == [True]


async def test_kinds_do_not_wait_for_each_other(node):
    node.free.clear()
    await node.answers("a")
    node.ask("b", kind=LOUDLY._replace(key=ApiKey.DESCRIBE_GROUPS))
    await node.answers()
    assert len(node.connections) == 2


@pytest.mark.parametrize(
    "error", [ConnectionResetError("reset"), EOFError("no more"), MalformedFrame("nonsense"), KeyError("a bug")]
)
async def test_who_hears_nothing_hears_so_once(node, error):
    node.error = error
    assert await node.answers("a", "b") == [None, None]
    assert node.asked == [["a", "b"]]
    assert node.open == [False]


async def test_an_answer_that_takes_too_long_is_none(node, monkeypatch):
    monkeypatch.setattr(subject, "TIMEOUT_MS", 1)
    node.free.clear()
    node.ask("a")
    async with asyncio.timeout(5):
        while not node.told:  # noqa: ASYNC110 - it is a matter of time
            await asyncio.sleep(0.001)
    assert node.told == [None]
    assert node.open == [False]


@pytest.mark.parametrize("refusal", [ConnectionRefusedError("refused"), AuthenticationFailed("who are you?")])
async def test_nobody_knocks_too_often(node, refusal):
    node.refusal = refusal
    pause_ms = BACKOFF_MS
    for _ in range(8):
        assert await node.answers("a") == [None]
        node.clock.advance(pause_ms - 1)
        node.refusal = AssertionError("too early")
        assert await node.answers("b") == [None]
        node.clock.advance(1)
        node.refusal = refusal
        pause_ms = min(2 * pause_ms, BACKOFF_MAX_MS)
    assert pause_ms == BACKOFF_MAX_MS
    fields = {"node": 2, "api": "LIST_GROUPS", "reason": str(refusal)}
    assert node.log.lines == [("Another node does not answer", fields)]


async def test_whoever_answers_again_is_told_of_anew(node):
    for _ in range(2):
        node.refusal = ConnectionRefusedError("refused")
        assert await node.answers("a") == [None]
        node.clock.advance(BACKOFF_MS)
        node.refusal = None
        assert await node.answers("a") == ["A"]
        node.connections[-1].close()
    assert node.log.events == ["Another node does not answer"] * 2


async def test_a_node_that_is_not_up_is_not_asked(node):
    node.endpoint = None
    assert await node.answers("a") == [None]
    assert node.connections == []
    node.endpoint = "b", 9093
    assert await node.answers("a") == ["A"]


async def test_a_node_that_is_elsewhere_now_is_connected_to_there(node):
    await node.answers("a")
    node.endpoint = "b", 9094
    assert await node.answers("a") == ["A"]
    assert node.open == [False, True]


async def test_a_connection_that_was_closed_is_made_anew(node):
    await node.answers("a")
    node.connections[0].close()
    assert await node.answers("a") == ["A"]
    assert node.log.lines == []


async def test_a_connection_without_use_is_closed(node):
    await node.answers("a")
    node.clock.advance(IDLE_MS - 1)
    await node.answers("b")
    node.clock.advance(IDLE_MS - 1)
    assert node.open == [True]
    node.clock.advance(1)
    assert node.open == [False]


async def test_a_bug_of_one_does_not_keep_the_others_from_their_answers(node):
    def broken(answer):
        raise ZeroDivisionError

    node.peers.ask(2, LOUDLY, "a", broken)
    assert await node.answers("b") == ["B"]
    assert node.log.events == ["the answer of another node could not be used"]


async def test_whoever_waits_at_the_end_hears_that_nothing_comes(node):
    node.free.clear()
    await node.answers("a")
    await node.answers("b")
    await node.peers.stop()
    assert await node.answers("c") == [None, None, None]
    assert node.open == [False]
