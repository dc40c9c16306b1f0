"""Compaction beside transactions: what is open stays, what was aborted goes, and readers are told the truth."""

from ottla.broker.core.topics.producers import TransactionMarker
from ottla.protocol.records import Record, TopicPartition, decode_batch, iter_batches
from tests.handlers.conftest import NOW_MS
from tests.support.batches import build_batch


class Writer:
    """A transactional producer with one record to a batch, straight into the partition."""

    def __init__(self, world, producer_id):
        self.world = world
        self.producer_id = producer_id
        self.sequence = 0

    def write(self, key, value):
        partition = self.world.topics.topics["t"].partitions[0]
        batch = build_batch(
            [Record(0, NOW_MS, key, value)],
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        verified = partition.begin_verification(self.producer_id, 0, self.sequence)
        self.sequence += 1
        partition.produce(batch, 9, self.world.wall, lambda offset, error: None, verified)
        self.world.run()

    def end(self, *, commit):
        partition = self.world.topics.topics["t"].partitions[0]
        marker = TransactionMarker(self.producer_id, 0, 0, commit)
        partition.append_marker(marker, self.world.wall, lambda offset, error: None)
        self.world.run()


async def compacted(world):
    """End the segment that is written, and compact everything that may be."""
    await world.log_of().roll()
    await world.compact_all()
    return batches(world)


def batches(world):
    """Base offset, records and whether it is a marker, of every batch."""
    log = world.log_of()
    data = log.read(log.log_start_offset, max_bytes=1 << 20)
    return [(header.base_offset, header.record_count, header.is_control) for header, _ in iter_batches(data)]


def committed(world):
    """Keys and values that a reader of committed records is left with; it believes what it is told of aborted ones."""
    row = world.fetched(0, isolation_level=1)
    aborted = sorted((each.first_offset, each.producer_id) for each in row.aborted_transactions or ())
    skipped, found = set(), {}
    for header, batch in iter_batches(row.records or b""):
        while aborted and aborted[0][0] <= header.last_offset:
            skipped.add(aborted.pop(0)[1])
        if header.is_control:
            skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            found.update((record.key, record.value) for record in decode_batch(batch))
    return found


async def test_nothing_at_or_above_the_last_stable_offset_is_touched(world):
    await world.topic(cleanup_policy="compact")
    world.fill(4, size=200)
    open_one = Writer(world, 7)
    open_one.write(b"k", b"undecided")
    world.fill(4, size=200)
    before = batches(world)
    assert await compacted(world) == before[3:]
    open_one.end(commit=False)
    left = await compacted(world)
    assert left[0] == (4, 0, False), "the last batch of the producer, empty"
    assert committed(world) == {b"k": b"x" * 200}


async def test_what_was_aborted_hides_nothing(world):
    await world.topic(cleanup_policy="compact")
    writer = Writer(world, 7)
    world.write((b"a", b"1"), (b"b", b"1"))
    writer.write(b"a", b"bad")
    writer.write(b"c", b"bad")
    writer.end(commit=False)
    writer.write(b"b", b"2")
    writer.end(commit=True)
    expected = {b"a": b"1", b"b": b"2"}
    assert committed(world) == expected
    # The aborted records go; both markers stay, as their transactions were there still.
    assert await compacted(world) == [(0, 1, False), (4, 1, True), (5, 1, False), (6, 1, True)]
    assert committed(world) == expected
    await world.restart()
    assert committed(world) == expected


async def test_a_marker_goes_when_its_time_is_over_and_is_forgotten_before(world):
    await world.topic(cleanup_policy="compact", delete_retention_ms=1000)
    partition = world.topics.topics["t"].partitions[0]
    told = []

    async def hear(tp):
        told.append((tp, len(partition.transactions.aborted)))

    world.cleaner.on_markers_gone = hear
    writer = Writer(world, 7)
    writer.write(b"a", b"bad")
    writer.end(commit=False)

    async def next_round():
        writer.write(b"a", b"good")
        writer.end(commit=True)
        return [row[0] for row in await compacted(world)]

    assert await next_round() == [1, 2, 3]
    world.advance(10_000)
    assert 1 in await next_round()  # only now its time begins
    world.advance(999)
    assert 1 in await next_round()
    assert (len(partition.transactions.aborted), told) == (1, [])
    world.advance(1)
    assert 1 not in await next_round()
    assert told == [(TopicPartition("t", 0), 1)]
    assert len(partition.transactions.aborted) == 0
    assert committed(world) == {b"a": b"good"}
