"""Consumers of the ``consumer`` protocol against a broker: sharing, handing over, leaving, coming back (KIP-848)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.clients import (
    Admin,
    Consumer,
    KafkaError,
    MemberState,
    OffsetAndMetadata,
    OptionError,
    Producer,
    TopicPartition,
)
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from tests.clients.live import (
    PATIENCE_S,
    Notes,
    bootstrap_of,
    collect,
    commits,
    create,
    eventually,
    fill,
    filled,
    numbers,
    read,
    until,
)

pytestmark = pytest.mark.e2e

SETTINGS = {
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.session.timeout.ms": 6_000,
}
"""Assignments at once, and heartbeats more often than Kafka allows by default."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as running:
        yield running


def options_of(broker: Broker | str, group: str, **options: Any) -> dict[str, Any]:
    """Options of a member of a group."""
    return {
        "bootstrap_servers": bootstrap_of(broker),
        "group_id": group,
        "group_protocol": "consumer",
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 20,
        "fetch_max_wait_ms": 50,
        **options,
    }


def shared(partitions: int, *consumers: Consumer) -> bool:
    """Everything is owned once, evenly, and nobody is on the way."""
    everything = [tp for consumer in consumers for tp in consumer.assignment()]
    sizes = [len(consumer.assignment()) for consumer in consumers]
    return (
        len(everything) == len(set(everything)) == partitions
        and max(sizes) - min(sizes) <= 1
        and len({consumer.generation_id for consumer in consumers}) == 1
        and all(consumer.member_state is MemberState.STABLE for consumer in consumers)
    )


@pytest.mark.parametrize("assignor", [None, "uniform", "range"])
async def test_modern_members_come_and_go(broker: Broker, name: str, assignor: str | None) -> None:
    """Everything is read by somebody, once, and after each change everything is shared evenly."""
    await create(broker, name, 6)
    options = options_of(broker, name, group_remote_assignor=assignor)
    seen: list[int] = []
    consumers = [Consumer(name, **options) for _ in range(3)]
    jobs = []
    for number, consumer in enumerate(consumers, 1):
        await consumer.start()
        jobs.append(asyncio.ensure_future(collect(consumer, seen)))
        await until(lambda number=number: shared(6, *consumers[:number]), "shared")  # type: ignore[misc]
        await fill(broker, name, 60, first=60 * (number - 1))
    await consumers[0].stop()
    await until(lambda: shared(6, *consumers[1:]), "shared by two")
    await fill(broker, name, 60, first=180)
    await until(lambda: set(seen) == set(range(240)), "everything read")
    assert len(seen) == 240, "and nothing twice, since everybody leaves cleanly"
    for consumer in consumers:
        await consumer.stop()
    await asyncio.gather(*jobs)
    assert sum((await commits(broker, name)).values()) == 240


async def test_a_newcomer_stops_nobody_else(broker: Broker, name: str) -> None:
    """Only what moves is revoked, and the listener hears of it before it is somebody else's."""
    places = await create(broker, name, 4)
    first, second = Notes(), Notes()
    ours, theirs = Consumer(**options_of(broker, name)), Consumer(**options_of(broker, name))
    owned_elsewhere: list[set[TopicPartition]] = []
    first.on_revoked = lambda revoked: owned_elsewhere.append(revoked & theirs.assignment())
    ours.subscribe([name], listener=first)
    theirs.subscribe([name], listener=second)
    async with ours:
        jobs = [asyncio.ensure_future(collect(ours, []))]
        await until(lambda: shared(4, ours), "it has everything")
        async with theirs:
            jobs.append(asyncio.ensure_future(collect(theirs, [])))
            await until(lambda: shared(4, ours, theirs), "shared")
            kept = ours.assignment()
            assert [partitions for what, partitions in first.calls if what == "revoked"] == [
                sorted(tp.partition for tp in set(places) - kept)
            ]
            assert ("assigned", sorted(tp.partition for tp in theirs.assignment())) in second.calls
            assert owned_elsewhere == [set()]
    await asyncio.gather(*jobs)


