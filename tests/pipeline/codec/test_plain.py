"""Records as they are: the row of Spark's own connector, and that of the log."""

import pytest

from ottla.pipeline import tables
from ottla.pipeline.codec import KINDS, UnknownKind, decode, schema, table_of, walk
from ottla.protocol.records import Record, TimestampType
from tests.pipeline.codec.logs import TIME, rows_in_ms
from tests.pipeline.codec.test_damage import record
from tests.pipeline.codec.test_walk import sealed
from tests.support.batches import build_batch

SOME = [
    Record(
        key=b"k",
        value=b"a value that is longer than twelve bytes",
        timestamp_ms=TIME,
        headers=[("a", b"1"), ("b", None)],
    ),
    Record(key=None, value=b"", timestamp_ms=-1),
    Record(key=b"", value=None, timestamp_ms=TIME + 1, headers=[("a", b"")]),
]


def test_raw() -> None:
    chunk = walk(build_batch(SOME, base_offset=5), topic="orders", partition=2)
    rows = rows_in_ms(decode("raw", chunk))
    same = {"topic": "orders", "partition": 2, "timestampType": 0}
    assert rows == [
        same | {"offset": 5, "key": b"k", "value": SOME[0].value, "timestamp": TIME},
        same | {"offset": 6, "key": None, "value": b"", "timestamp": -1},
        same | {"offset": 7, "key": b"", "value": None, "timestamp": TIME + 1},
    ]


def test_headers() -> None:
    chunk = walk(build_batch(SOME, base_offset=5), topic="orders")
    batch = decode("raw", chunk, headers=True)
    assert batch.schema.equals(schema("raw", headers=True))
    lists = [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None, [{"key": "a", "value": b""}]]
    assert batch["headers"].to_pylist() == lists
    for start, end in [(6, 8), (5, 6), (7, 8)]:
        some = walk(build_batch(SOME, base_offset=5), start_offset=start, end_offset=end)
        assert decode("raw", some, headers=True)["headers"].to_pylist() == lists[start - 5 : end - 5]
    without = walk(build_batch(SOME, base_offset=5), start_offset=6, end_offset=7)
    assert without.headers is None
    assert decode("raw", without, headers=True)["headers"].to_pylist() == [None]


def test_a_name_of_a_header_that_is_not_text() -> None:
    """Java's client replaces what is no UTF-8, and so do we: the record is sound otherwise."""
    body = record(b"\0\0\0\x01\x01\x02\x04a\xff\x01")
    chunk = walk(sealed(build_batch([Record()]), body))
    assert decode("raw", chunk, headers=True)["headers"].to_pylist() == [[{"key": "a\ufffd", "value": None}]]


def test_the_type_of_a_time() -> None:
    batch = build_batch(SOME, timestamp_type=TimestampType.LOG_APPEND_TIME)
    rows = rows_in_ms(decode("raw", walk(batch)))
    assert [(row["timestamp"], row["timestampType"]) for row in rows] == [(TIME + 1, 1)] * 3


def test_log() -> None:
    chunk = walk(build_batch(SOME, base_offset=5), partition=7)
    assert rows_in_ms(decode("log", chunk)) == [
        {"log_partition": 7, "log_offset": 5, "log_ts": TIME, "key": b"k", "value": SOME[0].value},
        {"log_partition": 7, "log_offset": 6, "log_ts": None, "key": None, "value": b""},
        {"log_partition": 7, "log_offset": 7, "log_ts": TIME + 1, "key": b"", "value": None},
    ]


def test_every_kind_has_its_schema() -> None:
    of = {
        "commits": "offset_commits",
        "groups": "group_generations",
        "consumer_groups": "consumer_group_changes",
        "events": "group_events",
        "log": "offsets_log",
    }
    for kind in KINDS:
        for log in (b"", build_batch(SOME)):
            assert decode(kind, walk(log)).schema.equals(schema(kind), check_metadata=True)
        if kind != "raw":
            table = tables.TABLES[of.get(kind, kind)]
            assert schema(kind) == table.arrow(whole=False)
            assert table_of(kind) == table


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(
        UnknownKind, match="'commit'; there are raw, commits, groups, consumer_groups, events, quarantine, log"
    ):
        decode("commit", walk(b""))
    with pytest.raises(UnknownKind):
        schema("commit")
