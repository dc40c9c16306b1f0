"""Fetch in sessions: what consumers need not say and are not told, and what goes wrong (KIP-227)."""

from uuid import UUID

import pytest

from ottla.broker.core.topics.partition import Standing
from ottla.broker.handlers.fetch import failed
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.support.client import values
from tests.support.requests import request

NAMES, IDS = 12, 13
BOTH = pytest.mark.parametrize("version", [NAMES, IDS])


class Reader:
    """A consumer with a session: it counts the epochs."""

    def __init__(self, world, version, **options):
        self.world = world
        self.version = version
        self.options = {"max_bytes": 1 << 20, "min_bytes": 1} | options
        self.session_id = self.epoch = 0

    def send(self, *wanted, forgotten=(), max_wait_ms=0, session=None, row=None, **options):
        """``wanted`` are (partition, offset) of the topic t, or (topic, partition, offset)."""
        topics = []
        for entry in wanted:
            name, index, offset = ("t", *entry) if len(entry) == 2 else entry
            place = {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20} | (row or {})
            topics.append(self.named(name) | {"partitions": [place]})
        session_id, epoch = session or (self.session_id, self.epoch)
        return self.world.begin(
            ApiKey.FETCH,
            self.version,
            max_wait_ms=max_wait_ms,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=[self.named("t") | {"partitions": [index]} for index in forgotten],
            **self.options | options,
        )

    def named(self, name):
        return {"topic": str(name), "topic_id": self.world.id_of(name) if isinstance(name, str) else name}

    def ask(self, *wanted, **options):
        """Send, and go on with the session; what was told, by partition."""
        return self.told(self.send(*wanted, **options))

    def told(self, exchange):
        response = exchange.response
        assert response.error_code == 0
        self.session_id = response.session_id
        self.epoch += 1
        return rows(response)


@pytest.fixture
def reader(world):
    return Reader(world, IDS)


def rows(response):
    """Error, high watermark and values, by partition."""
    return {
        row.partition_index: (row.error_code, row.high_watermark, values(row.records))
        for topic in response.responses
        for row in topic.partitions
    }


@BOTH
async def test_only_what_changed_is_asked_and_told(world, make_batch, version):
    await world.topic("t", 3)
    reader = Reader(world, version)
    assert reader.ask((0, 0), (1, 0), (2, 0)) == dict.fromkeys(range(3), (0, 0, []))
    assert reader.session_id != 0
    assert reader.ask() == {}
    world.produced(make_batch(b"x"), partition=1)
    assert reader.ask() == {1: (0, 1, [b"x"])}
    assert reader.ask() == {1: (0, 1, [b"x"])}  # it did not move on
    assert reader.ask((1, 1)) == {}
    world.produced(make_batch(b"y"), partition=1)
    world.produced(make_batch(b"z"), partition=2)
    assert reader.ask(forgotten=[2]) == {1: (0, 2, [b"y"])}
    assert reader.ask((1, 2), (2, 0)) == {2: (0, 1, [b"z"])}


async def test_a_parked_fetch_tells_only_what_changed(world, reader, make_batch):
    await world.topic("t", 3)
    reader.ask((0, 0), (1, 0), (2, 0))
    waiting = reader.send(max_wait_ms=5000)
    assert not waiting.finished
    world.produced(make_batch(b"x"), partition=2)
    assert reader.told(waiting) == {2: (0, 1, [b"x"])}
    waiting = reader.send((2, 1), max_wait_ms=5000)
    assert not waiting.finished
    world.advance(5000)
    assert reader.told(waiting) == {}


async def test_a_session_begins_with_a_parked_fetch(world, wide_topic, reader, make_batch):
    waiting = reader.send((0, 0), (1, 0), max_wait_ms=5000)
    assert len(world.services.fetch_sessions) == 0
    world.produced(make_batch(b"x"))
    assert reader.told(waiting) == {0: (0, 1, [b"x"]), 1: (0, 0, [])}
    assert reader.ask((0, 1)) == {}


async def test_trimming_is_told(world, topic, reader, make_batch):
    for _ in range(3):
        world.produced(make_batch(b"x"))
    reader.ask((0, 3))
    await world.trim(2)
    response = reader.send().response
    assert [row.log_start_offset for row in response.responses[0].partitions] == [2]
    reader.epoch += 1
    assert reader.ask() == {}


async def test_everybody_has_a_turn(world, make_batch):
    """Partitions that gave records go to the end of the line, so a limit starves nobody."""
    await world.topic("t", 3)
    for index in range(3):
        world.produced(make_batch(b"%d" % index * 100), partition=index)
    reader = Reader(world, IDS, max_bytes=100)
    first = reader.ask((0, 0), (1, 0), (2, 0))
    assert [len(told[2]) for told in first.values()] == [1, 0, 0]
    # The session begins as the request said; it turns from then on.
    served = [[index for index, told in reader.ask().items() if told[2]] for _ in range(6)]
    assert served == [[0], [1], [2], [0], [1], [2]]


