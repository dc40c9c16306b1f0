"""A broker that is killed while it compacts has every last value and committed offset, and nothing that was aborted."""

import os
import random
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ottla.testing import BrokerProcess
from tests.e2e.test_cleaning import EAGER, read
from tests.support.clients.confluent import consumer, create_topics, producer
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("OTTLA_SEED") or random.randrange(10**6))
KILLS = 4
KEYS = 30


class Writer:
    """Writes rising numbers to every key, and knows which were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.number = 0
        self.acknowledged: dict[bytes, int] = {}
        self._producer = producer(bootstrap, enable_idempotence=True, linger_ms=1, compression_type="zstd")

    def write(self, count: int) -> None:
        for _ in range(count):
            key = b"key %d" % (self.number % KEYS)
            self._producer.produce(self.topic, key=key, value=b"%d" % self.number, on_delivery=self._told)
            self.number += 1
            if self.number % 7 == 0:
                self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(60) == 0

    def _told(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert value is not None
        self.acknowledged[key] = max(self.acknowledged.get(key, -1), int(value))


def transact(producer: Producer, topic: str, number: int) -> bool:
    """One transaction on all keys; whether it was committed. Every third is to be aborted."""
    try:
        producer.begin_transaction()
        for key in range(KEYS):
            producer.produce(
                topic, key=b"key %d" % key, value=b"%s %d" % (b"bad" if number % 3 == 0 else b"good", number)
            )
        producer.flush(30)
        if number % 3 == 0:
            producer.abort_transaction(30)
            return False
        producer.commit_transaction(30)
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(30)
        return False
    return True


def test_killed_while_it_compacts(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with BrokerProcess(tmp_path / "data", settings=EAGER) as broker:
        print(f"OTTLA_SEED={SEED}")
        topics = dict.fromkeys(("plain", "safe"), 1)
        create_topics(broker.bootstrap_servers, topics, cleanup_policy="compact", delete_retention_ms=200)
        writer = Writer(broker.bootstrap_servers, "plain")
        transactions = producer(broker.bootstrap_servers, "t", linger_ms=5)
        committing = consumer(broker.bootstrap_servers, "g")
        numbers, committed, offset = iter(range(1, 10_000)), 0, 0
        for _ in range(KILLS):
            until = time.monotonic() + 0.5 + chance.random()
            while time.monotonic() < until:
                writer.write(100)
                number = next(numbers)
                if transact(transactions, "safe", number):
                    committed = number
                committing.commit(offsets=[TopicPartition("plain", 0, offset + 1)], asynchronous=False)
                offset += 1
            writer.write(500)
            broker.kill()
            broker.restart()
        writer.finish()
        number = next(numbers)
        while not transact(transactions, "safe", number) and number % 3:
            number = next(numbers)
        if number % 3:
            committed = number

        values = {key: int(value or -1) for _, key, value in read(broker, "plain")}
        assert values == writer.acknowledged
        assert set(values) == {b"key %d" % key for key in range(KEYS)}
        safe = read(broker, "safe")
        assert {key: value for _, key, value in safe} == dict.fromkeys(values, b"good %d" % committed)
        assert not [value for _, _, value in safe if value is None or value.startswith(b"bad")]
        (place,) = committing.committed([TopicPartition("plain", 0)], timeout=30)
        assert place.offset == offset
        # It was compaction that was killed, and it goes on.
        assert len(read(broker, "plain")) < writer.number

        def compacted() -> bool:
            writer.write(300)
            writer.finish()
            return "compacted" in broker.log_text()

        wait_for(compacted, "compaction", show=broker.log_text)
        committing.close()
