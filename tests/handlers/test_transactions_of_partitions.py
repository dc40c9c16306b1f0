"""What transactions do to Produce, Fetch, ListOffsets, group offsets and the APIs that look at producers."""

import pytest
import pytest_asyncio

from ottla.broker.core.topics.producers import TransactionMarker
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from tests.support.client import values
from tests.support.requests import add_partitions_fields, offset_fetch_fields

E = ErrorCode
COMMITTED = 1


class Tx:
    """A transactional producer, one request at a time."""

    def __init__(self, world, make_batch, name="x"):
        self.world, self.make_batch, self.name = world, make_batch, name
        self.sequences = {}

    async def init(self):
        fields = {"transactional_id": self.name, "transaction_timeout_ms": 60_000}
        answer = await self.world.call(ApiKey.INIT_PRODUCER_ID, 5, **fields)
        if answer.error_code == E.CONCURRENT_TRANSACTIONS:  # the one of a predecessor is being aborted
            await self.world.idle()
            answer = await self.world.call(ApiKey.INIT_PRODUCER_ID, 5, **fields)
        assert answer.error_code == E.NONE
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        return self

    @property
    def who(self):
        return {"transactional_id": self.name} | self.producer

    @property
    def producer(self):
        return {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}

    async def add(self, *topics):
        fields = add_partitions_fields(self.who, [(topic, 0) for topic in topics])
        answer = await self.world.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, **fields)
        for topic in answer.results_by_topic_v3_and_below:
            assert all(row.partition_error_code == E.NONE for row in topic.results_by_partition)

    def send(self, *values, topic="t", version=9, name=..., **changed):
        options = self.producer | {"base_sequence": self.sequences.get(topic, 0)} | changed
        batch = self.make_batch(*values, is_transactional=True, **options)
        transactional_id = self.name if name is ... else name
        return self.world.produce_all((topic, [(0, batch)]), transactional_id=transactional_id, version=version)

    async def produce(self, *values, topic="t", **options):
        exchange = self.send(*values, topic=topic, **options)
        await self.world.idle()
        if not exchange.row.error_code:
            self.sequences[topic] = self.sequences.get(topic, 0) + len(values)
        return E(exchange.row.error_code)

    async def end(self, *, commit, version=4):
        answer = await self.world.call(ApiKey.END_TXN, version, **self.who, committed=commit)
        assert answer.error_code == E.NONE
        if version >= 5:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        await self.world.idle()


pytestmark = pytest.mark.usefixtures("topic")


@pytest_asyncio.fixture
async def tx(world, topic, make_batch):
    return await Tx(world, make_batch).init()


def seen(world, offset=0):
    row = world.fetched(offset, isolation_level=COMMITTED)
    return (
        values(row.records),
        row.last_stable_offset,
        [(one.producer_id, one.first_offset) for one in row.aborted_transactions],
    )


# Produce


@pytest.mark.parametrize(("version", "error"), [(9, E.INVALID_TXN_STATE), (10, E.INVALID_TXN_STATE),
                                                (11, E.TRANSACTION_ABORTABLE), (12, E.NONE)])  # fmt: skip
async def test_the_first_batch_of_a_transaction_needs_its_coordinator(world, tx, version, error):
    assert await tx.produce(b"a", version=version) is error
    assert world.fetched().high_watermark == (0 if error else 1)


@pytest.mark.parametrize("version", [3, 9, 11])
async def test_a_partition_that_was_added_takes_batches(world, tx, version):
    await tx.add("t")
    assert await tx.produce(b"a", b"b", version=version) is E.NONE
    assert await tx.produce(b"c", version=version) is E.NONE
    assert values(world.fetched().records) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("told", "version", "error"),
    [
        (E.PRODUCER_FENCED, 9, E.INVALID_PRODUCER_EPOCH),
        (E.INVALID_PRODUCER_ID_MAPPING, 12, E.INVALID_PRODUCER_ID_MAPPING),
        (E.CONCURRENT_TRANSACTIONS, 11, E.NOT_ENOUGH_REPLICAS),
        (E.CONCURRENT_TRANSACTIONS, 12, E.CONCURRENT_TRANSACTIONS),
        (E.COORDINATOR_LOAD_IN_PROGRESS, 12, E.NOT_ENOUGH_REPLICAS),
        (E.NOT_COORDINATOR, 9, E.NOT_ENOUGH_REPLICAS),
        (E.TRANSACTION_ABORTABLE, 12, E.TRANSACTION_ABORTABLE),
    ],
)
async def test_what_a_coordinator_refuses_by_version(world, tx, told, version, error):
    world.services.transactions.verify = lambda question, *rest: dict.fromkeys(question.partitions, told)
    assert await tx.produce(b"a", version=version) is error


