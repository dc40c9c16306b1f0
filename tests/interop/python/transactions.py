"""Scenarios of transactions."""

from __future__ import annotations

from tests.interop.python.harness import Stage, named
from tests.support.kit import Transactional
from tests.support.waiting import wait_for

PRODUCER_FENCED = 90
INVALID_PRODUCER_EPOCH = 47


def open_producer(stage: Stage, name: str = "id") -> Transactional:
    made = stage.kit.transactional(f"{stage.topic}-{name}")
    stage.closing.callback(made.close)
    return made


def _read(stage: Stage, count: int, *, committed: bool, patience_s: float = 20) -> list[bytes | None]:
    found = stage.kit.read({(stage.topic, 0): 0}, count, committed=committed, patience_s=patience_s)
    return [got.value for got in found]


def transaction_commit(stage: Stage) -> None:
    stage.need("transactions")
    stage.admin.create(stage.topic)
    producer = open_producer(stage)
    for number in range(2):
        producer.begin()
        producer.send(stage.topic, [b"%d a" % number, b"%d b" % number])
        producer.commit()
    wanted = [b"0 a", b"0 b", b"1 a", b"1 b"]
    assert _read(stage, 4, committed=True) == wanted
    assert stage.kit.ends((stage.topic, 0))[1] == 6, "each end takes an offset"


def transaction_abort(stage: Stage) -> None:
    stage.need("transactions")
    stage.admin.create(stage.topic)
    producer = open_producer(stage)
    producer.begin()
    producer.send(stage.topic, [b"given up"])
    assert _read(stage, 1, committed=True, patience_s=1) == [], "it is open"
    producer.abort()
    producer.begin()
    producer.send(stage.topic, [b"kept"])
    producer.commit()
    assert _read(stage, 2, committed=False) == [b"given up", b"kept"]
    assert _read(stage, 1, committed=True) == [b"kept"]
    assert _read(stage, 2, committed=True, patience_s=1) == [b"kept"], "and nothing else"


def transaction_offsets(stage: Stage) -> None:
    stage.need("transactions")
    kit, place = stage.kit, (stage.topic, 0)
    kit.create(stage.topic)
    producer = open_producer(stage)
    producer.begin()
    producer.send(stage.topic, [b"one"])
    producer.send_offsets(stage.group, {place: 5})
    producer.commit()
    # The end is answered before its markers are written, and not every client asks for stable offsets alone.
    wait_for(lambda: kit.group_offsets(stage.group).get(place) == 5, "the offset to be there")
    assert kit.committed(stage.group, place)[0] == 5
    producer.begin()
    producer.send(stage.topic, [b"two"])
    producer.send_offsets(stage.group, {place: 9})
    producer.abort()
    assert kit.committed(stage.group, place)[0] == 5, "the second was given up with its offsets"
    assert _read(stage, 1, committed=True) == [b"one"]


def transaction_fencing(stage: Stage) -> None:
    stage.need("transactions")
    stage.admin.create(stage.topic)
    first = open_producer(stage)
    first.begin()
    first.send(stage.topic, [b"of the first"])
    second = open_producer(stage)
    try:
        first.send(stage.topic, [b"too late"])
        first.commit()
    except Exception as error:
        code = stage.kit.code(error)
        assert code in (PRODUCER_FENCED, INVALID_PRODUCER_EPOCH) or code < 0, f"{error!r} is not about fencing"
    else:
        raise AssertionError("the first is not fenced")
    second.begin()
    second.send(stage.topic, [b"of the second"])
    second.commit()
    assert _read(stage, 1, committed=True) == [b"of the second"]


SCENARIOS = named(transaction_commit, transaction_abort, transaction_offsets, transaction_fencing)
