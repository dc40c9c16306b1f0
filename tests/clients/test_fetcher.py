"""The fetcher and the lookup of positions, with scripted answers."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from ottla.clients.errors import KafkaConnectionError, KafkaError, OffsetOutOfRange, RecordCorrupt
from ottla.clients.fetcher import Fetcher
from ottla.clients.options import ConsumerOptions
from ottla.clients.positions import Positions
from ottla.clients.structs import EARLIEST, OffsetAndMetadata
from ottla.clients.subscription import PartitionState, SubscriptionState
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ottla.protocol.records import Record, TopicPartition
from tests.clients.fake_client import FakeClient, turn
from tests.support.batches import build_batch, damaged
from tests.support.requests import response

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Committed(dict[TopicPartition, OffsetAndMetadata]):
    """A group's offsets, by heart."""

    async def committed(self, partitions: list[TopicPartition], timeout_ms: float) -> Any:
        return {tp: self.get(tp) for tp in partitions}


class World:
    """A fetcher and a lookup of positions over a fake client."""

    def __init__(self, committed: dict[TopicPartition, OffsetAndMetadata] | None = None, **options: Any) -> None:
        self.options = ConsumerOptions(**{"retry_backoff_ms": 100, "auto_offset_reset": "earliest", **options})
        self.client: Any = FakeClient(self.options)
        self.subscription = SubscriptionState()
        self.news = 0
        self.errors: list[KafkaError] = []

        self.fetcher = Fetcher(self.client, self.subscription, self.on_news, self.on_reset)
        self.positions = Positions(
            self.client, self.subscription, Committed(committed or {}), self.fetcher.poke, self.errors.append
        )

    def on_news(self) -> None:
        self.news += 1

    def on_reset(self) -> None:
        self.positions.poke()

    def read(self, *partitions: TopicPartition, at: int = 0, epoch: int = -1) -> None:
        self.subscription.assign(partitions)
        for tp in partitions:
            self.subscription.state(tp).seek(at, epoch)
        self.fetcher.poke()

    def wait(self, ms: float = 200) -> None:
        """Time passes; by default a pause."""
        self.client.now += ms
        self.fetcher.poke()

    async def answer(self, answer: Any) -> None:
        """Answer the one request that is under way."""
        await (await self.client.one()).answer(answer)

    def values(self, limit: int = 5) -> list[bytes | None]:
        """The values taken of the first partition, if any."""
        return [record.value for record in self.fetcher.take(limit).get(T0, ())]

    async def close(self) -> None:
        self.fetcher.close()
        await self.client.tasks.close()


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    made.client.lead("t", (1, 5), (2, 5))
    yield made
    await made.close()


def fetched(tp: TopicPartition, *values: bytes, at: int = 0, **more: Any) -> Any:
    records = build_batch([Record(value=v) for v in values], base_offset=at, leader_epoch=5) if values else b""
    data = {"partition_index": tp.partition, "high_watermark": 9, "records": records} | more
    return response(ApiKey.FETCH, {"responses": [{"topic": tp.topic, "partitions": [data]}]})


def asked(request: FetchRequest) -> dict[TopicPartition, tuple[int, int]]:
    """By partition: offset and leader epoch."""
    return {
        TopicPartition(topic.topic, p.partition): (p.fetch_offset, p.current_leader_epoch)
        for topic in request.topics
        for p in topic.partitions
    }


async def test_one_request_for_each_broker(world: World) -> None:
    world.read(T0, T1, at=3)
    await turn()
    assert sorted((one.node_id, asked(one.request)) for one in world.client.open) == [
        (1, {T0: (3, 5)}),
        (2, {T1: (3, 5)}),
    ]
    world.fetcher.poke()
    await turn()
    assert len(world.client.open) == 2


async def test_what_is_buffered_is_not_fetched_again_until_it_is_taken(world: World) -> None:
    world.read(T0)
    await world.answer(fetched(T0, b"a", b"b"))
    assert world.news == 1
    await world.client.none()
    assert world.values(1) == [b"a"]
    await world.client.none()
    assert world.values() == [b"b"]
    assert asked((await world.client.one()).request) == {T0: (2, 5)}
    assert world.fetcher.take(5) == {}


