"""The producer against a broker."""

import asyncio
import time
from typing import Any

import pytest

from ottla.clients import (
    ClientClosed,
    Consumer,
    ErrorCode,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeout,
    OptionError,
    Producer,
    TimestampType,
    TopicPartition,
)
from ottla.clients.partitioner import partition_for_key
from ottla.testing import Broker
from tests.clients.live import create, numbers, read

pytestmark = pytest.mark.e2e


def producer_of(broker: Broker, **options: Any) -> Producer:
    return Producer(bootstrap_servers=broker.bootstrap_servers, **options)


async def all_of(broker: Broker, partitions: list[TopicPartition], count: int) -> list[int]:
    async with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        return numbers(await read(consumer, count))


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_codecs(broker: Broker, name: str, codec: str | None) -> None:
    places = await create(broker, name, 2)
    async with producer_of(broker, compression_type=codec, linger_ms=5, max_batch_size=500) as producer:
        futures = [
            await producer.send(name, b"%d" % n, partition=n % 2, headers=[("h", b"x"), ("h", None)])
            for n in range(300)
        ]
        metadata = await asyncio.gather(*futures)
    assert [m.offset for m in metadata if m.partition == 0] == list(range(150))
    assert {(m.topic, m.timestamp_type) for m in metadata} == {(name, TimestampType.CREATE_TIME)}
    assert sorted(await all_of(broker, places, 300)) == list(range(300))


@pytest.mark.parametrize(("acks", "offset"), [(0, -1), (1, 0), ("all", 0), (-1, 0)])
async def test_acks(broker: Broker, name: str, acks: int | str, offset: int) -> None:
    places = await create(broker, name)
    async with producer_of(broker, acks=acks) as producer:
        assert (await producer.send_and_wait(name, b"0")).offset == offset
        await producer.send_and_wait(name, b"1")
    assert await all_of(broker, places, 2) == [0, 1]


async def test_keys_partitions_and_times(broker: Broker, name: str) -> None:
    await create(broker, name, 5)
    async with producer_of(broker, key_serializer=str.encode, value_serializer=repr_bytes) as producer:
        keyed = await producer.send_and_wait(name, 1, key="k")
        assert keyed.partition == partition_for_key(b"k", 5)
        assert (await producer.send_and_wait(name, None, key="k", partition=3)).partition == 3
        before = time.time() * 1000
        assert before - 1 <= (await producer.send_and_wait(name, 2)).timestamp <= time.time() * 1000
        assert (await producer.send_and_wait(name, 2, timestamp_ms=5)).timestamp == 5
        assert await producer.partitions_for(name) == set(range(5))
    async with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([keyed.tp, TopicPartition(name, 3)])
        # Records without a key may have come to the same partitions: read on until both are found.
        wanted = {(keyed.partition, b"k", b"1"), (3, b"k", None)}
        found: set[tuple[int, bytes | None, bytes | None]] = set()
        while not found >= wanted:
            found |= {(r.partition, r.key, r.value) for r in await read(consumer, 1)}


def repr_bytes(value: object) -> bytes:
    return repr(value).encode()


async def test_a_partitioner_of_ones_own(broker: Broker, name: str) -> None:
    await create(broker, name, 3)
    seen: list[tuple[bytes | None, list[int], list[int]]] = []

    def last(key: bytes | None, everything: list[int], available: list[int]) -> int:
        seen.append((key, everything, available))
        return 9 if key == b"bad" else everything[-1]

    async with producer_of(broker, partitioner=last) as producer:
        assert (await producer.send_and_wait(name, b"v", key=b"k")).partition == 2
        assert seen == [(b"k", [0, 1, 2], [0, 1, 2])]
        with pytest.raises(OptionError, match="chose 9"):
            await producer.send(name, b"v", key=b"bad")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"topic": 5}, "^topic=5: allowed is a name"),
        ({"topic": b"bytes"}, "^topic=b'bytes': allowed is a name"),
        ({"topic": ["list"]}, r"^topic=\['list'\]: allowed is a name"),
        ({"topic": "\ud800"}, "allowed is a name"),
        ({"partition": "0"}, "^partition='0': 'NAME' has partitions 0 to 0"),
        ({"partition": 0.0}, "^partition=0.0: "),
        ({"timestamp_ms": 1.5}, "^timestamp_ms=1.5: allowed is .*from 0"),
        ({"timestamp_ms": 1 << 63}, "^timestamp_ms="),
        ({"headers": {"a": b"1"}}, r"^headers={'a': b'1'}: allowed is a list of pairs .*\[\('name', b'value'\)\]"),
        ({"headers": [("a", "text")]}, "^headers="),
        ({"headers": [("\ud800", b"1")]}, "^headers="),
    ],
    ids=lambda one: str(one) if isinstance(one, dict) else "",
)
async def test_a_wrong_type_does_not_harm_the_producer(
    broker: Broker, name: str, arguments: dict[str, object], words: str
) -> None:
    places = await create(broker, name)
    async with producer_of(broker) as producer:
        with pytest.raises(OptionError, match=words.replace("NAME", name)):
            await producer.send(**{"topic": name, "value": b"x", **arguments})  # type: ignore[arg-type]
        if "topic" in arguments:
            with pytest.raises(OptionError, match=words):
                await producer.partitions_for(arguments["topic"])  # type: ignore[arg-type]
        await producer.send_and_wait(name, b"1", headers=[("a", b"1"), ("b", None)])
    assert await all_of(broker, places, 1) == [1]


