"""Random traces of logs: batches of every kind, reads with and without sessions, offsets by time, trims."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from ottla.protocol.apis import ApiKey
from tests.differential.log_calls import BASE_TIME
from tests.differential.moves import Batch, Who, some_version
from tests.differential.pairs import Move, move

STEPS = 30
ABSENT = "@absent"

SESSIONS = ("none", "none", "none", "new", "new")

# (position, bytes): what a producer may get wrong in a header; the CRC is made to fit.
PATCHES: tuple[tuple[int, bytes], ...] = (
    (0, struct.pack(">q", 7)),
    (8, struct.pack(">i", 20)),
    (8, struct.pack(">i", -1)),
    (12, struct.pack(">i", 7)),
    (16, b"\0"),
    (16, b"\1"),
    (21, b"\0\x20"),
    (21, b"\x40\x00"),
    (23, struct.pack(">i", 1)),
    (23, struct.pack(">i", 9)),
    (35, struct.pack(">q", 5)),
    (43, struct.pack(">qhi", 5, -1, -1)),
    (43, struct.pack(">qhi", 5, 0, -1)),
    (43, struct.pack(">qhi", -1, -1, 5)),
    (57, struct.pack(">i", 0)),
    (57, struct.pack(">i", 2)),
    (57, struct.pack(">i", 9)),
    (61, b"\x7e"),
    (61, b"\x02"),
    (61, b"\x01"),
)


def _place(r: Random) -> tuple[str, int]:
    draw = r.random()
    if draw < 0.9:
        return r.choice(["@t", "@t", "@u"]), r.choice([0, 0, 0, 1])
    return r.choice([(ABSENT, 0), ("@t", 7), ("@t", -1)])


def batch(r: Random) -> Batch:
    found: Batch = {"count": r.randint(1, 4), "start": r.choice([0, 5, 10, 10, 20, 1000])}
    if r.random() < 0.4:
        found["codec"] = r.randrange(5)
    if r.random() < 0.3:
        found["who"] = (None, r.choice([1, 1, 1, 2]), r.choice([0, 0, 0, 1]))
        found["sequence"] = r.choice([0, 0, 0, 0, -1, -1, -1, -2, 1, 5])
        found["count"] = r.choice([1, 1, 1, 2])
    if r.random() < 0.15:
        found["key"] = None
    if r.random() < 0.15:
        found["value"] = r.choice([None, b"", b"x" * 500])
    if r.random() < 0.1:
        found["headers"] = [("h", b"1"), ("h", None)]
    if r.random() < 0.15:
        found["patches"] = [(*r.choice(PATCHES), r.random() < 0.9)]
    return found


def _produce(r: Random) -> Move:
    batches = [batch(r) for _ in range(r.choice([1, 1, 1, 2]))]
    rows = [(*(_place(r) if "who" not in each or r.random() < 0.3 else ("@t", 0)), each) for each in batches]
    kept = {(topic, partition): (topic, partition, data) for topic, partition, data in rows}
    return move(
        "produce", rows=list(kept.values()), version=some_version(r, ApiKey.PRODUCE), acks=r.choice([1, -1, -1, -1])
    )


def _rows(r: Random, fields: dict[str, list[Any]]) -> list[tuple[str, dict[str, Any]]]:
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for _ in range(r.choice([1, 1, 2, 3])):
        topic, partition = _place(r)
        chosen = {name: r.choice(values) for name, values in fields.items()}
        found[topic, partition] = chosen
    return [(topic, {"partition": partition, **chosen}) for (topic, partition), chosen in found.items()]


def _read(r: Random) -> Move:
    fields = {
        "fetch_offset": [0, 0, 0, 1, 2, 3, 4, 7, 20, 99, -1],
        "current_leader_epoch": [-1, -1, -1, -1, -1, -1, 0, 1],
        "last_fetched_epoch": [-1, -1, -1, -1, -1, -1, 0, 1],
        "partition_max_bytes": [1 << 20, 1 << 20, 1 << 20, 1, 0, 100, 200],
    }
    return move(
        "read",
        rows=_rows(r, fields),
        version=some_version(r, ApiKey.FETCH),
        min_bytes=r.choice([1, 1, 0, 200]),
        max_bytes=r.choice([1 << 20, 1 << 20, 1 << 20, 1, 0, 150]),
        max_wait=r.choice([20, 0]),
        isolation=r.choice([0, 1]),
        session=r.choice(SESSIONS),
    )


def _go_on(r: Random) -> Move:
    """A fetch of a session: what changed, or nothing."""
    fields = {"fetch_offset": [0, 1, 2, 4], "partition_max_bytes": [1 << 20]}
    rows = _rows(r, fields) if r.random() < 0.4 else []
    forgotten = [_place(r)] if r.random() < 0.2 else []
    session = r.choice(["mine"] * 8 + ["late", "early", "unknown", "again", "close", "wrong"])
    version = max(some_version(r, ApiKey.FETCH), 7)
    return move("read", rows=rows, version=version, max_wait=20, session=session, forgotten=forgotten)


def _list(r: Random) -> Move:
    times = [-1, -1, -2, -2, 0, BASE_TIME, BASE_TIME + 1, BASE_TIME + 11, BASE_TIME + 1003, BASE_TIME + 2000]
    times += [-3, -4, -5, -6, -7]
    fields = {"timestamp": times, "current_leader_epoch": [-1, -1, -1, 0, 1]}
    rows = [(topic, {"partition_index": row.pop("partition"), **row}) for topic, row in _rows(r, fields)]
    return move("list_offsets", rows=rows, version=some_version(r, ApiKey.LIST_OFFSETS), isolation=r.choice([0, 1]))


def _epochs(r: Random) -> Move:
    rows = _rows(r, {"current_leader_epoch": [-1, -1, 0, 1], "leader_epoch": [-1, 0, 0, 1, 7]})
    return move("epochs", rows=rows, version=some_version(r, ApiKey.OFFSET_FOR_LEADER_EPOCH))


def _trim(r: Random) -> Move:
    offsets = [0, 1, 1, 2, 3, 5, -1, -2, 99]
    rows = {_place(r): r.choice(offsets) for _ in range(r.choice([1, 1, 2]))}
    named = [(topic, partition, offset) for (topic, partition), offset in rows.items()]
    return move("trim", rows=named, version=some_version(r, ApiKey.DELETE_RECORDS))


def _init(r: Random) -> Move:
    expected: Who = r.choice([None, None, (None, 1, 0), (None, 1, 1)])
    return move("init", name=None, version=some_version(r, ApiKey.INIT_PRODUCER_ID), expected=expected)


ACTS = [_produce] * 10 + [_read] * 6 + [_go_on] * 5 + [_list] * 5 + [_epochs, _init, _init]


def logs(r: Random) -> list[Move]:
    # What Kafka says of the largest timestamp once records were deleted is a row of docs/differences.md.
    trims = r.random() < 0.5
    moves = [r.choice([*ACTS, _trim] if trims else ACTS)(r) for _ in range(STEPS)]
    if trims:
        for step in moves:
            if step.name == "list_offsets":
                for _, fields in step.fields["rows"]:
                    fields["timestamp"] = -1 if fields["timestamp"] == -3 else fields["timestamp"]
    for topic, partition in (("@t", 0), ("@t", 1), ("@u", 0)):
        for timestamp in (-2, -1) if trims else (-2, -1, -3):
            rows = [(topic, {"partition_index": partition, "timestamp": timestamp})]
            moves.append(move("list_offsets", rows=rows, version=7))
        moves.append(move("read", rows=[(topic, {"partition": partition, "fetch_offset": 0})], version=11, max_wait=0))
    return moves
