"""The cleaner at work on the memory engine: retention, compaction, and what happens beside it."""

import asyncio

import pytest

from ottla.broker.core.configs.alterations import Alteration, Change, Operation
from ottla.broker.engine import OffsetOutOfRange, StorageFull
from ottla.broker.runtime.cleaner import MOST_JOINED
from ottla.broker.storage.local.sizes import Sizes
from ottla.protocol.records import Record, TopicPartition, iter_batches
from tests.handlers.conftest import NOW_MS
from tests.runtime.conftest import CleaningWorld
from tests.support.batches import build_batch


async def settled(world, changes, name="t", kind=2):
    """Change settings while everything runs."""
    alteration = Alteration(kind, name, [Change(key, value, Operation.SET) for key, value in changes.items()])
    assert await world.topics.alter_configs([alteration]) == [None]


# ------------------------------------------------------------------------------------------------------- retention


async def test_old_segments_go_and_readers_are_told(world):
    await world.topic(retention_ms=1000)
    for index in range(10):
        world.write((b"k", b"x" * 100), at_ms=NOW_MS + index * 100)
    await world.cleaner.drop_expired()
    assert world.log_of().log_start_offset == 0
    world.advance(1450)
    dropped = world.log_of().segments()[:5]
    await world.cleaner.drop_expired()
    assert world.log_of().log_start_offset == 5  # one to a segment; those before 450 are too old
    assert world.stored()[0][0] == 5
    assert world.touched_partitions == [TopicPartition("t", 0)]
    assert world.events("dropped old segments") == [
        {
            "topic": "t",
            "partition": 0,
            "segments": 5,
            "bytes": sum(segment.size_bytes for segment in dropped),
            "log_start_offset": 5,
            "for_size": 0,
            "for_age": 5,
        }
    ]


async def test_everything_goes_when_all_of_it_is_too_old(world):
    await world.topic(retention_ms=1000)
    world.fill(5)
    world.advance(1001)
    await world.cleaner.drop_expired()
    log = world.log_of()
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (5, 5, 0)
    assert world.write((b"k", b"y"), at_ms=world.wall) == 5
    assert world.stored() == [(5, b"k", b"y")]


