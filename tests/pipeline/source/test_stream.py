"""The stream reader without Spark: what is in its offsets, and what it says when the log is not what it was."""

import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ottla.pipeline.source.logs import DataLoss, SourceError
from ottla.pipeline.source.stream import OttlaStreamReader
from ottla.testing import Broker
from tests.pipeline.source.reading import QUIET, commit, create, ends_reader, produce, read_between, stream_reader
from tests.support.waiting import wait_for

ALL = ReadAllAvailable()
Stream = Callable[..., OttlaStreamReader]
START = {"startingOffsets": "earliest"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as one:
        yield one


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})


@pytest.fixture
def stream(broker: Broker) -> Iterator[Stream]:
    """Readers with these options, which are stopped in the end."""
    with ExitStack() as stops:

        def reader(**options: str) -> OttlaStreamReader:
            made = stream_reader(broker, **options)
            stops.callback(made.stop)
            return made

        yield reader


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """Three partitions with ten records each."""
    name = f"t{abs(hash(request.node.name))}"
    create(broker.bootstrap_servers, name, 3)
    produce(broker.bootstrap_servers, name, 30)
    return name


def positions(offset: dict[str, Any], topic: str) -> dict[str, int]:
    found: dict[str, int] = offset["topics"][topic]["next"]
    return found