async def test_an_error_is_told_as_long_as_it_lasts(world, wide_topic, reader, make_batch):
    assert reader.ask((0, 9), (1, 0))[0] == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, [])
    for _ in range(2):
        assert reader.ask() == {0: (ErrorCode.OFFSET_OUT_OF_RANGE, -1, [])}
    assert reader.ask((0, 0)) == {0: (0, 0, [])}
    assert reader.ask() == {}


# -- what goes wrong


@BOTH
async def test_sessions_that_are_none(world, topic, version):
    reader = Reader(world, version)
    for session in ((77, 3), (0, 3), (77, -2), (-1, 1), (2**31 - 9, 1), (-(2**28) + 2, 1)):
        response = reader.send((0, 0), session=session).response
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert (response.session_id, response.responses) == (0, [])


@pytest.mark.parametrize("session_id", [2**31 - 8, 2**31 - 1, -(2**28) + 1, -(2**31)])
async def test_ids_that_no_session_could_have(world, topic, session_id):
    for epoch in (-1, 0, 1):
        response = Reader(world, NAMES).send((0, 0), session=(session_id, epoch)).response
        assert (response.error_code, response.session_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, session_id)
        assert rows(response) == {0: (ErrorCode.UNKNOWN_SERVER_ERROR, -1, [])}
        response = Reader(world, IDS).send((0, 0), session=(session_id, epoch)).response
        assert (response.error_code, response.responses) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
    assert len(world.services.fetch_sessions) == 0


async def test_an_epoch_that_is_not_the_next(world, topic, reader):
    reader.ask((0, 0))
    for epoch in (2, 7, -2):
        response = reader.send(session=(reader.session_id, epoch)).response
        assert (response.error_code, response.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    assert reader.ask() == {}


async def test_a_session_does_not_change_from_names_to_ids(world, topic):
    for version, other in ((NAMES, IDS), (IDS, NAMES)):
        reader = Reader(world, version)
        reader.ask((0, 0))
        reader.version = other
        assert reader.send().response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        reader.version = version
        assert reader.ask() == {}


async def test_two_requests_of_one_session_at_once(world, topic, reader, make_batch):
    """The one that waits has been overtaken: what it would tell is not what the session knows now."""
    reader.ask((0, 0))
    waiting = reader.send(max_wait_ms=5000)
    overtaking = reader.send(session=(reader.session_id, 2))
    assert overtaking.response.error_code == 0
    world.produced(make_batch(b"x"))
    response = waiting.response
    assert (response.error_code, response.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, reader.session_id)
    assert response.responses == []
    reader.epoch = 3
    assert reader.ask() == {0: (0, 1, [b"x"])}


# -- opening and closing


@pytest.mark.parametrize("epoch", [0, -1])
async def test_a_full_fetch_ends_the_session_that_it_names(world, topic, reader, epoch):
    reader.ask((0, 0))
    response = reader.send((0, 0), session=(reader.session_id, epoch)).response
    assert (response.error_code, len(response.responses)) == (0, 1)
    assert (response.session_id != 0) is (epoch == 0)
    assert response.session_id != reader.session_id
    assert len(world.services.fetch_sessions) == (1 if epoch == 0 else 0)
    assert reader.send().response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_closing_what_is_not_there(world, topic):
    response = Reader(world, IDS).send((0, 0), session=(77, -1)).response
    assert (response.error_code, response.session_id, len(response.responses)) == (0, 0, 1)


async def test_a_session_of_nothing_is_none(world, topic, reader):
    reader.ask((0, 0))
    assert reader.ask(forgotten=[0]) == {}
    assert (reader.session_id, len(world.services.fetch_sessions)) == (0, 0)


async def test_without_a_slot_all_is_told(new_world):
    world = await new_world(max_incremental_fetch_session_cache_slots=1).start()
    await world.topic()
    first, second = Reader(world, IDS), Reader(world, IDS)
    first.ask((0, 0))
    for _ in range(3):
        second.epoch = 0
        assert second.ask((0, 0)) == {0: (0, 0, [])}
        assert second.session_id == 0
    assert first.ask() == {}


@pytest.mark.parametrize("version", range(4, 7))
async def test_older_versions_have_no_sessions(world, topic, version):
    exchange = world.fetch(version=version)
    assert (exchange.response.session_id, len(world.services.fetch_sessions)) == (0, 0)


async def test_a_gone_connection_does_not_end_a_session(world, topic, reader, make_batch):
    """It goes on elsewhere; a fetch that was under way is lost, and the consumer begins anew."""
    reader.ask((0, 0))
    reader.send(max_wait_ms=5000).hang_up()
    assert len(world.fetches) == 0
    world.produced(make_batch(b"x"))
    reader.epoch = 0
    assert reader.ask((0, 0)) == {0: (0, 1, [b"x"])}
    assert len(world.services.fetch_sessions) == 1  # the old one was ended with the request


# -- topics that come and go


async def test_names_that_no_topic_can_have_are_fetched_without_a_session(world, topic):
    reader = Reader(world, NAMES)
    unknown = {0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, [])}
    assert reader.ask(("n" * 250, 0, 0)) == unknown
    assert reader.session_id == 0
    reader.epoch = 0
    reader.ask((0, 0))
    assert reader.session_id
    assert reader.send(("n" * 250, 0, 0)).response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(world.services.fetch_sessions) == 0


