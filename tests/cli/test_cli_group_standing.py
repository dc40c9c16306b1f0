"""What is said of groups of the protocol ``consumer`` as they are described: how a migration stands, who is behind."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.group_migrate import standing
from ottla.cli.group_words import behind, still_to_do
from ottla.clients import GroupDescription, MemberDescription, TopicPartition
from ottla.clients.structs import BrokerInfo

AT = BrokerInfo(1, "127.0.0.1", 9092)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def member(client_id: str, protocol: str, *, user_data: bytes = b"", **more: Any) -> MemberDescription:
    return MemberDescription(
        f"{client_id}-id", None, client_id, "/10.0.0.1", ["t"], [], protocol, user_data=user_data, **more
    )


def group(*members: MemberDescription, kind: str = "consumer", state: str = "Stable", **more: Any) -> GroupDescription:
    assignor = more.pop("assignor", "mine")
    return GroupDescription("g", state, more.pop("protocol_type", "consumer"), assignor, [*members], AT, kind, **more)


OLD, OLDER, NEW = member("old", "classic"), member("older", "classic"), member("new", "consumer")
PYTHON = member("aiokafka-0.14.0", "classic")
JAVA = member("java", "classic", subscription_user_data=bytes(4))
OWN = member("own", "classic", user_data=b"x")


@pytest.mark.parametrize(
    ("described", "policy", "phase", "following"),
    [
        (group(kind="classic"), "bidirectional", "empty", "becomes what its first member speaks"),
        (group(kind="classic"), "disabled", "empty", "becomes what its first member speaks"),
        (group(OLD, kind="classic"), "bidirectional", "classic", "Restart old on 10.0.0.1 with group.protocol=c"),
        (group(OLD, kind="classic"), "Upgrade", "classic", "=consumer: it makes the group a consumer group."),
        (group(OLD, OLDER, kind="classic"), "upgrade", "classic", "by one: the first makes the group a consumer "),
        (group(OLD, PYTHON, kind="classic"), "upgrade", "classic", "aiokafka-0.14.0 on 10.0.0.1 may stay classic"),
        (
            group(OLD, kind="classic"),
            "upgrade",
            "classic",
            "Take session.timeout.ms, heartbeat.interval.ms and partition",
        ),
        (group(PYTHON, NEW), "upgrade", "mixed", "its client has no group.protocol. Members of both"),
        (group(OLD, NEW), "upgrade", "mixed", "A member may stay classic if its client has no group.protocol."),
        (group(JAVA, kind="classic", assignor="cooperative-sticky"), "upgrade", "classic", "Restart java on 10.0.0.1"),
        (group(OLD, NEW), "bidirectional", "mixed", "Restart old on 10.0.0.1 with group.protocol=consumer"),
        (group(OLD), "bidirectional", "mixed", "Restart old on 10.0.0.1 with group.protocol=consumer"),
    ],
)
def test_where_a_migration_stands(described: GroupDescription, policy: str | None, phase: str, following: str) -> None:
    found = standing(described, policy, "classic,consumer")
    assert (found.phase, found.in_the_way, found.done) == (phase, [], "")
    assert following in " ".join(found.next)
    assert (found.classic_members, found.consumer_members) == (
        sum(one.protocol == "classic" for one in described.members),
        sum(one.protocol == "consumer" for one in described.members),
    )


@pytest.mark.parametrize(
    ("described", "policy", "in_the_way", "out_of_it"),
    [
        (
            group(OLD, kind="classic"),
            "disabled",
            "policy is disabled: it refuses",
            "Restart the broker with group.consumer.migration.policy=bidirectional (or upgrade)",
        ),
        (
            group(OLD, kind="classic"),
            "downgrade",
            "policy is downgrade: it refuses",
            "while the broker runs. Or stop all",
        ),
        (
            group(OLD, kind="classic"),
            None,
            "The broker has no group.consumer.migration.policy",
            "Use a broker that has",
        ),
        (group(OLD, kind="classic", protocol_type="connect"), "upgrade", "of the type connect", ""),
        (
            group(OLD, OLDER),
            "downgrade",
            "policy is downgrade: the group becomes a classic one when a member leaves, and stays one.",
            "Restart the broker with group.consumer.migration.policy=bidirectional (or upgrade)",
        ),
        (
            group(OLD, OLDER, state="Assigning", group_epoch=4, assignment_epoch=3),
            "upgrade",
            "As all members are classic, no target is computed before somebody joins.",
            "Restart one of them, such as old on 10.0.0.1.",
        ),
        (
            group(OLD, NEW, state="Reconciling"),
            "upgrade",
            "is Reconciling",
            "Wait until it is Stable before you restart",
        ),
        (group(NEW, state="Reconciling"), "upgrade", "is Reconciling", "Stable; then the change is done."),
        (
            group(OWN, kind="classic"),
            "upgrade",
            "adds data of its own to the assignment of own on 10.0.0.1",
            "with partition.assignment.strategy=range,mine, one by one",
        ),
        (
            group(OWN, kind="classic", assignor="cooperative-sticky"),
            "upgrade",
            "adds data of its own to the assignment of own",
            "Stop all members",
        ),
        (
            group(JAVA, OLD, kind="classic", assignor="cooperative-sticky"),
            "upgrade",
            "old on 10.0.0.1 may use librdkafka",
            "Stop all members",
        ),
    ],
)
def test_what_is_in_the_way_and_how_it_gets_out_of_it(
    described: GroupDescription, policy: str | None, in_the_way: str, out_of_it: str
) -> None:
    found = standing(described, policy, "classic,consumer")
    assert in_the_way in " ".join(found.in_the_way)
    assert out_of_it in " ".join(found.next) and bool(out_of_it) == bool(found.next)
    assert "group.protocol=consumer, one by one" not in " ".join(found.next)
    assert found.done == ""


@pytest.mark.parametrize(
    ("described", "policy", "back"),
    [
        (group(OLD, kind="classic"), "bidirectional", ""),
        (group(OLD, NEW), "upgrade", "It stays a consumer group even then"),
        (group(OLD), "bidirectional", "it becomes a classic group when one of them leaves"),
        (group(OLD), "upgrade", "the group stays a consumer group, as group.consumer.migration.policy is upgrade. Re"),
        (group(NEW), "bidirectional", "Restart new on 10.0.0.1 with group.protocol=classic"),
        (
            group(NEW),
            "disabled",
            "Restart the broker with group.consumer.migration.policy=bidirectional (or downgrade)",
        ),
        (group(NEW), "disabled", "Or stop all members, and start them with group.protocol=classic."),
    ],
)
def test_the_way_back(described: GroupDescription, policy: str, back: str) -> None:
    found = standing(described, policy, "classic,consumer").back
    assert back in found and bool(back) == bool(found)


def test_a_change_is_not_done_while_a_member_is_being_restarted() -> None:
    found = standing(group(NEW), "bidirectional", "classic,consumer", most_members=3)
    assert (found.in_the_way, found.done) == (["2 members left and are not back."], "")
    assert found.next[0].startswith("Wait until all members are back; then the change is done.")
    assert standing(group(NEW), "bidirectional", "classic,consumer", most_members=1).done


def test_a_broker_that_does_not_speak_the_protocol() -> None:
    found = standing(group(), "upgrade", "classic")
    assert found.in_the_way == ["The broker does not speak the protocol consumer."]
    assert found.next == ["Restart the broker with group.coordinator.rebalance.protocols=classic,consumer."]


def test_what_a_member_has_still_to_do() -> None:
    keeps = MemberDescription("a", None, "a", "/h", ["t"], [T0, T1], "consumer", 3, [T0])
    waits = MemberDescription("b", None, "b", "/h", ["t"], [], "consumer", 4, [T1, T2])
    away = MemberDescription("c", "i", "c", "/h", ["t"], [], "consumer", -2, [])
    late = MemberDescription("d", None, "d", "/h", ["t"], [], "consumer", 3, [])
    all_of_them = group(keeps, waits, away, late, state="Reconciling", group_epoch=4, assignment_epoch=4)
    assert [still_to_do(all_of_them, one) for one in all_of_them.members] == [
        "has not given up t 1",
        "waits for t 2; waits for t 1 of a",
        "away",
        "has not heard of epoch 4",
    ]
    assert behind(all_of_them) == (
        "a has not given up t 1, b waits for t 2; waits for t 1 of a, c is away, d has not heard of epoch 4"
    )
