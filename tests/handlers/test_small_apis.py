"""Answers that one node can give: directories, pages of topics, elections, reassignments of replicas, and features."""

import pytest

from ottla.broker.core.topics.partition import Standing
from ottla.broker.engine import LogDir
from ottla.broker.handlers import handler
from ottla.broker.handlers.api_versions import MOST_SOFTWARE
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID
from tests.support.requests import request

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def topics_of(wanted, partitions="partitions", *, topic="topic"):
    """Rows of (topic, partitions); None is every one."""
    return None if wanted is None else [{topic: name, partitions: indexes} for name, indexes in wanted]


# -- ApiVersions


@pytest.mark.parametrize(
    ("name", "version", "kept"),
    [
        ("librdkafka", "2.6.1", "librdkafka 2.6.1"),
        ("a" * 300, "1" * 300, f"{'a' * MOST_SOFTWARE} {'1' * MOST_SOFTWARE}"),
        ("\x1b[31mred", "1", ""),
        ("name", "", ""),
    ],
)
async def test_the_clients_software_is_kept_with_its_connection(world, name, version, kept):
    exchange = world.begin(ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version=version)
    assert exchange.response.error_code == (ErrorCode.NONE if kept else ErrorCode.INVALID_REQUEST)
    assert exchange.client_software == kept


async def test_old_versions_do_not_say_what_the_client_is(world):
    assert world.begin(ApiKey.API_VERSIONS, 2).client_software == ""


# -- DescribeLogDirs


async def log_dirs(world, wanted, version=5):
    return await world.call(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics_of(wanted))


def sizes(response):
    (row,) = response.results
    return {(topic.name, p.partition_index): p.partition_size for topic in row.topics for p in topic.partitions}


@pytest.mark.parametrize("version", range(1, 6))
async def test_a_directory_with_its_volume_and_its_partitions(world, wide_topic, make_batch, version):
    world.produced(batch := make_batch(b"x"))
    world.services.log_dir = lambda: LogDir("/var/lib/ottla", 1000, 400)
    response = await log_dirs(world, [("t", [0, 1, 0, 2, -1]), ("t", [0]), ("absent", [0])], version)
    assert sizes(response) == {("t", 0): len(batch), ("t", 1): 0}
    (row,) = response.results
    assert (response.error_code, row.error_code, row.log_dir, row.is_cordoned) == (0, 0, "/var/lib/ottla", False)
    assert (row.total_bytes, row.usable_bytes) == ((1000, 400) if version >= 4 else (-1, -1))
    assert all((p.offset_lag, p.is_future_key) == (0, False) for t in row.topics for p in t.partitions)
    assert [len(topic.partitions) for topic in row.topics] == [2]


async def test_null_is_every_partition(world, wide_topic):
    everything = sizes(await log_dirs(world, None))
    assert {("t", 0), ("t", 1), ("__consumer_offsets", 49)} <= set(everything)
    assert len(everything) == 52
    assert (await log_dirs(world, [])).results[0].topics == []


async def test_memory_has_no_volume(world):
    (row,) = (await log_dirs(world, None)).results
    assert (row.log_dir, row.total_bytes, row.usable_bytes) == ("memory", -1, -1)


async def test_a_directory_that_does_not_answer(world):
    def gone():
        raise FileNotFoundError(2, "No such file or directory", "/var/lib/ottla")

    world.services.log_dir = gone
    (row,) = (await log_dirs(world, None)).results
    assert (row.error_code, row.log_dir, row.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, "/var/lib/ottla", [])


async def test_a_damaged_partition_has_no_size(world):
    topic = await world.topic("t", 2)
    topic.partitions[1].standing = Standing.OFFLINE
    assert set(sizes(await log_dirs(world, [("t", [0, 1])]))) == {("t", 0)}


# -- AlterReplicaLogDirs


