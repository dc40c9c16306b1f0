"""Committed offsets: all versions, and what is not one of them, against the reference for single records."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline import tables
from ottla.pipeline.codec import decode, walk
from ottla.protocol.offsets_topic import GroupKey, OffsetKey, OffsetValue, encode_offset_value, group_key, offset_key
from ottla.protocol.records import Record
from tests.pipeline.codec.logs import TIME, commit, commit_row, log_of, reference, rows_in_ms
from tests.support.batches import build_batch

TOPIC = "__consumer_offsets"
TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
# Byte for byte, from Kafka's own serialisers (also in the tests of the protocol).
GOLDEN = {
    0: "0000000000000000006400016d0000018bcfe56800",
    1: "0001000000000000006400016d0000018bcfe568000000018bd50bc400",
    2: "0002000000000000006400016d0000018bcfe56800",
    3: "000300000000000000640000000700016d0000018bcfe56800",
    4: "0004000000000000006400000007026d0000018bcfe5680000",
    5: "0004000000000000006400000007026d0000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
}


def rows_of(*some: Record) -> list[dict[str, object]]:
    return rows_in_ms(decode("commits", walk(build_batch(some), topic=TOPIC, partition=4)))


def check(some: list[Record]) -> None:
    """Every record is in one table or in quarantine, as the reference says, and rows say what it says."""
    chunk = walk(log_of([some[i : i + 3] for i in range(0, len(some), 3)]), topic=TOPIC, partition=9)
    wanted, rest, generations, changes = [], [], 0, 0
    for offset, one in enumerate(some):
        found = reference(one)
        place = {"log_partition": 9, "log_offset": offset, "log_ts": one.timestamp_ms}
        if found is None:
            rest.append(place | {"key": one.key, "value": one.value})
        elif isinstance(found[0], OffsetKey):
            wanted.append(place | commit_row(one, *found))
        elif isinstance(found[0], GroupKey):
            generations += 1
        else:
            changes += 1
    assert rows_in_ms(decode("commits", chunk)) == wanted
    quarantine = rows_in_ms(decode("quarantine", chunk))
    assert all(row.pop("error") for row in quarantine)
    assert quarantine == rest
    assert decode("groups", chunk).num_rows == generations
    assert decode("consumer_groups", chunk).num_rows == changes


@pytest.mark.parametrize("key_version", [0, 1])
@pytest.mark.parametrize("version", GOLDEN)
def test_golden_bytes(version: int, key_version: int) -> None:
    key = bytes([0, key_version]) + offset_key("g1", "t", 3)[2:]
    assert rows_of(Record(key=key, value=bytes.fromhex(GOLDEN[version]), timestamp_ms=TIME + 5)) == [
        {
            "log_partition": 4,
            "log_offset": 0,
            "log_ts": TIME + 5,
            "key_version": key_version,
            "group_id": "g1",
            "topic": "t",
            "partition": 3,
            "committed_offset": 100,
            "leader_epoch": 7 if version >= 3 else -1,
            "metadata": "m",
            "commit_ts": TIME,
            "expire_ts": TIME + 86_400_000 if version == 1 else None,
            "value_version": min(version, 4),
            "is_tombstone": False,
        }
    ]


def test_a_tombstone() -> None:
    (row,) = rows_of(replace(commit("g", "t", 3), value=None))
    assert (row["group_id"], row["topic"], row["partition"], row["is_tombstone"]) == ("g", "t", 3, True)
    names = ["committed_offset", "leader_epoch", "metadata", "commit_ts", "expire_ts", "value_version"]
    assert [row[name] for name in names] == [None] * 6


def test_the_schema_is_the_tables() -> None:
    for some in ([commit()], [Record(key=b"\0\3")], [replace(commit(), value=None)]):
        assert decode("commits", walk(build_batch(some))).schema.equals(tables.OFFSET_COMMITS.arrow(whole=False))


def test_truncated_at_every_byte() -> None:
    whole = [commit("group", "topic", 3, version=version, metadata="meta") for version in range(5)]
    whole.append(Record(key=whole[0].key, value=bytes.fromhex(GOLDEN[5]), timestamp_ms=TIME))
    some = [replace(one, value=(one.value or b"")[:size]) for one in whole for size in range(len(one.value or b"") + 1)]
    key = whole[0].key or b""
    some += [replace(whole[3], key=key[:size]) for size in range(len(key) + 1)]
    check(some)


def test_bytes_behind() -> None:
    some = [
        replace(commit(version=version), value=(commit(version=version).value or b"") + b"\0") for version in range(5)
    ]
    some += [replace(one, key=(one.key or b"") + b"\0") for one in [commit(version=version) for version in range(5)]]
    check(some)
    chunk = walk(build_batch(some), topic=TOPIC)
    errors = decode("quarantine", chunk)["error"].to_pylist()
    assert errors == ["bytes behind the value"] * 5 + ["1 bytes behind the key"] * 5


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, b"v", "no key"),
        (b"", None, "key: record key of 0 bytes"),
        (b"\1", None, "key: record key of 1 bytes"),
        (b"\0\3\0\1g", b"\0\0", "value: ConsumerGroupMetadataValue"),
        (b"\0\x08\0\1g", b"\0\0", "key: ConsumerGroupCurrentMemberAssignmentKey"),
        (b"\0\x10\0\1g\0\1r\0", b"\0\0", "1 bytes behind the key"),
        (b"\0\x0b\0\1g", b"\0\0", "key type 11, of nothing that is known here"),
        (b"\xff\xff\0\1g", b"\0\0", "key type -1, of nothing that is known here"),
        (b"\0\1\xff\xff", None, "key: OffsetKey.group_id: length -1"),
        (b"\0\1\x7f\xff\0", None, "key: OffsetKey.group_id"),
        (b"\0\1\0\1\xff\0\1t\0\0\0\0", None, "key: OffsetKey.group_id: not valid UTF-8"),
        (b"\0\1\0\1g\0\2\xc3\x28\0\0\0\0", None, "key: OffsetKey.topic: not valid UTF-8"),
        (offset_key("g", "t", 1), b"", "value: record value of 0 bytes"),
        (offset_key("g", "t", 1), b"\0\5" + bytes(30), "value: OffsetValue has no version 5"),
        (offset_key("g", "t", 1), b"\xff\xff" + bytes(30), "value: OffsetValue has no version -1"),
        (
            offset_key("g", "t", 1),
            b"\0\3" + bytes(12) + b"\0\1\xff" + bytes(8),
            "OffsetValue.metadata: not valid UTF-8",
        ),
        (offset_key("g", "t", 1), b"\0\4" + bytes(12) + b"\0" + bytes(9), "OffsetValue.metadata: length -1"),
        (offset_key("g", "t", 1), b"\0\4" + bytes(12) + b"\x80\x80\x80\x80\x80\1" + bytes(9), "OffsetValue.metadata"),
        (offset_key("g", "t", 1), b"\0\4" + bytes(12) + b"\xff\xff\xff\xff\x1f" + bytes(9), "OffsetValue.metadata"),
        (offset_key("g", "t", 1), b"\0\4" + bytes(12) + b"\1" + bytes(8) + b"\1\0\x0f" + bytes(16), "OffsetValue"),
    ],
)
def test_quarantine(key: bytes | None, value: bytes | None, error: str) -> None:
    """Beside what is sound, which is read."""
    some = [commit("a"), Record(key=key, value=value, timestamp_ms=TIME), commit("b", metadata="é")]
    check(some)
    (row,) = decode("quarantine", walk(build_batch(some), topic=TOPIC)).to_pylist()
    assert error in row["error"]
    assert (row["key"], row["value"]) == (key, value)


def test_tags_that_are_not_known() -> None:
    """A later Kafka may write more of them; the id of the topic may stand among others."""
    plain = encode_offset_value(OffsetValue(offset=5, metadata="m" * 200, commit_timestamp=TIME), 4)
    known = b"\0\x10" + TOPIC_ID.bytes
    tails = [b"\1" + known, b"\1\7\2ab", b"\2" + known + b"\7\0", b"\2\7\0" + known, b"\x80\0", b"\1\7\2a", b"\1\7\0x"]
    some = [
        Record(key=offset_key("g", "t", i), value=plain[:-1] + tail, timestamp_ms=TIME) for i, tail in enumerate(tails)
    ]
    check(some)
    assert [row["partition"] for row in rows_of(*some)] == [0, 1, 2, 3, 4]


def test_times_that_no_table_can_hold() -> None:
    values = [(1 << 63) - 1, -(1 << 63), -1, 0, 253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_001]
    check([commit("g", "t", i, commit_timestamp=ms) for i, ms in enumerate(values)])
    log = build_batch([commit()], base_offset=0)
    for ms in values:
        chunk = walk(log.replace(TIME.to_bytes(8, "big"), ms.to_bytes(8, "big", signed=True)), check_crcs=False)
        assert decode("commits", chunk).to_pylist()[0]["group_id"] == "g"
        assert decode("raw", chunk).num_rows == decode("log", chunk).num_rows == 1


texts = st.one_of(st.text(max_size=20), st.text("ab-é", min_size=100, max_size=300))
longs = st.integers(-(1 << 63), (1 << 63) - 1)
ints = st.integers(-(1 << 31), (1 << 31) - 1)


@st.composite
def commits(draw: st.DrawFn) -> Record:
    """One that is sound."""
    version = draw(st.integers(0, 4))
    value = OffsetValue(
        offset=draw(longs),
        leader_epoch=draw(ints),
        metadata=draw(texts),
        commit_timestamp=draw(longs),
        expire_timestamp=draw(longs),
        topic_id=draw(st.sampled_from([UUID(int=0), TOPIC_ID])),
    )
    key = bytes([0, draw(st.integers(0, 1))]) + offset_key(draw(texts), draw(texts), draw(ints))[2:]
    body = draw(st.one_of(st.none(), st.just(encode_offset_value(value, version))))
    return Record(key=key, value=body, timestamp_ms=TIME)


def spoil(draw: st.DrawFn, data: bytes) -> bytes:
    """Cut, lengthen or change it somewhere."""
    at = draw(st.integers(0, len(data)))
    return draw(
        st.sampled_from(
            [
                data,
                data[:at],
                data[:at] + draw(st.binary(max_size=5)) + data[at:],
                data[:at] + draw(st.binary(max_size=3)) + data[at + 1 :],
            ]
        )
    )


@st.composite
def spoiled(draw: st.DrawFn) -> Record:
    """One that may not be."""
    one = draw(commits())
    key = draw(st.sampled_from([one.key or b"", group_key("g"), b"\0\4abc", b"\0\4\0\2bc"]))
    value = None if one.value is None else spoil(draw, one.value)
    return Record(key=spoil(draw, key), value=value, timestamp_ms=TIME)


@settings(max_examples=100, deadline=None)
@given(st.lists(commits(), min_size=1, max_size=8))
def test_sound_records(some: list[Record]) -> None:
    check(some)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(spoiled(), spoiled(), commits()), min_size=1, max_size=8))
def test_all_kinds_of_records(some: list[Record]) -> None:
    check(some)
