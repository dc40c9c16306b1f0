"""The APIs of the transaction coordinator, from the handler to the log and back."""

import pytest
import pytest_asyncio

from ottla.broker.core.transactions.requests import Question
from ottla.broker.handlers import api_versions
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import TRANSACTIONS_TOPIC
from ottla.protocol.offsets_topic import decode_value
from ottla.protocol.records import decode_batch, iter_batches
from ottla.protocol.transaction_log import TransactionLogValue, decode_transaction_key
from tests.support.requests import add_partitions_fields

E = ErrorCode


INIT = {"transactional_id": "x", "transaction_timeout_ms": 60_000}


async def begun(world, name="x", version=5):
    """A producer id and epoch for a transactional id."""
    answer = await world.call(ApiKey.INIT_PRODUCER_ID, version, **INIT | {"transactional_id": name})
    assert answer.error_code == E.NONE
    return {"transactional_id": name, "producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


@pytest_asyncio.fixture
async def who(world):
    """A producer with a transactional id, where there is a topic ``t``."""
    await world.topic()
    return await begun(world)


async def added(world, who, *topics, version=3):
    """Let partition 0 of topics take part; the codes."""
    fields = add_partitions_fields(who, [(name, 0) for name in topics])
    answer = await world.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, **fields)
    by_id = answer.results_by_transaction
    results = answer.results_by_topic_v3_and_below if version < 4 else by_id[0].topic_results
    return [row.partition_error_code for topic in results for row in topic.results_by_partition]


async def described(world, *names):
    return (await world.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=names)).transaction_states


async def listed(world, version=2, **filters):
    return await world.call(ApiKey.LIST_TRANSACTIONS, version, **filters)


async def state(world, name="x"):
    (row,) = await described(world, name)
    return row.transaction_state or E(row.error_code).name


def logged(world, name="x"):
    """The states that the log says an id went through."""
    partition = coordinator_partition(name, world.topics.partition_count(TRANSACTIONS_TOPIC))
    log = world.topics.topics[TRANSACTIONS_TOPIC].partitions[partition].log
    data = log.read(0, max_bytes=1 << 20) if log.high_watermark else b""
    records = [record for _, batch in iter_batches(data) for record in decode_batch(batch)]
    assert {decode_transaction_key(record.key) for record in records} <= {name}
    return [decode_value(TransactionLogValue, record.value).transaction_status for record in records]


@pytest.mark.parametrize("version", range(5))
async def test_the_topic_comes_into_being_with_the_first_question(world, version):
    assert TRANSACTIONS_TOPIC not in world.topics.topics
    fields = {"key": "x", "key_type": 1, "coordinator_keys": ["x", "y"]}
    answer = await world.call(ApiKey.FIND_COORDINATOR, version, **fields)
    rows = answer.coordinators if version >= 4 else [answer]
    assert {(row.error_code, row.node_id, row.host, row.port) for row in rows} == {(0, 1, "127.0.0.1", 9092)}
    assert world.topics.partition_count(TRANSACTIONS_TOPIC) == (50 if version else 0)


async def test_the_topic_comes_into_being_with_the_first_transactional_id(world):
    await begun(world)
    topic = world.topics.topics[TRANSACTIONS_TOPIC]
    assert topic.is_internal
    assert topic.overrides["cleanup.policy"] == "compact"
    assert len(topic.partitions) == 50


async def test_it_has_as_many_partitions_as_the_setting_says(new_world):
    world = await new_world(transaction_state_log_num_partitions=3).start()
    await begun(world)
    assert world.topics.partition_count(TRANSACTIONS_TOPIC) == 3
    world.settings = type(world.settings)(transaction_state_log_num_partitions=7)
    await world.restart()
    assert await state(world) == "Empty", "found by the count that the topic has"


async def test_nobody_produces_to_it(world, make_batch):
    await begun(world)
    row = world.produced(make_batch(b"a"), topic=TRANSACTIONS_TOPIC)
    assert row.error_code == E.INVALID_TOPIC_EXCEPTION


