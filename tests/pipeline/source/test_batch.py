"""The batch reader over TCP: which partitions and offsets are read, and what happens when brokers do not answer."""

import logging
import socket
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In

from ottla.clients.errors import OptionError
from ottla.pipeline.source.cluster import Cluster, Fetching
from ottla.pipeline.source.connection import Connection
from ottla.pipeline.source.logs import DataLoss, SourceError, Span, Topic
from ottla.pipeline.source.options import Options, parse_options
from ottla.pipeline.source.rows import Losses
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.list_offsets import ListOffsetsResponse
from ottla.protocol.offsets_topic import OffsetValue, encode_offset_value, offset_key
from ottla.protocol.records import Record, TopicPartition
from ottla.testing import Broker
from tests.pipeline.source.reading import batch_reader, commit, create, produce, producer, read
from tests.support.batches import build_batch

GROUPS = tuple(f"group-{number}" for number in range(12))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def broker(directory: Path) -> Iterator[Broker]:
    settings = {"offsets.topic.num.partitions": 7, "log.segment.bytes": 2_000}
    with Broker(settings, data_dir=directory, topics={"orders": 3, "other": 1}) as one:
        produce(one.bootstrap_servers, "orders", 300)
        produce(one.bootstrap_servers, "other", 5, **{"compression.type": "zstd"})
        for number, group in enumerate(GROUPS):
            commit(one.bootstrap_servers, group, "orders", {0: number})
        yield one


def test_only_partitions_of_the_groups_asked_for_are_read(broker: Broker, directory: Path) -> None:
    wanted = {coordinator_partition(group, 7) for group in GROUPS[:2]}
    for place in (broker, directory):
        reader = batch_reader(place, decode="commits")
        filters = [In(("group_id",), GROUPS[:2]), GreaterThan(("committed_offset",), 0)]
        assert list(reader.pushFilters(list(filters))) == filters, "Spark still checks the rows"
        assert {span.tp.partition for part in reader.partitions() for span in part.spans} == wanted
    rows = read(broker, [EqualTo(("group_id",), GROUPS[5])], decode="commits")
    assert GROUPS[5] in {row["group_id"] for row in rows}
    assert {row["log_partition"] for row in rows} == {coordinator_partition(GROUPS[5], 7)}


def group_of(partition: int, not_of: int, partitions: int) -> str:
    """A group of one of 50 partitions that would be of another one if there were fewer."""
    groups = (f"g{number}" for number in range(10_000))
    return next(
        group
        for group in groups
        if coordinator_partition(group) == partition and coordinator_partition(group, partitions) == not_of
    )


def put_commit(root: Path, name: str, group: str) -> None:
    value = encode_offset_value(OffsetValue(offset=1, metadata="", commit_timestamp=1), 3)
    batch = build_batch([Record(timestamp_ms=1, key=offset_key(group, "orders", 0), value=value)], base_offset=0)
    (root / name).mkdir()
    (root / name / f"{0:020d}.log").write_bytes(bytes(batch))


@pytest.mark.parametrize("topic", ["__consumer_offsets", "copy"])
def test_groups_are_found_where_not_all_partitions_are_there(tmp_path: Path, topic: str) -> None:
    group = group_of(2, 0, 3)
    for partition, one in enumerate((group_of(0, 1, 3), group_of(1, 0, 3), group)):
        put_commit(tmp_path, f"{topic}-{partition}", one)
    rows = read(tmp_path, [EqualTo(("group_id",), group)], decode="commits", subscribe=topic)
    assert group in {row["group_id"] for row in rows}, "one of several brokers has only some partitions"


def test_groups_are_found_in_copies_of_the_topic() -> None:
    with Broker(topics={"copied": 4}) as broker:
        value = encode_offset_value(OffsetValue(offset=1, metadata="", commit_timestamp=1), 3)
        one = producer(broker.bootstrap_servers)
        for number in range(4):
            one.produce("copied", value, offset_key("g", "orders", number), number)
        assert one.flush(30) == 0
        assert len(read(broker, [EqualTo(("group_id",), "g")], decode="commits", subscribe="copied")) == 4


def test_only_partitions_asked_for_by_number_are_read(broker: Broker) -> None:
    assert {row["log_partition"] for row in read(broker, [In(("log_partition",), (1, 2))], decode="log")} <= {1, 2}
    assert {row["partition"] for row in read(broker, [EqualTo(("partition",), 2)], subscribe="orders")} == {2}
    # In commits the column is of the partition whose offset was committed.
    assert len(read(broker, [EqualTo(("partition",), 2)], decode="commits")) == len(GROUPS)


def test_all_that_is_subscribed_to(broker: Broker) -> None:
    assert len(read(broker, subscribe="orders,other,no-such-topic")) == 305
    assert {row["topic"] for row in read(broker, subscribePattern="o.*")} == {"orders", "other"}
    assert len(read(broker, assign='{"orders": [0, 2]}')) == 200
    assert read(broker, subscribe="no-such-topic") == []


