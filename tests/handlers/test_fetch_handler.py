"""Fetch: what is read, when it is answered, and what an error looks like."""

from uuid import UUID

import pytest

from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from tests.support.client import values


def fill(world, make_batch, count, topic="t", partition=0, size=1):
    for n in range(count):
        world.produced(make_batch(b"%d" % n * size), topic=topic, partition=partition)


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_reads(world, topic, make_batch, version):
    fill(world, make_batch, 3)
    exchange = world.fetch(1, version=version)
    row = exchange.row
    assert (row.error_code, row.high_watermark, row.last_stable_offset) == (0, 3, 3)
    assert row.log_start_offset == (0 if version >= 5 else -1)
    assert values(row.records) == [b"1", b"2"]
    assert (row.preferred_read_replica, exchange.response.session_id) == (-1, 0)


async def test_the_whole_batch_around_the_offset(world, topic, make_batch):
    world.produced(make_batch(b"a", b"b", b"c"))
    assert values(world.fetched(2).records) == [b"a", b"b", b"c"]


async def test_at_the_end_there_is_nothing_and_no_error(world, topic, make_batch):
    fill(world, make_batch, 2)
    row = world.fetched(2)
    assert (row.error_code, row.records, row.high_watermark) == (0, b"", 2)


async def test_aborted_transactions_by_isolation(world, topic):
    assert world.fetched().aborted_transactions is None
    assert world.fetched(isolation_level=1).aborted_transactions == []
    for level in (0, 1):  # as Kafka has it: none where a read failed, an empty list where there is nothing to read
        assert world.fetched(99, isolation_level=level).aborted_transactions is None
        assert world.fetched(partitions=[9], isolation_level=level).aborted_transactions == []


@pytest.mark.parametrize("offset", [-1, 4, 1 << 40])
async def test_out_of_range(world, topic, make_batch, offset):
    fill(world, make_batch, 3)
    row = world.fetch(offset, max_wait_ms=5000).row
    assert row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset, row.records) == (-1, -1, -1, b"")


async def test_below_the_log_start_is_out_of_range(world, topic, make_batch):
    fill(world, make_batch, 3)
    await world.topics.topics["t"].partitions[0].log.trim(2)
    assert world.fetched(1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert world.fetched(2).log_start_offset == 2


async def test_appended_but_not_durable_is_not_shown(world, topic, make_batch):
    world.produce(make_batch(b"a"))
    assert (world.fetched(0).records, world.fetched(0).high_watermark) == (b"", 0)
    # The log's end is no error either: only beyond it there is nothing.
    assert world.fetched(1).error_code == 0
    world.run()
    assert values(world.fetched(0).records) == [b"a"]


@pytest.mark.parametrize("version", [12, 13])
async def test_unknown_partitions_alone_are_answered_at_once(world, topic, version):
    other = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for error, options in (
        (other, {"topic": "other"}),
        (unknown, {"partitions": (7,)}),
        (unknown, {"partitions": (-1,)}),
    ):
        row = world.fetch(max_wait_ms=5000, version=version, **options).row
        assert (row.error_code, row.records, row.high_watermark) == (error, b"", -1)


async def test_an_unknown_partition_is_told_when_the_others_are(world, wide_topic, make_batch):
    """Who asks again and again for what there is not must not be answered all the time."""
    exchange = world.fetch(partitions=(7, 1, -1, 0), max_wait_ms=5000)
    assert not exchange.finished
    world.produced(make_batch(b"x"), partition=1)
    rows = exchange.rows
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(row.partition_index, row.error_code) for row in rows] == [(1, 0), (0, 0), (7, unknown), (-1, unknown)]