async def test_the_next_produce_waits_for_a_verification_but_not_for_the_disk(world, tx):
    first = tx.send(b"a", version=12)
    assert not first.finished and not first.ctx.overlaps
    await world.idle()
    tx.sequences["t"] = 1
    second = tx.send(b"b", version=12)
    assert not second.finished and second.ctx.overlaps


async def test_without_a_transactional_id_nobody_writes_in_a_transaction(world, tx):
    assert await tx.produce(b"a", name=None) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_one_request_is_of_one_producer(world, tx, make_batch):
    await world.topic("u")
    one = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    topics = [(name, [(0, make_batch(b"v", producer_id=pid, **one))]) for name, pid in (("t", 7), ("u", 8))]
    answer = world.produced_all(*topics, transactional_id="x", version=12).response
    codes = [topic.partition_responses[0].error_code for topic in answer.responses]
    assert codes == [E.INVALID_PRODUCER_ID_MAPPING] * 2


async def test_a_producer_that_was_fenced_is_told_so(world, tx, make_batch):
    await tx.add("t")
    await tx.produce(b"a")
    await Tx(world, make_batch).init()
    assert await tx.produce(b"b") is E.INVALID_PRODUCER_EPOCH
    assert seen(world) == ([b"a"], 2, [(tx.producer_id, 0)])


async def test_a_batch_that_was_verified_before_a_marker_is_not_written_after_it(world, tx):
    waiting = []
    world.services.transactions.verify = lambda question, caller, *times: waiting.append((question.partitions, caller))
    exchange = tx.send(b"late", version=12)
    ((tps, caller),) = waiting
    marker = TransactionMarker(**tx.producer, coordinator_epoch=0, commit=False)
    world.host.write_marker(tps[0], marker, lambda offset, error: None)
    caller.reply(dict.fromkeys(tps, E.NONE))
    await world.idle()
    assert exchange.row.error_code == E.INVALID_TXN_STATE


async def test_with_version_2_every_transaction_has_an_epoch_of_its_own(world, tx):
    assert await tx.produce(b"a", version=12) is E.NONE
    before = tx.producer_epoch
    await tx.end(commit=True, version=5)
    assert tx.producer_epoch == before + 1
    assert await tx.produce(b"b", version=12) is E.NONE
    await tx.end(commit=True, version=5)
    assert seen(world)[0] == [b"a", b"b"]
    assert await tx.produce(b"c", version=12, producer_epoch=before) is E.INVALID_PRODUCER_EPOCH
    assert await tx.produce(b"c", version=12, base_sequence=3) is E.OUT_OF_ORDER_SEQUENCE_NUMBER


# Fetch


async def test_committed_readers_see_what_was_committed(world, tx, make_batch):
    world.produced(make_batch(b"plain"))
    await tx.add("t")
    await tx.produce(b"a", b"b")
    world.produced(make_batch(b"later"))
    assert seen(world) == ([b"plain"], 1, [])
    assert values(world.fetched().records) == [b"plain", b"a", b"b", b"later"]
    assert world.fetched().last_stable_offset == 1
    assert world.fetched(2, isolation_level=COMMITTED).records == b""
    await tx.end(commit=True)
    assert seen(world) == ([b"plain", b"a", b"b", b"later"], 5, [])


async def test_aborted_transactions_are_named(world, tx, make_batch):
    other = await Tx(world, make_batch, "y").init()
    await tx.add("t")
    await other.add("t")
    await tx.produce(b"a")
    await other.produce(b"b")
    await other.end(commit=False)
    assert seen(world) == ([], 0, [])
    await tx.end(commit=False)
    pairs = [(tx.producer_id, 0), (other.producer_id, 1)]
    assert seen(world) == ([b"a", b"b"], 4, pairs)
    assert seen(world, 3)[2] == [(tx.producer_id, 0)]
    assert seen(world, 4)[2] == []
    small = world.fetched(0, isolation_level=COMMITTED, partition_max_bytes=1)
    assert [one.first_offset for one in small.aborted_transactions] == [0]
    assert world.fetched().aborted_transactions is None


async def test_what_is_not_durable_holds_committed_reading_back_too(world, tx, make_batch):
    await tx.add("t")
    exchange = tx.send(b"a")
    world.produce(make_batch(b"plain"))
    assert seen(world) == ([], 0, [])
    world.run()
    assert exchange.finished and seen(world) == ([], 0, [])
    ending = world.begin(ApiKey.END_TXN, 4, **tx.who, committed=True)
    while not ending.finished:
        world.scheduled.pop(0)()
    await world.idle()
    assert seen(world)[0] == [b"a", b"plain"]


