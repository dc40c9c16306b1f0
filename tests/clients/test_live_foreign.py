"""Producer and consumer against librdkafka's mock cluster: three brokers, and a peer that is not ours.

Its ApiVersions refuses newer versions in a form of its own, and its JoinGroup takes no flexible version, so groups are
tested elsewhere.
"""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer as MockCluster

from ottla.clients import Admin, Consumer, Producer, TopicPartition, UnsupportedByBroker
from tests.clients.live import numbers, read

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    mock = MockCluster({"test.mock.num.brokers": 3, "log_level": 0})
    brokers = mock.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{one.host}:{one.port}" for one in brokers)
    mock.flush()


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_records_through_three_brokers(cluster: str, codec: str | None) -> None:
    topic = f"t-{codec}"
    async with Producer(bootstrap_servers=cluster, linger_ms=2, compression_type=codec) as producer:
        partitions = sorted(await producer.partitions_for(topic))
        sent = [await producer.send(topic, b"%d" % n, partition=n % len(partitions)) for n in range(400)]
        places = await asyncio.gather(*sent)
    assert len({(place.partition, place.offset) for place in places}) == 400
    async with Consumer(bootstrap_servers=cluster, auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        consumer.assign([TopicPartition(topic, p) for p in partitions])
        assert sorted(numbers(await read(consumer, 400))) == list(range(400))
        ends = await consumer.end_offsets([TopicPartition(topic, p) for p in partitions])
        assert sum(ends.values()) == 400


async def test_what_it_does_not_serve_is_told(cluster: str) -> None:
    async with Admin(bootstrap_servers=cluster) as admin:
        assert len((await admin.describe_cluster()).brokers) == 3, "without DescribeCluster, from its metadata"
        with pytest.raises(UnsupportedByBroker, match="does not serve CREATE_TOPICS"):
            await admin.create_topics(["x"])
