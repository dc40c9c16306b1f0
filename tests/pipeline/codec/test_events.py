"""Events of groups out of their JSON, and what is none."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline import tables
from ottla.pipeline.codec import decode, walk
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC
from ottla.protocol.records import Record
from tests.pipeline.codec.logs import TIME, rows_in_ms
from tests.support.batches import build_batch

FULL = {
    "v": 1,
    "ts_ms": TIME,
    "event": "rebalance_completed",
    "group": "g",
    "generation": 4,
    "member": "m-1",
    "client": "m",
    "host": "/10.1.3.207",
    "reason": "member_joined: rolling out",
    "cause": "member_joined",
    "duration_ms": 2500,
    "outcome": "Stable",
    "members": 3,
}
ROW = {
    "ts": TIME,
    "group_id": "g",
    "generation": 4,
    "event": "rebalance_completed",
    "reason": "member_joined: rolling out",
    "member_id": "m-1",
    "client_id": "m",
    "client_host": "/10.1.3.207",
    "duration_ms": 2500,
}
LEAST = {"v": 1, "ts_ms": TIME, "event": "an event of tomorrow", "group": "g"}


def chunk_of(*values: bytes | None) -> Any:
    return walk(
        build_batch([Record(key=b"g", value=value, timestamp_ms=TIME) for value in values]), topic=GROUP_EVENTS_TOPIC
    )


def test_all_columns() -> None:
    chunk = chunk_of(json.dumps(FULL).encode())
    assert rows_in_ms(decode("events", chunk)) == [ROW]
    assert decode("quarantine", chunk).num_rows == 0
    for one in (chunk, chunk_of(b"")):
        assert decode("events", one).schema.equals(tables.GROUP_EVENTS.arrow(whole=False))


def test_what_the_broker_did_not_know_is_null() -> None:
    bare = {"ts": TIME, "group_id": "g", "event": "an event of tomorrow"} | dict.fromkeys(
        ["generation", "reason", "member_id", "client_id", "client_host", "duration_ms"]
    )
    empty = LEAST | {"generation": -1, "member": "", "client": "", "host": "", "reason": "", "duration_ms": None}
    rows = rows_in_ms(decode("events", chunk_of(json.dumps(LEAST).encode(), json.dumps(empty).encode())))
    assert rows == [ROW | bare, ROW | bare]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, "without a value"),
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[1]", "no JSON object"),
        (b"null", "no JSON object"),
        (b"\xff\xfe{}", "not UTF-8"),
        (json.dumps(FULL).encode("utf-16"), "not UTF-8"),
        (b"[" * 100_000, "no JSON"),
        (b'{"v":' + b"9" * 10_000 + b"}", ""),
        (json.dumps(FULL | {"v": 2}).encode(), "of version 2, not 1"),
        (json.dumps(FULL | {"v": True}).encode(), "of version true, not 1"),
        (json.dumps({**LEAST, "v": None}).encode(), "of version null, not 1"),
        (json.dumps(FULL | {"ts_ms": "yesterday"}).encode(), "ts_ms is no integer"),
        (json.dumps(FULL | {"ts_ms": 1 << 63}).encode(), "ts_ms is no integer of 64 bits"),
        (json.dumps(FULL | {"ts_ms": None}).encode(), "ts_ms is no integer"),
        (json.dumps(FULL | {"ts_ms": 1.5}).encode(), "ts_ms is no integer"),
        (json.dumps(FULL | {"generation": 1 << 31}).encode(), "generation is no integer of 32 bits"),
        (json.dumps(FULL | {"generation": True}).encode(), "generation is no integer"),
        (json.dumps(FULL | {"group": 5}).encode(), "group is no text"),
        (json.dumps(FULL | {"event": None}).encode(), "event is no text"),
        (json.dumps(FULL | {"reason": ["x"]}).encode(), "reason is no text"),
        (json.dumps(FULL | {"member": "\ud800"}).encode(), "member has half a character"),
        (json.dumps(FULL | {"duration_ms": "9"}).encode(), "duration_ms is no integer"),
    ],
)
def test_quarantine(value: bytes | None, error: str) -> None:
    chunk = chunk_of(json.dumps(FULL).encode(), value, json.dumps(FULL).encode())
    assert rows_in_ms(decode("events", chunk)) == [ROW, ROW]
    (row,) = decode("quarantine", chunk).to_pylist()
    assert (row["log_offset"], row["key"], row["value"]) == (1, b"g", value)
    assert error in row["error"]


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(st.dictionaries(st.sampled_from([*FULL, "x"]), scalars), scalars, st.binary()), min_size=1, max_size=5
    )
)
def test_any_json(values: list[Any]) -> None:
    """Each is a row or in quarantine."""
    chunk = chunk_of(*(one if isinstance(one, bytes) else json.dumps(one).encode() for one in values))
    assert decode("events", chunk).num_rows + decode("quarantine", chunk).num_rows == len(values)
