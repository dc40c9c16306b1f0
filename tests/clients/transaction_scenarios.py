"""The promises of a transactional producer, as scenarios for Ottla and for Apache Kafka alike."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from ottla.clients import (
    Admin,
    ConfigChange,
    Consumer,
    ConsumerGroupMetadata,
    ErrorCode,
    InvalidTransactionState,
    KafkaError,
    Producer,
    ProducerFenced,
    TopicPartition,
    TransactionFailed,
)
from tests.clients.live import PATIENCE_S, commits, create, eventually, group_options

Scenario = Callable[[str, str], Awaitable[None]]


def producer(bootstrap: str, name: str, **options: Any) -> Producer:
    return Producer(bootstrap_servers=bootstrap, transactional_id=name, **{"retry_backoff_ms": 20, **options})


async def settle(bootstrap: str, places: Iterable[TopicPartition]) -> None:
    """Wait until no transaction is open: its end is told before its markers are written."""
    latest = dict.fromkeys(places, "latest")
    async with Admin(bootstrap_servers=bootstrap) as admin:

        async def nothing_open() -> bool:
            stable = await admin.list_offsets(latest, isolation_level="read_committed")
            return stable == await admin.list_offsets(latest)

        await eventually(nothing_open)


async def seen(
    bootstrap: str, places: Iterable[TopicPartition], *, committed: bool = True, settled: bool = True
) -> list[str]:
    """All values up to the end as a reader of that isolation level has it, partition by partition."""
    places = list(places)
    if settled:
        await settle(bootstrap, places)
    level = "read_committed" if committed else "read_uncommitted"
    values: dict[TopicPartition, list[str]] = {tp: [] for tp in places}
    async with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=level, fetch_max_wait_ms=50
    ) as consumer:
        consumer.assign(values)
        ends = await consumer.end_offsets(values)
        async with asyncio.timeout(PATIENCE_S):
            while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                for tp, records in (await consumer.getmany(timeout_ms=100)).items():
                    values[tp] += [record.value.decode() for record in records]
    return [value for tp in values for value in values[tp]]


async def come_to(bootstrap: str, group: str, wanted: dict[TopicPartition, int]) -> None:
    """Wait until a group has these offsets: Kafka tells the end of a transaction before its markers are written."""

    async def there() -> bool:
        return await commits(bootstrap, group) == wanted

    await eventually(there)


async def committed_and_aborted(bootstrap: str, name: str) -> None:
    """Transactions that are committed are seen, whole and in order; aborted ones are not."""
    places = await create(bootstrap, name, 2)
    async with producer(bootstrap, name) as one:
        for number in range(6):
            await one.begin_transaction()
            for place in places:
                await one.send(name, b"%d" % number, partition=place.partition)
            if number % 2:
                await one.abort_transaction()
            else:
                await one.commit_transaction()
    assert await seen(bootstrap, places) == ["0", "2", "4"] * 2
    everything = await seen(bootstrap, places, committed=False)
    assert [value for value in everything if int(value) % 2 == 0] == ["0", "2", "4"] * 2


async def an_open_transaction_is_not_seen(bootstrap: str, name: str) -> None:
    """Nor what comes after it in the same partition; and a reader who waits sees it as soon as it is committed."""
    [place] = await create(bootstrap, name)
    async with (
        producer(bootstrap, name) as one,
        Producer(bootstrap_servers=bootstrap) as other,
        Consumer(
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=10_000,
        ) as consumer,
    ):
        consumer.assign([place])
        await one.begin_transaction()
        await (await one.send(name, b"open"))
        await other.send_and_wait(name, b"behind")
        assert await seen(bootstrap, [place], settled=False) == []
        assert await seen(bootstrap, [place], committed=False, settled=False) == ["open", "behind"]
        waiting = asyncio.ensure_future(consumer.getone())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await one.commit_transaction()
        async with asyncio.timeout(5):  # not after fetch_max_wait_ms: the commit wakes the fetch
            assert (await waiting).value == b"open"
        assert await seen(bootstrap, [place]) == ["open", "behind"]


async def offsets_count_only_when_committed(bootstrap: str, name: str) -> None:
    [place] = await create(bootstrap, name)
    async with producer(bootstrap, name) as one:
        async with one.transaction():
            await one.send(name, b"0")
            await one.send_offsets_to_transaction({place: 3}, name)
        await come_to(bootstrap, name, {place: 3})
        await one.begin_transaction()
        await one.send_offsets_to_transaction({place: 9}, name)
        await one.abort_transaction()
        assert await commits(bootstrap, name) == {place: 3}
        async with one.transaction():
            await one.send_offsets_to_transaction({place: 4}, name)
        await come_to(bootstrap, name, {place: 4})


async def a_block_that_raises_is_aborted(bootstrap: str, name: str) -> None:
    places = await create(bootstrap, name)
    async with producer(bootstrap, name) as one:
        with pytest.raises(ZeroDivisionError):
            async with one.transaction():
                await (await one.send(name, b"no"))
                raise ZeroDivisionError
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), one.transaction():
                await (await one.send(name, b"neither"))
                await asyncio.sleep(60)
        async with one.transaction():
            await one.send(name, b"yes")
    assert await seen(bootstrap, places) == ["yes"]


async def a_later_producer_fences_an_earlier_one(bootstrap: str, name: str) -> None:
    places = await create(bootstrap, name)
    async with producer(bootstrap, name) as earlier:
        await earlier.begin_transaction()
        await (await earlier.send(name, b"left open"))
        async with producer(bootstrap, name) as later:
            async with later.transaction():
                await later.send(name, b"later")
            with pytest.raises((ProducerFenced, TransactionFailed)):
                await earlier.send(name, b"too late")
                await earlier.commit_transaction()
            with pytest.raises(ProducerFenced, match="transactional_id"):
                await earlier.abort_transaction()
            with pytest.raises(ProducerFenced):
                await earlier.begin_transaction()
            async with later.transaction():
                await later.send(name, b"and on")
    assert await seen(bootstrap, places) == ["later", "and on"]


async def a_producer_that_stops_leaves_nothing_open(bootstrap: str, name: str) -> None:
    places = await create(bootstrap, name)
    one = producer(bootstrap, name)
    await one.start()
    await one.begin_transaction()
    await (await one.send(name, b"x"))
    await one.stop()
    async with Producer(bootstrap_servers=bootstrap) as other:
        await other.send_and_wait(name, b"behind")
    assert await seen(bootstrap, places) == ["behind"]


async def an_error_is_followed_by_the_next_transaction(bootstrap: str, name: str) -> None:
    """A record that the topic refuses ends its transaction, whatever else was in it, but not the producer."""
    [place] = await create(bootstrap, name)
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.incremental_alter_configs(topics={name: {"max.message.bytes": "500"}})
    async with producer(bootstrap, name) as one:
        for number in range(3):
            await one.begin_transaction()
            await (await one.send(name, b"lost %d" % number))
            refused = await one.send(name, b"x" * 1000)
            with pytest.raises(TransactionFailed, match="message too large"):
                await refused
            with pytest.raises(TransactionFailed):
                await one.commit_transaction()
            await one.abort_transaction()
            async with one.transaction():
                await one.send(name, b"kept %d" % number)
    assert await seen(bootstrap, [place]) == ["kept 0", "kept 1", "kept 2"]


async def a_member_left_behind_commits_nothing(bootstrap: str, name: str) -> None:
    """KIP-447: the coordinator refuses offsets of a member of another generation."""
    [place] = await create(bootstrap, name)
    async with (
        producer(bootstrap, name) as one,
        Consumer(name, **group_options(bootstrap, name, enable_auto_commit=False)) as consumer,
    ):
        member = consumer.group_metadata()
        assert (member.group_id, member.generation_id > 0, member.member_id != "") == (name, True, True)
        await one.begin_transaction()
        with pytest.raises(TransactionFailed) as caught:
            await one.send_offsets_to_transaction({place: 7}, member._replace(generation_id=member.generation_id + 1))
        assert caught.value.code is ErrorCode.ILLEGAL_GENERATION
        await one.abort_transaction()
        async with one.transaction():
            await one.send_offsets_to_transaction({place: 1}, consumer.group_metadata())
        await come_to(bootstrap, name, {place: 1})
        await consumer.unsubscribe()
        consumer.assign([place])
        assert consumer.group_metadata() == ConsumerGroupMetadata(name), "nobody in particular"


async def many_transactions_in_a_row(bootstrap: str, name: str) -> None:
    """Over several partitions, with other producers in between, in batches large and small."""
    places = await create(bootstrap, name, 3)
    expected: list[list[str]] = [[], [], []]

    async def work(which: int) -> None:
        async with producer(bootstrap, f"{name}-{which}", linger_ms=which) as one:
            for number in range(20):
                await one.begin_transaction()
                for part in range(1 + number % 40):
                    await one.send(name, f"{which} {number} {part}".encode(), partition=which)
                if number % 3 == 2:
                    await one.abort_transaction()
                else:
                    await one.commit_transaction()
                    expected[which] += [f"{which} {number} {part}" for part in range(1 + number % 40)]

    await asyncio.gather(*(work(which) for which in range(3)))
    assert await seen(bootstrap, places) == [value for values in expected for value in values]


async def a_transaction_that_takes_too_long(bootstrap: str, name: str) -> None:
    """Its coordinator aborts it, and then nothing of its producer counts any more."""
    places = await create(bootstrap, name)
    async with producer(bootstrap, name, transaction_timeout_ms=300) as one:
        await one.begin_transaction()
        await (await one.send(name, b"too slow"))
        await settle(bootstrap, places)
        # The first protocol says that the epoch has moved on, the second that there is nothing to commit.
        with pytest.raises(KafkaError, match="transaction_timeout_ms") as caught:
            await one.commit_transaction()
        assert caught.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
        with pytest.raises(KafkaError) as again:
            await one.begin_transaction()
        assert again.value is caught.value, "for good"
    assert await seen(bootstrap, places) == []
    async with producer(bootstrap, name) as another, another.transaction():
        await another.send(name, b"in time")
    assert await seen(bootstrap, places) == ["in time"]


async def what_the_admin_client_shows(bootstrap: str, name: str) -> None:
    [place] = await create(bootstrap, name)
    async with (
        producer(bootstrap, name, transaction_timeout_ms=50_000) as one,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        await one.begin_transaction()
        metadata = await (await one.send(name, b"x"))
        mine = [listing for listing in await admin.list_transactions() if listing.transactional_id == name]
        assert [listing.state for listing in mine] == ["Ongoing"]
        assert mine == [each for each in await admin.list_transactions(states=["Ongoing"]) if each in mine]
        assert mine[0] not in await admin.list_transactions(states=["CompleteCommit"])
        assert mine == await admin.list_transactions(producer_ids=[mine[0].producer_id])
        shown = (await admin.describe_transactions([name]))[name]
        assert (shown.state, shown.timeout_ms, shown.partitions) == ("Ongoing", 50_000, [place])
        assert shown.start_time_ms is not None
        [known] = (await admin.describe_producers([place]))[place]
        assert (known.producer_id, known.producer_epoch) == (shown.producer_id, shown.producer_epoch)
        assert (known.last_sequence, known.transaction_start_offset) == (0, metadata.offset)
        await one.commit_transaction()

        async def completed() -> bool:
            return (await admin.describe_transactions([name]))[name].state == "CompleteCommit"

        await eventually(completed)
        [known] = (await admin.describe_producers([place]))[place]
        assert known.transaction_start_offset is None
        with pytest.raises(KafkaError) as caught:
            await admin.describe_transactions([f"{name}-unknown"])
        assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def a_marker_by_hand(bootstrap: str, name: str) -> None:
    """An operator ends a transaction that hangs: finds its producer, and writes the marker."""
    [place] = await create(bootstrap, name)
    async with producer(bootstrap, name) as one, Admin(bootstrap_servers=bootstrap) as admin:
        await one.begin_transaction()
        await (await one.send(name, b"hangs"))
        [known] = (await admin.describe_producers([place]))[place]
        await admin.abort_transaction(place, producer_id=known.producer_id, producer_epoch=known.producer_epoch)
        [known] = (await admin.describe_producers([place]))[place]
        assert known.transaction_start_offset is None
    assert await seen(bootstrap, [place]) == []


async def changed_settings(bootstrap: str, name: str) -> None:
    await create(bootstrap, name)
    keys = ["retention.ms", "cleanup.policy", "segment.bytes"]
    async with Admin(bootstrap_servers=bootstrap) as admin:

        async def now() -> list[str | None]:
            configs = (await admin.describe_configs(topics=[name], keys=keys))[name]
            return [configs[key].value for key in keys]

        async def shown(*wanted: str | None) -> None:
            """Kafka's broker learns of a change a moment after it was made."""

            async def same() -> bool:
                return await now() == [*wanted]

            await eventually(same)

        before = await now()
        change = {"retention.ms": "5000", "cleanup.policy": ConfigChange("append", "compact")}
        await admin.incremental_alter_configs(topics={name: change}, validate_only=True)
        assert await now() == before
        await admin.incremental_alter_configs(topics={name: change})
        await shown("5000", "delete,compact", before[2])
        await admin.incremental_alter_configs(
            topics={name: {"retention.ms": None, "cleanup.policy": ConfigChange("subtract", "delete")}}
        )
        await shown(before[0], "compact", before[2])
        await admin.alter_configs(topics={name: {"segment.bytes": "2000000"}})
        await shown(*before[:2], "2000000")  # what is not named goes back to its default
        with pytest.raises(KafkaError) as caught:
            await admin.incremental_alter_configs(topics={name: {"no.such.setting": "1"}})
        assert caught.value.code is ErrorCode.INVALID_CONFIG