@pytest.mark.parametrize("min_bytes", [1, 150])
async def test_the_end_of_a_transaction_wakes_committed_readers(world, tx, min_bytes):
    waiting = world.fetch(isolation_level=COMMITTED, max_wait_ms=500, min_bytes=min_bytes)
    await tx.add("t")
    await tx.produce(b"a" * 100)
    assert not waiting.finished and len(world.fetches) == 1
    await tx.end(commit=True)
    assert waiting.finished
    assert values(waiting.row.records) == [b"a" * 100]


async def test_plain_records_wake_committed_readers(world, make_batch):
    waiting = world.fetch(isolation_level=COMMITTED, max_wait_ms=500)
    world.produced(make_batch(b"plain"))
    assert values(waiting.row.records) == [b"plain"]


async def test_after_a_restart_it_is_as_before(world, tx, make_batch):
    await tx.add("t")
    await tx.produce(b"a")
    await tx.end(commit=False)
    await tx.add("t")
    await tx.produce(b"b")
    await world.restart()
    assert seen(world) == ([b"a"], 2, [(tx.producer_id, 0)])
    await tx.end(commit=True)
    assert seen(world) == ([b"a", b"b"], 4, [(tx.producer_id, 0)])


# ListOffsets


async def test_the_log_ends_at_the_last_stable_offset_for_committed_readers(world, tx, make_batch):
    world.produced(make_batch(b"plain", timestamp_ms=1_000))
    await tx.add("t")
    await tx.produce(b"a", timestamp_ms=2_000)

    async def listed(timestamp, isolation):
        (row,) = await world.offsets(timestamp, isolation=isolation)
        return row.offset

    assert [await listed(-1, 0), await listed(-1, COMMITTED)] == [2, 1]
    assert [await listed(2_000, 0), await listed(2_000, COMMITTED)] == [1, -1]
    assert [await listed(1_000, 0), await listed(1_000, COMMITTED)] == [0, 0]
    assert [await listed(-3, 0), await listed(-3, COMMITTED)] == [1, -1]
    assert await listed(-2, COMMITTED) == 0
    await tx.end(commit=True)
    assert await listed(-1, COMMITTED) == 3


# The offsets of groups


async def commit_offsets(world, tx, offset, *, version=5, group="g", topic="t", **changed):
    row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    fields = tx.who | {"group_id": group, "topics": [{"name": topic, "partitions": [row]}]} | changed
    answer = await world.call(ApiKey.TXN_OFFSET_COMMIT, version, **fields)
    return E(answer.topics[0].partitions[0].error_code)


async def stable_offset(world, group="g"):
    answer = await world.call(ApiKey.OFFSET_FETCH, 8, **offset_fetch_fields(group, {"t": [0]}, stable=True))
    row = answer.groups[0].topics[0].partitions[0]
    return row.committed_offset if not row.error_code else E(row.error_code)


@pytest.mark.parametrize("version", range(6))
async def test_offsets_count_when_the_transaction_commits(world, tx, version):
    if version < 5:
        await world.call(ApiKey.ADD_OFFSETS_TO_TXN, 3, **tx.who, group_id="g")
    assert await commit_offsets(world, tx, 7, version=version) is E.NONE
    assert await stable_offset(world) is E.UNSTABLE_OFFSET_COMMIT
    partition = world.topics.topics[OFFSETS_TOPIC].partitions[coordinator_partition("g")]
    assert (partition.last_stable_offset, partition.log.high_watermark) == (0, 1)
    await tx.end(commit=True)
    assert await stable_offset(world) == 7
    assert partition.last_stable_offset == partition.log.high_watermark == 2


@pytest.mark.parametrize("commit", [True, False])
async def test_pending_offsets_survive_a_restart(world, tx, commit):
    assert await commit_offsets(world, tx, 7) is E.NONE
    await world.restart()
    assert await stable_offset(world) is E.UNSTABLE_OFFSET_COMMIT
    await tx.end(commit=commit, version=5)
    assert await stable_offset(world) == (7 if commit else -1)
    await world.restart()
    assert await stable_offset(world) == (7 if commit else -1)


@pytest.mark.parametrize(
    ("version", "error"), [(0, E.INVALID_TXN_STATE), (3, E.INVALID_TXN_STATE), (4, E.TRANSACTION_ABORTABLE)]
)
async def test_offsets_need_a_transaction_that_they_are_part_of(world, tx, version, error):
    assert await commit_offsets(world, tx, 7, version=version) is error
    assert await stable_offset(world) == -1


