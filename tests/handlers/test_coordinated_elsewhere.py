"""Every request for a coordinator, at a node that is not the coordinator, and at one that is still loading.

The codes are those of Apache Kafka, of which three brokers were asked; see `tests/differential/three_kafkas.py`.
"""

import json
from types import SimpleNamespace

import pytest
import pytest_asyncio

from ottla.broker.handlers import HANDLERS
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.handlers.spread import Spread, name_in
from tests.support.requests import (
    add_partitions_fields,
    commit_fields,
    consumer_heartbeat_fields,
    delete_offsets_fields,
    heartbeat_fields,
    init_producer_fields,
    join_fields,
    leave_fields,
    of_transaction,
    offset_fetch_fields,
    sync_fields,
    txn_commit_fields,
)
from tests.wire.requests import error_codes

E, K = ErrorCode, ApiKey
ELSEWHERE, LOADING = E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS
WHO = (7, 0)


@pytest_asyncio.fixture
async def world():
    world = await Spread().start()
    await world.topic()
    await world.coordinate_transactions()
    world.services.explain = SimpleNamespace(events=lambda group_id, **which: json.dumps({}).encode())
    return world


def topic_of(world):
    return {"name": "t", "topic_id": world.id_of("t")}


OF_GROUPS = {
    K.JOIN_GROUP: lambda world, name: join_fields(name),
    K.SYNC_GROUP: lambda world, name: sync_fields(name, 1, "m"),
    K.HEARTBEAT: lambda world, name: heartbeat_fields(name, 1, "m"),
    K.LEAVE_GROUP: lambda world, name: leave_fields(name, ("m", None)),
    K.CONSUMER_GROUP_HEARTBEAT: lambda world, name: consumer_heartbeat_fields(name, "m" * 22, names=["t"]),
    K.OFFSET_COMMIT: lambda world, name: commit_fields(name, [("t", 0, 1)], name=lambda topic: topic_of(world)),
    K.OFFSET_FETCH: lambda world, name: offset_fetch_fields(name, {"t": [0]}, name=lambda topic: topic_of(world)),
    K.OFFSET_DELETE: lambda world, name: delete_offsets_fields(name, [("t", 0)]),
    K.TXN_OFFSET_COMMIT: lambda world, name: txn_commit_fields("x", WHO, name, [("t", 0, 1)]),
    K.DESCRIBE_GROUPS: lambda world, name: {"groups": [name]},
    K.CONSUMER_GROUP_DESCRIBE: lambda world, name: {"group_ids": [name]},
    K.DELETE_GROUPS: lambda world, name: {"groups_names": [name]},
    K.DESCRIBE_GROUP_HISTORY: lambda world, name: {"group_id": name, "view": "events"},
}
OF_TRANSACTIONS = {
    K.INIT_PRODUCER_ID: lambda world, name: init_producer_fields(name),
    K.ADD_PARTITIONS_TO_TXN: lambda world, name: add_partitions_fields(of_transaction(name, WHO), [("t", 0)]),
    K.ADD_OFFSETS_TO_TXN: lambda world, name: of_transaction(name, WHO) | {"group_id": "g"},
    K.END_TXN: lambda world, name: of_transaction(name, WHO) | {"committed": True},
    K.DESCRIBE_TRANSACTIONS: lambda world, name: {"transactional_ids": [name]},
}


def versions(rows):
    return [(key, version) for key in rows for version in HANDLERS[key] if version in api(key).request.versions]


def ids(value):
    return value.name if isinstance(value, ApiKey) else str(value)


async def codes(world, key, version, fields):
    """The errors of an answer; NONE if there is none, and if the answer does not come at once."""
    exchange = world.begin(key, version, **fields)
    if hasattr(exchange, "work") and (answer := await exchange.work) is not None:
        exchange.ctx.reply(answer)
    await world.idle()
    return {E(code) for code in error_codes(exchange.response) if code} or {E.NONE}


@pytest.mark.parametrize(("key", "version"), versions(OF_GROUPS), ids=ids)
async def test_a_group_that_another_node_coordinates(world, key, version):
    for index in (1, 2):
        assert await codes(world, key, version, OF_GROUPS[key](world, name_in(index))) == {ELSEWHERE}
    assert ELSEWHERE not in await codes(world, key, version, OF_GROUPS[key](world, name_in(0)))


@pytest.mark.parametrize(("key", "version"), versions(OF_GROUPS), ids=ids)
async def test_a_group_that_is_being_loaded(world, key, version):
    world.reload(OFFSETS_TOPIC, 0)
    expected = E.NONE if key is K.HEARTBEAT else LOADING
    if key is K.TXN_OFFSET_COMMIT and version < 2:
        expected = E.COORDINATOR_NOT_AVAILABLE  # older clients do not know that a coordinator loads
    assert await codes(world, key, version, OF_GROUPS[key](world, name_in(0))) == {expected}
    assert await codes(world, key, version, OF_GROUPS[key](world, name_in(1))) == {ELSEWHERE}


