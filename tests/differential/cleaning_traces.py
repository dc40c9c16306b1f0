"""Compaction, batch by batch: the same log, compacted by both brokers at the same moments.

Every record says its time, so both brokers end segments at the same places; and a log is not dirty enough but while it
is told to be, so both compact equally often.
"""

from __future__ import annotations

import time
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.records import Record, TopicPartition, decode_batch, iter_batches
from tests.differential.log_calls import made, until
from tests.differential.tracing import Trace
from tests.support.batches import build_batch
from tests.support.client import Client, of

ROUNDS, STEPS, PASS_S = 3, 25, 2.5
TRANSACTIONAL, IDEMPOTENT, PLAIN = (0, 1), (2, 3), 4


class Compacted:
    """A compacted topic, two transactional producers, two idempotent ones, and whoever is neither."""

    def __init__(self, t: Trace, client: Client) -> None:
        self.random = t.random
        self.client = client
        self.topic = made(
            t, cleanup_policy="compact", segment_ms="500", min_cleanable_dirty_ratio="1", delete_retention_ms="1500"
        )
        self.ids = [f"{t.name}-{number}" for number in TRANSACTIONAL]
        self.producers = [self._init(name) for name in (*self.ids, None, None)]
        self.sequences = [0] * len(self.producers)
        self.open: set[int] = set()
        self.at_ms = 1_700_000_000_000

    def _init(self, name: str | None) -> Any:
        found: list[Any] = []

        def given() -> bool:
            self.client.call(ApiKey.FIND_COORDINATOR, 3, key=name or "", key_type=1)
            found.append(self.client.producer(name))
            return bool(found[-1].error_code == 0)

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
            options = of(self.producers[who], self.sequences[who], transactional=who in TRANSACTIONAL)
            self.sequences[who] += len(records)
        data = build_batch(records, codec=codec, **options)
        name = self.ids[who] if who in TRANSACTIONAL else None
        answer = self.client.produce(self.topic, data, transactional_id=name)
        assert answer.error_code == 0, answer

    def _begin(self, who: int) -> None:
        self.open.add(who)
        place = TopicPartition(self.topic, 0)
        until(lambda: self.client.add_partitions(self.ids[who], self.producers[who], place) == [0])

    def end(self, who: int) -> None:
        self.open.discard(who)
        before, commits = self._fetch(0, 1).high_watermark, self.random.random() < 0.5
        answer = self.client.end(self.ids[who], self.producers[who], commit=commits)
        assert answer.error_code == 0, answer
        until(lambda: self._fetch(0, 1).high_watermark > before)

    def compact(self) -> None:
        """Let everything be compacted that may be, once."""
        for ratio in ("0", "1"):
            change = {"name": "min.cleanable.dirty.ratio", "config_operation": 0, "value": ratio}
            resource = {"resource_type": 2, "resource_name": self.topic, "configs": [change]}
            answer = self.client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
            assert answer.responses[0].error_code == 0, answer
            time.sleep(PASS_S)

    def _fetch(self, offset: int, size: int) -> Any:
        return self.client.fetch(self.topic, offset, 11, partition_max_bytes=size, max_bytes=size)

    def batches(self) -> list[dict[str, Any]]:
        """What is there; producers by number, and no time of a marker, since that is the broker's."""
        numbers = {producer.producer_id: number for number, producer in enumerate(self.producers)}
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
    with Client(t.port, "cleaning") as client:
        log = Compacted(t, client)
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


# Each name draws another log.
trace_slow_compaction_again = trace_slow_compaction_once_more = trace_slow_compaction