async def test_work_is_committed_before_a_partition_moves(broker: Broker, name: str) -> None:
    """Records that the user still has are not taken away; when it is done with them, they are committed first."""
    await filled(broker, name, 40, 2)
    slow = Consumer(name, **options_of(broker, name, max_poll_records=5))
    async with slow:
        held = await read(slow, 5)
        other = Consumer(name, **options_of(broker, name))
        async with other:
            await until(lambda: slow.member_state is MemberState.RECONCILING, "asked to give one up")
            assert other.assignment() == set(), "not while its records are worked on"
            seen = numbers(held)
            jobs = [asyncio.ensure_future(collect(one, seen)) for one in (slow, other)]
            await until(lambda: set(seen) == set(range(40)), "everything read")
            assert len(seen) == 40, "nothing twice"
    await asyncio.gather(*jobs)


async def test_a_pattern_is_matched_by_the_broker(broker: Broker, name: str) -> None:
    """It is one of RE2, and matches whole names; topics that come later are found as well."""
    await filled(broker, f"{name}-a", 3)
    await create(broker, f"other-{name}-a")
    consumer = Consumer(**options_of(broker, name))
    consumer.subscribe(pattern=rf"{name}-\pL")
    async with consumer:
        assert numbers(await read(consumer, 3)) == [0, 1, 2]
        assert consumer.subscription() == {f"{name}-a"}
        consumer.unsubscribe()
        consumer.subscribe([f"other-{name}-a"])
        reading = asyncio.ensure_future(collect(consumer, []))
        await until(lambda: consumer.assignment() == {TopicPartition(f"other-{name}-a", 0)}, "by name again")
    await reading


async def test_a_pattern_that_is_none_is_refused(broker: Broker, name: str) -> None:
    consumer = Consumer(**options_of(broker, name))
    consumer.subscribe(pattern="(")
    with pytest.raises(KafkaError) as refused:
        await consumer.start()
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_a_static_member_comes_back_to_its_partitions(broker: Broker, name: str) -> None:
    """Nobody gets them while it is away, and the group does not rebalance."""
    await create(broker, name, 4)
    other = Consumer(name, **options_of(broker, name))
    options = options_of(broker, name, group_instance_id="i1")
    async with other:
        job = asyncio.ensure_future(collect(other, []))
        async with Consumer(name, **options) as first:
            reading = asyncio.ensure_future(collect(first, []))
            await until(lambda: shared(4, first, other), "shared")
            held, epoch = first.assignment(), first.generation_id
        await reading
        async with Consumer(name, **options) as again:
            assert again.assignment() == held
            assert again.generation_id == epoch
            assert len(other.assignment()) == 2
    await job


async def test_an_instance_id_that_is_in_use_is_refused(broker: Broker, name: str) -> None:
    await create(broker, name)
    options = options_of(broker, name, group_instance_id="i1")
    async with Consumer(name, **options):
        second = Consumer(name, **options)
        with pytest.raises(KafkaError) as refused:
            await second.start()
    assert refused.value.code is ErrorCode.UNRELEASED_INSTANCE_ID


async def test_who_was_removed_loses_its_partitions_and_joins_again(broker: Broker, name: str) -> None:
    await create(broker, name, 2)
    notes = Notes()
    consumer = Consumer(**options_of(broker, name))
    consumer.subscribe([name], listener=notes)
    async with consumer:
        job = asyncio.ensure_future(collect(consumer, []))
        await until(lambda: len(consumer.assignment()) == 2, "assigned")
        before = consumer.member_id
        async with Admin(bootstrap_servers=bootstrap_of(broker)) as admin:
            await admin.remove_members(name, [before])
        await until(lambda: ("lost", [0, 1]) in notes.calls, "lost")
        await until(lambda: notes.calls[-1] == ("assigned", [0, 1]), "assigned again")
        assert consumer.member_id == before
    await job


async def test_who_stays_away_too_long_leaves_and_comes_back(broker: Broker, name: str) -> None:
    await filled(broker, name, 10, 2)
    notes = Notes()
    away = Consumer(**options_of(broker, name, max_poll_interval_ms=300))
    away.subscribe([name], listener=notes)
    async with away:
        await read(away, 1)
        await until(lambda: away.member_state is MemberState.UNJOINED, "it left")
        async with Consumer(name, **options_of(broker, name)) as other:
            job = asyncio.ensure_future(collect(other, []))
            await until(lambda: len(other.assignment()) == 2, "it got everything")
            back = asyncio.ensure_future(collect(away, []))
            await until(lambda: shared(2, away, other), "and gave back a half")
            assert ("lost", [0, 1]) in notes.calls
        await job
    await back


