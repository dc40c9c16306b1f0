"""Retention, compaction and changes of settings, as clients see them while everything runs."""

import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from ottla.testing import Broker, BrokerProcess
from tests.e2e.inside import refusal
from tests.support.clients import confluent
from tests.support.clients.confluent import producer, result, watermarks
from tests.support.kit import KINDS, kit_of
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

EAGER = {
    "group.initial.rebalance.delay.ms": 0,
    "log.segment.bytes": 4_000,
    "log.cleaner.backoff.ms": 50,
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.retention.check.interval.ms": 100,
    "offsets.topic.segment.bytes": 4_000,
    "ottla.offsets.topic.min.compaction.lag.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.segment.bytes": 2_000,
    "transaction.state.log.num.partitions": 1,
}
"""Small segments, and cleaning that never rests."""


@pytest.fixture(scope="module", params=["memory", "disk"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = tmp_path_factory.mktemp("data") if request.param == "disk" else None
    with Broker(EAGER, data_dir=directory) as broker:
        yield broker


def create(broker: Broker, topic: str, **configs: object) -> None:
    confluent.create_topics(broker.bootstrap_servers, {topic: 1}, **configs)


def alter(admin: AdminClient, kind: ResourceType, name: str, **configs: object) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET)
        for key, value in configs.items()
    ]
    result(admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]))


def read(broker: Broker | BrokerProcess, topic: str, **options: object) -> list[tuple[int, bytes, bytes | None]]:
    """Everything that librdkafka is shown, from the beginning to the end."""
    found = confluent.read_all(broker.bootstrap_servers, topic, **options)[0]
    return [(message.offset(), message.key(), message.value()) for message in found]


def test_readers_see_the_last_value_of_every_key_while_the_log_is_compacted(broker: Broker, name: str) -> None:
    create(broker, name, cleanup_policy="compact")
    stop, seen = threading.Event(), []

    def read_all_the_time() -> None:
        while not stop.is_set():
            rows = read(broker, name)
            assert [offset for offset, _, _ in rows] == sorted({offset for offset, _, _ in rows})
            seen.append({key: value for _, key, value in rows})

    reading = threading.Thread(target=read_all_the_time)
    reading.start()
    try:
        sending = producer(broker.bootstrap_servers, enable_idempotence=True, compression_type="lz4", linger_ms=2)
        for index in range(3_000):
            sending.produce(name, key=b"key %d" % (index % 40), value=b"%d " % index * 5)
            if index % 25 == 0:
                sending.flush()
        sending.flush()
        wait_for(lambda: len(read(broker, name)) < 400, "compaction")
    finally:
        stop.set()
        reading.join()
    last = {b"key %d" % (index % 40): b"%d " % index * 5 for index in range(3_000)}
    assert {key: value for _, key, value in read(broker, name)} == last
    assert watermarks(broker.bootstrap_servers, name) == (0, 3_000)
    # Whatever a reader has seen of a key, a later reader has not seen less.
    for earlier, later in pairwise(seen):
        for key, value in earlier.items():
            assert int(later[key].split()[0]) >= int(value.split()[0])
    rows = kit_of("kafka-python", broker.bootstrap_servers).read({(name, 0): 0}, len(last), quiet_s=2)
    assert {row.key: row.value for row in rows} == last


def test_deleted_keys_go_in_the_end(broker: Broker, name: str) -> None:
    create(broker, name, cleanup_policy="compact", delete_retention_ms=300)
    sending = producer(broker.bootstrap_servers, linger_ms=2)
    for index in range(200):
        sending.produce(name, key=b"%d" % index, value=b"x" * 50)
    for index in range(200):
        sending.produce(name, key=b"%d" % index, value=None)
    sending.flush()

    def only_fillers() -> bool:
        # Compaction leaves the segment alone that is written, so it has to go on.
        for _ in range(40):
            sending.produce(name, key=b"filler", value=b"x" * 100)
        sending.flush()
        return all(key == b"filler" for _, key, _ in read(broker, name))

    wait_for(only_fillers, "the tombstones to go")


def test_readers_of_committed_records_are_shown_nothing_else_after_compaction(broker: Broker, name: str) -> None:
    create(broker, name, cleanup_policy="compact", delete_retention_ms=100)
    sending = producer(broker.bootstrap_servers, name, linger_ms=2)
    expected = {}
    for round_ in range(60):
        commits = round_ % 3 != 0
        sending.begin_transaction()
        for index in range(20):
            key, value = b"%d" % (round_ * index % 23), b"%s %d" % (b"good" if commits else b"bad", round_)
            sending.produce(name, key=key, value=value)
            if commits:
                expected[key] = value
        sending.flush()
        if commits:
            sending.commit_transaction(30)
        else:
            sending.abort_transaction(30)
        if round_ % 20 == 19:
            assert {key: value for _, key, value in read(broker, name)} == expected
    wait_for(lambda: len(read(broker, name)) < 500, "compaction")
    assert {key: value for _, key, value in read(broker, name)} == expected
    uncommitted = read(broker, name, isolation_level="read_uncommitted")
    assert len(uncommitted) < 600
    # The coordinator's own topic is compacted as well: of some hundred states only the last ones stay.
    wait_for(lambda: len(read(broker, "__transaction_state")) < 100, "compaction of the transactions")
    sending.begin_transaction()
    sending.produce(name, key=b"0", value=b"last")
    sending.commit_transaction(30)
    assert {key: value for _, key, value in read(broker, name)}[b"0"] == b"last"