async def test_before_there_is_a_topic(world):
    who = {"transactional_id": "x", "producer_id": 0, "producer_epoch": 0}
    await world.topic("t")
    assert await added(world, who, "t") == [E.NOT_COORDINATOR]
    assert await state(world) == "NOT_COORDINATOR"
    assert (await listed(world)).transaction_states == []


@pytest.mark.parametrize("version", range(6))
async def test_a_producer_id(world, version):
    assert await begun(world, version=version) == {"transactional_id": "x", "producer_id": 0, "producer_epoch": 0}
    assert (await begun(world, version=version))["producer_epoch"] == 1
    assert (await begun(world, "y", version=version))["producer_id"] not in (0, -1)


async def test_producer_ids_are_never_given_twice(world):
    seen = {(await begun(world, f"id-{number}"))["producer_id"] for number in range(30)}
    await world.restart()
    seen |= {(await begun(world, f"more-{number}"))["producer_id"] for number in range(30)}
    for _ in range(5):
        seen.add((await world.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None)).producer_id)
    assert len(seen) == 65


async def test_several_at_once_before_there_is_a_topic(world):
    exchanges = [world.begin(ApiKey.INIT_PRODUCER_ID, 5, **INIT) for _ in range(3)]
    for exchange in exchanges:
        assert await exchange.work is None
    await world.idle()
    assert sorted(exchange.response.error_code for exchange in exchanges) == [0, 51, 51]


async def test_a_failing_storage(world):
    world.engine.catalog.store = world.refuse_to_store
    answer = await world.call(ApiKey.INIT_PRODUCER_ID, 4, **INIT)
    assert answer.error_code == E.COORDINATOR_NOT_AVAILABLE
    answer = await world.call(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["x"])
    assert [(row.error_code, row.node_id) for row in answer.coordinators] == [(E.COORDINATOR_NOT_AVAILABLE, -1)]


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("committed", [True, False])
async def test_a_whole_transaction(world, who, version, committed):
    assert await added(world, who, "t", version=min(version, 3)) == [E.NONE]
    assert await state(world) == "Ongoing"
    answer = await world.call(ApiKey.END_TXN, version, **who, committed=committed)
    assert answer.error_code == E.NONE
    assert (answer.producer_id, answer.producer_epoch) == ((0, 1) if version >= 5 else (-1, -1))
    await world.idle()
    assert await state(world) == ("CompleteCommit" if committed else "CompleteAbort")
    assert logged(world) == [0, 1, 2, 4] if committed else [0, 1, 3, 5]
    (header, _), *_ = iter_batches(world.topics.topics["t"].partitions[0].log.read(0, max_bytes=1 << 20))
    assert (header.is_control, header.producer_id, header.producer_epoch) == (True, 0, int(version >= 5))


async def test_a_topic_that_does_not_exist(world, who):
    assert await added(world, who, "t", "no") == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert await added(world, who, "t", "no", version=5) == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert await state(world) == "Empty"


