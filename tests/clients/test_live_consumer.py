"""The consumer against a broker, alone: reading, positions, waiting, being cancelled."""

import asyncio
from typing import Any

import pytest

from ottla.clients import (
    ClientClosed,
    Consumer,
    KafkaError,
    MemberState,
    NoOffsetForPartition,
    OffsetAndMetadata,
    OffsetOutOfRange,
    OptionError,
    Producer,
    RecordNotReadable,
    TopicPartition,
)
from ottla.testing import Broker
from tests.clients.live import create, fill, filled, group_options, numbers, read

pytestmark = pytest.mark.e2e


def reader(broker: Broker, *places: TopicPartition, **options: Any) -> Consumer:
    """A consumer of these partitions."""
    given = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, **options}
    consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, **given)
    if places:
        consumer.assign(places)
    return consumer


async def test_reading_without_a_group(broker: Broker, name: str) -> None:
    places = await filled(broker, name, 100, 2)
    async with reader(broker, *places) as consumer:
        assert (consumer.assignment(), consumer.subscription(), consumer.member_state) == (
            set(places),
            frozenset(),
            MemberState.UNJOINED,
        )
        records = await read(consumer, 100)
        assert sorted(numbers(records)) == list(range(100))
        for partition in (0, 1):
            assert [r.offset for r in records if r.partition == partition] == list(range(50))
        assert [await consumer.position(tp) for tp in places] == [50, 50]
        assert [consumer.highwater(tp) for tp in places] == [50, 50]
        assert await consumer.getmany(timeout_ms=10) == {}


async def test_a_late_beginning(broker: Broker, name: str) -> None:
    [tp] = await filled(broker, name, 10)
    async with reader(broker, tp, auto_offset_reset="latest") as consumer:
        assert await consumer.position(tp) == 10
        await fill(broker, name, 5, first=10)
        assert numbers(await read(consumer, 5)) == [10, 11, 12, 13, 14]


async def test_seeking_about(broker: Broker, name: str) -> None:
    places = await filled(broker, name, 20, 2)
    a, b = places
    async with reader(broker, *places) as consumer:
        await read(consumer, 20)
        consumer.seek(a, 7)
        assert [r.offset for r in await read(consumer, 3)] == [7, 8, 9]
        await consumer.seek_to_beginning(b)
        assert (await consumer.getone(b)).offset == 0
        await consumer.seek_to_beginning()
        assert [await consumer.position(tp) for tp in places] == [0, 0]
        await consumer.seek_to_end(a)
        assert await consumer.position(a) == 10
        assert {r.partition for r in await read(consumer, 10)} == {1}
        with pytest.raises(OptionError, match="offset=-1"):
            consumer.seek(a, -1)
        with pytest.raises(OptionError, match="not assigned"):
            consumer.seek(TopicPartition(name, 7), 0)


async def test_pausing(broker: Broker, name: str) -> None:
    a, b = await filled(broker, name, 20, 2)
    async with reader(broker, a, b) as consumer:
        consumer.pause(a)
        assert consumer.paused() == {a}
        assert {r.partition for r in await read(consumer, 10)} == {1}
        assert await consumer.getmany(timeout_ms=50) == {}
        consumer.resume(a)
        assert consumer.paused() == set()
        assert {r.partition for r in await read(consumer, 10)} == {0}


async def test_limits_and_chosen_partitions(broker: Broker, name: str) -> None:
    a, b = await filled(broker, name, 100, 2)
    async with reader(broker, a, b, max_poll_records=30) as consumer:
        assert len(await read(consumer, 7)) == 7
        records = await consumer.getmany(b, timeout_ms=5_000, max_records=5)
        assert set(records) == {b}
        assert len(records[b]) == 5
        assert sum(map(len, (await consumer.poll(5_000)).values())) <= 30
        with pytest.raises(OptionError, match="max_records=0"):
            await consumer.getmany(max_records=0)


async def test_small_fetches_bring_everything(broker: Broker, name: str) -> None:
    """Limits below a batch's size: the broker sends at least one batch, from inside which reading goes on."""
    places = await filled(broker, name, 300, 3)
    async with reader(broker, *places, max_partition_fetch_bytes=1, fetch_max_bytes=1) as consumer:
        assert sorted(numbers(await read(consumer, 300))) == list(range(300))


