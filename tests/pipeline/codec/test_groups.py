"""Generations of groups: all versions, members with what they said and got, and what of it cannot be read."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline import tables
from ottla.pipeline.codec import decode, walk
from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.offsets_topic import GroupMemberValue, GroupValue, encode_group_value, group_key
from ottla.protocol.records import Record
from tests.pipeline.codec.logs import TIME, commit, generation, member, reference, rows_in_ms
from tests.support.batches import build_batch

TOPIC = "__consumer_offsets"
GOLDEN_MEMBER = "0000000d000000000001000174ffffffff000000150000000000010001740000000100000000ffffffff"
HEAD = "0008636f6e73756d657200000001000572616e676500026d31"
OLD_MEMBER = "00026d31000163000a2f3132372e302e302e31"
MEMBER = "00026d3100026931000163000a2f3132372e302e302e31"
# Byte for byte, from Kafka's own serialisers (also in the tests of the protocol).
GOLDEN = {
    0: f"0000{HEAD}00000001{OLD_MEMBER}00002710{GOLDEN_MEMBER}",
    1: f"0001{HEAD}00000001{OLD_MEMBER}0000ea6000002710{GOLDEN_MEMBER}",
    2: f"0002{HEAD}0000018bcfe5680000000001{OLD_MEMBER}0000ea6000002710{GOLDEN_MEMBER}",
    3: f"0003{HEAD}0000018bcfe5680000000001{MEMBER}0000ea6000002710{GOLDEN_MEMBER}",
    4: "000409636f6e73756d6572000000010672616e6765036d310000018bcfe5680002036d3103693102630b2f3132372e302e302e31"
    "0000ea60000027100e000000000001000174ffffffff160000000000010001740000000100000000ffffffff0000",
}


def record(value: GroupValue | bytes | None, group: str = "g", version: int = 3) -> Record:
    body = encode_group_value(value, version) if isinstance(value, GroupValue) else value
    return Record(key=group_key(group), value=body, timestamp_ms=TIME)


def rows_of(*some: Record) -> list[dict[str, Any]]:
    return rows_in_ms(decode("groups", walk(build_batch(some), topic=TOPIC, partition=4)))


@pytest.mark.parametrize("version", GOLDEN)
def test_golden_bytes(version: int) -> None:
    assert rows_of(record(bytes.fromhex(GOLDEN[version]), "g1")) == [
        {
            "log_partition": 4,
            "log_offset": 0,
            "log_ts": TIME,
            "group_id": "g1",
            "value_version": version,
            "protocol_type": "consumer",
            "generation": 1,
            "protocol": "range",
            "leader_id": "m1",
            "state_ts": TIME if version >= 2 else None,
            "is_tombstone": False,
            "member_count": 1,
            "members": [
                {
                    "member_id": "m1",
                    "group_instance_id": "i1" if version >= 3 else None,
                    "client_id": "c",
                    "client_host": "/127.0.0.1",
                    "rebalance_timeout_ms": 60_000 if version >= 1 else None,
                    "session_timeout_ms": 10_000,
                    "subscription_version": 0,
                    "topics": ["t"],
                    "owned": [],
                    "assigned": [{"topic": "t", "partition": 0}],
                }
            ],
        }
    ]


def test_a_tombstone_and_an_empty_group() -> None:
    gone, empty = rows_of(record(None), record(generation(members=[], leader=None, protocol=None)))
    assert (gone["is_tombstone"], gone["member_count"], gone["members"], gone["generation"]) == (True, None, None, None)
    assert (empty["is_tombstone"], empty["member_count"], empty["members"]) == (False, 0, [])
    assert (empty["leader_id"], empty["protocol"], empty["state_ts"]) == (None, None, TIME)


def test_the_schema_is_the_tables() -> None:
    for some in ([commit()], [record(None)], [record(generation(members=[member()]))]):
        assert decode("groups", walk(build_batch(some))).schema.equals(tables.GROUP_GENERATIONS.arrow(whole=False))


OWNED = [ConsumerTopicPartitions(topic="a", partitions=[0, 1]), ConsumerTopicPartitions(topic="b", partitions=[7])]
PAIRS = [{"topic": "a", "partition": 0}, {"topic": "a", "partition": 1}, {"topic": "b", "partition": 7}]


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_and_assignments(version: int) -> None:
    said = Subscription(topics=["a", "b"], user_data=b"x", owned_partitions=OWNED, generation_id=4, rack_id="r")
    got = Assignment(assigned_partitions=OWNED[:1], user_data=b"y")
    one = member(subscription=encode_subscription(said, version), assignment=encode_assignment(got, version))
    (row,) = rows_of(record(generation(members=[one, member("n", assignment=b"")])))
    first, second = row["members"]
    assert (first["subscription_version"], first["topics"]) == (version, ["a", "b"])
    assert first["owned"] == (PAIRS if version >= 1 else [])
    assert first["assigned"] == PAIRS[:2]
    # Without a subscription nothing is known of it; without an assignment it owns nothing.
    assert (second["subscription_version"], second["topics"], second["owned"], second["assigned"]) == (
        None,
        None,
        None,
        [],
    )


def test_a_later_version_is_read_as_the_newest_that_is_known() -> None:
    later = b"\0\x09" + encode_subscription(Subscription(topics=["a"]))[2:] + b"more"
    (row,) = rows_of(record(generation(members=[member(subscription=later)])))
    assert (row["members"][0]["subscription_version"], row["members"][0]["topics"]) == (9, ["a"])


def test_what_a_member_said_may_be_rubbish_at_any_place() -> None:
    """The generation stays, with who is in it."""
    said = encode_subscription(Subscription(topics=["a"], owned_partitions=OWNED))
    got = encode_assignment(Assignment(assigned_partitions=OWNED))
    some = [
        record(generation(members=[member(subscription=said[:size], assignment=got)])) for size in range(len(said) + 1)
    ]
    some += [
        record(generation(members=[member(subscription=said, assignment=got[:size])])) for size in range(len(got) + 1)
    ]
    hostile = b"\0\0\x7f\xff\xff\xff"
    some += [record(generation(members=[member(subscription=hostile, assignment=hostile)]))]
    rows = rows_of(*some)
    assert [row["member_count"] for row in rows] == [1] * len(some)
    details = [row["members"][0] for row in rows]
    assert all(one["member_id"] == "m" for one in details)
    whole = len(said)
    assert [one["topics"] for one in details[: whole + 1]] == [None] * whole + [["a"]]
    assert [one["assigned"] for one in details[whole + 1 : -1]] == [[]] + [None] * (len(got) - 1) + [PAIRS]
    assert (details[-1]["topics"], details[-1]["assigned"]) == (None, None)


def test_details_are_of_consumers_only() -> None:
    said = encode_subscription(Subscription(topics=["a"]))
    for protocol_type in ("connect", "", None):
        (row,) = rows_of(record(generation(protocol_type=protocol_type, members=[member(subscription=said)])))
        (one,) = row["members"]
        assert (row["protocol_type"], row["member_count"], one["member_id"]) == (protocol_type, 1, "m")
        assert [one[name] for name in ("subscription_version", "topics", "owned", "assigned")] == [None] * 4


def test_truncated_at_every_byte() -> None:
    some = [record(bytes.fromhex(text)[:size]) for text in GOLDEN.values() for size in range(len(text) // 2 + 2)]
    some += [replace(record(None, "group"), key=group_key("group")[:size]) for size in range(2, 10)]
    check(some)


def test_bytes_behind() -> None:
    some = [record(bytes.fromhex(text) + b"\0") for text in GOLDEN.values()]
    some.append(replace(record(None), key=group_key("g") + b"\0"))
    check(some)
    errors = decode("quarantine", walk(build_batch(some), topic=TOPIC))["error"].to_pylist()
    assert errors == ["bytes behind the value"] * 5 + ["1 bytes behind the key"]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"", "record value of 0 bytes"),
        (b"\0\5" + bytes(50), "GroupValue has no version 5"),
        (b"\0\3\0\1\xff", "not valid UTF-8"),
        (bytes.fromhex(GOLDEN[3])[:2] + bytes.fromhex(HEAD) + bytes(8) + b"\x7f\xff\xff\xff", "items announced"),
    ],
)
def test_quarantine(value: bytes, error: str) -> None:
    some = [record(generation(members=[member()])), record(value), record(None)]
    check(some)
    (row,) = decode("quarantine", walk(build_batch(some), topic=TOPIC)).to_pylist()
    assert error in row["error"]
    assert (row["log_offset"], row["value"]) == (1, value)


def check(some: list[Record]) -> None:
    """Every record is a row, or in quarantine, as the reference says."""
    chunk = walk(build_batch(some), topic=TOPIC)
    found = {offset: reference(one) for offset, one in enumerate(some)}
    rows = {row["log_offset"]: row for row in rows_in_ms(decode("groups", chunk))}
    assert sorted(rows) == [offset for offset, one in found.items() if one is not None]
    assert decode("quarantine", chunk)["log_offset"].to_pylist() == [at for at, one in found.items() if one is None]
    for offset, row in rows.items():
        key, value = found[offset] or (None, None)
        assert row["group_id"] == key.group_id
        assert row["is_tombstone"] == (value is None)
        if value is not None:
            assert (row["generation"], row["protocol"], row["leader_id"]) == (
                value.generation,
                value.protocol,
                value.leader,
            )
            assert row["member_count"] == len(row["members"]) == len(value.members)
            for got, one in zip(row["members"], value.members, strict=True):
                assert (got["member_id"], got["client_id"]) == (one.member_id, one.client_id)
                assert (got["group_instance_id"], got["session_timeout_ms"]) == (
                    one.group_instance_id,
                    one.session_timeout,
                )


names = st.text(max_size=8)
members = st.builds(
    GroupMemberValue,
    member_id=names,
    group_instance_id=st.one_of(st.none(), names),
    client_id=names,
    client_host=names,
    rebalance_timeout=st.integers(-1, 1 << 30),
    session_timeout=st.integers(-1, 1 << 30),
    subscription=st.one_of(
        st.binary(max_size=12), st.builds(lambda t: encode_subscription(Subscription(topics=t)), st.lists(names))
    ),
    assignment=st.one_of(st.binary(max_size=12), st.just(encode_assignment(Assignment(assigned_partitions=OWNED)))),
)
values = st.builds(
    GroupValue,
    protocol_type=st.sampled_from(["consumer", "consumer", "connect", "", None]),
    generation=st.integers(-1, 1 << 30),
    protocol=st.one_of(st.none(), names),
    leader=st.one_of(st.none(), names),
    current_state_timestamp=st.integers(-(1 << 63), (1 << 63) - 1),
    members=st.lists(members, max_size=4),
)


@st.composite
def generations(draw: st.DrawFn) -> Record:
    """One that is sound, cut somewhere, or changed."""
    body = draw(st.one_of(st.none(), st.builds(encode_group_value, values, st.integers(0, 4))))
    if body is not None and draw(st.booleans()):
        at = draw(st.integers(0, len(body)))
        body = draw(st.sampled_from([body[:at], body[:at] + draw(st.binary(max_size=3)) + body[at + 1 :]]))
    return record(body, draw(names))


@settings(max_examples=100, deadline=None)
@given(st.lists(generations(), min_size=1, max_size=4))
def test_all_kinds_of_generations(some: list[Record]) -> None:
    check(some)