async def moved(world, *wanted, version=2):
    """What becomes of (path, topic, partitions)."""
    dirs = [{"path": path, "topics": topics_of([row], topic="name")} for path, *row in wanted]
    response = await world.call(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
    return {(row.topic_name, one.partition_index): one.error_code for row in response.results for one in row.partitions}


@pytest.mark.parametrize("version", (1, 2))
async def test_partitions_are_in_the_only_directory_already(world, wide_topic, version):
    world.services.log_dir = lambda: LogDir("/var/lib/ottla")
    assert await moved(world, ("/var/lib/ottla", "t", [0, 1]), version=version) == {("t", 0): 0, ("t", 1): 0}
    assert await moved(
        world, ("/var/lib/ottla", "t", [1, 2]), ("/var/lib/ottla", "absent", [0]), ("/else", "t", [0]), version=version
    ) == {
        ("t", 1): ErrorCode.NONE,
        ("t", 2): UNKNOWN,
        ("absent", 0): UNKNOWN,
        ("t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
    }


async def test_the_directory_named_last_counts(world, topic):
    assert await moved(world, ("memory", "t", [0, 0]), ("/else", "t", [0])) == {("t", 0): ErrorCode.LOG_DIR_NOT_FOUND}
    assert await moved(world, ("/else", "t", [0]), ("memory", "t", [0])) == {("t", 0): ErrorCode.NONE}
    assert await moved(world) == {}


async def test_a_name_that_leaves_no_room_for_a_future_directory(world):
    fits, too_long = "n" * 213, "n" * 214
    assert await moved(world, ("/else", fits, [0, 10]), ("/else", too_long, [0])) == {
        (fits, 0): ErrorCode.LOG_DIR_NOT_FOUND,
        (fits, 10): ErrorCode.INVALID_TOPIC_EXCEPTION,
        (too_long, 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


async def test_a_directory_that_cannot_be_looked_at(world):
    def broken():
        raise OSError(5, "gone")

    world.services.log_dir = broken
    assert await moved(world, ("/else", "t", [0, 1])) == dict.fromkeys(
        [("t", 0), ("t", 1)], ErrorCode.KAFKA_STORAGE_ERROR
    )


# -- DescribeTopicPartitions


async def page(world, *names, limit=2000, cursor=None):
    return await world.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    )


def listed(response):
    """Topic name → partitions, and where the next page begins."""
    at = response.next_cursor
    rows = {topic.name: [p.partition_index for p in topic.partitions] for topic in response.topics}
    return rows, None if at is None else (at.topic_name, at.partition_index)


async def test_a_topic_in_full(world):
    topic = await world.topic("t", 2)
    (row,) = (await page(world, "t")).topics
    assert (row.error_code, row.name, row.topic_id, row.is_internal) == (0, "t", topic.topic_id, False)
    assert row.topic_authorized_operations == 0b1101_1111_1000
    for index, partition in enumerate(row.partitions):
        assert (partition.error_code, partition.partition_index, partition.leader_id) == (0, index, 1)
        assert (partition.leader_epoch, partition.replica_nodes, partition.isr_nodes) == (0, [1], [1])
        assert [partition.eligible_leader_replicas, partition.last_known_elr, partition.offline_replicas] == [[]] * 3


async def test_no_names_are_all_topics_in_order(world):
    for name in ("b", "a", "_c"):
        await world.topic(name)
    rows, after = listed(await page(world))
    assert list(rows) == ["__consumer_offsets", "_c", "a", "b"]
    assert after is None


async def test_pages_follow_each_other(world):
    await world.topic("a", 3)
    await world.topic("b", 2)
    await world.topic("c", 1)
    names = ("c", "a", "b", "a")
    seen, cursor = [], None
    for limit in (2, 1, 1, 1, 5):
        rows, cursor = listed(await page(world, *names, limit=limit, cursor=cursor))
        seen.append((rows, cursor))
    assert seen == [
        ({"a": [0, 1]}, ("a", 2)),
        ({"a": [2]}, ("b", 0)),
        ({"b": [0]}, ("b", 1)),
        ({"b": [1]}, ("c", 0)),
        ({"c": [0]}, None),
    ]


async def test_a_page_has_at_least_one_partition(world):
    await world.topic("a", 2)
    for limit in (0, -5):
        assert listed(await page(world, "a", limit=limit)) == ({"a": [0]}, ("a", 1))


async def test_a_page_has_at_most_two_thousand(world):
    await world.topic("a", 2100)
    rows, after = listed(await page(world, "a", limit=1 << 30))
    assert (len(rows["a"]), after) == (2000, ("a", 2000))


async def test_topics_that_are_not_there(world):
    await world.topic("m")
    response = await page(world, "m", "absent", "a b", "__transaction_state")
    rows = {topic.name: (topic.error_code, topic.is_internal, topic.topic_id == ZERO_UUID) for topic in response.topics}
    assert rows == {
        "__transaction_state": (UNKNOWN, True, True),
        "a b": (ErrorCode.INVALID_TOPIC_EXCEPTION, False, True),
        "absent": (UNKNOWN, False, True),
        "m": (0, False, False),
    }
    # They take no room on the page.
    assert listed(await page(world, "absent", "m", limit=1)) == ({"absent": [], "m": [0]}, None)


async def test_cursors_that_point_beside(world):
    await world.topic("a", 2)
    await world.topic("c", 2)
    assert listed(await page(world, cursor=("b", 7))) == ({"c": [0, 1]}, None)
    assert listed(await page(world, "a", "c", cursor=("a", 9))) == ({"a": [], "c": [0, 1]}, None)
    assert listed(await page(world, "a", "b", "c", cursor=("b", 1))) == ({"b": [], "c": [0, 1]}, None)
    assert listed(await page(world, "a", cursor=("a", (1 << 31) - 1))) == ({"a": []}, None)


@pytest.mark.parametrize("cursor", [("a", -1), ("b", 0), ("", 0), ("zzz", 0)])
async def test_cursors_that_are_none(world, cursor):
    """A page cannot begin before a topic's first partition, or at a topic that was not asked for."""
    await world.topic("a", 2)
    await world.topic("c", 2)
    response = await page(world, "c", "a", cursor=cursor)
    assert [topic.name for topic in response.topics] == ["c", "a"]
    assert {topic.error_code for topic in response.topics} == {ErrorCode.INVALID_REQUEST}


async def test_a_damaged_partition_has_no_leader(world, topic):
    topic.partitions[0].standing = Standing.OFFLINE
    (partition,) = (await page(world, "t")).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (0, -1)
    assert (partition.isr_nodes, partition.offline_replicas) == ([], [1])


# -- ElectLeaders


async def elect(world, wanted, version=2, kind=0):
    fields = {"election_type": kind, "topic_partitions": topics_of(wanted)}
    response = await world.call(ApiKey.ELECT_LEADERS, version, **fields)
    results = {
        (topic.topic, row.partition_id): row.error_code
        for topic in response.replica_election_results
        for row in topic.partition_result
    }
    return response, results


@pytest.mark.parametrize("version", range(3))
async def test_there_is_nothing_to_elect(world, wide_topic, version):
    for kind in (0, 1) if version else (0,):
        response, results = await elect(world, [("t", [0, 2, 1]), ("absent", [0])], version, kind)
        needless = ErrorCode.ELECTION_NOT_NEEDED
        assert results == {("t", 0): needless, ("t", 2): UNKNOWN, ("t", 1): needless, ("absent", 0): UNKNOWN}
        assert all(row.error_message for topic in response.replica_election_results for row in topic.partition_result)
        assert response.error_code == 0


async def test_electing_everywhere_names_what_needed_it(world):
    topic = await world.topic("t", 3)
    response, results = await elect(world, None)
    assert ([row.topic for row in response.replica_election_results], results) == (["__consumer_offsets", "t"], {})
    topic.partitions[1].standing = Standing.OFFLINE
    assert (await elect(world, None))[1] == {("t", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert (await elect(world, None, kind=1))[1] == {("t", 1): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


async def test_an_election_that_is_none(world, topic):
    response, results = await elect(world, [("t", [0])], kind=2)
    assert (response.error_code, results) == (ErrorCode.INVALID_REQUEST, {("t", 0): ErrorCode.INVALID_REQUEST})
    assert (await elect(world, [], kind=2))[0].error_code == 0


# -- reassignments


@pytest.mark.parametrize("wanted", [None, [], [("t", [0])], [("absent", [3])]])
async def test_nothing_is_ever_on_its_way(world, topic, wanted):
    rows = topics_of(wanted, "partition_indexes", topic="name")
    response = await world.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=rows)
    assert (response.error_code, response.error_message, response.topics) == (0, None, [])


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("may_change", [True, False])
@pytest.mark.parametrize(
    ("name", "partition", "replicas", "error"),
    [
        ("t", 0, [1], 0),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [-1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 1, [1], UNKNOWN),
        ("t", -1, [1], UNKNOWN),
        ("absent", 0, None, UNKNOWN),
    ],
)
async def test_a_replica_has_nowhere_to_go(world, topic, version, may_change, name, partition, replicas, error):
    rows = [{"name": name, "partitions": [{"partition_index": partition, "replicas": replicas}]}]
    fields = {"topics": rows, "allow_replication_factor_change": may_change}
    response = await world.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, **fields)
    (topic,) = response.responses
    (row,) = topic.partitions
    assert (topic.name, row.partition_index, row.error_code) == (name, partition, error)
    assert (row.error_message is None) == (error == 0)
    assert (response.error_code, response.error_message) == (0, None)
    assert response.allow_replication_factor_change == (may_change if version else True)


async def test_every_version_survives_a_bug_of_ours(world):
    """What `failed` gives can be sent, and says that something failed."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR

    def failed(key, **fields):
        return handler(key).failed(request(key, fields), code)

    election = failed(ApiKey.ELECT_LEADERS, topic_partitions=topics_of([("t", [0])]))
    assert election.replica_election_results[0].partition_result[0].error_code == code
    assert failed(ApiKey.ELECT_LEADERS, topic_partitions=None).error_code == code
    assert failed(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": "t"}]).topics[0].error_code == code
    assert failed(ApiKey.DESCRIBE_LOG_DIRS).results[0].error_code == code
    moves = failed(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=[{"path": "/", "topics": topics_of([("t", [0])], topic="name")}])
    assert moves.results[0].partitions[0].error_code == code


async def test_reassigning_nothing(world):
    response = await world.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, allow_replication_factor_change=False)
    assert (response.error_code, response.error_message, response.responses) == (0, "", [])
    assert response.allow_replication_factor_change


# -- UpdateFeatures


async def updated(world, *wanted, version=2, validate_only=False):
    """The answer to (feature, level) or (feature, level, upgrade type)."""
    columns = "feature", "max_version_level", "upgrade_type"
    updates = [dict(zip(columns, (*update, 1)[:3], strict=True)) for update in wanted]
    return await world.call(ApiKey.UPDATE_FEATURES, version, feature_updates=updates, validate_only=validate_only)


@pytest.mark.parametrize("version", range(3))
async def test_a_level_that_a_feature_has_is_granted(world, version):
    answer = await updated(world, ("transaction.version", 2), version=version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    assert [(row.feature, row.error_code) for row in answer.results] == (
        [("transaction.version", ErrorCode.NONE)] if version < 2 else []
    )


@pytest.mark.parametrize("validate_only", (False, True))
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (("transaction.version", 3), "'transaction.version' has levels from 0 to 2, and not 3"),
        (("transaction.version", -1), "'transaction.version' has levels from 0 to 2, and not -1"),
        (("transaction.version", 1), "'transaction.version' stays at level 2"),
        (("transaction.version", 0, 2), "'transaction.version' stays at level 2"),
        (("transaction.version", 1, 3), "'transaction.version' stays at level 2"),
        (("transaction.version", 2, 0), "upgrade type 0 of 'transaction.version' is not known; there are 1, 2 and 3"),
        (("group.version", 0), "'group.version' stays at level 1"),
        (("group.version", 2), "'group.version' has levels from 0 to 1, and not 2"),
        (("metadata.version", 25), "Ottla has no feature 'metadata.version'; it has transaction.version and group"),
        (("", 0), "Ottla has no feature ''"),
    ],
)
async def test_any_other_level_is_refused_with_its_reason(world, wanted, words, validate_only):
    answer = await updated(world, ("transaction.version", 2), wanted, version=1, validate_only=validate_only)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert words in answer.error_message


async def test_of_two_levels_for_one_feature_the_last_counts(world):
    name = "transaction.version"
    assert (await updated(world, (name, 3), (name, 2))).error_code == ErrorCode.NONE
    assert (await updated(world, (name, 2), (name, 3))).error_code == ErrorCode.INVALID_UPDATE_VERSION


async def test_no_update_is_none_that_fails(world):
    assert (await updated(world)).error_code == ErrorCode.NONE
