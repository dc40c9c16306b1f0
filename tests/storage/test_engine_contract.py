"""What every engine promises. An engine that passes here can carry the broker."""

import asyncio
import contextlib
import re
import uuid

import pytest

from ottla.broker.engine import EpochEnd, OffsetAndTimestamp, OffsetOutOfRange, Outdated, Unavailable
from ottla.broker.runtime.reading import in_turns
from ottla.broker.runtime.reading import read_when_here as read
from ottla.protocol.records import HEADER_SIZE, TimestampType, TopicPartition, decode_batch, iter_batches


def offsets(data):
    return [record.offset for _, batch in iter_batches(data) for record in decode_batch(batch)]


def values(data):
    return [record.value for _, batch in iter_batches(data) for record in decode_batch(batch)]


async def test_an_empty_log(log):
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.size_bytes) == (0, 0, 0, 0)
    assert log.tp == TopicPartition("t", 0)
    assert await read(log, 0, max_bytes=100) == b""
    assert await in_turns(log.offset_for_timestamp(0)) is None
    assert await in_turns(log.max_timestamp()) is None
    assert log.segments() == []


async def test_append_gives_offsets_at_once_and_reports_later(log, appends):
    assert appends.add(log, b"a", b"b", b"c") == 0
    assert appends.add(log, b"d") == 3
    assert (log.log_end_offset, log.high_watermark, appends.reports) == (4, 0, [])
    assert await read(log, 0, max_bytes=1000) == b""
    await appends.reported(2)
    assert appends.reports == [(0, None), (3, None)]
    assert log.high_watermark == 4
    assert offsets(await read(log, 0, max_bytes=1000)) == [0, 1, 2, 3]
    assert values(await read(log, 0, max_bytes=1000)) == [b"a", b"b", b"c", b"d"]


async def test_stored_batches_carry_offset_and_epoch_and_keep_their_crc(log, appends):
    appends.add(log, b"a")
    await appends.outcome(log, b"b", b"c", producer_id=5, producer_epoch=1, base_sequence=9)
    headers = [header for header, batch in iter_batches(await read(log, 0, max_bytes=1000)) if decode_batch(batch)]
    assert [header.base_offset for header in headers] == [0, 1]
    assert {header.partition_leader_epoch for header in headers} == {log.leader_epoch}
    assert (headers[1].producer_id, headers[1].base_sequence) == (5, 9)


async def test_a_batch_may_come_in_pieces(log, appends):
    whole = appends.batch([b"x" * 100, b"y" * 100])
    for cut in (HEADER_SIZE, HEADER_SIZE + 7, len(whole)):
        pieces = [memoryview(whole)[:cut], bytearray(whole[cut:-3]), whole[max(cut, len(whole) - 3) :]]
        log.append(pieces, count=2, max_timestamp_ms=1001, done=appends.done)
    await appends.reported(3)
    assert values(await read(log, 0, max_bytes=10_000)) == [b"x" * 100, b"y" * 100] * 3
    assert log.size_bytes == 3 * len(whole)


async def test_reading_starts_at_the_batch_that_contains_the_offset(log, appends):
    for start in range(0, 30, 3):
        appends.add(log, *(b"%d" % (start + index) for index in range(3)))
    await appends.reported(10)
    for start in range(30):
        assert offsets(await read(log, start, max_bytes=10**6))[0] == start - start % 3
    assert await read(log, 30, max_bytes=10**6) == b""


async def test_reading_never_goes_beyond_max_bytes_but_for_one_batch(log, appends):
    for _ in range(5):
        appends.add(log, b"v" * 100)
    await appends.reported(5)
    size = log.size_bytes // 5
    assert offsets(await read(log, 1, max_bytes=3 * size)) == [1, 2, 3]
    assert offsets(await read(log, 1, max_bytes=3 * size - 1)) == [1, 2]
    assert offsets(await read(log, 1, max_bytes=1)) == [1]
    assert offsets(await read(log, 1, max_bytes=0)) == [1]
    assert await read(log, 1, max_bytes=size - 1, min_one_batch=False) == b""
    assert offsets(await read(log, 1, max_bytes=size, min_one_batch=False)) == [1]


