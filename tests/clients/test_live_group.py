"""Consumers in groups against a broker: sharing, handing over, leaving, coming back."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from ottla.clients import (
    Admin,
    ClientClosed,
    CommitFailed,
    Consumer,
    FencedInstance,
    KafkaError,
    MemberState,
    TopicPartition,
)
from ottla.testing import Broker
from tests.clients.live import (
    PATIENCE_S,
    Notes,
    collect,
    commits,
    create,
    fill,
    filled,
    group_options,
    numbers,
    read,
    until,
)

pytestmark = pytest.mark.e2e

STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


def sizes(*consumers: Consumer) -> list[int]:
    return [len(consumer.assignment()) for consumer in consumers]


def shared(partitions: int, *consumers: Consumer) -> bool:
    """Everything is owned once, evenly, and nobody is on the way into a generation."""
    everything = [tp for consumer in consumers for tp in consumer.assignment()]
    return (
        len(everything) == len(set(everything)) == partitions
        and max(sizes(*consumers)) - min(sizes(*consumers)) <= 1
        and len({consumer.generation_id for consumer in consumers}) == 1
        and all(consumer.member_state is MemberState.STABLE for consumer in consumers)
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_members_come_and_go(broker: Broker, name: str, strategy: str) -> None:
    """Everything is read by somebody, and after each change everything is shared evenly."""
    await create(broker, name, 6)
    options = group_options(broker, name, partition_assignment_strategy=strategy)
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


async def test_a_cooperative_rebalance_is_no_full_stop(broker: Broker, name: str) -> None:
    """Partitions that stay are neither revoked nor stopped, and those that move are given up before given away."""
    places = await create(broker, name, 4)
    options = group_options(broker, name, partition_assignment_strategy="cooperative-sticky")
    first, second = Notes(), Notes()
    async with Consumer(**options) as a, Consumer(**options) as b:
        a.subscribe([name], listener=first)
        await until(lambda: a.assignment() == set(places), "all")
        b.subscribe([name], listener=second)
        await until(lambda: shared(4, a, b), "shared")
        moved = sorted(tp.partition for tp in b.assignment())
        assert first.calls[0] == ("assigned", [0, 1, 2, 3])
        assert [call for call in first.calls if call[1] and call[0] != "assigned"] == [("revoked", moved)]
        assert [call for call in second.calls if call[1]] == [("assigned", moved)]
        assert a.generation_id == 3, "one rebalance to give up, one to give away"


async def test_an_eager_rebalance_gives_everything_up(broker: Broker, name: str) -> None:
    await create(broker, name, 2)
    notes = Notes()
    options = group_options(broker, name, partition_assignment_strategy="range")
    async with Consumer(**options) as a, Consumer(**options) as b:
        a.subscribe([name], listener=notes)
        await until(lambda: notes.calls, "the first")
        b.subscribe([name])
        await until(lambda: shared(2, a, b), "shared")
        assert notes.calls == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0])]


async def test_a_rebalance_waits_for_work_in_progress(broker: Broker, name: str) -> None:
    """Records that the user has are finished and committed before their partition goes to another member."""
    await filled(broker, name, 20, 2)
    notes = Notes()
    options = group_options(broker, name, partition_assignment_strategy="range")
    async with Consumer(**options) as a, AsyncExitStack() as stack:
        a.subscribe([name], listener=notes)
        records = await read(a, 20)
        b = Consumer(name, **options)
        starting = asyncio.ensure_future(stack.enter_async_context(b))
        await until(lambda: a._group is not None and a._group.member.rejoin_needed, "the rebalance is known")
        await asyncio.sleep(0.1)
        assert notes.calls == [("assigned", [0, 1])], "not while the records are being worked on"
        assert len(records) == 20
        waiting = asyncio.ensure_future(a.getmany(timeout_ms=10_000))
        await starting
        await until(lambda: shared(2, a, b), "shared")
        assert notes.calls[1] == ("revoked", [0, 1])
        assert [await b.position(tp) for tp in b.assignment()] == [10], "what was finished is committed"
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_a_member_with_much_to_do_hands_over_between_two_calls(broker: Broker, name: str, strategy: str) -> None:
    """Its buffer is never empty, so no call ever waits; a rebalance gets its turn all the same."""
    await filled(broker, name, 5_000, 2)
    options = group_options(broker, name, partition_assignment_strategy=strategy)
    async with Consumer(name, **options) as a:
        seen = 0

        async def work() -> None:
            nonlocal seen
            async for _ in a:
                seen += 1
                await asyncio.sleep(0.001)

        job = asyncio.ensure_future(work())
        await until(lambda: seen > 10, "at work")
        async with asyncio.timeout(10), Consumer(name, **options) as b:
            await until(lambda: shared(2, a, b), "shared")
            assert seen < 5_000
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)


async def test_committing_everything_says_that_it_is_finished(broker: Broker, name: str) -> None:
    await filled(broker, name, 2, 2)
    options = group_options(broker, name, partition_assignment_strategy="range", enable_auto_commit=False)
    async with Consumer(name, **options) as a:
        await read(a, 2)
        await a.commit()
        async with asyncio.timeout(10), Consumer(name, **options) as b:
            await until(lambda: shared(2, a, b), "shared")


async def test_a_failure_leaves_its_records_uncommitted(broker: Broker, name: str) -> None:
    [tp] = await filled(broker, name, 10)
    options = group_options(broker, name)
    with pytest.raises(RuntimeError):
        async with Consumer(name, **options) as consumer:
            await read(consumer, 4)
            assert [r.offset for r in (await consumer.getmany(timeout_ms=5_000, max_records=3))[tp]] == [4, 5, 6]
            raise RuntimeError("while working on them")
    assert await commits(broker, name) == {tp: 4}
    async with Consumer(name, **options) as consumer:
        assert (await consumer.getone()).offset == 4


async def test_auto_commit_now_and_then(broker: Broker, name: str) -> None:
    [tp] = await filled(broker, name, 10)
    async with Consumer(name, **group_options(broker, name, auto_commit_interval_ms=20)) as consumer:
        await read(consumer, 6)
        await asyncio.sleep(0.1)
        assert await consumer.committed(tp) == 0, "the six are still being worked on"
        assert await consumer.getmany(timeout_ms=0, max_records=1)

        await until(lambda: consumer._subscription.state(tp).committed == 6, "committed")
        assert await consumer.committed(tp) == 6


async def test_listeners_may_use_the_consumer(broker: Broker, name: str) -> None:
    """Seeking when partitions come, committing when they go: the two things that listeners are for."""
    [tp] = await filled(broker, name, 10)
    notes = Notes()
    consumer = Consumer(**group_options(broker, name, enable_auto_commit=False))

    async def begin_at_seven(assigned: set[TopicPartition]) -> None:
        assert await consumer.position(tp) == 0
        consumer.seek(tp, 7)

    notes.on_assigned = begin_at_seven
    notes.on_revoked = lambda revoked: consumer.commit({tp: 8})
    consumer.subscribe([name], listener=notes)
    async with consumer:
        assert numbers(await read(consumer, 3)) == [7, 8, 9]
        await consumer.unsubscribe()
    assert notes.calls == [("assigned", [0]), ("revoked", [0])]
    assert await commits(broker, name) == {tp: 8}


async def stop_twice(consumer: Consumer) -> None:
    await asyncio.gather(consumer.stop(), consumer.stop())


@pytest.mark.parametrize("way", [Consumer.stop, Consumer.unsubscribe, stop_twice])
@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_listener_commits_what_is_given_up(broker: Broker, name: str, way: Any, by_hand: bool) -> None:
    [tp] = await filled(broker, name, 10)
    notes = Notes()
    consumer = Consumer(**group_options(broker, name, enable_auto_commit=False))

    async def commit(revoked: set[TopicPartition]) -> None:
        assert (revoked, await consumer.position(tp), await consumer.committed(tp)) == ({tp}, 4, None)
        await consumer.commit({tp: 3} if by_hand else None)

    notes.on_revoked = commit
    consumer.subscribe([name], listener=notes)
    async with consumer:
        await read(consumer, 4)
        await way(consumer)
    assert notes.calls == [("assigned", [0]), ("revoked", [0])]
    assert await commits(broker, name) == {tp: 3 if by_hand else 4}


async def test_a_listener_that_fails_is_told_and_the_rebalance_goes_on(broker: Broker, name: str) -> None:
    await filled(broker, name, 1)
    notes = Notes()

    def fail(assigned: set[TopicPartition]) -> None:
        raise ValueError("in the listener")

    notes.on_assigned = fail
    async with Consumer(**group_options(broker, name)) as consumer:
        consumer.subscribe([name], listener=notes)
        with pytest.raises(ValueError, match="in the listener"):
            await consumer.getone()
        assert (await consumer.getone()).offset == 0


async def test_unsubscribing_and_subscribing_to_something_else(broker: Broker, name: str) -> None:
    other = f"{name}-other"
    [tp] = await create(broker, name)
    await create(broker, other)
    await fill(broker, name, 3)
    await fill(broker, other, 2, first=50)
    notes = Notes()
    async with Consumer(**group_options(broker, name)) as consumer:
        consumer.subscribe([name], listener=notes)
        await read(consumer, 3)
        done = consumer.unsubscribe()
        assert consumer.assignment() == set()
        consumer.subscribe(pattern=f"{name}-o.*")
        await done
        assert notes.calls == [("assigned", [0]), ("revoked", [0])]
        assert numbers(await read(consumer, 2)) == [50, 51]
        assert consumer.subscription() == {other}
        assert (await commits(broker, name))[tp] == 3


async def test_changing_the_subscription(broker: Broker, name: str) -> None:
    topics = [f"{name}-{letter}" for letter in "ab"]
    for topic in topics:
        await create(broker, topic)
        await fill(broker, topic, 1)
    async with Consumer(topics[0], **group_options(broker, name)) as consumer:
        await read(consumer, 1)
        consumer.subscribe(topics)
        assert [record.topic for record in await read(consumer, 1)] == [topics[1]]
        assert {tp.topic for tp in consumer.assignment()} == set(topics)


async def test_a_pattern_finds_topics_as_they_appear(broker: Broker, name: str) -> None:
    await create(broker, f"{name}-a")
    consumer = Consumer(**group_options(broker, name, metadata_max_age_ms=50))
    consumer.subscribe(pattern=f"{name}-.*|__consumer.*")
    async with consumer:
        assert {tp.topic for tp in consumer.assignment()} == {f"{name}-a"}, "internal topics are left out"
        await create(broker, f"{name}-b", 2)
        await until(lambda: len(consumer.assignment()) == 3, "the new topic's partitions")


async def test_partitions_that_are_added_are_shared(broker: Broker, name: str) -> None:
    await create(broker, name)
    options = group_options(broker, name, metadata_max_age_ms=50)
    async with Consumer(name, **options) as a, Consumer(name, **options) as b:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_partitions({name: 4})
        await until(lambda: shared(4, a, b), "four partitions for two")


async def test_a_topic_that_appears_is_read(broker: Broker, name: str) -> None:
    async with Consumer(name, **group_options(broker, name, allow_auto_create_topics=False)) as consumer:
        assert consumer.assignment() == set()
        await filled(broker, name, 3)
        assert numbers(await read(consumer, 3)) == [0, 1, 2]


async def test_a_static_member_comes_back_without_a_rebalance(broker: Broker, name: str) -> None:
    await create(broker, name, 4)
    options = group_options(broker, name, partition_assignment_strategy="range")
    async with Consumer(name, **options, group_instance_id="one") as a:
        b = Consumer(name, **options, group_instance_id="two")
        await b.start()
        await until(lambda: shared(4, a, b), "shared")
        generation, had = a.generation_id, b.assignment()
        await b.stop()
        async with Consumer(name, **options, group_instance_id="two") as again:
            assert (again.generation_id, again.assignment()) == (generation, had)
            await asyncio.sleep(0.2)
            assert a.generation_id == generation


async def test_a_static_member_is_fenced_by_its_double(broker: Broker, name: str) -> None:
    await create(broker, name)
    options = group_options(broker, name, group_instance_id="one")
    async with Consumer(name, **options) as a, Consumer(name, **options):
        for _ in range(2):
            with pytest.raises(FencedInstance):
                async with asyncio.timeout(10):
                    while True:
                        await a.getmany(timeout_ms=100)
        with pytest.raises(FencedInstance):
            await a.commit({TopicPartition(name, 0): 0})


async def test_whoever_does_not_poll_leaves_and_may_come_back(broker: Broker, name: str) -> None:
    places = await filled(broker, name, 10, 2)
    notes = Notes()
    options = group_options(broker, name, partition_assignment_strategy="range", enable_auto_commit=False)
    async with Consumer(**options, max_poll_interval_ms=200) as a, Consumer(**options) as b:
        a.subscribe([name], listener=notes)
        await read(a, 10)
        b.subscribe([name])
        await until(lambda: b.assignment() == set(places), "the other has it all")
        assert a.member_state is MemberState.UNJOINED
        with pytest.raises(CommitFailed, match="max_poll_interval_ms"):
            await a.commit()
        assert notes.calls == [("assigned", [0, 1])]
        polling = asyncio.ensure_future(read(a, 5))
        await until(lambda: shared(2, a, b), "shared again")
        assert [call for call in notes.calls if call[1]] == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0])]
        assert len(await polling) == 5, "read again, as nothing was committed"


async def test_a_commit_waits_for_a_rebalance_but_not_for_what_it_took_away(broker: Broker, name: str) -> None:
    await filled(broker, name, 10, 2)
    options = group_options(broker, name, partition_assignment_strategy="cooperative-sticky", enable_auto_commit=False)
    async with Consumer(name, **options) as a:
        assert a._group is not None
        await read(a, 10)
        await a.commit()
        async with Consumer(name, **options) as b:
            await until(lambda: shared(2, a, b), "shared")
            taken = next(iter(b.assignment()))
            kept = next(iter(a.assignment()))
            a._group.member.request_rejoin("for the test", asyncio.get_running_loop().time() * 1000)
            a._group.settle()
            await until(lambda: a._group is not None and a._group.member.in_rebalance, "in a rebalance")
            committing = asyncio.ensure_future(a.commit({kept: 3}))
            refused = asyncio.ensure_future(a.commit({taken: 3}))
            polling = [asyncio.ensure_future(one.getmany(timeout_ms=500)) for one in (a, b)]
            async with asyncio.timeout(10):
                await committing
                with pytest.raises(CommitFailed, match=f"{name}-{taken.partition}"):
                    await refused
                await asyncio.gather(*polling)
    assert await commits(broker, name) == {kept: 3, taken: 5}


async def test_no_assignor_in_common(broker: Broker, name: str) -> None:
    await create(broker, name)
    async with Consumer(name, **group_options(broker, name, partition_assignment_strategy="range")):
        with pytest.raises(KafkaError, match="partition_assignment_strategy"):
            await Consumer(name, **group_options(broker, name, partition_assignment_strategy="sticky")).start()


async def test_a_group_that_is_full(name: str) -> None:
    with Broker({"group.max.size": 1}, topics={name: 1}) as broker:
        async with Consumer(name, **group_options(broker, name)):
            with pytest.raises(KafkaError, match=r"group\.max\.size"):
                await Consumer(name, **group_options(broker, name)).start()


async def test_a_session_timeout_that_the_broker_refuses(broker: Broker, name: str) -> None:
    await create(broker, name)
    options = group_options(broker, name, session_timeout_ms=60, heartbeat_interval_ms=20)
    with pytest.raises(KafkaError, match=r"group\.min\.session\.timeout\.ms"):
        await Consumer(name, **options).start()


@pytest.mark.parametrize("how", ["cancelled", "stopped"])
async def test_stopping_while_a_join_is_held_back_leaves_at_once(name: str, how: str) -> None:
    with Broker({"group.initial.rebalance.delay.ms": 0}, topics={name: 2}) as broker:
        options = group_options(broker, name, partition_assignment_strategy="range")
        async with Consumer(name, **options) as holder:
            await fill(broker, name, 2)
            await read(holder, 2)  # and works on them, so that the group waits for it
            joining = Consumer(name, **options)
            starting = asyncio.ensure_future(joining.start())
            await until(lambda: joining.member_state is MemberState.PREPARING_REBALANCE, "joining")
            await until(lambda: joining.member_id, "the id that it must bring")
            if how == "cancelled":
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
            else:
                await joining.stop()
                with pytest.raises(ClientClosed, match="stopped while start"):
                    await asyncio.wait_for(starting, PATIENCE_S)
            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                [member] = (await admin.describe_groups([name]))[name].members
                assert member.member_id == holder.member_id