async def calls_that_do_not_fit(bootstrap: str, name: str) -> None:
    await create(bootstrap, name)
    async with Producer(bootstrap_servers=bootstrap) as plain:
        with pytest.raises(InvalidTransactionState, match="without transactional_id"):
            await plain.begin_transaction()
    async with producer(bootstrap, name) as one:
        with pytest.raises(InvalidTransactionState, match="begin_transaction"):
            await one.send(name, b"x")
        with pytest.raises(InvalidTransactionState):
            await one.commit_transaction()
        await one.begin_transaction()
        with pytest.raises(InvalidTransactionState):
            await one.begin_transaction()
        await one.commit_transaction()
    with pytest.raises(KafkaError, match=r"transaction\.max\.timeout\.ms"):
        await producer(bootstrap, f"{name}-long", transaction_timeout_ms=2_000_000_000).start()


SCENARIOS: list[Scenario] = [
    committed_and_aborted,
    an_open_transaction_is_not_seen,
    offsets_count_only_when_committed,
    a_block_that_raises_is_aborted,
    a_later_producer_fences_an_earlier_one,
    a_producer_that_stops_leaves_nothing_open,
    an_error_is_followed_by_the_next_transaction,
    a_member_left_behind_commits_nothing,
    many_transactions_in_a_row,
    a_transaction_that_takes_too_long,
    what_the_admin_client_shows,
    a_marker_by_hand,
    changed_settings,
    calls_that_do_not_fit,
]