async def test_offsets_by_time_and_the_ends(broker: Broker, name: str) -> None:
    a, b = await create(broker, name, 2)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for n in range(10):
            await producer.send_and_wait(name, b"", partition=0, timestamp_ms=1_000 + n)
    async with reader(broker) as consumer:
        assert await consumer.beginning_offsets([a, b]) == {a: 0, b: 0}
        assert await consumer.end_offsets([a, b]) == {a: 10, b: 0}
        found = await consumer.offsets_for_times({a: 1_004, b: 0})
        assert (found[a].offset, found[a].timestamp) == (4, 1_004)  # type: ignore[union-attr]
        assert found[b] is None
        assert (await consumer.offsets_for_times({a: 5_000}))[a] is None
        assert name in await consumer.topics()
        assert await consumer.partitions_for_topic(name) == {0, 1}
        with pytest.raises(OptionError, match="timestamp=-1"):
            await consumer.offsets_for_times({a: -1})


async def test_a_wait_that_is_cancelled_loses_nothing(broker: Broker, name: str) -> None:
    """Calls are cancelled all the time while records come in; every record is seen once, in order."""
    [tp] = await create(broker, name)
    seen: list[int] = []
    async with reader(broker, tp) as consumer:
        filling = asyncio.ensure_future(fill(broker, name, 400))
        for round_ in range(100_000):
            wait = asyncio.ensure_future(consumer.getmany(timeout_ms=1_000, max_records=3))
            await asyncio.sleep(0 if round_ % 3 else 0.001)
            wait.cancel()
            try:
                records = await wait
            except asyncio.CancelledError:
                continue
            seen += numbers(records.get(tp, []))
            if len(seen) == 400:
                break
        await filling
    assert seen == list(range(400))


async def test_timeouts_of_ones_own(broker: Broker, name: str) -> None:
    [tp] = await create(broker, name)
    async with reader(broker, tp) as consumer:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.getone(), 0.05)
        await fill(broker, name, 1)
        assert (await asyncio.wait_for(consumer.getone(), 10)).value == b"0"


async def test_async_for_ends_with_the_consumer(broker: Broker, name: str) -> None:
    [tp] = await filled(broker, name, 5)
    consumer = reader(broker)
    await consumer.start()
    consumer.assign([tp])
    seen = []
    async with asyncio.timeout(10):
        async for record in consumer:
            seen.append(record.offset)
            if len(seen) == 5:
                asyncio.get_running_loop().call_later(0.05, asyncio.ensure_future, consumer.stop())
    assert seen == [0, 1, 2, 3, 4]
    with pytest.raises(ClientClosed, match="stopped"):
        await consumer.getone()


async def test_deserializers_and_a_record_they_refuse(broker: Broker, name: str) -> None:
    [tp] = await create(broker, name)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in (b"1", b"two", b"3"):
            await producer.send_and_wait(name, value)
    async with reader(broker, tp, value_deserializer=int) as consumer:
        assert (await consumer.getone()).value == 1
        for _ in range(2):
            with pytest.raises(RecordNotReadable) as caught:
                await consumer.getone()
        assert (caught.value.tp, caught.value.offset) == (tp, 1)
        consumer.seek(tp, 2)
        assert (await consumer.getone()).value == 3


async def test_interceptors(broker: Broker, name: str) -> None:
    [tp] = await filled(broker, name, 3)
    committed: list[Any] = []

    class OnlyOdd:
        def on_consume(self, records: Any) -> Any:
            return {tp: [r for r in batch if int(r.value) % 2] for tp, batch in records.items()}

        def on_commit(self, offsets: Any) -> None:
            committed.append(dict(offsets))

    class Broken:
        def on_consume(self, records: Any) -> Any:
            raise RuntimeError("ignored")

        on_commit = on_consume

    options = group_options(broker, name, interceptors=[Broken(), OnlyOdd()], enable_auto_commit=False)
    async with Consumer(**options) as consumer:
        consumer.assign([tp])
        assert numbers((await consumer.getmany(timeout_ms=5_000))[tp]) == [1]
        await consumer.commit()
        assert committed == [{tp: OffsetAndMetadata(3, "", 0)}]


