"""A partition's memory of producers, held against a model that remembers everything."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from ottla.broker.core.topics import producers as module
from ottla.broker.core.topics.producers import MAX_SEQUENCE, ProducedBatch, Producers, Verdict
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, parse_header
from tests.support.batches import build_batch

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
DAY_MS = 86_400_000


def header(sequence, *, count=1, epoch=0, pid=1):
    records = [Record(value=b"v", timestamp_ms=0)] * count
    return parse_header(build_batch(records, producer_id=pid, producer_epoch=epoch, base_sequence=sequence))


def add(producers, head, base_offset, now_ms=0):
    assert producers.judge(head) is Verdict.NEW
    return producers.appended(head, base_offset, now_ms)


def test_batches_without_a_producer_are_not_tracked():
    producers = Producers()
    assert producers.judge(parse_header(build_batch([Record(value=b"v")]))) is Verdict.UNTRACKED
    assert len(producers) == 0


def test_an_unknown_producer_may_begin_anywhere():
    producers = Producers()
    add(producers, header(500), 0)
    assert producers.judge(header(502)) is OUT_OF_ORDER
    assert producers.judge(header(501)) is Verdict.NEW


def test_sequences_wrap():
    producers = Producers()
    add(producers, header(MAX_SEQUENCE - 1, count=2), 0)
    assert producers.judge(header(1)) is OUT_OF_ORDER
    add(producers, header(0, count=2), 2)
    add(producers, header(2), 4)
    across = Producers()
    wrapping = header(MAX_SEQUENCE, count=3)  # 2^31 - 1, 0, 1
    remembered = add(across, wrapping, 0)
    assert across.judge(wrapping) is remembered
    assert across.judge(header(2)) is Verdict.NEW


def test_a_duplicate_has_the_same_first_and_last_sequence():
    producers = Producers()
    first = add(producers, header(0, count=3), 0)
    assert producers.judge(header(0, count=3)) is first
    assert producers.judge(header(0, count=2)) is OUT_OF_ORDER
    assert producers.judge(header(1, count=2)) is OUT_OF_ORDER


def test_epochs():
    producers = Producers()
    add(producers, header(0, epoch=5), 0)
    assert producers.judge(header(1, epoch=4)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.judge(header(1, epoch=6)) is OUT_OF_ORDER
    add(producers, header(0, epoch=6), 1)
    # The batches of the old epoch are no duplicates any more: their epoch is over.
    assert producers.judge(header(0, epoch=5)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_waiting_duplicates_are_answered_with_the_original():
    producers, told = Producers(), []
    batch = add(producers, header(0), 7)
    assert batch.waiting == []
    batch.waiting.append(lambda offset, error: told.append((offset, error)))
    producers.settle(1, batch, ErrorCode.NONE)
    assert (told, batch.waiting) == ([(7, ErrorCode.NONE)], None)


def test_a_failed_batch_is_forgotten():
    producers, told = Producers(), []
    first, second = add(producers, header(0), 0), add(producers, header(1), 1)
    producers.settle(1, first, ErrorCode.NONE)
    second.waiting.append(lambda offset, error: told.append((offset, error)))
    producers.settle(1, second, ErrorCode.KAFKA_STORAGE_ERROR)
    assert told == [(-1, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert producers.judge(header(0)) is first
    assert producers.judge(header(1)) is Verdict.NEW
    alone = Producers()
    alone.settle(1, add(alone, header(3), 0), ErrorCode.KAFKA_STORAGE_ERROR)
    assert 1 not in alone


def test_idle_producers_are_forgotten_after_a_day():
    producers = Producers()
    producers.appended(header(0, pid=1), 0, 0, durable=True)
    producers.appended(header(0, pid=2), 1, DAY_MS, durable=True)
    assert 1 in producers
    producers.appended(header(0, pid=3), 2, DAY_MS + 1, durable=True)
    assert 1 not in producers and 2 in producers


def test_their_number_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_PRODUCERS", 10)
    producers = Producers()
    for n in range(100):
        producers.appended(header(n, pid=0), n, 0, durable=True)  # never idle
        producers.appended(header(0, pid=1 + n), n, 0, durable=True)
    assert len(producers) == 10
    assert 100 in producers and 50 not in producers
    assert isinstance(producers.judge(header(95, pid=0)), ProducedBatch)


def test_a_producer_whose_batch_is_on_its_way_is_kept(monkeypatch):
    monkeypatch.setattr(module, "MAX_PRODUCERS", 2)
    producers = Producers()
    batch = add(producers, header(0, pid=1), 0)
    for pid in range(2, 6):
        producers.appended(header(0, pid=pid), pid, 0, durable=True)
    assert 1 in producers
    producers.settle(1, batch, ErrorCode.NONE)
    producers.appended(header(0, pid=9), 9, 0, durable=True)
    assert 1 not in producers


class OneProducer(RuleBasedStateMachine):
    """A producer that sends in order, resends, skips and restarts; the model keeps every batch that it ever sent."""

    def __init__(self):
        super().__init__()
        self.producers = Producers()
        self.epoch = 0
        self.sent = []
        self.next_sequence = 0
        self.next_offset = 0

    @rule(count=st.integers(1, 4))
    def send(self, count):
        head = header(self.next_sequence, count=count, epoch=self.epoch)
        assert self.producers.judge(head) is Verdict.NEW
        batch = self.producers.appended(head, self.next_offset, 0, durable=True)
        self.sent.append((head, batch.base_offset))
        self.next_sequence += count
        self.next_offset += count

    @rule(back=st.integers(1, 8))
    def resend(self, back):
        if back > len(self.sent):
            return
        head, base_offset = self.sent[-back]
        found = self.producers.judge(head)
        if back <= 5:
            assert isinstance(found, ProducedBatch)
            assert (found.base_offset, found.last_offset) == (base_offset, base_offset + head.last_offset_delta)
        else:
            assert found is OUT_OF_ORDER

    @rule(gap=st.integers(1, 3))
    def skip(self, gap):
        if self.sent:
            assert self.producers.judge(header(self.next_sequence + gap, epoch=self.epoch)) is OUT_OF_ORDER

    @rule()
    def restart(self):
        if self.sent:
            self.epoch += 1
            self.sent = []
            self.next_sequence = 0


TestOneProducer = OneProducer.TestCase


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), max_size=40))
def test_replaying_a_log_gives_the_same_memory(appends):
    """Producers rebuilt from the batches of a log judge as those that saw them produced."""
    live, heads, offset = Producers(), [], 0
    next_sequence = {}
    for pid, count in appends:
        head = header(next_sequence.get(pid, 0), count=count + 1, pid=pid)
        next_sequence[pid] = head.base_sequence + count + 1
        live.settle(pid, add(live, head, offset), ErrorCode.NONE)
        heads.append((head, offset))
        offset += count + 1
    rebuilt = Producers()
    for head, base_offset in heads:
        rebuilt.appended(head, base_offset, 0, durable=True)

    def verdict(producers, head):
        found = producers.judge(head)
        return (found.base_offset, found.waiting) if isinstance(found, ProducedBatch) else found

    for head, _ in heads:
        assert verdict(rebuilt, head) == verdict(live, head)