async def test_an_answer_for_where_the_user_no_longer_is_is_dropped(world: World) -> None:
    world.read(T0)
    first = await world.client.one()
    world.subscription.state(T0).seek(7)
    world.fetcher.poke()
    await world.client.none()
    await first.answer(fetched(T0, b"a"))
    assert world.fetcher.take(5) == {}
    assert asked((await world.client.one()).request) == {T0: (7, 5)}


async def test_what_was_buffered_before_a_jump_is_dropped(world: World) -> None:
    world.read(T0)
    await world.answer(fetched(T0, b"a"))
    world.subscription.state(T0).seek(0)
    assert world.fetcher.take(5) == {}
    assert asked((await world.client.one()).request) == {T0: (0, 5)}


async def test_an_answer_for_a_partition_given_up_is_dropped(world: World) -> None:
    world.read(T0)
    first = await world.client.one()
    world.subscription.assign([T1])
    world.subscription.assign([T0])
    world.subscription.state(T0).seek(0)
    await first.answer(fetched(T0, b"a"))
    assert world.fetcher.take(5) == {}


async def test_paused_partitions_keep_what_was_fetched(world: World) -> None:
    world.read(T0)
    await world.answer(fetched(T0, b"a"))
    world.subscription.state(T0).paused = True
    assert world.fetcher.take(5) == {}
    await world.client.none()
    world.subscription.state(T0).paused = False
    assert world.values() == [b"a"]


async def test_a_damaged_batch_is_told_at_every_call_until_the_user_seeks_past_it(world: World) -> None:
    first, second, third = (build_batch([Record(value=b"%d" % n)], base_offset=n, leader_epoch=5) for n in range(3))
    answer = fetched(T0)
    answer.responses[0].partitions[0].records = first + damaged(second) + third
    world.read(T0)
    await world.answer(answer)
    state = world.subscription.state(T0)
    assert world.values() == [b"0"]
    for _ in range(3):
        world.subscription.finish()
        with pytest.raises(RecordCorrupt, match="t-0: the batch at offset 1") as caught:
            world.fetcher.take(5)
        assert (state.position, world.subscription.to_commit()[T0][0]) == (1, 1), "nothing is committed past it"
    await world.client.none()
    assert caught.value.next_offset is not None
    state.seek(caught.value.next_offset)
    assert world.fetcher.take(5) == {}
    again = await world.client.one()
    assert asked(again.request) == {T0: (2, 5)}
    await again.answer(fetched(T0, b"2", at=2))
    assert world.values() == [b"2"]


async def test_what_is_not_for_the_user_before_a_damaged_batch_changes_nothing(world: World) -> None:
    marker = build_batch([Record(key=b"\0\0\0\1", value=b"")], leader_epoch=5, is_transactional=True, is_control=True)
    answer = fetched(T0)
    answer.responses[0].partitions[0].records = marker + damaged(build_batch([Record(value=b"1")], base_offset=1))
    world.read(T0)
    await world.answer(answer)
    for _ in range(3):
        with pytest.raises(RecordCorrupt, match="offset 1"):
            world.fetcher.take(5)
    assert world.subscription.state(T0).position == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
async def test_a_partition_that_moved_is_looked_up_and_fetched_again_after_a_pause(world: World, code: int) -> None:
    world.read(T0)
    await world.answer(fetched(T0, error_code=code))
    assert world.client.refreshes == 1
    await world.client.none()
    world.client.lead("t", (2, 6))
    world.wait()
    again = await world.client.one()
    assert (again.node_id, asked(again.request)) == (2, {T0: (0, 6)})


async def test_a_broken_connection_is_tried_again_after_a_pause(world: World) -> None:
    world.read(T0)
    await (await world.client.one()).fail(KafkaConnectionError("broke"))
    assert world.client.refreshes == 1
    await world.client.none()
    world.wait()
    await world.client.one()


async def test_a_partition_without_a_leader_asks_for_metadata(world: World) -> None:
    world.client.lead("t", (-1, 5))
    world.read(T0)
    await world.client.none()
    assert world.client.refreshes == 1