@pytest.mark.parametrize(("producer_id", "error"), [({}, E.NONE), ({"producer_id": 99}, E.INVALID_PRODUCER_ID_MAPPING)])
async def test_offsets_that_are_refused_come_first_in_the_answer(world, tx, producer_id, error):
    """What the coordinator says comes behind what it is not asked, as in OffsetCommit; topics are named once then."""
    await world.topic("u")
    rows = [{"partition_index": index, "committed_offset": 1, "committed_metadata": ""} for index in (0, 9)]
    named = ("t", rows[:1]), ("nowhere", rows[:1]), ("nothing", []), ("u", rows), ("t", [])
    topics = [{"name": topic, "partitions": partitions} for topic, partitions in named]
    fields = tx.who | {"group_id": "g", "topics": topics} | producer_id
    answer = await world.call(ApiKey.TXN_OFFSET_COMMIT, 5, **fields)
    missing = E.UNKNOWN_TOPIC_OR_PARTITION
    assert [
        (topic.name, [(row.partition_index, row.error_code) for row in topic.partitions]) for topic in answer.topics
    ] == [
        ("nowhere", [(0, missing)]),
        ("nothing", []),
        ("u", [(9, missing), (0, error)]),
        ("t", [(0, error)]),
    ]


async def test_offsets_of_nobody_and_of_nothing(world, tx):
    assert await commit_offsets(world, tx, 7, topic="nowhere") is E.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit_offsets(world, tx, 7, group="") is E.INVALID_GROUP_ID
    stale = await commit_offsets(world, tx, 7, producer_epoch=tx.producer_epoch + 1)
    assert stale in (E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_ID_MAPPING)
    assert await commit_offsets(world, tx, 7, producer_id=99) is E.INVALID_PRODUCER_ID_MAPPING


# Administration


async def write_markers(world, tx, *, commit=False, topic="t", version=2, **changed):
    marker = {"transaction_result": commit, "topics": [{"name": topic, "partition_indexes": [0]}]}
    answer = await world.call(ApiKey.WRITE_TXN_MARKERS, version, markers=[tx.producer | marker | changed])
    assert answer.markers[0].producer_id == tx.producer_id
    return E(answer.markers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [1, 2])
async def test_an_administrator_ends_a_hanging_transaction(world, tx, version):
    await tx.add("t")
    await tx.produce(b"a")
    assert await write_markers(world, tx, version=version) is E.NONE
    assert seen(world) == ([b"a"], 2, [(tx.producer_id, 0)])


async def test_markers_that_are_refused(world, tx):
    await tx.add("t")
    await tx.produce(b"a")
    assert await write_markers(world, tx, topic="nowhere") is E.UNKNOWN_TOPIC_OR_PARTITION
    assert await write_markers(world, tx, producer_epoch=tx.producer_epoch - 1) is E.INVALID_PRODUCER_EPOCH
    # of version 2 the marker has the next epoch
    assert await write_markers(world, tx, transaction_version=2) is E.INVALID_PRODUCER_EPOCH
    assert await write_markers(world, tx, coordinator_epoch=5) is E.NONE
    assert await write_markers(world, tx, coordinator_epoch=4) is E.TRANSACTION_COORDINATOR_FENCED
    assert (await world.call(ApiKey.WRITE_TXN_MARKERS, 2, markers=[])).markers == []


async def test_producers_are_listed(world, tx, make_batch):
    world.produced(make_batch(b"p", producer_id=77, producer_epoch=3, base_sequence=5))
    await tx.add("t")
    await tx.produce(b"a", b"b", timestamp_ms=5_000)
    topics = [{"name": "t", "partition_indexes": [0, 9, 0]}]
    rows = (await world.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)).topics[0].partitions
    assert rows[1].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert rows[2] == rows[0]
    shown = [
        (one.producer_id, one.producer_epoch, one.last_sequence, one.coordinator_epoch, one.current_txn_start_offset)
        for one in rows[0].active_producers
    ]
    assert shown == [(77, 3, 5, -1, -1), (tx.producer_id, tx.producer_epoch, 1, -1, 1)]
    assert rows[0].active_producers[1].last_timestamp == 5_001
    await tx.end(commit=True)
    rows = (await world.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)).topics[0].partitions
    one = rows[0].active_producers[1]
    assert one.current_txn_start_offset == -1 and one.coordinator_epoch >= 0
