"""`ottla groups` with groups of the protocol ``consumer``, and `ottla groups migrate` of some."""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from ottla.clients import Consumer
from ottla.protocol.apis import ApiKey
from ottla.testing import Broker
from tests.support import members
from tests.support.client import Client
from tests.support.requests import consumer_heartbeat_fields
from tests.support.waiting import wait_for


@pytest.fixture
def broker(ottla_broker_factory: Callable[..., Broker]) -> Broker:
    return ottla_broker_factory(topics={"orders": 3}, settings={"group.consumer.assignment.interval.ms": 0})


@pytest.fixture
def modern(broker: Broker) -> Iterator[Callable[[str, str], None]]:
    """Let a member of the protocol ``consumer`` join, and read."""
    with ExitStack() as running:
        yield lambda group, client_id: running.enter_context(reading(broker, group, client_id))


@contextmanager
def reading(broker: Broker, group: str, client_id: str) -> Iterator[None]:
    stop = threading.Event()
    assigned = threading.Event()

    async def read() -> None:
        options = {"bootstrap_servers": broker.bootstrap_servers, "group_id": group, "client_id": client_id}
        async with Consumer("orders", group_protocol="consumer", **options) as consumer:
            while not stop.is_set():
                if consumer.assignment():
                    assigned.set()
                await consumer.getmany(timeout_ms=20)

    thread = threading.Thread(target=asyncio.run, args=(read(),))
    thread.start()
    try:
        wait_for(assigned.is_set, f"{client_id} to get partitions")
        yield
    finally:
        stop.set()
        thread.join()


def test_a_timeline_has_epochs(ottla: Any, modern: Any) -> None:
    modern("billing", "one")
    assert re.match(r"billing: Stable, epoch 2, 1 rebalance, ", ottla.run("timeline", "billing").stdout)


def test_list_and_describe(ottla: Any, modern: Any, join: Any) -> None:
    modern("billing", "one")
    join("old", "two")
    assert ottla.rows("groups", "list") == [
        ["GROUP", "STATE", "TYPE", "MEMBERS", "ASSIGNOR"],
        ["billing", "Stable", "consumer", "1", "uniform"],
        ["old", "Stable", "classic", "1", "range"],
    ]
    assert [row["group"] for row in ottla.json("groups", "list", "--type", "consumer")] == ["billing"]
    assert ottla.json("groups", "list", "--type", "classic", "--state", "empty") == []
    assert ottla.rows("groups", "list", "--type", "classic") == [
        ["GROUP", "STATE", "TYPE", "MEMBERS", "ASSIGNOR"],
        ["old", "Stable", "classic", "1", "range"],
    ]
    text = ottla.run("groups", "describe", "billing").stdout
    assert text.startswith(
        "Group billing: Stable, 1 member, type consumer, assignor uniform, group epoch 2, assignment epoch 2, coord"
    )
    assert "one     127.0.0.1  orders 0-2      2" in text
    (found,) = ottla.json("groups", "describe", "billing")
    (member,) = found["members"]
    assert (found["type"], found["group_epoch"], found["assignment_epoch"]) == ("consumer", 2, 2)
    assert (member["protocol"], member["member_epoch"], member["behind"]) == ("consumer", 2, None)
    assert member["target_assignment"] == member["assignment"]


def test_who_is_behind_and_why(ottla: Any, broker: Broker) -> None:
    """A member that does not give up what it shall is named, wherever the group is looked at."""
    client = Client(broker.port)
    first = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_heartbeat_fields("g", "a", names=["orders"]))
    assert first.error_code == 0
    client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_heartbeat_fields("g", "b", names=["orders"]))
    client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_heartbeat_fields("g", "a", first.member_epoch))
    (found,) = ottla.json("groups", "describe", "g")
    words = {one["member_id"]: one["behind"] for one in found["members"]}
    assert found["state"] == "Reconciling"
    assert "has not given up orders" in words["a"]
    assert "waits for orders" in words["b"]
    in_vain = ottla.run("groups", "wait", "g", "--timeout", "0ms", expect=1).stderr
    assert "Reconciling, 2 members, " in in_vain and "has not given up orders" in in_vain
    assert "has not given up orders" in ottla.run("groups", "describe", "g").stdout
    client.close()


