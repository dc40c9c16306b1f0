"""What a broker does again and again leaves no objects that refer to each other in a circle.

`ottla serve` does not look for such garbage among objects that are old (`cli/garbage.py` says why).
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from ottla.cli import garbage
from ottla.protocol.apis import ApiKey
from ottla.testing import Broker
from tests.support.client import Client, batch
from tests.support.group_member import GroupMember

pytestmark = pytest.mark.e2e
ROUNDS = 20


@pytest.fixture(scope="module", params=["memory", "disk"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    where = tmp_path_factory.mktemp("data") if request.param == "disk" else None
    with Broker(topics={"t": 2}, data_dir=where) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.port, "rounds") as connected:
        yield connected


@pytest.fixture
def member(client: Client) -> GroupMember:
    one = GroupMember(client.ask, "g")
    settled(one)
    return one


def settled(member: GroupMember) -> None:
    """Have it join and sync, as often as it takes."""
    while not member.learn(member.join()):
        pass
    assert member.sync({member.member_id: b""}).error_code == 0


def left_behind(work: Callable[[], object]) -> dict[str, int]:
    """The types of objects that only refer to each other, by their number, each time that something was done."""
    work()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(ROUNDS):
            work()
        gc.collect()
        found = Counter(type(one).__name__ for one in gc.garbage)
        return {name: count for name, count in found.items() if count >= ROUNDS}  # timers leave something now and then
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_heartbeats(client: Client, member: GroupMember) -> None:
    assert not left_behind(member.heartbeat)
    member.leave()


def test_commits_of_members_and_of_nobody(client: Client, member: GroupMember) -> None:
    assert not left_behind(lambda: member.commit([("t", 0, 1), ("t", 1, 2)]))
    member.leave()
    assert not left_behind(lambda: client.commit("offsets-alone", "t", 7))


def test_members_that_join_and_leave(client: Client) -> None:
    def come_and_go() -> None:
        one = GroupMember(client.ask, "comes-and-goes")
        settled(one)
        settled(one)
        one.leave()

    assert not left_behind(come_and_go)


def test_produce_fetch_and_descriptions(client: Client, member: GroupMember) -> None:
    data = batch()
    assert not left_behind(lambda: client.produce("t", data))
    assert not left_behind(lambda: client.fetch("t"))
    assert not left_behind(lambda: client.fetch("t", 1 << 40))
    assert not left_behind(lambda: client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"]))
    assert not left_behind(lambda: client.call(ApiKey.LIST_GROUPS, 4))
    assert not left_behind(client.metadata)
    member.leave()


def test_connections_that_come_and_go(broker: Broker) -> None:
    def come_and_go() -> None:
        with Client(broker.port, "passes by") as one:
            member = GroupMember(one.ask, "passes-by")
            settled(member)
            member.leave()

    assert not left_behind(come_and_go)


def test_what_is_old_is_frozen_and_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(gc, "collect", done.append)
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
    for survivals in (0, 1, 2):
        monkeypatch.setattr(gc, "get_count", lambda survivals=survivals: (0, 0, survivals))
        garbage.settle()
    assert done == [1, "freeze"] * 2


def test_a_circle_is_found() -> None:
    def work() -> None:
        one: list[object] = []
        one.append(one)

    assert left_behind(work) == {"list": ROUNDS}
