"""Compaction, batch by batch: the same log, compacted by both brokers at the same moments.

Every record says its time, so both brokers end segments at the same places; and a log is not dirty enough but while it
is told to be, so both compact equally often.
"""

from __future__ import annotations

import time
from typing import Any

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.compression import Codec
from ottla.protocol.message_parts import TopicWithPartitions
from ottla.protocol.messages.fetch import FetchPartition, FetchTopic
from ottla.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from ottla.protocol.messages.produce import PartitionProduceData, TopicProduceData
from ottla.protocol.records import Record, build_batch, decode_batch, iter_batches
from tests.differential.log_calls import made, until
from tests.differential.tracing import Trace

ROUNDS, STEPS, PASS_S = 3, 25, 2.5
TRANSACTIONAL, IDEMPOTENT, PLAIN = (0, 1), (2, 3), 4


class Compacted:
    """A compacted topic, two transactional producers, two idempotent ones, and whoever is neither."""

    def __init__(self, t: Trace) -> None:
        self.random = t.random
        self.wire = t.wire("cleaning")
        self.topic = made(
            t, cleanup_policy="compact", segment_ms="500", min_cleanable_dirty_ratio="1", delete_retention_ms="1500"
        )
        self.ids = [f"{t.name}-{number}" for number in TRANSACTIONAL]
        self.producers = [self._init(name) for name in (*self.ids, None, None)]
        self.sequences = [0] * len(self.producers)
        self.open: set[int] = set()
        self.at_ms = 1_700_000_000_000

    def ask(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        self.wire.send(key, version, api(key).request(**fields))
        return self.wire.answer(10)

    def _init(self, name: str | None) -> tuple[int, int]:
        found: list[tuple[int, int]] = []

        def given() -> bool:
            self.ask(ApiKey.FIND_COORDINATOR, 3, key=name or "", key_type=1)
            answer = self.ask(
                ApiKey.INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout_ms=60_000, producer_id=-1,
                producer_epoch=-1,
            )  # fmt: skip
            found.append((answer.producer_id, answer.producer_epoch))
            return bool(answer.error_code == 0)

        until(given)
        return found[-1]

    def step(self) -> None:
        """Append a batch of anybody, or end a transaction."""
        self.at_ms += self.random.choice([10, 1_000])
        who = self.random.randrange(5)
        if who in self.open and self.random.random() < 0.4:
            self.end(who)
            return
        if who in TRANSACTIONAL and who not in self.open:
            self._begin(who)
        records = [
            Record(
                0,
                self.at_ms + index,
                b"key %d" % self.random.randrange(6),
                None if self.random.random() < 0.25 else b"value %d" % self.random.randrange(1_000),
            )
            for index in range(self.random.randrange(1, 4))
        ]
        self.write(who, records, self.random.choice(list(Codec)))

    def write(self, who: int, records: list[Record], codec: Codec = Codec.NONE) -> None:
        options: dict[str, Any] = {}
        if who != PLAIN:
            producer_id, epoch = self.producers[who]
            options = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": self.sequences[who]}
            options["is_transactional"] = who in TRANSACTIONAL
            self.sequences[who] += len(records)
        data = PartitionProduceData(index=0, records=build_batch(records, codec=codec, **options))
        answer = self.ask(
            ApiKey.PRODUCE, 9, transactional_id=self.ids[who] if who in TRANSACTIONAL else None, acks=-1,
            timeout_ms=5_000, topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
        )  # fmt: skip
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

    def _begin(self, who: int) -> None:
        self.open.add(who)
        producer_id, epoch = self.producers[who]
        topics = [TopicWithPartitions(name=self.topic, partitions=[0])]

        def added() -> bool:
            answer = self.ask(
                ApiKey.ADD_PARTITIONS_TO_TXN, 3, v3_and_below_transactional_id=self.ids[who],
                v3_and_below_producer_id=producer_id, v3_and_below_producer_epoch=epoch, v3_and_below_topics=topics,
            )  # fmt: skip
            return bool(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0)

        until(added)

    def end(self, who: int) -> None:
        self.open.discard(who)
        producer_id, epoch = self.producers[who]
        before, commits = self._fetch(0, 1).high_watermark, self.random.random() < 0.5
        answer = self.ask(
            ApiKey.END_TXN, 3, transactional_id=self.ids[who], producer_id=producer_id, producer_epoch=epoch,
            committed=commits,
        )  # fmt: skip
        assert answer.error_code == 0, answer
        until(lambda: self._fetch(0, 1).high_watermark > before)

    def compact(self) -> None:
        """Let everything be compacted that may be, once."""
        for ratio in ("0", "1"):
            change = AlterableConfig(name="min.cleanable.dirty.ratio", config_operation=0, value=ratio)
            resource = AlterConfigsResource(resource_type=2, resource_name=self.topic, configs=[change])
            answer = self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
            assert answer.responses[0].error_code == 0, answer
            time.sleep(PASS_S)

    def _fetch(self, offset: int, size: int) -> Any:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
        topics = [FetchTopic(topic=self.topic, partitions=[partition])]
        answer = self.ask(ApiKey.FETCH, 11, max_wait_ms=0, min_bytes=0, max_bytes=size, topics=topics)
        return answer.responses[0].partitions[0]

    def batches(self) -> list[dict[str, Any]]:
        """What is there; producers by number, and no time of a marker, since that is the broker's."""
        numbers = {producer_id: number for number, (producer_id, _) in enumerate(self.producers)}
        found: list[dict[str, Any]] = []
        offset = 0
        while data := self._fetch(offset, 1 << 20).records:
            for header, batch in iter_batches(data):
                offset = header.last_offset + 1
                found.append(
                    {
                        "offsets": (header.base_offset, header.last_offset),
                        "producer": (numbers.get(header.producer_id), header.producer_epoch, header.base_sequence),
                        "attributes": f"{header.attributes:b}",
                        "max_timestamp": None if header.is_control else header.max_timestamp,
                        "records": [
                            (
                                record.offset,
                                None if header.is_control else record.timestamp_ms,
                                record.key,
                                record.value,
                            )
                            for record in decode_batch(batch)
                        ],
                    }
                )
        return found


def trace_slow_compaction(t: Trace) -> None:
    log = Compacted(t)
    for number in range(ROUNDS):
        for _ in range(STEPS):
            log.step()
        for who in sorted(log.open):
            log.end(who)
        for _ in range(2):
            # The last segment is not compacted: the second of these begins it.
            log.at_ms += 5_000
            log.write(PLAIN, [Record(0, log.at_ms, b"last", b"")])
        t.note(f"round {number}, written", log.batches())
        log.compact()
        t.note(f"round {number}, compacted", log.batches())


def trace_slow_compaction_again(t: Trace) -> None:
    trace_slow_compaction(t)


def trace_slow_compaction_once_more(t: Trace) -> None:
    trace_slow_compaction(t)