@pytest.mark.parametrize("topic", ["__consumer_offsets", TRANSACTIONS_TOPIC, "__share_group_state"])
async def test_clients_do_not_add_internal_topics(world, who, topic):
    for version in range(4):
        assert await added(world, who, topic, "t", version=version) == [
            E.TOPIC_AUTHORIZATION_FAILED,
            E.OPERATION_NOT_ATTEMPTED,
        ]
    there = topic != "__share_group_state"
    assert (await added(world, who, topic, version=4)) == [E.NONE if there else E.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("version", range(5))
async def test_the_offsets_of_a_group(world, version):
    who = await begun(world)
    assert (await world.call(ApiKey.ADD_OFFSETS_TO_TXN, version, **who, group_id="g")).error_code == E.NONE
    (one,) = await described(world, "x")
    assert [(row.topic, row.partitions) for row in one.topics] == [("__consumer_offsets", [coordinator_partition("g")])]


async def test_an_id_is_described_as_often_as_it_is_named(world):
    await begun(world)
    rows = await described(world, "x", "y", "x")
    assert [row.transactional_id for row in rows] == ["x", "y", "x"]
    assert rows[0] == rows[2] != rows[1]


async def test_what_was_decided_is_carried_out_after_a_crash(world, who):
    await added(world, who, "t")
    exchange = world.begin(ApiKey.END_TXN, 4, **who, committed=True)
    while not exchange.finished:
        world.scheduled.pop(0)()
    await world.restart()
    await world.idle()
    assert await state(world) == "CompleteCommit"
    assert logged(world) == [0, 1, 2, 4]


async def test_a_transaction_that_is_open_for_too_long(world, who):
    await added(world, who, "t")
    world.advance(59_000)
    await world.idle()
    assert await state(world) == "Ongoing"
    world.advance(11_000)
    await world.idle()
    assert await state(world) == "CompleteAbort"


async def test_verify(world, who):
    tp = world.topics.topics["t"].partitions[0].tp
    told = []
    question = Question("x", who["producer_id"], 0, [tp], adds=False)
    world.services.verify(question, told.append)
    world.services.verify(question._replace(adds=True), told.append)
    assert told == [{tp: E.TRANSACTION_ABORTABLE}]
    world.run()
    world.services.verify(question, told.append)
    assert told[1:] == [{tp: E.NONE}] * 2


async def test_parked_requests_are_answered_at_the_end(world, who):
    exchange = world.begin(ApiKey.ADD_OFFSETS_TO_TXN, 4, **who, group_id="g")
    assert not exchange.finished
    world.host.stop()
    assert exchange.response.error_code == E.NOT_COORDINATOR


async def test_the_list(world):
    await begun(world, "x")
    await begun(world, "y")
    for version in range(3):
        answer = await listed(world, version, state_filters=["Empty", "No"])
        assert sorted(row.transactional_id for row in answer.transaction_states) == ["x", "y"]
        assert answer.unknown_state_filters == ["No"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("[ab]", "a b"), ("", "a ab b"), ("x|b", "b"), ("A", ""), ("a", "a"), ("a.*", "a ab"), (r"\pL{2}", "ab")],
)
async def test_a_pattern_must_match_the_whole_id(world, pattern, found):
    for name in ("a", "ab", "b"):
        await begun(world, name)
    answer = await listed(world, transactional_id_pattern=pattern)
    assert " ".join(sorted(row.transactional_id for row in answer.transaction_states)) == found


async def test_a_pattern_that_is_none(world):
    await begun(world)
    answer = await listed(world, transactional_id_pattern="(")
    assert (answer.error_code, answer.transaction_states) == (E.INVALID_REGULAR_EXPRESSION, [])


@pytest.mark.parametrize(
    ("version", "supported", "finalized"), [(2, [], []), (3, [], [2, 1]), (4, [(0, 2), (0, 1)], [2, 1])]
)
async def test_the_features_that_clients_see(world, version, supported, finalized):
    answer = await world.call(ApiKey.API_VERSIONS, version, client_software_name="a", client_software_version="1")
    assert [(row.min_version, row.max_version) for row in answer.supported_features] == supported
    assert [row.max_version_level for row in answer.finalized_features] == finalized
    names = ["transaction.version", "group.version"]
    assert [row.name for row in answer.supported_features + answer.finalized_features] == names * (version - 2)
    assert answer.finalized_features_epoch == (0 if finalized else -1)


async def test_a_feature_is_not_promised_without_its_versions(world, monkeypatch):
    features = {name: feature._replace(needs={0: 99}) for name, feature in api_versions.FEATURES.items()}
    monkeypatch.setattr(api_versions, "FEATURES", features)
    api_versions.levels.cache_clear()
    try:
        answer = await world.call(ApiKey.API_VERSIONS, 4, client_software_name="a", client_software_version="1")
    finally:
        monkeypatch.undo()
        api_versions.levels.cache_clear()
    assert (answer.supported_features, answer.finalized_features, answer.finalized_features_epoch) == ([], [], -1)


async def test_how_long_producers_are_remembered(new_world):
    world = await new_world(producer_id_expiration_ms=5_000).start()
    topic = await world.topic("t")
    assert topic.partitions[0].producers.expiration_ms == 5_000
