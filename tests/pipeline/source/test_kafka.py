"""Apache Kafka over TCP and its log directory give the same rows. Needs Java, and Kafka's jars or Maven."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pyspark.sql.datasource import EqualTo
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.differential.real_kafka import CLUSTER_ID, RealKafka, skip_without_kafka
from tests.pipeline.source.reading import commit, create, join, produce, read, read_between, stream_reader, transact
from tests.pipeline.source.test_equality import CODECS, READS, everything
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 3,
    "log.index.interval.bytes": 500,
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealKafka]:
    skip_without_kafka()
    with RealKafka(SETTINGS) as running:
        yield running


def test_the_directory_of_apache_kafka_has_the_rows_that_it_told(kafka: RealKafka) -> None:
    servers = f"127.0.0.1:{kafka.port}"
    broker = SimpleNamespace(bootstrap_servers=servers)
    assert read(broker, decode="commits") == [], "its topic is made when the first group comes"
    stream = stream_reader(broker, decode="commits")
    start = stream.initialOffset()
    create(servers, "orders", 3, segment_bytes=1_048_576)
    create(servers, "compact", 1, cleanup_policy="compact")
    for codec in CODECS:
        produce(servers, "orders", 40, **{"compression.type": codec})
        produce(servers, "compact", 40, **{"compression.type": codec})
    join(servers, "g1", "orders")
    for number in range(10):
        commit(servers, f"g{number}", "orders", {0: number, 2: number})
    for name, end in (("t1", "commit"), ("t2", "abort"), ("t3", "commit")):
        transact(servers, name, "orders", end=end, group="g3")
    # The markers are written after the client was told of the end.
    wait_for(
        lambda: sum(row["topic"] == "orders" for row in read(broker, **READS[6])) == 210,
        "committed transactions to be seen",
    )
    open_one = transact(servers, "t4", "orders", end="open", group="g4")
    produce(servers, "orders", 30)
    told = everything(broker)
    assert told[0] and told[1]
    assert len(told[3]) < len(told[4])
    for options, rows in zip(READS, told, strict=True):
        assert read(kafka.data, **options) == rows, options
    rows = read(broker, [EqualTo(("group_id",), "g7")], decode="commits")
    assert {row["committed_offset"] for row in rows if row["group_id"] == "g7"} == {7}
    assert len({row["log_partition"] for row in rows}) == 1
    # The topic was not there when the stream began.
    assert read_between(stream, start, stream.latestOffset(start, ReadAllAvailable())) == told[0]
    assert read(broker, decode="events") == []
    assert len(read(broker, decode="ends")) == 4
    assert stream.logs.cluster_id == CLUSTER_ID
    stream.stop()
    del open_one