@pytest.mark.parametrize("version", [4, 14, 15, 18])
async def test_there_are_no_followers(world, topic, make_batch, version):
    fill(world, make_batch, 1)
    for replica, epoch, error in (
        (-1, -1, 0),
        (-2, -1, 0),
        (0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (5, 0, ErrorCode.UNKNOWN_LEADER_EPOCH if version >= 9 else ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ):
        who = {"replica_id": replica} if version < 15 else {"replica_state": {"replica_id": replica}}
        known = {"current_leader_epoch": epoch} if version >= 9 else {}
        response = world.fetch(version=version, **who, **known).response
        row = response.responses[0].partitions[0]
        assert (row.error_code, bool(row.records)) == (error, not error)
        named = version >= 16 and error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (row.current_leader.leader_id, response.node_endpoints) == (1 if named else -1, [])


async def test_ids_that_are_nobody_s_are_told_before_partitions_that_there_are_not(world, topic):
    t = topic.topic_id
    wanted = [(t, 7), (UUID(int=1 << 100), 0), (t, 0), (t, 8), (UUID(int=1 << 101), 1)]
    response = world.fetch_all(*((topic_id, [(index, 0)]) for topic_id, index in wanted), version=13).response
    found = [row.error_code for topic in response.responses for row in topic.partitions]
    assert found == [0] + [ErrorCode.UNKNOWN_TOPIC_ID] * 2 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


async def test_an_error_of_a_partition_that_there_is_is_told_at_once(world, wide_topic):
    exchange = world.fetch_all(("t", [(0, 0), (1, 9)]), max_wait_ms=500, min_bytes=1)
    assert [row.error_code for row in exchange.rows] == [0, ErrorCode.OFFSET_OUT_OF_RANGE]


async def test_topics_are_told_in_the_order_of_the_request(world):
    await world.topic("a", 2)
    await world.topic("b")
    wanted = [("a", [0]), ("b", [0]), ("a", [1]), ("a", []), ("a", [0])]
    response = world.fetch_all(*((name, [(index, 0) for index in indexes]) for name, indexes in wanted)).response
    found = [(topic.topic, [row.partition_index for row in topic.partitions]) for topic in response.responses]
    assert found == [("a", [0]), ("b", [0]), ("a", [1])]


async def test_an_isolation_level_that_there_is_not(world, topic):
    answer = world.fetch(isolation_level=2).response
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (ErrorCode.UNKNOWN_SERVER_ERROR,) * 2
    answer = world.fetch(isolation_level=2, version=13).response
    assert (answer.error_code, answer.responses) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


async def test_who_believes_in_an_older_leader_is_told_who_leads(world, topic, make_batch):
    fill(world, make_batch, 1)
    await world.restart()
    for version in (15, 16, 18):
        response = world.fetch(current_leader_epoch=0, version=version).response
        row = response.responses[0].partitions[0]
        assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
        leader = (row.current_leader.leader_id, row.current_leader.leader_epoch)
        nodes = [(node.node_id, node.host, node.port) for node in response.node_endpoints]
        assert (leader, nodes) == (((1, 1), [(1, "127.0.0.1", 9092)]) if version >= 16 else ((-1, -1), []))


async def test_leader_epochs(world, topic, make_batch):
    fill(world, make_batch, 1)
    await world.restart()
    assert world.fetched(current_leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.fetched(current_leader_epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    for epoch in (1, -1):
        row = world.fetched(current_leader_epoch=epoch)
        assert (row.error_code, values(row.records)) == (0, [b"0"])


async def test_a_reader_of_another_history_is_told_where_it_parts(world, topic, make_batch):
    fill(world, make_batch, 3)
    await world.restart()
    fill(world, make_batch, 2)
    agreeing = world.fetched(3, last_fetched_epoch=0)
    assert (agreeing.error_code, agreeing.diverging_epoch.end_offset, len(values(agreeing.records))) == (0, -1, 2)
    parted = world.fetch(4, last_fetched_epoch=0, max_wait_ms=5000).row
    assert (parted.error_code, parted.records, parted.high_watermark) == (0, b"", 5)
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (0, 3)


async def test_zstd_goes_to_readers_of_every_version(world, topic, make_batch):
    world.produced(make_batch(b"plain"))
    world.produced(make_batch(b"z", codec=Codec.ZSTD))
    for version in (4, 9, 10):
        assert values(world.fetched(0, version=version).records) == [b"plain", b"z"]


# -- how much


async def test_a_batch_larger_than_every_limit_is_still_given(world, topic, make_batch):
    world.produced(make_batch(b"x" * 5000))
    world.produced(make_batch(b"y"))
    row = world.fetched(partition_max_bytes=1, max_bytes=1)
    assert values(row.records) == [b"x" * 5000]


async def test_max_bytes_is_shared_in_the_order_of_the_request(world, make_batch):
    await world.topic("t", 3)
    for partition in range(3):
        fill(world, make_batch, 4, partition=partition, size=1000)
    size = len(make_batch(b"0" * 1000))
    rows = world.fetch(partitions=(2, 0, 1), max_bytes=5 * size).rows
    assert [(row.partition_index, len(row.records) // size) for row in rows] == [(2, 4), (0, 1), (1, 0)]
    rows = world.fetch(partitions=(0, 1), partition_max_bytes=2 * size).rows
    assert [len(row.records) // size for row in rows] == [2, 2]
    assert all(row.error_code == 0 for row in rows)


async def test_only_the_first_batch_of_the_answer_may_exceed(world, wide_topic, make_batch):
    for partition in range(2):
        fill(world, make_batch, 1, partition=partition, size=5000)
    rows = world.fetch(partitions=(0, 1), max_bytes=100).rows
    assert [len(row.records) > 0 for row in rows] == [True, False]


async def test_the_brokers_own_limit_holds(new_world, make_batch):
    world = await new_world(fetch_max_bytes=2048).start()
    await world.topic()
    fill(world, make_batch, 4, size=1000)
    assert len(values(world.fetched().records)) == 1


# -- waiting


async def test_waits_for_the_first_record(world, topic, make_batch):
    exchange = world.fetch(max_wait_ms=500)
    world.advance(499)
    assert not exchange.finished
    world.produced(make_batch(b"now"))
    assert values(exchange.row.records) == [b"now"]
    assert len(world.fetches) == 0


async def test_answers_with_nothing_when_the_time_is_up(world, wide_topic):
    exchange = world.fetch(partitions=(0, 1), max_wait_ms=500)
    world.advance(499)
    assert not exchange.finished
    world.advance(1)
    assert [row.records for row in exchange.rows] == [b"", b""]


@pytest.mark.parametrize("options", [{"max_wait_ms": 0}, {"max_wait_ms": -1}, {"max_wait_ms": 500, "min_bytes": 0}])
async def test_does_not_wait_when_not_asked_to(world, topic, options):
    assert world.fetch(**options).finished


async def test_a_fetch_of_nothing_is_answered_at_once(world):
    exchange = world.fetch_all(max_wait_ms=500, min_bytes=1)
    assert (exchange.response.error_code, exchange.response.responses) == (0, [])


async def test_waits_for_min_bytes_over_all_partitions(world, wide_topic, make_batch):
    size = len(make_batch(b"0"))
    world.produced(make_batch(b"0"))
    exchange = world.fetch(partitions=(0, 1), max_wait_ms=500, min_bytes=3 * size)
    world.produced(make_batch(b"1"), partition=1)
    assert not exchange.finished
    world.produced(make_batch(b"2"))
    rows = exchange.rows
    assert [values(row.records) for row in rows] == [[b"0", b"2"], [b"1"]]


async def test_gives_what_there_is_when_min_bytes_do_not_come(world, topic, make_batch):
    exchange = world.fetch(max_wait_ms=500, min_bytes=100_000)
    world.produced(make_batch(b"0"))
    world.advance(500)
    assert values(exchange.row.records) == [b"0"]


async def test_min_bytes_beyond_what_may_be_read_end_at_the_deadline(world, topic, make_batch):
    exchange = world.fetch(max_wait_ms=500, min_bytes=1000, partition_max_bytes=100)
    for _ in range(5):
        world.produced(make_batch(b"x" * 900))
    assert not exchange.finished
    world.advance(500)
    assert len(values(exchange.row.records)) == 1


async def test_the_wait_is_limited_by_the_broker(new_world):
    world = await new_world(fetch_max_wait_ms=1000).start()
    await world.topic()
    exchange = world.fetch(max_wait_ms=2**31 - 1)
    world.advance(1000)
    assert exchange.finished


async def test_a_deleted_topic_wakes_who_waits_for_it(world, topic):
    exchange = world.fetch(max_wait_ms=5000)
    await world.delete("t")
    row = exchange.row
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_trimming_wakes_those_whose_offset_is_gone(world, topic, make_batch):
    fill(world, make_batch, 2)
    low = world.fetch(0, max_wait_ms=5000, min_bytes=100_000)
    end = world.fetch(2, max_wait_ms=5000)
    await world.trim(2)
    assert low.row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert not end.finished
    world.produced(make_batch(b"next"))
    assert values(end.row.records) == [b"next"]


async def test_a_gone_connection_leaves_nothing_behind(world, make_batch):
    await world.topic("t", 3)
    exchange = world.fetch(partitions=(0, 1, 2), max_wait_ms=5000)
    assert len(world.fetches) == 1
    exchange.hang_up()
    assert (len(world.fetches), world.fetches.next_deadline_ms()) == (0, None)
    world.produced(make_batch(b"x"))
    assert not exchange.finished


async def test_a_partition_asked_twice_is_read_once_as_it_was_asked_last(world, topic, make_batch):
    exchange = world.fetch_all(("t", [(0, 9), (0, 0)]), max_wait_ms=500, min_bytes=1)
    world.produced(make_batch(b"x"))
    assert [values(row.records) for row in exchange.rows] == [[b"x"]]


async def test_what_the_limit_cuts_off_counts_as_read(world, wide_topic, make_batch):
    """Otherwise whole batches might never come to min_bytes, and each fetch would wait for its time to be up."""
    fill(world, make_batch, 3, size=700)
    size = len(make_batch(b"0" * 700))
    limit = size + 100
    enough = world.fetch(max_wait_ms=5000, min_bytes=limit, partition_max_bytes=limit)
    assert len(enough.row.records) == size
    assert world.fetch(max_wait_ms=5000, min_bytes=limit, partition_max_bytes=9000, max_bytes=limit).finished
    assert not world.fetch(max_wait_ms=5000, min_bytes=limit + 1, partition_max_bytes=limit).finished
    # Nothing is cut off where nothing follows.
    assert not world.fetch(2, max_wait_ms=5000, min_bytes=limit, partition_max_bytes=limit).finished
    await world.topic("u")
    world.produced(make_batch(b"0" * 700), topic="u")
    world.produce(make_batch(b"1" * 700), topic="u")  # which is not durable yet
    assert not world.fetch(topic="u", max_wait_ms=5000, min_bytes=limit, partition_max_bytes=limit).finished


async def test_a_small_limit_is_used_up_by_what_it_cuts_off(world, wide_topic, make_batch):
    fill(world, make_batch, 2, size=700)
    fill(world, make_batch, 1, partition=1)
    size = len(make_batch(b"0" * 700))
    rows = world.fetch(partitions=(0, 1), max_bytes=size + 200).rows
    assert [values(row.records) for row in rows] == [[b"0" * 700], []]
    rows = world.fetch(1, partitions=(0,), max_bytes=size + 200).rows
    assert [len(values(row.records)) for row in rows] == [1]


async def test_no_list_of_aborted_transactions_where_the_first_batch_does_not_fit(world, wide_topic, make_batch):
    for partition in (0, 1):
        fill(world, make_batch, 1, partition=partition)
    size = len(make_batch(b"0"))
    for limit, found in ((2 * size, []), (2 * size - 1, None), (size + 1, None), (size, []), (1, [])):
        rows = world.fetch(partitions=(0, 1), max_bytes=limit, isolation_level=1).rows
        assert (rows[0].aborted_transactions, rows[1].aborted_transactions) == ([], found)


async def test_no_more_is_waited_for_than_may_be_given(world, topic, make_batch):
    fill(world, make_batch, 1)
    assert world.fetch(max_wait_ms=5000, min_bytes=1000, max_bytes=50).finished