async def test_commits_and_reads_go_with_the_epoch(broker: Broker, name: str) -> None:
    """Somebody who is not a member is refused, and a member is not, through changes of its epoch."""
    [place, *_] = await filled(broker, name, 8, 2)
    async with Consumer(name, **options_of(broker, name, enable_auto_commit=False)) as consumer:
        await read(consumer, 8)
        async with Consumer(name, **options_of(broker, name)) as other:
            await consumer.commit()
            reading = asyncio.ensure_future(collect(other, []))
            second = asyncio.ensure_future(collect(consumer, []))
            await until(lambda: shared(2, consumer, other), "shared")
            [held] = consumer.assignment()
            await consumer.commit({held: OffsetAndMetadata(2, "note")})
            assert (await consumer.committed_offsets([held]))[held] == OffsetAndMetadata(2, "note")
        await reading
    await second
    async with Admin(bootstrap_servers=bootstrap_of(broker)) as admin:
        assert await admin.list_group_offsets(name, [place])


async def test_offsets_in_a_transaction(broker: Broker, name: str) -> None:
    [place] = await filled(broker, name, 3)
    async with (
        Consumer(name, **options_of(broker, name, enable_auto_commit=False)) as consumer,
        Producer(bootstrap_servers=bootstrap_of(broker), transactional_id=name) as producer,
    ):
        await read(consumer, 3)
        async with producer.transaction():
            await producer.send_offsets_to_transaction({place: 3}, consumer.group_metadata())

    async def committed() -> bool:
        return await commits(broker, name) == {place: 3}

    await eventually(committed)


async def test_the_admin_sees_the_epochs(broker: Broker, name: str) -> None:
    places = await create(broker, name, 2)
    async with Consumer(name, **options_of(broker, name, client_id="worker")) as consumer, asyncio.timeout(PATIENCE_S):
        while len(consumer.assignment()) < 2:
            await consumer.getmany(timeout_ms=50)
        async with Admin(bootstrap_servers=bootstrap_of(broker)) as admin:
            found = (await admin.describe_groups([name, "nobody"]))[name]
            (listed,) = [one for one in await admin.list_groups(types=["consumer"]) if one.group_id == name]
    (member,) = found.members
    assert (found.state, found.group_type, found.protocol_name) == ("Stable", "consumer", "uniform")
    assert found.group_epoch == found.assignment_epoch == member.member_epoch
    assert sorted(member.assignment) == sorted(member.target_assignment or ()) == places
    assert (member.protocol, member.client_id, member.gives_up, member.waits_for) == ("consumer", "worker", [], [])
    assert listed.group_type == "consumer"


async def test_a_new_subscription(broker: Broker, name: str) -> None:
    await filled(broker, f"{name}-a", 2)
    await filled(broker, f"{name}-b", 3)
    async with Consumer(f"{name}-a", **options_of(broker, name)) as consumer:
        await read(consumer, 2)
        consumer.subscribe([f"{name}-b"])
        assert numbers(await read(consumer, 3)) == [0, 1, 2]
        assert consumer.assignment() == {TopicPartition(f"{name}-b", 0)}
        await consumer.unsubscribe()
        assert consumer.member_state is MemberState.UNJOINED


async def test_a_broker_that_refuses_the_protocol(name: str) -> None:
    with Broker(topics=[name], settings={"group.coordinator.rebalance.protocols": "classic"}) as broker:
        consumer = Consumer(name, **options_of(broker, name))
        with pytest.raises(KafkaError, match="group_protocol='classic'"):
            await consumer.start()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"session_timeout_ms": 9_000}, "consumer.session.timeout.ms decides"),
        ({"heartbeat_interval_ms": 1_000}, "consumer.heartbeat.interval.ms decides"),
        ({"partition_assignment_strategy": "sticky"}, "see group_remote_assignor"),
        ({"group_protocol": "classic", "group_remote_assignor": "range"}, "as group_protocol is 'classic'"),
        ({"group_protocol": "modern"}, "'classic', 'consumer'"),
    ],
)
def test_options_that_exclude_each_other(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Consumer(**options_of("localhost:1", "g", **options))
