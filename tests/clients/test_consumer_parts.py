"""The consumer's parts without I/O: where it stands, what a fetch brought, whether the user is at work."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.clients.consumer import Consumer
from ottla.clients.errors import CommitFailed, KafkaError, OptionError, RecordCorrupt, RecordNotReadable
from ottla.clients.fetched import FetchedPartition
from ottla.clients.gate import UserGate
from ottla.clients.structs import EARLIEST, ConsumerGroupMetadata
from ottla.clients.subscription import PartitionState, SubscriptionState
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, TimestampType, TopicPartition, batch_crc, with_log_append_time
from tests.support.batches import build_batch, damaged

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def state_at(offset: int) -> PartitionState:
    state = PartitionState(T0)
    state.seek(offset)
    return state


def batch(offset: int, *values: bytes, **more: Any) -> bytes:
    records = [Record(timestamp_ms=1000 + n, key=b"k", value=v) for n, v in enumerate(values)]
    return build_batch(records, base_offset=offset, **{"leader_epoch": 3, **more})


def read(state: PartitionState, data: bytes, limit: int = 100, **options: Any) -> tuple[list[int], bool, int]:
    fetched = FetchedPartition(state, data, **options)
    records, used_up = fetched.take(limit, None, None)
    return [record.offset for record in records], used_up, fetched.next_offset


# what a fetch brought


def test_records_with_all_they_have() -> None:
    fetched = FetchedPartition(state_at(5), batch(5, b"a", b"b", codec=Codec.GZIP))
    [first, _], used_up = fetched.take(9, bytes.decode, bytes.decode)
    assert used_up
    assert first == ("t", 0, 5, 1000, TimestampType.CREATE_TIME, "k", "a", (), 3)
    assert (fetched.next_offset, fetched.epoch) == (7, 3)


def test_the_brokers_time() -> None:
    [record], _ = FetchedPartition(state_at(0), with_log_append_time(batch(0, b"a"), 77)).take(9, None, None)
    assert (record.timestamp, record.timestamp_type) == (77, TimestampType.LOG_APPEND_TIME)


def test_a_batch_may_begin_before_the_position() -> None:
    assert read(state_at(6), batch(5, b"a", b"b", b"c")) == ([6, 7], True, 8)


def test_as_many_as_asked_for() -> None:
    fetched = FetchedPartition(state_at(0), batch(0, b"a", b"b") + batch(2, b"c"))
    taken = [fetched.take(2, None, None) for _ in range(3)]
    assert [([r.offset for r in records], used_up) for records, used_up in taken] == [
        ([0, 1], False),
        ([2], True),
        ([], True),
    ]


def test_what_is_cut_off_is_left_for_the_next_fetch() -> None:
    assert read(state_at(0), batch(0, b"a") + batch(1, b"b")[:-1]) == ([0], True, 1)


def test_a_batch_that_does_not_fit_into_a_fetch_is_told() -> None:
    fetched = FetchedPartition(state_at(0), batch(0, b"a")[:-1])
    assert fetched.take(9, None, None) == ([], True)
    with pytest.raises(KafkaError, match="max_partition_fetch_bytes") as caught:
        fetched.check_progress()
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_progress_is_no_cause_for_complaint() -> None:
    state = state_at(0)
    fetched = FetchedPartition(state, batch(0, b"a"))
    fetched.take(1, None, None)
    state.moved(fetched.next_offset, 3)
    assert fetched.take(1, None, None) == ([], True)
    fetched.check_progress()


def test_offsets_may_have_gaps() -> None:
    """Compaction takes records out, even the last ones of a batch, whose end then counts."""
    data = bytearray(batch(0, b"a", b"b"))
    data[23:27] = (9).to_bytes(4, "big")
    assert read(state_at(0), bytes(data), check_crcs=False) == ([0, 1], True, 10)


def test_control_records_are_not_for_the_user() -> None:
    marker = build_batch([Record(key=b"\0\0\0\1", value=b"")], base_offset=1, is_transactional=True, is_control=True)
    assert read(state_at(0), batch(0, b"a") + marker) == ([0], True, 2)
    assert read(state_at(1), marker) == ([], True, 2)


def test_what_is_not_for_the_user_counts_for_the_epoch() -> None:
    """A position behind a marker of a later epoch is not a position in an epoch that ended before the marker."""
    record = Record(key=b"\0\0\0\1", value=b"")
    end = build_batch([record], base_offset=1, leader_epoch=9, is_transactional=True, is_control=True)
    state = state_at(1)
    state.position_epoch = 8
    fetched = FetchedPartition(state, end)
    fetched.take(1, None, None)
    assert (fetched.next_offset, fetched.epoch) == (2, 9)


def transactional(offset: int, producer_id: int, *values: bytes) -> bytes:
    return batch(offset, *values, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    record = Record(key=b"\0\0\0" + bytes([commit]), value=b"\0\0\0\0\0\0")
    return build_batch(
        [record], base_offset=offset, producer_id=producer_id, is_transactional=True, is_control=True, base_sequence=-1
    )


def test_aborted_transactions_are_not_for_those_who_read_committed() -> None:
    data = (
        transactional(0, 1, b"aborted")
        + transactional(1, 2, b"committed")
        + marker(2, 1, commit=False)
        + transactional(3, 1, b"again, committed")
        + marker(4, 1, commit=True)
        + marker(5, 2, commit=True)
        + batch(6, b"plain")
        + transactional(7, 2, b"aborted too")
        + marker(8, 2, commit=False)
    )
    assert read(state_at(0), data, aborted=[(2, 7), (1, 0)]) == ([1, 3, 6], True, 9)
    assert read(state_at(0), data, aborted=[]) == ([0, 1, 3, 6, 7], True, 9)
    assert read(state_at(0), data)[0] == [0, 1, 3, 6, 7], "read_uncommitted sees everything but the markers"
    idempotent = batch(9, b"not in a transaction", producer_id=2, producer_epoch=0, base_sequence=9)
    assert read(state_at(7), transactional(7, 2, b"aborted") + idempotent, aborted=[(2, 7)]) == ([9], True, 10)


def undecompressable(data: bytes) -> bytes:
    """With a CRC that fits: whoever built the batch was wrong."""
    made = bytearray(data[:-4] + b"\0\0\0\0")
    made[21:23] = (Codec.GZIP | int.from_bytes(made[21:23])).to_bytes(2)
    made[17:21] = batch_crc(bytes(made)).to_bytes(4)
    return bytes(made)


def without_end(data: bytes) -> bytes:
    """A batch shorter than its own header: where the next one begins cannot be told."""
    return data[:8] + bytes(4) + data[12:]


def like_a_marker(data: bytes) -> bytes:
    """The bit of control batches flipped."""
    return data[:22] + bytes([data[22] ^ 0x20]) + data[23:]


@pytest.mark.parametrize("damage", [damaged, undecompressable, without_end, like_a_marker])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_damaged_batch_is_told_after_what_is_before_it_and_again_ever_after(
    damage: Callable[[bytes], bytes], bad: int
) -> None:
    """First, in the middle or last: what follows it is not given out, however often that is asked for."""
    parts = [batch(2 * n, b"a", b"b") for n in range(3)]
    parts[bad] = damage(parts[bad])
    fetched = FetchedPartition(state_at(0), b"".join(parts))
    if bad:
        records, used_up = fetched.take(9, None, None)
        assert ([r.offset for r in records], used_up) == (list(range(2 * bad)), False)
    for _ in range(3):
        with pytest.raises(RecordCorrupt, match=f"offset {2 * bad} is corrupt") as caught:
            fetched.take(9, None, None)
        behind = None if damage is without_end else 2 * bad + 2
        assert (caught.value.tp, caught.value.offset, caught.value.next_offset) == (T0, 2 * bad, behind)
        assert fetched.next_offset == 2 * bad


def test_damage_is_told_even_where_the_user_begins_in_the_midst_of_it() -> None:
    with pytest.raises(RecordCorrupt, match=r"offset 1 is corrupt.*the next one begins at offset 2") as caught:
        FetchedPartition(state_at(1), damaged(batch(0, b"a", b"b"))).take(9, None, None)
    assert (caught.value.offset, caught.value.next_offset) == (1, 2)


def test_crcs_are_not_checked_for_who_does_not_want_it() -> None:
    assert read(state_at(1), damaged(batch(1, b"b")), check_crcs=False)[1:] == (True, 2)
    marker_and_more = like_a_marker(batch(0, b"a")) + batch(1, b"b")
    assert read(state_at(0), marker_and_more, check_crcs=False) == ([1], True, 2)


def test_damage_that_looks_like_an_aborted_transaction_is_told() -> None:
    data = damaged(transactional(0, 1, b"aborted")) + marker(1, 1, commit=False) + batch(2, b"plain")
    with pytest.raises(RecordCorrupt, match="offset 0"):
        read(state_at(0), data, aborted=[(1, 0)])


def test_a_deserializer_that_fails_is_told_after_what_is_before_it() -> None:
    fetched = FetchedPartition(state_at(0), batch(0, b"1", b"x", b"3"))
    records, used_up = fetched.take(9, None, int)
    assert ([r.value for r in records], used_up, fetched.next_offset) == ([1], False, 1)
    for _ in range(2):
        with pytest.raises(RecordNotReadable, match=r"value_deserializer of the record at offset 1.*invalid literal"):
            fetched.take(9, None, int)
    assert fetched.next_offset == 1
    with pytest.raises(RecordNotReadable, match="key_deserializer"):
        FetchedPartition(state_at(0), batch(0, b"1")).take(9, int, None)


def test_absent_keys_and_values_are_not_deserialized() -> None:
    data = build_batch([Record(key=None, value=None)])
    [record], _ = FetchedPartition(state_at(0), data).take(9, int, int)
    assert (record.key, record.value) == (None, None)


def test_what_was_fetched_for_another_position_is_not_current() -> None:
    state = state_at(0)
    fetched = FetchedPartition(state, batch(0, b"a"))
    assert fetched.current
    state.seek(0)
    assert not fetched.current, "the user jumped, if only to where it was"


# where a consumer stands


def test_the_ways_to_choose_partitions_exclude_each_other() -> None:
    subscription = SubscriptionState()
    subscription.subscribe(["t"])
    subscription.subscribe(["u"])
    for other in (lambda: subscription.assign([T0]), lambda: subscription.subscribe_pattern("t.*")):
        with pytest.raises(OptionError, match="unsubscribe"):
            other()
    subscription.clear()
    subscription.assign([T0])
    with pytest.raises(OptionError):
        subscription.subscribe(["t"])


def test_a_pattern_matches_from_the_first_letter() -> None:
    subscription = SubscriptionState()
    subscription.subscribe_pattern("ab?")
    assert subscription.match(["a", "ab", "abc", "xab"]) == {"a", "ab", "abc"}
    with pytest.raises(OptionError, match="regular expression"):
        subscription.subscribe_pattern("(")


def test_what_stays_keeps_its_place() -> None:
    subscription = SubscriptionState()
    subscription.assign([T0, T1])
    subscription.state(T0).seek(5)
    subscription.state(T0).paused = True
    subscription.set_assignment([T0, U0], settling=True)
    assert subscription.assigned() == [T0, U0]
    assert (subscription.state(T0).position, subscription.state(T0).paused) == (5, True)
    subscription.state(U0).seek(0)
    assert not subscription.state(U0).readable, "the listener does not know of it yet"
    subscription.settle()
    assert subscription.state(U0).readable
    with pytest.raises(OptionError, match="t-1 is not assigned"):
        subscription.state(T1)


def test_done_is_what_the_user_came_back_from() -> None:
    subscription = SubscriptionState()
    subscription.assign([T0])
    state = subscription.state(T0)
    assert subscription.to_commit() == {}
    state.seek(5, 2)
    assert subscription.to_commit() == {T0: (5, 2)}, "where it begins may be committed"
    state.committed = 5
    subscription.gave(state, 8, 3)
    assert subscription.unfinished
    assert subscription.to_commit() == {}
    subscription.finish()
    assert not subscription.unfinished
    assert subscription.to_commit() == {T0: (8, 3)}


def test_a_reset_forgets_the_position() -> None:
    state = state_at(5)
    state.request_reset(EARLIEST)
    assert (state.position, state.done, state.readable, state.unfinished) == (None, None, False, False)
    state.seek(0)
    assert state.reset is None


def test_what_is_paused_or_on_its_way_out_is_not_read() -> None:
    for name in ("paused", "revoking", "settling"):
        state = state_at(0)
        assert state.readable
        setattr(state, name, True)
        assert not state.readable


# the gate


async def test_the_gate_is_closed_while_the_user_has_records() -> None:
    holding = False
    gate = UserGate(lambda: holding)
    await gate.wait()
    holding = True
    passed = []
    gate.on_passed = lambda: passed.append(gate.wanted)
    waiting = asyncio.ensure_future(gate.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert gate.wanted
    gate.enter()
    assert gate.wanted, "until it had its turn"
    await waiting
    assert (gate.wanted, passed) == (False, [False])
    gate.leave()
    assert not gate.is_open
    waiting = asyncio.ensure_future(gate.wait())
    await asyncio.sleep(0)
    holding = False
    gate.look_again()
    await waiting


async def test_the_gate_can_be_forced() -> None:
    gate = UserGate(lambda: True)
    waiting = asyncio.ensure_future(gate.wait())
    await asyncio.sleep(0)
    gate.force()
    await waiting
    assert gate.is_open


def test_who_a_consumer_is_for_a_transaction() -> None:
    """Never nobody in particular while it is to be a member: its offsets could not be refused."""
    assert Consumer(group_id="g").group_metadata() == ConsumerGroupMetadata("g", -1, "", None)
    with pytest.raises(CommitFailed, match="not in the group"):
        Consumer("t", group_id="g").group_metadata()
    with pytest.raises(OptionError, match="group_id=None"):
        Consumer().group_metadata()