def test_why_a_stable_group_has_no_partitions(ottla: Any, broker: Broker) -> None:
    """Its topic does not exist, or its regex matches nothing."""
    client = Client(broker.port)

    def beat(group: str, epoch: int = 0, *names: str, regex: str | None = None) -> int:
        fields = consumer_heartbeat_fields(group, "a", epoch, names=None if epoch else names)
        answer = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields, subscribed_topic_regex=regex)
        return int(answer.member_epoch)

    beat("typo", 0, "ordrs")
    beat("regex", regex="evnets-.*")
    said = ottla.run("groups", "describe", "typo", "--state").stdout.splitlines()
    assert said[1:] == ["Topic 'ordrs', to which peer subscribed, does not exist. Did you mean 'orders'?"]
    assert ottla.json("groups", "describe", "typo")[0]["missing_topics"] == [
        {"topic": "ordrs", "did_you_mean": "orders"}
    ]
    said = ottla.run("groups", "describe", "regex", "--members").stdout
    assert "subscribed to evnets-.*: no topic matches it. It has to match the whole name of a topic.\n" in said
    epoch = beat("reads", regex="ord.*")
    wait_for(lambda: beat("reads", epoch) > epoch, "the regex to be resolved")
    assert "By regex: peer subscribed to ord.*.\n" in ottla.run("groups", "describe", "reads").stdout
    client.close()


@pytest.mark.parametrize(
    ("reads", "idles", "missed", "whose"),
    [
        ("a", "b", "orders 1-2", "they are in the target of idles, which did not subscribe"),
        ("b", "a", "orders 0-2", "no target has them"),
    ],
)
def test_partitions_that_stay_without_an_owner(
    reads: str, idles: str, missed: str, whose: str, ottla: Any, broker: Broker
) -> None:
    """Who comes by another regex while a target waits for its interval spoils that, here as in Apache Kafka.

    What comes of it depends on the ids of the members.
    """
    interval = "consumer.assignment.interval.ms=2000"
    ottla.run("configs", "alter", "g", "--entity-type", "groups", "--add-config", interval)
    broker.clock.freeze()
    clients = {reads: Client(broker.port, client_id="reads"), idles: Client(broker.port, client_id="idles")}
    epochs = {reads: 0, idles: 0}

    def beat(member_id: str, regex: str | None = None) -> None:
        fields = consumer_heartbeat_fields("g", member_id, epochs[member_id], names=None if regex is None else ())
        answer = clients[member_id].call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields, subscribed_topic_regex=regex)
        epochs[member_id] = answer.member_epoch

    def described() -> Any:
        return ottla.json("groups", "describe", "g")[0]

    beat(reads, "ord.*")
    wait_for(lambda: described()["state"] == "Assigning", "the regex of reads to be resolved")
    broker.clock.advance(seconds=11)
    beat(idles, "nothing.*")
    for member_id in (reads, idles, reads, idles):
        beat(member_id)
    said = ottla.run("groups", "describe", "g", "--members").stdout
    assert f"Nobody reads {missed}, to which reads subscribed: {whose}. If that lasts, stop " in said
    assert ("does not get orders 1-2" in said) == ("idles" in whose)
    assert "By regex: reads subscribed to ord.*.\n" in said
    found = described()
    assert found["state"] == "Stable"
    for client in clients.values():
        client.close()


def test_a_member_tells_what_it_still_has(ottla: Any, broker: Broker) -> None:
    """`ottla consume` gives partitions up to a member that comes, and says epoch."""

    def at(epoch: int) -> bool:
        members = ottla.json("groups", "list") and ottla.json("groups", "describe", "g")[0]["members"]
        return any(one["client_id"].startswith("ottla-consume") and one["member_epoch"] == epoch for one in members)

    options = ("-G", "g", "--group-protocol", "consumer", "--from-beginning", "-c", "1")
    with ottla.spawn("consume", "orders", *options, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as consume:
        wait_for(lambda: at(2), "`ottla consume` to join")
        client = Client(broker.port)
        client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_heartbeat_fields("g", "b", names=["orders"]))
        wait_for(lambda: at(3), "`ottla consume` to give partitions up")
        client.close()
        for partition in range(3):
            broker.produce("orders", b"x", partition=partition)
        told = consume.communicate(timeout=30)[1].decode()
    assert told.startswith("Assigned in epoch 2: orders 0, 1, 2\n")
    moved = re.search(r"^Given up: orders (.+)\nAssigned in epoch 2: nothing more; still has orders (.+)$", told, re.M)
    assert moved is not None, told
    assert sorted(", ".join(moved.groups()).split(", ")) == ["0", "1", "2"]


def test_verbs_on_such_a_group(ottla: Any, broker: Broker) -> None:
    ottla.send("orders", b"1\n2\n3\n", "-p", "0")
    read = ottla.read("orders", "-G", "g", "--group-protocol", "consumer", "--from-beginning", "-c", "3")
    assert read.count(b"\n") == 3
    ottla.run("groups", "wait", "g", "--state", "Empty", "--lag", "0")
    (found,) = ottla.json("groups", "describe", "g")
    assert found["type"] == "consumer"
    ottla.run("groups", "reset-offsets", "g", "-t", "orders:0", "--to-earliest", "--execute")
    ottla.run("groups", "delete", "g")
    assert ottla.json("groups", "list") == []