def test_committed_offsets_survive_the_compaction_of_their_topic(broker: Broker, name: str) -> None:
    create(broker, name)
    committing = confluent.consumer(broker.bootstrap_servers, name)
    for offset in range(300):
        committing.commit(offsets=[TopicPartition(name, 0, offset)], asynchronous=False)

    def own_records() -> int:
        rows = read(broker, "__consumer_offsets")
        return sum(1 for _, key, _ in rows if name.encode() in key)

    wait_for(lambda: own_records() < 100, "compaction of the offsets")
    (place,) = committing.committed([TopicPartition(name, 0)], timeout=30)
    assert place.offset == 299
    committing.close()


def test_old_segments_go_as_soon_as_a_setting_says_so(broker: Broker, admin: AdminClient, name: str) -> None:
    create(broker, name)
    sending = producer(broker.bootstrap_servers, linger_ms=2)
    for index in range(400):
        sending.produce(name, value=b"%d" % index * 20)
        if index % 10 == 0:
            sending.flush()
    sending.flush()
    assert watermarks(broker.bootstrap_servers, name) == (0, 400)
    alter(admin, ResourceType.TOPIC, name, retention_bytes=10_000)
    low = wait_for(lambda: watermarks(broker.bootstrap_servers, name)[0], "retention by size")
    assert 0 < low < 400
    alter(admin, ResourceType.TOPIC, name, retention_ms=1)
    wait_for(lambda: watermarks(broker.bootstrap_servers, name) == (400, 400), "retention by time")
    sending.produce(name, value=b"later")
    sending.flush()
    assert watermarks(broker.bootstrap_servers, name)[1] == 401


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_settings_as_confluent_changes_them(broker: Broker, admin: AdminClient, name: str) -> None:
    create(broker, name, retention_ms=5)
    topic = ConfigResource(ResourceType.TOPIC, name)

    def described(key: str) -> tuple[str, ConfigSource]:
        entry = result(admin.describe_configs([topic]))[key]
        return entry.value, ConfigSource(entry.source)

    alter(admin, ResourceType.TOPIC, name, compression_type="zstd", max_message_bytes=2_000)
    assert described("compression.type") == ("zstd", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert described("retention.ms") == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    sending = producer(broker.bootstrap_servers, linger_ms=2)
    failures: list[Any] = []
    sending.produce(name, value=b"x" * 1_900, on_delivery=lambda error, _: failures.append(error))
    sending.produce(name, value=bytes(range(250)) * 8, on_delivery=lambda error, _: failures.append(error))
    sending.flush()
    assert [error and error.code() for error in failures].count(KafkaError.MSG_SIZE_TOO_LARGE) >= 1
    changes = [
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
    ]
    result(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)]))
    assert described("cleanup.policy") == ("delete,compact", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert described("retention.ms") == ("604800000", ConfigSource.DEFAULT_CONFIG)
    result(admin.alter_configs([ConfigResource(ResourceType.TOPIC, name, set_config={"segment.ms": "77"})]))
    assert described("segment.ms") == ("77", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert described("cleanup.policy") == ("delete", ConfigSource.DEFAULT_CONFIG)
    refused = refusal(lambda: alter(admin, ResourceType.TOPIC, name, no_such_key=1))
    assert refused.code() == KafkaError.INVALID_CONFIG
    assert refusal(lambda: alter(admin, ResourceType.BROKER, "1", node_id=7)).code() == KafkaError.INVALID_REQUEST


def test_settings_as_kafka_python_changes_them(broker: Broker, admin: AdminClient, name: str) -> None:
    create(broker, name)
    kit_of("kafka-python", broker.bootstrap_servers).alter(name, {"retention.ms": "123"})
    entry = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))["retention.ms"]
    assert (entry.value, ConfigSource(entry.source)) == ("123", ConfigSource.DYNAMIC_TOPIC_CONFIG)


def test_every_client_reads_past_batches_that_compaction_has_emptied(broker: Broker, name: str) -> None:
    create(broker, name, cleanup_policy="compact")
    # The last batch of a producer stays, with nothing in it, when others have written its keys anew.
    for number in range(12):
        sending = producer(broker.bootstrap_servers, enable_idempotence=True, linger_ms=2)
        for index in range(10):
            sending.produce(name, key=b"key %d" % index, value=b"%d %d " % (number, index) * 20)
        sending.flush()
    wait_for(lambda: len(read(broker, name)) < 60, "compaction")
    expected = {b"key %d" % index: b"11 %d " % index * 20 for index in range(10)}
    assert {key: value for _, key, value in read(broker, name)} == expected
    for kind in KINDS[1:]:
        rows = kit_of(kind, broker.bootstrap_servers).read({(name, 0): 0}, len(expected), quiet_s=2)
        assert {row.key: row.value for row in rows} == expected, kind
        assert rows[-1].offset == 119, kind