def test_times_find_the_same_offsets_in_files(broker: Broker, directory: Path) -> None:
    times = [row["timestamp"] for row in read(broker, subscribe="orders")]
    middle = sorted(times)[len(times) // 2]
    after = str(int(max(times).timestamp() * 1000) + 1000)
    for options in (
        {"startingTimestamp": str(int(middle.timestamp() * 1000))},
        {"endingTimestamp": str(int(middle.timestamp() * 1000))},
        {"startingTimestamp": after},
        {"endingTimestamp": after},
        {"startingTimestamp": "0"},
    ):
        rows = read(broker, subscribe="orders", **options)
        assert read(directory, subscribe="orders", **options) == rows, options
    with pytest.raises(OptionError, match=r"'startingTimestamp' is \d+, and nothing is that young in orders-0"):
        read(broker, subscribe="orders", startingTimestamp=after, startingOffsetsByTimestampStrategy="error")


def test_small_fetches_give_the_same_rows(broker: Broker) -> None:
    rows = read(broker, subscribe="orders,other")
    assert read(broker, subscribe="orders,other", **{"kafka.max.partition.fetch.bytes": "100"}) == rows
    assert read(broker, subscribe="orders,other", minPartitions="11", tasks="2") == rows


def test_what_is_well_compressed_is_not_opened_all_at_once(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.pipeline.source.cluster._MOST_HELD", 1000)
    given = options(broker.port)
    cluster, losses, taken = Cluster(given), Losses(given), []
    take = Fetching._take

    def counted(self: Fetching, tp: TopicPartition, *others: Any) -> Any:
        taken.append(tp)
        return take(self, tp, *others)

    monkeypatch.setattr(Fetching, "_take", counted)
    spans = [Span(TopicPartition("orders", partition), 0, 100) for partition in range(3)]
    chunks = cluster.chunks(spans, losses.lost, losses.broken)
    count = len(next(chunks))
    assert len(taken) == 1
    assert count + sum(len(chunk) for chunk in chunks) == 300
    assert len(taken) >= 3
    cluster.close()


def test_ends_of_all_topics_but_internal_ones(broker: Broker) -> None:
    rows = read(broker, decode="ends")
    assert [(row["topic"], row["partition"], row["log_end_offset"]) for row in rows] == [
        ("orders", 0, 100),
        ("orders", 1, 100),
        ("orders", 2, 100),
        ("other", 0, 5),
    ]
    assert {row["topic"] for row in read(broker, decode="ends", subscribe="other")} == {"other"}


# -- brokers that do not answer


def options(port: int, **more: str) -> Options:
    given = {"kafka.bootstrap.servers": f"127.0.0.1:{port}", "subscribe": "orders", **more}
    return parse_options(given, streaming=False)


def test_nobody_answers_at_an_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    pauses: list[float] = []
    cluster = Cluster(options(port, **{"fetchOffset.numRetries": "3"}), pauses.append)
    with pytest.raises(SourceError, match=rf"could not list topics in 4 tries: cannot connect to 127.0.0.1:{port}: "):
        cluster.topics(["orders"])
    assert len(pauses) == 3
    assert pauses[0] < pauses[1] < pauses[2]


def test_somebody_takes_the_call_and_says_nothing() -> None:
    more = {"kafka.request.timeout.ms": "20", "fetchOffset.numRetries": "1"}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        cluster = Cluster(options(port, **more), lambda _: None)
        with pytest.raises(SourceError, match=rf"no connection to 127.0.0.1:{port} in 20 ms"):
            cluster.topics(["orders"])


def test_a_connection_to_itself_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """One to a port of the ephemeral range that nobody listens at may be given that port as its own."""
    connect = socket.socket.connect

    def from_there(self: socket.socket, address: tuple[str, int]) -> None:
        self.bind(address)
        connect(self, address)

    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setattr(socket.socket, "connect", from_there)
    cluster = Cluster(options(port, **{"fetchOffset.numRetries": "0"}))
    with pytest.raises(SourceError, match=f"127.0.0.1:{port}: nobody listens there"):
        cluster.topics(["orders"])


def test_an_answer_that_lies_there_while_others_are_decoded_is_not_late(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path, topics={"orders": 1}) as broker:
        for _ in range(3):
            produce(broker.bootstrap_servers, "orders", 1, size=900_000)
        more = {"kafka.request.timeout.ms": "500", "kafka.max.partition.fetch.bytes": "1000000"}
        given = options(broker.port, **more)
        pauses: list[float] = []
        cluster, losses = Cluster(given, pauses.append), Losses(given)
        count = 0
        for chunk in cluster.chunks([Span(TopicPartition("orders", 0), 0, 3)], losses.lost, losses.broken):
            count += len(chunk)
            time.sleep(0.6)
        cluster.close()
    assert (count, pauses) == (3, [])


def test_the_next_address_is_tried(broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = closed.getsockname()[1]
    given = {"kafka.bootstrap.servers": f"127.0.0.1:{dead},{broker.bootstrap_servers}", "subscribe": "orders"}
    cluster = Cluster(parse_options(given, streaming=False))
    assert cluster.topics(["orders"])["orders"].partitions == (0, 1, 2)
    cluster.close()


def test_a_broker_that_comes_back_is_read_on(tmp_path: Path) -> None:
    first = Broker(data_dir=tmp_path).start()
    create(first.bootstrap_servers, "orders")
    for _ in range(5):
        produce(first.bootstrap_servers, "orders", 10, size=2000)
    again: list[Broker] = []

    def restart(_: float) -> None:
        if not again:
            again.append(Broker(data_dir=tmp_path, port=port).start())

    port = first.port
    given = options(port, **{"kafka.max.partition.fetch.bytes": "10000"})
    cluster, losses = Cluster(given, restart), Losses(given)
    chunks = cluster.chunks([Span(TopicPartition("orders", 0), 0, 50)], losses.lost, losses.broken)
    count = len(next(chunks))
    first.stop()
    try:
        assert 0 < count < 50
        assert count + sum(len(chunk) for chunk in chunks) == 50
        assert again, "the broker was away in between"
    finally:
        cluster.close()
        for one in again:
            one.stop()


def test_a_broker_that_does_not_know_a_topic_yet_is_asked_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(broker.port)
    cluster, losses, wanted = Cluster(given, lambda _: None), Losses(given), TopicPartition("orders", 0)
    asked: list[object] = []
    topics = Cluster._topics

    def forgetful(self: Cluster, names: object) -> dict[str, Topic]:
        asked.append(names)
        return {} if len(asked) == 1 else topics(self, ["orders"])

    cluster.topics(["orders"])
    cluster.forget()
    monkeypatch.setattr(Cluster, "_topics", forgetful)
    assert sum(len(chunk) for chunk in cluster.chunks([Span(wanted, 0, 100)], losses.lost, losses.broken)) == 100
    cluster.close()
    assert len(asked) == 2


def test_offsets_that_a_broker_does_not_know_yet_are_asked_for_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of Apache Kafka's when they learn late of a topic, or of a partition that was moved to them."""
    receive, codes = Connection.receive, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    def late(self: Connection, asked: Any) -> Any:
        answer = receive(self, asked)
        if isinstance(answer, ListOffsetsResponse) and codes:
            answer.topics[0].partitions[0].error_code = codes.pop()
        return answer

    monkeypatch.setattr(Connection, "receive", late)
    assert len(read(broker, subscribe="other")) == 5
    assert codes == []


def test_a_partition_without_a_leader_does_not_keep_others_from_being_sampled(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topics = Cluster._topics

    def leaderless(self: Cluster, names: Collection[str] | None) -> dict[str, Topic]:
        found = topics(self, names)
        partitions = self._metadata.topics["orders"].partitions
        partitions[1] = partitions[1]._replace(leader_id=-1)
        return found

    monkeypatch.setattr(Cluster, "_topics", leaderless)
    with caplog.at_level(logging.WARNING, "ottla.pipeline.source"):
        rows = read(broker, decode="ends", subscribe="orders", **{"fetchOffset.numRetries": "0"})
    assert [(row["partition"], row["log_end_offset"]) for row in rows] == [(0, 100), (2, 100)]
    assert "1 partitions have no leader, and no sample: orders-1" in caplog.text


def test_damage_that_a_broker_tells_is_a_row_of_quarantine(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Connection.receive

    def damaged(self: Connection, asked: Any) -> Any:
        answer = receive(self, asked)
        if isinstance(answer, FetchResponse):
            for row in answer.responses[0].partitions:
                row.error_code = ErrorCode.CORRUPT_MESSAGE
        return answer

    monkeypatch.setattr(Connection, "receive", damaged)
    given = {"decode": "quarantine", "subscribe": "other"}
    (row,) = read(broker, **given)
    assert (row["log_offset"], row["error"][:14]) == (0, "damaged batch:")
    with pytest.raises(DataLoss, match="the broker says that its log is damaged"):
        read(broker, subscribe="other")


def test_a_topic_that_is_gone_is_a_loss(broker: Broker) -> None:
    given = options(broker.port)
    cluster, losses = Cluster(given, lambda _: None), Losses(given)
    gone = TopicPartition("gone", 0)
    assert cluster.bounds([gone]) == {}
    with pytest.raises(DataLoss, match="gone-0: it does not exist any more"):
        list(cluster.chunks([Span(gone, 0, 100)], losses.lost, losses.broken))
    cluster.close()