async def test_a_deleted_topic(world, topic):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for version in (NAMES, IDS):
        reader = Reader(world, version)
        reader.ask((0, 0))
        waiting = reader.send(max_wait_ms=5000)
        await world.delete("t")
        assert reader.told(waiting) == {0: (unknown, -1, [])}
        assert reader.ask() == {0: (unknown, -1, [])}
        await world.topic()
        again = reader.ask()
        assert again == {0: (ErrorCode.INCONSISTENT_TOPIC_ID, -1, []) if version == IDS else (0, 0, [])}


async def test_a_topic_made_anew_is_told_from_one_of_its_name_that_looks_the_same(world, topic):
    by_name, by_id = Reader(world, NAMES), Reader(world, IDS)
    for reader in (by_name, by_id):
        reader.ask((0, 0))
    await world.delete("t")
    await world.topic()
    assert by_name.ask() == {}
    assert by_id.ask() == {0: (ErrorCode.INCONSISTENT_TOPIC_ID, -1, [])}


async def test_a_partition_without_news_is_looked_at_all_the_same(world, topic, reader, make_batch):
    world.produced(make_batch(b"x"))
    await world.restart()
    reader.ask((0, 1))
    partition = world.topics.topics["t"].partitions[0]
    for wrong, error in (
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        assert reader.ask((0, 1), row=wrong) == {0: (error, -1, [])}
        assert reader.ask((0, 1)) == {0: (0, 1, [])}
        assert reader.ask() == {}
    response = reader.send((0, 1), row={"last_fetched_epoch": 9}).response
    assert response.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    reader.epoch += 1
    reader.ask((0, 1))
    partition.standing = Standing.OFFLINE
    assert reader.ask() == {0: (ErrorCode.KAFKA_STORAGE_ERROR, -1, [])}


async def test_an_id_that_is_nobody_s_yet(world, reader, make_batch):
    await world.topic("other")
    late = UUID(int=world.id_of("other").int + 1)  # ids are counted here
    for _ in range(2):
        answer = reader.ask((late, 0, 0)) if reader.epoch == 0 else reader.ask()
        assert answer == {0: (ErrorCode.UNKNOWN_TOPIC_ID, -1, [])}
    assert (await world.topic()).topic_id == late
    world.produced(make_batch(b"x"))
    assert reader.ask() == {0: (0, 1, [b"x"])}


async def test_an_unknown_partition_does_not_hurry_the_others(world, wide_topic, reader, make_batch):
    reader.ask((0, 0), (9, 0))
    waiting = reader.send(max_wait_ms=5000)
    assert not waiting.finished
    world.produced(make_batch(b"x"))
    assert reader.told(waiting) == {0: (0, 1, [b"x"]), 9: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, [])}


async def test_a_version_that_cannot_say_where_logs_part(world, topic, make_batch):
    world.produced(make_batch(b"x"))
    await world.restart()
    reader = Reader(world, NAMES)
    reader.ask((0, 1), row={"last_fetched_epoch": 0})
    reader.ask((0, 9), row={"last_fetched_epoch": 0})
    reader.version = 11
    response = reader.send().response
    assert (response.error_code, response.responses) == (ErrorCode.UNSUPPORTED_VERSION, [])
    assert response.session_id == reader.session_id
    reader.version, reader.epoch = NAMES, reader.epoch + 1
    assert reader.ask()[0] == (0, 1, [])  # and where they part, as long as it is so


async def test_a_bug_of_ours_by_version(world, topic):
    rows_3 = {"partitions": [{"partition": 3}]}
    by_name = failed(request(ApiKey.FETCH, {"session_id": 5, "topics": [{"topic": "t"} | rows_3]}), -1)
    assert (by_name.error_code, by_name.session_id) == (-1, 5)
    assert rows(by_name) == {3: (-1, -1, [])}
    by_id = failed(request(ApiKey.FETCH, {"topics": [{"topic_id": world.id_of("t")} | rows_3]}), -1)
    assert (by_id.error_code, by_id.responses) == (-1, [])
