"""Scenarios of records: producing, reading, codecs, sizes, times, idempotence, and a broker that is started anew."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tests.interop.python.harness import Scenario, Stage, named
from tests.support.kit import Row
from tests.support.waiting import wait_for

T = TypeVar("T")

UNKNOWN_TOPIC = 3
NOT_LEADER = 6
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC = 17
INVALID_RECORD = 87
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def rows(count: int, what: str = "value") -> list[Row]:
    return [Row(f"{what} {number}".encode(), f"key {number}".encode()) for number in range(count)]


def refusal(stage: Stage, call: Callable[[], object]) -> int:
    """The code with which a call is refused; 0 if it is not."""
    try:
        call()
    except Exception as error:
        return stage.kit.code(error)
    return 0


def settled(stage: Stage, call: Callable[[], T], *refusals: int) -> T:
    """Call again until a topic is there, or changed: Apache Kafka answers before every request sees that."""
    found: list[T] = []

    def there() -> bool:
        try:
            found.append(call())
        except Exception as error:
            if stage.kit.code(error) not in (UNKNOWN_TOPIC, NOT_LEADER, *refusals):
                raise
        return bool(found)

    wait_for(there, "a change to be seen")
    return found[0]


def produce_and_consume(stage: Stage) -> None:
    kit, topic = stage.kit, stage.topic
    kit.create(topic, 3)
    sent = rows(90)
    acknowledged = kit.produce(topic, sent)
    assert {partition for partition, _ in acknowledged} == {0, 1, 2}, "keys spread over the partitions"
    read = kit.read({(topic, partition): 0 for partition in range(3)}, 90)
    assert sorted((got.partition, got.offset, got.key, got.value) for got in read) == sorted(
        (partition, offset, row.key, row.value) for (partition, offset), row in zip(acknowledged, sent, strict=True)
    )
    assert [got.value for got in kit.read({(topic, 1): kit.ends((topic, 1))[1] - 2}, 2)] == [
        row.value for (partition, _), row in zip(acknowledged, sent, strict=True) if partition == 1
    ][-2:], "and from an offset in the middle of a batch"


def codec(stage: Stage, name: str) -> None:
    kit, topic = stage.kit, stage.topic
    stage.need(f"codec_{name}")
    kit.create(topic)
    sent = [Row(f"{number} ".encode() * 300, b"key", (("codec", name.encode()),)) for number in range(100)]
    kit.produce(topic, sent, partition=0, codec=name)
    read = kit.read({(topic, 0): 0}, 100)
    assert [(got.value, got.key, got.headers) for got in read] == [(row.value, row.key, row.headers) for row in sent]
    assert [got.offset for got in kit.read({(topic, 0): 55}, 45)] == list(range(55, 100))


def headers_keys_tombstones(stage: Stage) -> None:
    kit, topic = stage.kit, stage.topic
    kit.create(topic, configs={"cleanup.policy": "compact"})
    key = "schlüssel".encode()
    headers = (("a", b"1"), ("a", b"2"), ("empty", b""), ("bytes", bytes(range(256))))
    sent = [Row("wört".encode(), key, headers), Row(None, key), Row(b"", b"")]
    kit.produce(topic, sent, partition=0)
    read = kit.read({(topic, 0): 0}, 3)
    assert [(got.value, got.key, got.headers) for got in read] == [(row.value, row.key, row.headers) for row in sent]


def compacted_topics_want_keys(stage: Stage) -> None:
    kit, topic = stage.kit, stage.topic
    kit.create(topic, configs={"cleanup.policy": "compact"})
    code = refusal(stage, lambda: kit.produce(topic, [Row(b"no key")], partition=0))
    assert code == INVALID_RECORD or code < 0, f"{code}; old clients do not know the code that it has"
    assert kit.produce(topic, [Row(b"value", b"key")], partition=0) == [(0, 0)]


def big_messages(stage: Stage) -> None:
    kit, topic = stage.kit, stage.topic
    kit.create(topic)
    # What does not compress: brokers compare the size as it is sent.
    noise = random.Random(7)
    sent = [Row(noise.randbytes(size), b"key") for size in (900_000, 10, 700_000)]
    for row in sent:
        kit.produce(topic, [row], partition=0)
    assert [got.value for got in kit.read({(topic, 0): 0}, 3)] == [row.value for row in sent]
    too_large = [Row(noise.randbytes(1_100_000), b"key")]
    assert refusal(stage, lambda: kit.produce(topic, too_large, partition=0)) == MESSAGE_TOO_LARGE
    kit.alter(topic, {"max.message.bytes": "3000000"})
    settled(stage, lambda: kit.produce(topic, too_large, partition=0), MESSAGE_TOO_LARGE)
    assert kit.read({(topic, 0): 3}, 1)[0].value == too_large[0].value, "a reader gets what is larger than it asks for"


def read_from_timestamp(stage: Stage) -> None:
    kit, topic = stage.kit, stage.topic
    kit.create(topic, 2)
    now = int(time.time() * 1000)
    times = [now - 5000, now - 4000, now - 1000, now - 3000]
    kit.produce(topic, [Row(b"%d" % at, timestamp_ms=moment) for at, moment in enumerate(times)], partition=0)
    assert [kit.offset_at((topic, 0), moment) for moment in times] == [0, 1, 2, 2]
    assert kit.offset_at((topic, 0), now - 3500) == 2
    assert kit.offset_at((topic, 0), now) == -1, "nothing is that young"
    assert kit.offset_at((topic, 1), now - 5000) == -1, "nothing is there at all"
    read = kit.read({(topic, 0): kit.offset_at((topic, 0), times[1])}, 3)
    assert [(got.value, got.timestamp_ms) for got in read] == [(b"%d" % at, times[at]) for at in (1, 2, 3)]


def out_of_range_goes_to_the_start(stage: Stage) -> None:
    kit, topic = stage.kit, stage.topic
    kit.create(topic)
    kit.produce(topic, rows(5), partition=0)
    assert [got.offset for got in kit.read({(topic, 0): 1000}, 5)] == [0, 1, 2, 3, 4]


def topics_on_demand(stage: Stage) -> None:
    kit, topic = stage.kit, stage.topic
    assert topic not in kit.topics()
    assert kit.produce(topic, rows(3), partition=0) == [(0, 0), (0, 1), (0, 2)]
    assert topic in kit.topics()
    code = refusal(stage, lambda: kit.create("no/slash"))
    assert code == INVALID_TOPIC, f"{code} for a name with a slash"


def idempotent_producer(stage: Stage) -> None:
    stage.need("idempotence")
    kit, topic = stage.kit, stage.topic
    kit.create(topic, 2)
    sent = rows(2000)
    acknowledged = kit.produce(topic, sent, idempotent=True)
    assert len(set(acknowledged)) == len(sent)
    read = kit.read({(topic, 0): 0, (topic, 1): 0}, len(sent))
    assert sorted(got.value or b"" for got in read) == sorted(row.value or b"" for row in sent), "each of them, once"


def broker_restart(stage: Stage) -> None:
    """The broker is killed and comes back; whoever was connected goes on, and nothing acknowledged is lost."""
    kit, topic = stage.kit, stage.topic
    kit.create(topic, 2)
    cast = stage.cast()
    member = cast.join(kit.kind, [topic])
    before = [f"before {number}" for number in range(20)]
    kit.produce(topic, [Row(value.encode(), value.encode()) for value in before])
    cast.wait_seen(before)
    member.commit()
    stage.restart_broker()
    after = [f"after {number}" for number in range(20)]
    kit.produce(topic, [Row(value.encode(), value.encode()) for value in after])
    cast.wait_seen_once(before + after)
    assert len(kit.read({(topic, 0): 0, (topic, 1): 0}, 40)) == 40


SCENARIOS: list[tuple[str, Scenario]] = [
    *named(produce_and_consume),
    *((f"codec_{name}", partial(codec, name=name)) for name in CODECS),
    *named(headers_keys_tombstones, compacted_topics_want_keys, big_messages, read_from_timestamp),
    *named(out_of_range_goes_to_the_start, topics_on_demand, idempotent_producer),
]