@pytest.mark.parametrize(("key", "version"), versions(OF_TRANSACTIONS), ids=ids)
async def test_a_transactional_id_that_another_node_coordinates(world, key, version):
    for index in (1, 2):
        assert await codes(world, key, version, OF_TRANSACTIONS[key](world, name_in(index, "x"))) == {ELSEWHERE}
    assert ELSEWHERE not in await codes(world, key, version, OF_TRANSACTIONS[key](world, name_in(0, "x")))


@pytest.mark.parametrize(("key", "version"), versions(OF_TRANSACTIONS), ids=ids)
async def test_a_transactional_id_that_is_being_loaded(world, key, version):
    world.reload(TRANSACTIONS_TOPIC, 0)
    assert await codes(world, key, version, OF_TRANSACTIONS[key](world, name_in(0, "x"))) == {LOADING}


async def test_several_groups_are_answered_one_by_one(world):
    here, there = name_in(0), name_in(1)
    await world.call(K.OFFSET_COMMIT, 8, **commit_fields(here, [("t", 0, 5)]))
    response = await world.call(K.OFFSET_FETCH, 8, **offset_fetch_fields([there, here], {"t": [0]}))
    assert [(group.group_id, group.error_code, len(group.topics)) for group in response.groups] == [
        (there, ELSEWHERE, 0),
        (here, 0, 1),
    ]
    described = await world.call(K.DESCRIBE_GROUPS, 5, groups=[there, here])
    assert [(group.group_id, group.error_code) for group in described.groups] == [(there, ELSEWHERE), (here, 0)]
    deleted = await world.call(K.DELETE_GROUPS, 2, groups_names=[there, here])
    assert {group.group_id: group.error_code for group in deleted.results} == {there: ELSEWHERE, here: 0}
    ids = [name_in(1, "x"), name_in(0, "x")]
    states = (await world.call(K.DESCRIBE_TRANSACTIONS, 0, transactional_ids=ids)).transaction_states
    assert [state.error_code for state in states] == [ELSEWHERE, E.TRANSACTIONAL_ID_NOT_FOUND]


async def test_what_there_is_not_is_refused_before_the_group(world):
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    for places, expected in (([("absent", 0, 1)], [unknown]), ([("t", 0, 1), ("absent", 0, 1)], [unknown, ELSEWHERE])):
        response = await world.call(K.OFFSET_COMMIT, 8, **commit_fields(name_in(1), places))
        found = [row.error_code for topic in response.topics for row in topic.partitions]
        assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_ask_for_several_transactions_at_once(world, version):
    places = [{"name": "t", "partitions": [0]}]
    asked = [
        {**of_transaction(name_in(index, "x"), WHO), "verify_only": only, "topics": places}
        for index in (0, 1)
        for only in (False, True)
    ]
    response = await world.call(K.ADD_PARTITIONS_TO_TXN, version, transactions=asked)
    found = [
        [row.partition_error_code for topic in result.topic_results for row in topic.results_by_partition]
        for result in response.results_by_transaction
    ]
    assert found[2:] == [[ELSEWHERE], [ELSEWHERE]]
    assert ELSEWHERE not in found[0] + found[1]


async def test_lists_are_of_what_is_coordinated_here(world):
    names = [name_in(index) for index in range(3)]
    for name in names:
        await world.call(K.OFFSET_COMMIT, 8, **commit_fields(name, [("t", 0, 5)]))
        await world.call(K.INIT_PRODUCER_ID, 4, **init_producer_fields(name))
    groups = await world.call(K.LIST_GROUPS, 5)
    assert (groups.error_code, [group.group_id for group in groups.groups]) == (0, names[:1])
    transactions = await world.call(K.LIST_TRANSACTIONS, 2)
    listed = [state.transactional_id for state in transactions.transaction_states]
    assert (transactions.error_code, listed) == (0, names[:1])
    world.reload(OFFSETS_TOPIC, 0)
    world.reload(TRANSACTIONS_TOPIC, 0)
    assert (await world.call(K.LIST_GROUPS, 5)).error_code == LOADING
    assert (await world.call(K.LIST_TRANSACTIONS, 2)).error_code == LOADING


async def test_a_node_without_a_lease_does_not_say_that_there_are_no_groups(world, monkeypatch):
    monkeypatch.setattr(type(world.services.cluster.placement), "has_lease", False)
    assert (await world.call(K.LIST_GROUPS, 5)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_member_that_waits_hears_that_the_coordinator_moves(world):
    name = name_in(0)
    first = await world.call(K.JOIN_GROUP, 4, **join_fields(name))
    exchange = world.begin(K.JOIN_GROUP, 4, **join_fields(name, member_id=first.member_id))
    assert not exchange.finished
    world.lose(world.topics.topics[OFFSETS_TOPIC].partitions[0])
    assert exchange.response.error_code == ELSEWHERE
    assert (await world.call(K.HEARTBEAT, 4, **heartbeat_fields(name, 1, first.member_id))).error_code == ELSEWHERE