async def test_reading_stops_before_upto_offset(log, appends):
    for _ in range(4):
        appends.add(log, b"a", b"b")
    await appends.reported(4)
    assert offsets(await read(log, 0, max_bytes=10**6, upto_offset=4)) == [0, 1, 2, 3]
    # A batch that reaches beyond is not cut in two, so it is not shown.
    assert offsets(await read(log, 0, max_bytes=10**6, upto_offset=3)) == [0, 1]
    assert await read(log, 2, max_bytes=10**6, upto_offset=3) == b""
    assert await read(log, 0, max_bytes=10**6, upto_offset=0) == b""
    assert offsets(await read(log, 6, max_bytes=10**6, upto_offset=99)) == [6, 7]


async def test_offsets_outside_are_refused(log, appends):
    appends.add(log, b"a", b"b")
    with pytest.raises(OffsetOutOfRange):
        await read(log, 3, max_bytes=100)
    with pytest.raises(OffsetOutOfRange):
        await read(log, -1, max_bytes=100)
    assert await read(log, 2, max_bytes=100) == b""
    with pytest.raises(OffsetOutOfRange):
        await log.trim(99)


async def test_watermarks_move_before_done_and_waiters_are_woken_after(opened, appends):
    trace = []
    first, second = await opened.log("a"), await opened.log("b")
    opened.engine.on_appended = lambda tp: trace.append(("woken", tp))

    def note(log):
        return lambda base_offset, error: trace.append((log.tp.topic, base_offset, log.high_watermark))

    for log in (first, second, first):
        log.append(appends.batch([b"v", b"w"]), count=2, max_timestamp_ms=1, done=note(log))
    await opened.engine.close()
    done = [entry for entry in trace if entry[0] != "woken"]
    assert [entry for entry in done if entry[0] == "a"] == [("a", 0, 2), ("a", 2, 4)]
    assert [entry for entry in done if entry[0] == "b"] == [("b", 0, 2)]
    for log in (first, second):
        last = max(index for index, entry in enumerate(trace) if entry[0] == log.tp.topic)
        assert trace.index(("woken", log.tp), last) > last


async def test_nobody_is_woken_for_a_log_that_is_deleted_meanwhile(opened, appends):
    woken = []
    opened.engine.on_appended = woken.append
    kept, doomed = await opened.log("kept"), await opened.log("doomed")
    deletion = opened.engine.delete_log(doomed.tp)

    def begin_deletion(base_offset, error):
        with contextlib.suppress(StopIteration):
            deletion.send(None)

    for log, done in ((doomed, begin_deletion), (kept, appends.done)):
        log.append(appends.batch([b"v"]), count=1, max_timestamp_ms=1, done=done)
    await opened.engine.close()
    deletion.close()
    assert woken == [kept.tp]


async def test_appending_from_done_is_a_new_append(log, appends):

    def again(base_offset, error):
        appends.done(base_offset, error)
        if base_offset < 5:
            log.append(appends.batch([b"v"]), count=1, max_timestamp_ms=1, done=again)
            assert log.high_watermark == base_offset + 1

    log.append(appends.batch([b"v"]), count=1, max_timestamp_ms=1, done=again)
    await appends.reported(6)
    assert appends.reports == [(offset, None) for offset in range(6)]


async def test_a_callback_that_raises_does_not_silence_the_others(log, appends):
    raised = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: raised.append(context))

    def broken(base_offset, error):
        raise LookupError("a caller's bug")

    log.append(appends.batch([b"v"]), count=1, max_timestamp_ms=1, done=broken)
    await appends.outcome(log, b"w")
    await asyncio.sleep(0)
    assert appends.reports == [(1, None)]
    assert "LookupError" in repr(raised)