async def test_no_policy_means_an_error_until_a_seek(broker: Broker, name: str) -> None:
    a, b = await filled(broker, name, 2, 2)
    async with reader(broker, a, b, auto_offset_reset="none") as consumer:
        consumer.seek(b, 0)
        for _ in range(2):
            with pytest.raises(NoOffsetForPartition, match="seek") as caught:
                async with asyncio.timeout(10):
                    while True:
                        await consumer.getmany(timeout_ms=1_000)
            assert caught.value.partitions == [a]
        with pytest.raises(NoOffsetForPartition):
            await consumer.position(a)
        consumer.seek(a, 0)
        await read(consumer, 1)


async def test_a_position_outside_the_log(broker: Broker, name: str) -> None:
    [tp] = await filled(broker, name, 5)
    async with reader(broker, tp, auto_offset_reset="none") as consumer:
        consumer.seek(tp, 99)
        with pytest.raises(OffsetOutOfRange, match="99") as caught:
            await consumer.getmany(timeout_ms=5_000)
        assert caught.value.positions == {tp: 99}
        consumer.seek(tp, 4)
        assert numbers(await read(consumer, 1)) == [4]
    async with reader(broker, tp) as consumer:
        consumer.seek(tp, 99)
        assert numbers(await read(consumer, 5)) == [0, 1, 2, 3, 4]


async def test_committing_without_being_a_member(broker: Broker, name: str) -> None:
    a, b = await filled(broker, name, 20, 2)
    options = group_options(broker, name, enable_auto_commit=False)
    async with Consumer(**options) as consumer:
        consumer.assign([a, b])
        assert await consumer.committed(a) is None
        await read(consumer, 20)
        await consumer.commit()
        assert [await consumer.committed(tp) for tp in (a, b)] == [10, 10]
        await consumer.commit({a: 3, b: OffsetAndMetadata(4, "note")})
        assert await consumer.committed_offsets([a, b]) == {
            a: OffsetAndMetadata(3, "", -1),
            b: OffsetAndMetadata(4, "note", -1),
        }
        assert await consumer.seek_to_committed() == {a: 3, b: 4}
        assert [await consumer.position(tp) for tp in (a, b)] == [3, 4]
        with pytest.raises(OptionError, match="offset=-3"):
            await consumer.commit({a: -3})
        for wrong, words in (
            ({"t1": 3}, "^partition='t1': allowed is a TopicPartition"),
            ({a: "3"}, "^offset='3' of "),
            ({a: (3, "note", -1, 0)}, r"^offset=\(3, 'note', -1, 0\) of "),
            ("t1", "^offsets='t1': allowed is a dict"),
        ):
            with pytest.raises(OptionError, match=words):
                await consumer.commit(wrong)  # type: ignore[arg-type]
        with pytest.raises(KafkaError, match=r"offset\.metadata\.max\.bytes"):
            await consumer.commit({a: OffsetAndMetadata(1, "x" * 5_000)})
    async with Consumer(**options) as consumer:
        consumer.assign([a])
        assert (await consumer.getone()).offset == 3


async def test_what_needs_a_group_says_so(broker: Broker, name: str) -> None:
    [tp] = await create(broker, name)
    async with reader(broker, tp) as consumer:
        for call in (consumer.commit(), consumer.committed(tp)):
            with pytest.raises(OptionError, match="needs a group"):
                await call
    with pytest.raises(OptionError, match=r"^group_id=None: topics need a group_id; without one, assign\(\)"):
        Consumer("topic")
    with pytest.raises(OptionError, match=r"allowed is a list of names, such as \['t'\]"):
        reader(broker, group_id="g").subscribe("t")
    with pytest.raises(OptionError, match="either topics or a pattern"):
        reader(broker, group_id="g").subscribe()


async def test_a_topic_that_is_deleted_and_made_anew(broker: Broker, name: str) -> None:
    from ottla.clients import Admin

    [tp] = await filled(broker, name, 5)
    async with reader(broker, tp, allow_auto_create_topics=False, retry_backoff_ms=20) as consumer:
        assert len(await read(consumer, 5)) == 5
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.delete_topics([name])
            assert await consumer.getmany(timeout_ms=200) == {}
            await admin.create_topics({name: 1})
        await fill(broker, name, 2, first=100)
        assert numbers(await read(consumer, 2)) == [100, 101], "offset 5 is out of range there: back to the beginning"