def again(offset: dict[str, Any]) -> dict[str, Any]:
    """As Spark gives it back."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def test_a_limit_is_kept_and_nothing_is_lost(stream: Stream, topic: str) -> None:
    reader = stream(subscribe=topic, maxOffsetsPerTrigger="12", **START)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(12)
    at, rows, sizes = reader.initialOffset(), [], []
    while (ahead := again(reader.latestOffset(at, limit))) != at:
        some = read_between(reader, at, ahead)
        assert read_between(reader, at, ahead) == some, "a batch that is read again is the same"
        sizes.append(len(some))
        rows += some
        at = ahead
    assert sizes == [12, 12, 6]
    assert len({(row["partition"], row["offset"]) for row in rows}) == 30
    assert reader.reportLatestOffset() == at


def test_available_now_has_a_target_that_stays(stream: Stream, broker: Broker, topic: str) -> None:
    reader = stream(subscribe=topic, **START)
    reader.prepareForTriggerAvailableNow()
    produce(broker.bootstrap_servers, topic, 30)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(20))
    end = reader.latestOffset(middle, ReadMaxRows(20))
    assert positions(end, topic) == {"0": 10, "1": 10, "2": 10}
    assert reader.latestOffset(end, ALL) == end
    assert reader.partitions(end, end) == []


def test_what_comes_between_the_target_and_the_latest_offsets_is_not_taken_for_a_new_topic(
    stream: Stream, broker: Broker, topic: str
) -> None:
    reader = stream(subscribe=topic, startingOffsets="latest")
    reader.prepareForTriggerAvailableNow()
    produce(broker.bootstrap_servers, topic, 6)
    start = again(reader.initialOffset())
    end = again(reader.latestOffset(start, ALL))
    assert positions(end, topic) == positions(start, topic) == {"0": 12, "1": 12, "2": 12}
    assert read_between(reader, start, end) == []


def test_new_partitions_are_read_from_their_beginning(
    stream: Stream, broker: Broker, admin: AdminClient, topic: str
) -> None:
    reader = stream(subscribe=topic, startingOffsets="latest")
    start = again(reader.initialOffset())
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
    produce(broker.bootstrap_servers, topic, 10)
    end = reader.latestOffset(start, ALL)
    assert positions(end, topic) == {"0": 12, "1": 12, "2": 12, "3": 2, "4": 2}
    assert len(read_between(reader, start, end)) == 10


def test_a_topic_may_come_later(stream: Stream, broker: Broker) -> None:
    reader = stream(subscribe="later", startingOffsets="latest")
    start = again(reader.initialOffset())
    assert start == {"v": 1, "topics": {}}
    assert reader.latestOffset(start, ALL) == start
    create(broker.bootstrap_servers, "later")
    produce(broker.bootstrap_servers, "later", 4)
    end = reader.latestOffset(start, ALL)
    assert len(read_between(reader, start, end)) == 4


def recreate(broker: Broker, admin: AdminClient, topic: str, count: int) -> None:
    admin.delete_topics([topic])[topic].result(30)
    wait_for(lambda: topic not in admin.list_topics(timeout=30).topics, "the topic to go")
    create(broker.bootstrap_servers, topic, 3)
    produce(broker.bootstrap_servers, topic, count)


@pytest.mark.parametrize("count", [60, 3], ids=["longer", "a target below the checkpoint"])
def test_a_topic_that_was_made_anew_is_an_error(
    stream: Stream, broker: Broker, admin: AdminClient, topic: str, count: int
) -> None:
    reader = stream(subscribe=topic)
    start = again(reader.initialOffset())
    recreate(broker, admin, topic, count)
    if count == 3:
        reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match=r"created anew.*failOnDataLoss=false"):
        reader.partitions(start, end)


def test_or_is_read_from_its_beginning(
    stream: Stream, broker: Broker, admin: AdminClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream(subscribe=topic, failOnDataLoss="false")
    start = again(reader.initialOffset())
    recreate(broker, admin, topic, 15)
    end = again(reader.latestOffset(start, ALL))
    with caplog.at_level(logging.WARNING, "ottla.pipeline.source"):
        assert len(read_between(reader, start, end)) == 15
    assert "created anew" in caplog.text
    produce(broker.bootstrap_servers, topic, 3)
    assert len(read_between(reader, end, reader.latestOffset(end, ALL))) == 3


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_log_that_begins_behind_the_checkpoint(stream: Stream, admin: AdminClient, topic: str, strict: str) -> None:
    reader = stream(subscribe=topic, failOnDataLoss=strict, **START)
    start = again(reader.initialOffset())
    for future in admin.delete_records([TopicPartition(topic, 1, 7)]).values():
        future.result(30)
    end = reader.latestOffset(start, ALL)
    if strict == "true":
        with pytest.raises(DataLoss, match=rf"{topic}-1: offsets 0 to 7 were deleted before they were read"):
            reader.partitions(start, end)
    else:
        rows = read_between(reader, start, end)
        assert [row["offset"] for row in rows if row["partition"] == 1] == [7, 8, 9]
        assert len(rows) == 23


def test_a_log_that_is_cut_while_it_is_read(stream: Stream, admin: AdminClient, topic: str) -> None:
    reader = stream(subscribe=topic, failOnDataLoss="false", **START)
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, ALL))
    for future in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        future.result(30)
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == 26


def test_a_log_that_ends_too_early_is_looked_at_again(stream: Stream, topic: str) -> None:
    pauses: list[float] = []
    reader = stream(subscribe=topic)
    reader._pause = pauses.append
    start = again(reader.initialOffset())
    positions(start, topic)["2"] = 14
    end = reader.latestOffset(start, ALL)
    assert pauses == [0.2] * 5
    with pytest.raises(DataLoss, match=rf"{topic}-2: it was read up to 14, and ends at 10"):
        reader.partitions(start, end)


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_batch_that_is_made_again_and_whose_records_are_gone(stream: Stream, topic: str, strict: str) -> None:
    """As after an election of a leader that did not have them, while the batch was being written."""
    reader = stream(subscribe=topic, failOnDataLoss=strict, **START)
    reader._pause = lambda _: None
    start = again(reader.initialOffset())
    end = again(reader.latestOffset(start, ALL))
    positions(end, topic)["2"] = 14
    if strict == "true":
        with pytest.raises(DataLoss, match=rf"{topic}-2: offsets 10 to 14 were there and are not any more"):
            reader.partitions(start, end)
    else:
        assert len(read_between(reader, start, end)) == 30


@pytest.mark.parametrize(
    "document",
    [{"0": 5}, {"v": 2, "topics": {}}, {"v": 1, "topics": {}, "more": 1}, {"v": 1, "topics": {"t": {"next": {}}}}, []],
)
def test_offsets_of_an_unknown_layout_are_refused(stream: Stream, topic: str, document: Any) -> None:
    reader = stream(subscribe=topic)
    with pytest.raises(SourceError, match="layout that this version does not read"):
        reader.latestOffset(document, ALL)


def test_progress_is_mirrored_to_a_group(stream: Stream, broker: Broker, topic: str) -> None:
    reader = stream(subscribe=topic, group="spark", **START)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.commit(again(end))
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "spark", **QUIET}) as consumer:
        found = consumer.committed([TopicPartition(topic, partition) for partition in range(3)], 30)
        assert [one.offset for one in found] == [10, 10, 10]


def test_progress_is_mirrored_though_a_connection_was_closed_meanwhile(
    stream: Stream, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream(subscribe=topic, group="idle", **START)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.commit(end)
    assert reader._mirror is not None
    assert reader._mirror._coordinator is not None
    transport = reader._mirror._coordinator._connection._transport
    assert transport is not None
    transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    with caplog.at_level(logging.WARNING, "ottla.pipeline.source"):
        reader.commit(end)
    assert caplog.text == ""


def test_a_group_that_cannot_be_mirrored_to_is_a_warning(
    stream: Stream, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream(subscribe=topic, group="gone", **START)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    end["topics"]["no-such-topic"] = {"id": "0" * 32, "next": {"0": 1}}
    with caplog.at_level(logging.WARNING, "ottla.pipeline.source"):
        reader.commit(end)
    assert "could not mirror progress to group 'gone'" in caplog.text


def test_commits_of_one_group_in_a_stream(stream: Stream, broker: Broker, topic: str) -> None:
    reader = stream(decode="commits", startingOffsets="latest")
    start = reader.initialOffset()
    commit(broker.bootstrap_servers, "g", topic, {0: 3, 2: 4})
    rows = read_between(reader, start, reader.latestOffset(start, ALL))
    assert [(row["group_id"], row["partition"], row["committed_offset"]) for row in rows] == [("g", 0, 3), ("g", 2, 4)]


def test_samples_of_ends_are_in_the_offsets(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ends_reader(broker, subscribe=topic)
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    start = reader.initialOffset()
    first = again(reader.latestOffset(start, ALL))
    produce(broker.bootstrap_servers, topic, 3)
    now += 9.999
    assert reader.latestOffset(first, ALL) == first, "it is too early for another"
    now += 0.001
    second = again(reader.latestOffset(first, ALL))

    def ends(begin: dict[str, Any], end: dict[str, Any]) -> list[int]:
        batches = [batch for part in reader.partitions(begin, end) for batch in reader.read(part)]
        return [row["log_end_offset"] for batch in batches for row in batch.to_pylist()]

    assert ends(start, first) == [10, 10, 10]
    assert ends(first, second) == [11, 11, 11]
    assert ends(start, first) == [10, 10, 10], "a replay gives what was sampled then"
    assert ends(second, second) == []


def test_samples_end_with_available_now(broker: Broker, topic: str) -> None:
    reader = ends_reader(broker, subscribe=topic)
    reader.prepareForTriggerAvailableNow()
    one = reader.latestOffset(reader.initialOffset(), ALL)
    assert len(one["samples"][topic]) == 3
    assert reader.latestOffset(one, ALL) == one