async def test_offset_for_timestamp_is_exact_inside_batches(log, appends):
    appends.add(log, b"a", b"b", timestamp_ms=100)
    appends.add(log, b"c", b"d", timestamp_ms=50)
    await appends.outcome(log, b"e", b"f", timestamp_ms=200)
    assert await in_turns(log.offset_for_timestamp(0)) == OffsetAndTimestamp(0, 100)
    assert await in_turns(log.offset_for_timestamp(101)) == OffsetAndTimestamp(1, 101)
    assert await in_turns(log.offset_for_timestamp(102)) == OffsetAndTimestamp(4, 200)
    assert await in_turns(log.offset_for_timestamp(201)) == OffsetAndTimestamp(5, 201)
    assert await in_turns(log.offset_for_timestamp(202)) is None
    assert await in_turns(log.max_timestamp()) == OffsetAndTimestamp(5, 201)


async def test_timestamps_of_compressed_and_broker_stamped_batches(log, appends):
    appends.add(log, b"a", b"b", b"c", timestamp_ms=100, codec=4)
    stamped = appends.batch([b"d", b"e"], 500, timestamp_type=TimestampType.LOG_APPEND_TIME)
    log.append(stamped, count=2, max_timestamp_ms=501, done=appends.done)
    await appends.reported(2)
    assert await in_turns(log.offset_for_timestamp(102)) == OffsetAndTimestamp(2, 102)
    # All records of a batch that the broker stamped have its max timestamp.
    assert await in_turns(log.offset_for_timestamp(103)) == OffsetAndTimestamp(3, 501)
    assert await in_turns(log.max_timestamp()) == OffsetAndTimestamp(3, 501)


async def test_the_largest_timestamp_may_come_first(log, appends):
    appends.add(log, b"late", timestamp_ms=900)
    await appends.outcome(log, b"early", timestamp_ms=100)
    assert await in_turns(log.max_timestamp()) == OffsetAndTimestamp(0, 900)


async def test_trim_moves_the_start_and_hides_what_lies_before(log, appends):
    appends.add(log, b"a", b"b", timestamp_ms=900)
    await appends.outcome(log, b"c", b"d", timestamp_ms=100)
    assert await log.trim(1) == 1
    assert log.log_start_offset == 1
    with pytest.raises(OffsetOutOfRange):
        await read(log, 0, max_bytes=100)
    # The batch that contains the start is still whole.
    assert offsets(await read(log, 1, max_bytes=1000)) == [0, 1, 2, 3]
    assert await in_turns(log.offset_for_timestamp(0)) == OffsetAndTimestamp(1, 901)
    assert await log.trim(0) == 1
    assert await log.trim(2) == 2
    assert await in_turns(log.offset_for_timestamp(0)) == OffsetAndTimestamp(2, 100)
    assert await log.trim(4) == 4
    assert await read(log, 4, max_bytes=100) == b""
    assert await in_turns(log.offset_for_timestamp(0)) is None
    assert appends.add(log, b"e") == 4
    await appends.reported(3)
    assert values(await read(log, 4, max_bytes=1000)) == [b"e"]


async def test_a_restart_keeps_everything_and_begins_an_epoch(opened, log, appends):
    cluster_id, epoch = opened.engine.cluster_id, opened.engine.leader_epoch
    await appends.outcome(log, b"a", b"b")
    appends.add(log, b"c")
    await opened.restart()
    assert appends.reports == [(0, None), (2, None)]
    log = await opened.log()
    assert (opened.engine.cluster_id, opened.engine.leader_epoch) == (cluster_id, epoch + 1)
    assert (log.log_end_offset, log.high_watermark, log.leader_epoch) == (3, 3, epoch + 1)
    await appends.outcome(log, b"d")
    assert values(await read(log, 0, max_bytes=10**6)) == [b"a", b"b", b"c", b"d"]
    headers = [header for header, _ in iter_batches(await read(log, 0, max_bytes=10**6))]
    assert [header.partition_leader_epoch for header in headers] == [epoch, epoch, epoch + 1]