def test_a_member_can_be_evicted(ottla: Any, broker: Broker) -> None:
    """By its id, which may begin with a dash, or its client id, unless several have that."""
    client = Client(broker.port)
    dashed = "-uXXZUeVQ2-bY0lTlXo_Rw"

    for member_id in ("a", dashed):
        fields = consumer_heartbeat_fields("g", member_id, names=["orders"])
        assert client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields).error_code == 0
    refused = ottla.run("groups", "evict", "g", "peer", expect=1).stderr
    assert "several members with the client id 'peer'" in refused and f"  {dashed} (peer on 127.0.0.1)" in refused
    ottla.run("groups", "evict", "g", dashed, "--reason", "tried")
    assert [one["member_id"] for one in ottla.json("groups", "describe", "g")[0]["members"]] == ["a"]
    ottla.run("groups", "evict", "g", "peer")
    assert ottla.json("groups", "describe", "g")[0]["members"] == []
    assert "No such option" in ottla.run("groups", "evict", "g", "-u", expect=2).stderr
    client.close()


def test_a_static_member_can_be_evicted_while_it_is_away(ottla: Any, broker: Broker) -> None:
    client = Client(broker.port)
    for epoch, names in ((0, ["orders"]), (-2, None)):
        fields = consumer_heartbeat_fields("g", "a", epoch, names=names, instance="shelf-1")
        assert client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields).error_code == 0
    refused = ottla.run("groups", "evict", "g", "shelf-2", expect=1).stderr
    assert "a (peer on 127.0.0.1, group.instance.id shelf-1)" in refused
    said = ottla.run("groups", "evict", "g", "shelf-1").stdout
    assert said == "Removed member 'shelf-1' from group 'g'.\n"
    assert ottla.json("groups", "describe", "g")[0]["members"] == []
    client.close()


def test_a_protocol_needs_a_group(ottla: Any) -> None:
    refused = ottla.run("consume", "orders", "--group-protocol", "consumer", expect=2)
    assert "name it with --group" in refused.stderr


# -- migrations


@pytest.mark.parametrize("kind", ["confluent", "ottla"])
def test_a_group_in_which_librdkafka_will_be_in_the_way(kind: str, ottla: Any, broker: Broker) -> None:
    """Its cooperative-sticky adds data to assignments, but not yet to those of the first generation."""
    options = {"session_timeout_ms": 45_000, "assignor": "cooperative-sticky"}
    one = members.member(members.Role(kind, broker.bootstrap_servers, "g", ("orders",), "k1", **options))
    one.start()
    try:
        wait_for(lambda: one.changes, "k1 to join", show=lambda: one)
        found = ottla.json("groups", "migrate", "g")
    finally:
        one.stop()
    if kind == "confluent":
        assert " may use librdkafka" in " ".join(found["in_the_way"])
        assert found["next"][0].startswith(
            "Stop all members, and start them with group.protocol=consumer: nobody reads"
        )
    else:
        assert found["in_the_way"] == [] and found["next"][0].startswith("Restart k1 on ")


def test_migrate_asks_the_broker(ottla: Any, modern: Any) -> None:
    modern("billing", "one")
    found = ottla.json("groups", "migrate", "billing")
    assert (found["phase"], found["classic_members"], found["consumer_members"]) == ("consumer", 0, 1)
    text = ottla.run("groups", "migrate", "billing").stdout
    assert text.startswith("Group billing: consumer, Stable, 1 consumer member, policy ")
    assert "\n  Done: All members speak the protocol consumer.\n  Back: Restart one on " in text
    assert "Next:" not in text
    assert "There is no group 'nope'." in ottla.run("groups", "migrate", "nope", expect=1).stderr


def test_an_empty_group_is_of_the_type_that_the_list_has(ottla: Any) -> None:
    ottla.send("orders", b"1\n", "-p", "0")
    ottla.read("orders", "-G", "g", "--group-protocol", "consumer", "--from-beginning", "-c", "1")
    ottla.run("groups", "wait", "g", "--state", "Empty")
    assert ottla.run("groups", "migrate", "g").stdout.startswith("Group g: consumer, Empty, no members, policy ")


def test_a_group_that_loses_a_member_while_it_is_watched(ottla: Any, broker: Broker) -> None:
    client = Client(broker.port)

    def beat(member_id: str, epoch: int = 0) -> int:
        names = ["nothing-yet"] if epoch == 0 else None
        fields = consumer_heartbeat_fields("g", member_id, epoch, names=names)
        return int(client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields).member_epoch)

    first = beat("stays")
    beat("goes")
    epoch = beat("stays", first)
    with ottla.spawn("groups", "migrate", "g", "--watch", "--interval", "100ms", stdout=subprocess.PIPE) as watching:
        try:
            lines = iter(watching.stdout.readline, b"")
            assert any(b"Done: All members speak" in line for line in lines)
            ottla.run("groups", "evict", "g", "goes")
            beat("stays", epoch)
            said = next(line for line in lines if b"Done:" in line or b"1 member left and is not back." in line)
            assert b"In the way" in said
        finally:
            watching.kill()
    client.close()