async def test_what_is_denied_is_told_once_for_each_try(world: World) -> None:
    world.read(T0)
    for _ in range(2):
        await world.answer(fetched(T0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        await world.client.none()
        with pytest.raises(KafkaError) as caught:
            world.fetcher.take(5)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert world.fetcher.take(5) == {}


async def test_out_of_range_without_a_policy_is_told(world: World) -> None:
    world.fetcher._options = ConsumerOptions(auto_offset_reset="none")
    world.read(T0, at=7)
    await world.answer(fetched(T0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(OffsetOutOfRange) as caught:
        world.fetcher.take(5)
    assert caught.value.positions == {T0: 7}


async def test_out_of_range_is_looked_up_by_the_policy(world: World) -> None:
    world.read(T0, at=7)
    await world.answer(fetched(T0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    lookup = await world.client.one()
    assert isinstance(lookup.request, ListOffsetsRequest)
    [partition] = lookup.request.topics[0].partitions
    assert (partition.timestamp, partition.current_leader_epoch) == (EARLIEST, 5)
    await lookup.answer(ends(T0, 4))
    assert asked((await world.client.one()).request) == {T0: (4, 5)}


def ends(tp: TopicPartition, offset: int, error: int = 0) -> Any:
    place = {"partition_index": tp.partition, "offset": offset, "leader_epoch": 5, "error_code": error}
    return response(ApiKey.LIST_OFFSETS, {"topics": [{"name": tp.topic, "partitions": [place]}]})


async def test_a_nearer_replica_is_read_until_it_fails(world: World) -> None:
    """KIP-392."""
    world.read(T0)
    await world.answer(fetched(T0, preferred_read_replica=2))
    nearer = await world.client.one()
    assert nearer.node_id == 2
    await nearer.answer(fetched(T0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    leader = await world.client.one()
    assert (leader.node_id, asked(leader.request)) == (1, {T0: (0, 5)}), "what a follower lacks is no reason to reset"
    await leader.answer(fetched(T0, preferred_read_replica=2))
    await (await world.client.one()).fail(KafkaConnectionError("broke"))
    world.wait()
    leader = await world.client.one()
    assert leader.node_id == 1
    await leader.answer(fetched(T0, preferred_read_replica=2))
    await world.answer(fetched(T0))
    world.client.open.clear()
    world.client.now += world.options.metadata_max_age_ms
    world.fetcher._busy.clear()
    world.fetcher.poke()
    assert (await world.client.one()).node_id == 1, "and the leader is asked again now and then"


async def test_partitions_served_last_are_asked_for_last(world: World) -> None:
    world.client.lead("t", (1, 5), (1, 5))
    world.read(T0, T1)
    first = await world.client.one()
    assert list(asked(first.request)) == [T0, T1]
    await first.answer(fetched(T0, b"a"))
    second = await world.client.one()
    assert list(asked(second.request)) == [T1]
    world.fetcher.take(5)
    await second.answer(fetched(T1))
    assert list(asked((await world.client.one()).request)) == [T1, T0]


# positions


async def test_committed_offsets_come_first_then_the_policy() -> None:
    world = World(committed={T0: OffsetAndMetadata(4, "", 5)})
    world.client.lead("t", (1, 5), (2, 5))
    world.subscription.assign([T0, T1])
    world.positions.poke()
    lookup = await world.client.one()
    assert [p.partition_index for p in lookup.request.topics[0].partitions] == [1]
    await lookup.answer(ends(T1, 8))
    states = [world.subscription.state(tp) for tp in (T0, T1)]
    assert [(s.position, s.position_epoch, s.committed) for s in states] == [(4, 5, 4), (8, 5, None)]
    await world.close()


async def test_a_seek_during_the_lookup_wins(world: World) -> None:
    world.subscription.assign([T0])
    world.positions.poke()
    lookup = await world.client.one()
    world.subscription.state(T0).seek(9)
    await lookup.answer(ends(T0, 0))
    assert world.subscription.state(T0).position == 9


async def test_a_position_of_an_older_epoch_is_checked_before_it_is_read(world: World) -> None:
    """KIP-320: the log was cut off under it, so reading goes on where its epoch ends."""
    world.read(T0, at=50, epoch=3)
    check = await world.client.one()
    assert isinstance(check.request, OffsetForLeaderEpochRequest)
    [partition] = check.request.topics[0].partitions
    assert (partition.leader_epoch, partition.current_leader_epoch) == (3, 5)
    await check.answer(epoch_end(T0, 3, 44))
    assert asked((await world.client.one()).request) == {T0: (44, 5)}


@pytest.mark.parametrize(
    ("meanwhile", "end", "stands"),
    [
        (lambda state: None, 60, 50),
        (lambda state: None, 50, 50),
        (lambda state: None, 45, 45),
        (lambda state: state.moved(174, 5), 50, 174),
        (lambda state: state.seek(100, 5), 50, 100),
    ],
    ids=["within its epoch", "at its end", "behind its end", "moved into the new epoch", "jumped"],
)
async def test_where_a_position_stands_after_its_check(
    world: World, meanwhile: Callable[[PartitionState], None], end: int, stands: int
) -> None:
    """It is asked for once. Records of the new epoch that come during the check are not taken back."""
    world.read(T0, at=50, epoch=3)
    check = await world.client.one()
    meanwhile(world.subscription.state(T0))
    await check.answer(epoch_end(T0, 3, end))
    assert asked((await world.client.one()).request) == {T0: (stands, 5)}


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH])
async def test_a_check_that_nobody_answers_yet_is_made_again(code: ErrorCode) -> None:
    """As Java does: until it is known where the position stands, nothing is read there."""
    world = World(retry_backoff_ms=0)
    world.client.lead("t", (1, 5))
    world.read(T0, at=50, epoch=3)
    check = await world.client.one()
    refused = {"partition": 0, "leader_epoch": -1, "end_offset": -1, "error_code": code}
    topics = [{"topic": "t", "partitions": [refused]}]
    await check.answer(response(ApiKey.OFFSET_FOR_LEADER_EPOCH, {"topics": topics}))
    again = await world.client.one()
    assert isinstance(again.request, OffsetForLeaderEpochRequest)
    assert world.client.refreshes
    await again.answer(epoch_end(T0, 3, 60))
    assert asked((await world.client.one()).request)[T0] == (50, 5)
    await world.close()


async def test_one_broker_that_does_not_answer_does_not_hold_up_checks_elsewhere(world: World) -> None:
    world.read(T0, T1, at=50, epoch=3)
    await turn()
    first, second = sorted(world.client.open, key=lambda one: one.node_id)
    world.client.open.clear()
    await second.answer(epoch_end(T1, 3, 60))
    assert not first.outcome.done()
    assert world.subscription.state(T1).validated_epoch == 5
    await first.answer(epoch_end(T0, 3, 60))


async def test_a_position_of_the_current_epoch_needs_no_check(world: World) -> None:
    world.read(T0, at=50, epoch=5)
    assert isinstance((await world.client.one()).request, FetchRequest)


async def test_a_cut_without_a_policy_is_told() -> None:
    world = World(auto_offset_reset="none")
    world.client.lead("t", (1, 5))
    world.read(T0, at=50, epoch=3)
    await world.answer(epoch_end(T0, 3, 44))
    with pytest.raises(KafkaError, match="t-0"):
        world.positions.raise_if_without()
    await world.client.none()
    await world.close()


def epoch_end(tp: TopicPartition, epoch: int, offset: int) -> Any:
    end = {"partition": tp.partition, "leader_epoch": epoch, "end_offset": offset}
    return response(ApiKey.OFFSET_FOR_LEADER_EPOCH, {"topics": [{"topic": tp.topic, "partitions": [end]}]})


async def test_a_lookup_that_is_denied_is_told(world: World) -> None:
    world.subscription.assign([T0])
    world.positions.poke()
    await world.answer(ends(T0, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert [error.code for error in world.errors] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


async def test_a_partition_whose_leader_is_away_is_looked_up_again_and_told_to_nobody() -> None:
    world = World(retry_backoff_ms=0)
    world.client.lead("t", (-1, 5))
    world.subscription.assign([T0])
    world.subscription.state(T0).request_reset(EARLIEST)
    world.positions.poke()
    await world.client.none()
    world.client.lead("t", (2, 6))
    await world.answer(ends(T0, 7))
    assert world.subscription.state(T0).position == 7
    assert world.client.refreshes and not world.errors
    await world.close()