async def test_epochs_end_where_the_next_one_begins(opened, log, appends):
    first = log.leader_epoch
    appends.add(log, b"a", b"b")
    await opened.restart()
    await opened.log()
    await opened.restart()
    log = await opened.log()
    last = log.leader_epoch
    assert last == first + 2
    await appends.outcome(log, b"c")
    assert log.epoch_end(first) == EpochEnd(first, 2)
    # Nothing was written in the epoch between.
    assert log.epoch_end(first + 1) == EpochEnd(first, 2)
    assert log.epoch_end(last) == EpochEnd(last, 3)
    assert log.epoch_end(last + 1) == EpochEnd(-1, -1)
    assert log.epoch_end(-1) == EpochEnd(-1, -1)


async def test_the_log_start_survives_a_restart(opened, log, appends):
    await appends.outcome(log, b"a", b"b", b"c")
    await log.trim(2)
    await opened.restart()
    log = await opened.log()
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    await log.trim(3)
    await opened.restart()
    log = await opened.log()
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert appends.add(log, b"d") == 3


async def test_timestamps_survive_a_restart(opened, log, appends):
    for number in range(20):
        appends.add(log, b"a", b"b", timestamp_ms=100 * number)
    await appends.reported(20)
    await opened.restart()
    log = await opened.log()
    assert await in_turns(log.max_timestamp()) == OffsetAndTimestamp(39, 1901)
    assert await in_turns(log.offset_for_timestamp(1001)) == OffsetAndTimestamp(21, 1001)


async def test_a_deleted_log_is_gone(opened, log, appends):
    await appends.outcome(log, b"a")
    await opened.engine.delete_log(log.tp)
    assert log.tp not in opened.engine.logs
    with pytest.raises(Unavailable):
        await read(log, 0, max_bytes=100)
    await appends.outcome(log, b"b")
    assert isinstance(appends.reports[1][1], Unavailable)
    again = await opened.log(topic_id=uuid.UUID(int=8))
    assert again.log_end_offset == 0
    await appends.outcome(again, b"new")
    assert values(await read(again, 0, max_bytes=1000)) == [b"new"]
    await opened.engine.delete_log(TopicPartition("never", 3))


async def test_deleting_fails_what_is_queued_or_reports_it_done(opened, log, appends):
    appends.add(log, b"a")
    deleting = asyncio.ensure_future(opened.engine.delete_log(log.tp))
    await appends.reported(1)
    await deleting
    ((offset, error),) = appends.reports
    assert offset == 0
    assert error is None or isinstance(error, Unavailable)


async def test_a_log_of_another_topic_id_is_discarded(opened, appends):
    await appends.outcome(await opened.log(), b"old", b"old")
    await opened.restart()
    log = await opened.log(topic_id=uuid.UUID(int=99))
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    assert appends.add(log, b"new") == 0
    await appends.reported(2)
    await opened.restart()
    assert values(await read(await opened.log(topic_id=uuid.UUID(int=99)), 0, max_bytes=1000)) == [b"new"]


async def test_orphans_are_those_not_opened(opened, appends):
    for partition in range(3):
        appends.add(await opened.log("kept-or-not", partition), b"v")
    await appends.reported(3)
    await opened.restart()
    await opened.log("kept-or-not", 1)
    orphans = await opened.engine.remove_orphans()
    assert sorted(orphans) == [TopicPartition("kept-or-not", 0), TopicPartition("kept-or-not", 2)]
    assert await opened.engine.remove_orphans() == []
    assert (await opened.log("kept-or-not", 0)).log_end_offset == 0