async def test_retention_by_size_and_at_once_after_a_change(world):
    topic = await world.topic()
    world.fill(10)
    size = world.log_of().size_bytes
    await world.cleaner.drop_expired()
    assert world.log_of().size_bytes == size
    await settled(world, {"retention.bytes": str(size // 2)})
    assert topic.config.retention_bytes == size // 2
    await world.cleaner.drop_expired()
    assert size // 2 <= world.log_of().size_bytes < size // 2 + 400


async def test_the_brokers_default_changes_the_topics_without_a_setting_of_their_own(world):
    await world.topic("plain")
    await world.topic("own", retention_ms=-1)
    for name in ("plain", "own"):
        world.write((b"k", b"v"), topic=name)
    await settled(world, {"log.retention.ms": "10"}, name="", kind=4)
    world.advance(11)
    await world.cleaner.drop_expired()
    assert world.log_of("plain").log_start_offset == 1
    assert world.log_of("own").log_start_offset == 0


async def test_compacted_topics_and_internal_ones_are_not_trimmed(world):
    await world.topic(cleanup_policy="compact", retention_ms=0)
    await world.topic("both", cleanup_policy="compact,delete", retention_ms=0)
    for name in ("t", "both"):
        world.write((b"k", b"v"), topic=name)
    world.advance(10**10)
    await world.cleaner.drop_expired()
    assert (world.log_of("t").log_start_offset, world.log_of("both").log_start_offset) == (0, 1)


async def test_a_log_that_cannot_be_trimmed_does_not_hold_up_the_others(world, monkeypatch):
    await world.topic("a", retention_ms=0)
    await world.topic("b", retention_ms=0)
    for name in "ab":
        world.write((b"k", b"v"), topic=name)
    world.advance(10)

    async def trim(offset):
        raise StorageFull("no room")

    monkeypatch.setattr(world.log_of("a"), "trim", trim)
    await world.cleaner.drop_expired()
    assert world.log_of("b").log_start_offset == 1
    assert [event["topic"] for event in world.events("old segments could not be dropped")] == ["a"]


async def test_a_log_that_is_deleted_meanwhile_is_no_failure(world, monkeypatch):
    await world.topic("a", retention_ms=0)
    world.write((b"k", b"v"), topic="a")
    world.advance(10)
    log = world.log_of("a")
    trim = log.trim

    async def deleted_before(offset):
        await world.engine.delete_log(log.tp)
        return await trim(offset)

    monkeypatch.setattr(log, "trim", deleted_before)
    await world.cleaner.drop_expired()
    assert not world.events("old segments could not be dropped")


# ------------------------------------------------------------------------------------------------------ compaction


async def test_the_last_record_of_each_key_stays_where_it_was(world):
    await world.topic(cleanup_policy="compact")
    for index in range(40):
        world.write((b"%d" % (index % 4), b"value %d" % index))
    newest = world.log_of().segments()[-1].base_offset
    before = world.stored()
    await world.compact_all()
    kept = [row for row in world.stored() if row[0] < newest]
    last = {key: offset for offset, key, _ in before if offset < newest}
    assert kept == [row for row in before if row[0] in last.values()]
    assert [row for row in world.stored() if row[0] >= newest] == [row for row in before if row[0] >= newest]
    log = world.log_of()
    assert (log.log_start_offset, log.log_end_offset, log.cleaned_offset) == (0, 40, newest)
    assert len(log.segments()) == 3
    assert world.compactions == 1
    assert world.events("compacted")[0]["upto_offset"] == newest


async def test_only_topics_that_ask_for_it_and_from_then_on(world):
    await world.topic()
    world.fill(10)
    await world.compact_all()
    assert len(world.stored()) == 10
    await settled(world, {"cleanup.policy": "compact"})
    await world.compact_all()
    assert [offset for offset, _, _ in world.stored()] == [8, 9]


async def test_readers_find_gaps_and_go_on_behind_them(world):
    await world.topic(cleanup_policy="compact")
    for index in range(20):
        world.write((b"k", b"x" * 100 + b"%d" % index))
    await world.compact_all()
    offsets, offset = [], 0
    while rows := world.fetched(offset, partition_max_bytes=1).records:
        for header, _ in iter_batches(rows):
            offsets.append(header.base_offset)
            offset = header.last_offset + 1
    assert offsets == [18, 19]


async def test_the_dirtiest_comes_first(world):
    for name, records in (("a", 4), ("b", 20), ("c", 8)):
        await world.topic(name, cleanup_policy="compact")
        world.fill(records, topic=name)
    world.log_of("b").mark_cleaned(2)
    assert await world.cleaner.compact_one()
    assert world.events("compacted")[0]["topic"] == "a"
    await world.compact_all()
    assert [row["topic"] for row in world.events("compacted")] == ["a", "c", "b"]


async def test_little_memory_takes_more_rounds(new_cleaning_world):
    world = await new_cleaning_world(log_cleaner_dedupe_buffer_size=1600)
    await world.topic(cleanup_policy="compact")
    for _ in range(2):
        for index in range(40):
            world.write((b"%d" % index, b"x" * 20))
    await world.compact_all()
    newest = world.log_of().segments()[-1].base_offset
    assert world.compactions > 3
    assert [key for offset, key, _ in world.stored() if offset < newest] == [
        b"%d" % (offset % 40) for offset in range(newest - 40, newest)
    ]


@pytest.fixture
def new_cleaning_world():
    async def start(**settings):
        return await CleaningWorld(**settings).start()

    return start


async def test_tombstones_go_after_their_time(world):
    await world.topic(cleanup_policy="compact", delete_retention_ms=1000)
    world.write((b"gone", b"v"), (b"stays", b"v"))
    world.write((b"gone", None))

    async def round_of_compaction():
        await world.log_of().roll()
        world.write((b"filler", b"x" * 200))
        await world.compact_all()
        return [(key, value) for _, key, value in world.stored() if key != b"filler"]

    await world.log_of().roll()
    assert await round_of_compaction() == [(b"stays", b"v"), (b"gone", None)]
    world.advance(999)
    assert await round_of_compaction() == [(b"stays", b"v"), (b"gone", None)]
    world.advance(1)
    assert await round_of_compaction() == [(b"stays", b"v")]


async def test_sequences_survive_compaction_and_a_restart(world):
    await world.topic(cleanup_policy="compact")
    for sequence in range(6):
        world.write((b"k", b"x" * 100), producer_id=7, producer_epoch=1, base_sequence=sequence)
    world.fill(4)
    await world.compact_all()
    assert world.stored()[0][0] > 5
    await world.restart()

    def send(sequence):
        batch = build_batch([Record(0, NOW_MS, b"k", b"v")], producer_id=7, producer_epoch=1, base_sequence=sequence)
        return world.produced(batch)

    assert send(9).error_code == 45  # OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (send(5).error_code, send(5).base_offset) == (0, 5)  # the duplicate of an emptied batch
    assert (send(6).error_code, send(6).base_offset) == (0, 10)


async def test_appends_trims_and_deletions_in_the_middle(world, monkeypatch):
    await world.topic(cleanup_policy="compact")
    for index in range(40):
        world.write((b"%d" % (index % 3), b"x" * 50))
    log = world.log_of()
    replace = log.replace

    async def slow(first_offset, next_offset, batches):
        world.write((b"0", b"meanwhile"))
        await asyncio.sleep(0)
        await replace(first_offset, next_offset, batches)

    monkeypatch.setattr(log, "replace", slow)
    await world.cleaner.compact_one()
    assert world.stored()[-1][2] == b"meanwhile"
    assert world.compactions == 1

    async def trimmed(first_offset, next_offset, batches):
        await log.trim(log.high_watermark)
        await replace(first_offset, next_offset, batches)

    monkeypatch.setattr(log, "replace", trimmed)
    for index in range(40):
        world.write((b"%d" % (index % 3), b"x" * 50))
    assert await world.cleaner.compact_one()
    assert len(world.events("a log could not be compacted")) == 1
    assert not await world.cleaner.compact_one()
    assert world.cleaner.uncleanable == {}


async def test_a_log_that_is_trimmed_while_it_is_read_is_left_for_the_next_time(world, monkeypatch):
    await world.topic(cleanup_policy="compact")
    world.fill(10)
    read = world.log_of().read

    def gone(*args, **options):
        raise OffsetOutOfRange("trimmed")

    monkeypatch.setattr(world.log_of(), "read", gone)
    assert await world.cleaner.compact_one()
    assert not await world.cleaner.compact_one()
    monkeypatch.setattr(world.log_of(), "read", read)
    world.cleaner.start()
    await world.pass_ms(15_000)
    assert world.compactions == 0
    await world.pass_ms(15_000)
    assert world.compactions == 1


async def test_a_damaged_log_is_left_alone_and_the_others_are_not(world):
    for name in ("bad", "good"):
        await world.topic(name, cleanup_policy="compact")
        world.fill(10, topic=name)
    batches = world.log_of("bad")._batches
    batches[2] = batches[2][:-1] + b"?"
    before = list(batches)
    await world.compact_all()
    assert batches == before
    assert len(world.stored("good")) < 10
    assert set(world.cleaner.uncleanable) == {TopicPartition("bad", 0)}
    assert not await world.cleaner.compact_one()
    await world.topics.delete(["bad"])
    await world.topic("bad", cleanup_policy="compact")
    world.fill(10, topic="bad")
    assert await world.cleaner.compact_one()


async def test_merged_segments_hold_what_the_topic_allows(world):
    await world.topic(cleanup_policy="compact")
    for index in range(40):
        world.write((b"%d" % index, b"x" * 50))  # all different: everything stays
    await world.compact_all()
    assert all(segment.size_bytes <= 300 for segment in world.log_of().segments())
    assert len(world.stored()) == 40


async def test_few_segments_become_one_at_a_time(world):
    """Each of them is held open meanwhile."""
    await world.topic(cleanup_policy="compact")
    world.fill(200)
    log = world.log_of()
    together = []

    async def replace(first_offset, next_offset, batches, replace=log.replace):
        together.append(sum(first_offset <= segment.base_offset < next_offset for segment in log.segments()))
        await replace(first_offset, next_offset, batches)

    log.replace = replace
    await world.compact_all()
    assert max(together) == MOST_JOINED <= Sizes().most_pinned
    assert len(world.stored()) < 5


# ---------------------------------------------------------------------------------------------------------- timers


async def test_rounds_come_by_themselves(world):
    await world.topic(retention_ms=1000)
    await world.topic("c", cleanup_policy="compact")
    world.write((b"k", b"v"))
    world.fill(10, topic="c")
    world.cleaner.start()
    await world.pass_ms(14_999)
    assert world.compactions == 0
    await world.pass_ms(1)
    assert world.compactions == 1
    assert world.log_of().log_start_offset == 0
    await world.pass_ms(285_000)
    assert world.log_of().log_start_offset == 1
    world.fill(10, topic="c", at_ms=world.wall)
    await world.pass_ms(15_000)
    assert world.compactions == 2
    await world.cleaner.stop()
    await world.pass_ms(10**6)
    assert world.compactions == 2


async def test_compaction_can_be_turned_off(new_cleaning_world):
    world = await new_cleaning_world(log_cleaner_enable=False)
    await world.topic("c", cleanup_policy="compact")
    world.fill(10, topic="c")
    world.cleaner.start()
    await world.pass_ms(10**6)
    assert world.compactions == 0


async def test_compaction_reads_no_faster_than_it_may(new_cleaning_world):
    world = await new_cleaning_world(log_cleaner_io_max_bytes_per_second=1000.0)
    await world.topic(cleanup_policy="compact")
    world.fill(20)
    log, read, waited = world.log_of(), [], 0

    def counted(*args, whole=log.read, **options):
        data = whole(*args, **options)
        read.append(len(data))
        return data

    log.read = counted
    world.cleaner.start()
    await world.pass_ms(15_000)
    while not world.compactions:
        await world.pass_ms(100)
        waited += 100
    assert waited >= sum(read) * 0.8


async def test_stopping_in_the_middle_changes_nothing(world, monkeypatch):
    await world.topic(cleanup_policy="compact")
    world.fill(20)
    before = world.stored()
    never = asyncio.Event()

    async def hang(*args):
        await never.wait()

    monkeypatch.setattr(world.log_of(), "replace", hang)
    world.cleaner.start()
    await world.pass_ms(15_000)
    await world.cleaner.stop()
    assert world.stored() == before


async def test_offsets_stay_out_of_compaction_for_a_day():
    """Whoever reads committed offsets as a history finds every one of them."""
    world = await CleaningWorld(offsets_topic_segment_bytes=300).start()
    try:
        topic = world.topics.topics["__consumer_offsets"]
        assert topic.config.min_compaction_lag_ms == 86_400_000
        log = topic.partitions[0].log
        for number in range(20):
            batch = build_batch([Record(0, world.wall_ms(), b"key", b"%d" % number)])
            log.append(batch, count=1, max_timestamp_ms=world.wall_ms(), done=lambda base_offset, error: None)
        await world.pass_ms(0)
        assert not await world.cleaner.compact_one()
        world.wall += 86_400_000 - 1
        assert not await world.cleaner.compact_one()
        world.wall += 2
        assert await world.cleaner.compact_one()
        assert len(world.stored("__consumer_offsets")) < 20
    finally:
        await world.cleaner.stop()


async def test_offsets_may_be_compacted_as_kafka_s():
    world = await CleaningWorld(ottla_offsets_topic_min_compaction_lag_ms=0).start()
    topic = world.topics.topics["__consumer_offsets"]
    assert topic.config.min_compaction_lag_ms == 0
    assert "min.compaction.lag.ms" not in topic.overrides
    await world.cleaner.stop()