async def test_what_cannot_be_sent_is_refused_at_once(broker: Broker, name: str) -> None:
    await create(broker, name)
    async with producer_of(broker, max_request_size=1000) as producer:
        with pytest.raises(OptionError, match=r"value='text'.*value_serializer"):
            await producer.send(name, "text")
        with pytest.raises(OptionError, match="partitions 0 to 0"):
            await producer.send(name, b"x", partition=1)
        with pytest.raises(KafkaError, match="max_request_size") as caught:
            await producer.send(name, b"x" * 1000)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(KafkaError, match="invalid topic"):
            await producer.send("not a topic", b"x")


async def test_a_batch_that_the_topic_does_not_take_is_split(broker: Broker, name: str) -> None:
    """Until single records are left; what is too large alone fails, and the rest goes through in order."""
    places = await create(broker, name, **{"max.message.bytes": "400"})
    async with producer_of(broker, linger_ms=20, max_batch_size=100_000) as producer:
        futures = [await producer.send(name, b"%d" % n if n != 20 else b"2" * 500) for n in range(60)]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
    [refused] = [outcome for outcome in outcomes if isinstance(outcome, KafkaError)]
    assert (refused.code, outcomes.index(refused)) == (ErrorCode.MESSAGE_TOO_LARGE, 20)
    assert await all_of(broker, places, 59) == [n for n in range(60) if n != 20]


async def test_linger_gathers_and_flush_does_not_wait_for_it(broker: Broker, name: str) -> None:
    await create(broker, name)
    async with producer_of(broker, linger_ms=15_000) as producer:
        futures = [await producer.send(name, b"x") for _ in range(10)]
        await asyncio.sleep(0.05)
        assert not any(future.done() for future in futures)
        async with asyncio.timeout(10):
            await producer.flush()
        assert [future.result().offset for future in futures] == list(range(10))


async def test_buffer_memory_holds_senders_back(broker: Broker, name: str) -> None:
    await create(broker, name)
    async with producer_of(broker, linger_ms=60_000, buffer_memory=3_000, max_block_ms=100) as producer:
        for _ in range(2):
            await producer.send(name, b"x" * 1_000)
        with pytest.raises(KafkaTimeout, match="buffer_memory=3000"):
            await producer.send(name, b"x" * 1_000)
        waiting = asyncio.ensure_future(producer.send(name, b"y" * 1_000))
        await asyncio.sleep(0)
        await producer.flush()
        async with asyncio.timeout(10):
            await waiting


async def test_a_send_that_is_cancelled_has_queued_nothing(broker: Broker, name: str) -> None:
    places = await create(broker, name)
    async with producer_of(broker, linger_ms=60_000, buffer_memory=2_000) as producer:
        await producer.send(name, b"0" + b" " * 1_500)
        waiting = asyncio.ensure_future(producer.send(name, b"1" + b" " * 1_500))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await producer.flush()
        await producer.send(name, b"2")
    assert await all_of(broker, places, 2) == [0, 2]


async def test_stop_delivers_and_a_stopped_producer_says_so(broker: Broker, name: str) -> None:
    places = await create(broker, name)
    producer = producer_of(broker, linger_ms=60_000)
    with pytest.raises(ClientClosed, match="new"):
        await producer.send(name, b"0")
    await producer.start()
    future = await producer.send(name, b"0")
    await producer.stop()
    await producer.stop()
    assert (await future).offset == 0
    with pytest.raises(ClientClosed, match="stopped"):
        await producer.send(name, b"0")
    with pytest.raises(ClientClosed, match="make a new one"):
        await producer.start()
    assert await all_of(broker, places, 1) == [0]


async def test_nobody_at_home() -> None:
    with pytest.raises(KafkaConnectionError, match=r"127\.0\.0\.1:1"):
        await Producer(bootstrap_servers="127.0.0.1:1").start()


async def test_without_a_broker_records_fail_in_time(name: str) -> None:
    with Broker(topics={name: 1}) as broker:
        producer = producer_of(
            broker,
            delivery_timeout_ms=400,
            request_timeout_ms=300,
            reconnect_backoff_max_ms=50,
        )
        await producer.start()
        await producer.send_and_wait(name, b"0")
    future = await producer.send(name, b"1")
    with pytest.raises(KafkaTimeout, match=r"not delivered in 0\.4 s"):
        await asyncio.wait_for(future, 10)
    late = await producer.send(name, b"2")
    await producer.stop(timeout_ms=10)
    with pytest.raises(ClientClosed):
        await late


async def test_metadata_that_do_not_come_are_waited_for_no_longer_than_allowed(name: str) -> None:
    with Broker({"auto.create.topics.enable": False}) as broker:
        async with producer_of(broker, max_block_ms=100) as producer:
            with pytest.raises(KafkaError, match="unknown topic") as caught:
                await producer.send(name, b"x")
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