async def test_orphans_that_are_spared_stay(opened, appends):
    for partition in range(3):
        await appends.outcome(await opened.log("t", partition), b"v")
    await opened.restart()
    await opened.log("t", 0)
    spared = TopicPartition("t", 1)
    assert await opened.engine.remove_orphans(besides={spared}) == [TopicPartition("t", 2)]
    assert await opened.engine.remove_orphans(besides={spared}) == []
    assert (await opened.log("t", 1)).log_end_offset == 1
    assert (await opened.log("t", 2)).log_end_offset == 0


async def test_a_log_that_was_released_can_be_opened_again(opened, log, appends):
    for value in (b"a", b"b"):
        appends.add(log, value)
    await opened.engine.release_log(log.tp)
    assert appends.reports == [(0, None), (1, None)]
    assert log.tp not in opened.engine.logs
    await opened.engine.release_log(log.tp)
    again = await opened.log(segment_bytes=100)
    assert (again.high_watermark, again.config.segment_bytes) == (2, 100)
    assert await appends.outcome(again, b"c") is None
    assert values(await read(again, 0, max_bytes=1000)) == [b"a", b"b", b"c"]
    await opened.engine.release_log(log.tp)
    await opened.restart()
    assert values(await read(await opened.log(), 0, max_bytes=1000)) == [b"a", b"b", b"c"]


async def test_a_log_that_was_released_can_be_deleted(opened, log, appends):
    await appends.outcome(log, b"a")
    await opened.engine.release_log(log.tp)
    await opened.engine.delete_log(log.tp)
    assert (await opened.log()).log_end_offset == 0
    await appends.outcome(opened.engine.logs[log.tp], b"b")
    await opened.engine.release_log(log.tp)
    assert (await opened.log(topic_id=uuid.UUID(int=99))).log_end_offset == 0


async def test_a_log_is_opened_once(opened):
    await opened.log()
    with pytest.raises(ValueError, match="open already"):
        await opened.log()


async def test_the_catalog_keeps_one_document(opened):
    catalog = opened.engine.catalog
    assert (catalog.load(), catalog.version) == (None, 0)
    document = {"topics": {"ä": {"partitions": 3, "configs": {"a": None}}}, "next": 2**53}
    assert await catalog.store(document, over=0) == catalog.version == 1
    document["topics"].clear()
    assert catalog.load() == {"topics": {"ä": {"partitions": 3, "configs": {"a": None}}}, "next": 2**53}
    catalog.load().clear()
    for number in range(5):
        await catalog.store({"number": number}, over=catalog.version)
    assert (catalog.load(), catalog.version) == ({"number": 4}, 6)
    await opened.restart()
    assert (opened.engine.catalog.load(), opened.engine.catalog.version) == ({"number": 4}, 6)


async def test_a_change_of_an_older_document_is_refused(opened):
    catalog = opened.engine.catalog
    await catalog.store({"number": 1}, over=0)
    for over in (0, 2):
        with pytest.raises(Outdated):
            await catalog.store({"number": 2}, over=over)
    await catalog.refresh()
    assert (catalog.load(), catalog.version) == ({"number": 1}, 1)


async def test_of_changes_at_once_one_is_made(opened):
    catalog = opened.engine.catalog
    changes = (catalog.store({"number": number}, over=0) for number in range(5))
    outcomes = await asyncio.gather(*changes, return_exceptions=True)
    assert outcomes[0] == 1 and {type(outcome) for outcome in outcomes[1:]} == {Outdated}
    assert catalog.load() == {"number": 0}


async def test_the_cluster_id_is_one(opened):
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", opened.engine.cluster_id)


async def test_after_close_nothing_is_accepted(opened, log, appends):
    appends.add(log, b"a")
    await opened.engine.close()
    assert appends.reports == [(0, None)]
    await appends.outcome(log, b"b")
    assert isinstance(appends.reports[1][1], Unavailable)
    with pytest.raises(Unavailable):
        await read(log, 0, max_bytes=10)
    await opened.engine.close()
