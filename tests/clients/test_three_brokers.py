"""The included client where three brokers lead and coordinate, and each of them may be wrong, late or away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from ottla.clients import Admin, Consumer, Producer, SomeFailed, TopicPartition
from ottla.clients.client import Client
from ottla.clients.errors import BrokerSilent, KafkaError
from ottla.clients.options import ClientOptions
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record
from tests.clients.three_brokers import HOST, ThreeBrokers, by_topic
from tests.support.batches import build_batch

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))
E = ErrorCode


@pytest_asyncio.fixture
async def brokers() -> AsyncIterator[ThreeBrokers]:
    async with ThreeBrokers() as made:
        yield made


@pytest_asyncio.fixture
async def admin(brokers: ThreeBrokers) -> AsyncIterator[Admin]:
    async with Admin(**brokers.options, default_api_timeout_ms=2_000) as made:
        yield made


# Producers and consumers find the leader


def produced(brokers: ThreeBrokers, *, hint: bool) -> None:
    """Partition 0 is led by broker 2 under epoch 5 by now, and whoever does not lead says so."""

    def answer(node_id: int, request: Any) -> dict[str, Any]:
        row: dict[str, Any] = {"index": 0, "base_offset": 7}
        if node_id != 2:
            row["error_code"] = E.NOT_LEADER_OR_FOLLOWER
            row["current_leader"] = {"leader_id": 2, "leader_epoch": 5} if hint else {}
        endpoints = [{"node_id": 2, "host": HOST, "port": brokers.ports[2]}]
        return {
            "responses": [{"name": "t", "partition_responses": [row]}],
            "node_endpoints": endpoints if hint else [],
        }

    brokers.answers[ApiKey.PRODUCE] = answer


async def test_a_producer_goes_where_it_is_sent_at_once(brokers: ThreeBrokers) -> None:
    """KIP-951: nobody's metadata tell of the new leader yet, and the wait before a retry would be too long."""
    produced(brokers, hint=True)
    patient = brokers.options | {"retry_backoff_ms": 600_000, "retry_backoff_max_ms": 600_000}
    async with Producer(**patient, enable_idempotence=False) as producer:
        async with asyncio.timeout(10):
            sent = await producer.send_and_wait("t", b"v", partition=0)
    assert sent.offset == 7
    assert brokers.took(ApiKey.PRODUCE) == [1, 2]


async def test_without_a_hint_it_asks_for_metadata(brokers: ThreeBrokers) -> None:
    produced(brokers, hint=False)
    async with Producer(**brokers.options, enable_idempotence=False) as producer:
        brokers.leaders[0] = 2, 5
        sent = await producer.send_and_wait("t", b"v", partition=0)
    assert sent.offset == 7
    assert brokers.took(ApiKey.PRODUCE)[-1] == 2


async def test_a_consumer_goes_where_it_is_sent_at_once(brokers: ThreeBrokers) -> None:
    def fetch(node_id: int, request: Any) -> dict[str, Any]:
        row: dict[str, Any] = {"partition_index": 0, "high_watermark": 1, "records": b""}
        if node_id != 2:
            row |= {"error_code": E.NOT_LEADER_OR_FOLLOWER, "current_leader": {"leader_id": 2, "leader_epoch": 5}}
        elif request.topics[0].partitions[0].fetch_offset == 0:
            row["records"] = build_batch([Record(value=b"v")], leader_epoch=5)
        return {"responses": [{"topic": "t", "partitions": [row]}]}

    brokers.answers[ApiKey.FETCH] = fetch
    patient = brokers.options | {"retry_backoff_ms": 600_000, "retry_backoff_max_ms": 600_000}
    async with Consumer(**patient, group_id=None) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        async with asyncio.timeout(10):
            record = await anext(consumer)
    assert record.value == b"v"
    assert brokers.took(ApiKey.FETCH)[:2] == [1, 2]


async def test_positions_are_found_though_one_leader_does_not_answer(brokers: ThreeBrokers) -> None:
    held = asyncio.Event()

    async def offsets(node_id: int, request: Any) -> dict[str, Any]:
        if node_id == 3:
            await held.wait()
        return by_topic(request, lambda one: {"partition_index": one.partition_index, "offset": 0, "leader_epoch": 1})

    def fetch(node_id: int, request: Any) -> dict[str, Any]:
        rows = []
        for one in request.topics[0].partitions:
            batch = build_batch([Record(value=b"v%d" % one.partition)], leader_epoch=1) if not one.fetch_offset else b""
            rows.append({"partition_index": one.partition, "high_watermark": 1, "records": batch})
        return {"responses": [{"topic": "t", "partitions": rows}]}

    brokers.answers |= {ApiKey.LIST_OFFSETS: offsets, ApiKey.FETCH: fetch}
    async with Consumer(**brokers.options, group_id=None, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0, T1, T2])
        async with asyncio.timeout(10):
            assert {(await anext(consumer)).value for _ in range(2)} == {b"v0", b"v1"}
            held.set()
            assert (await anext(consumer)).value == b"v2"


@pytest.mark.parametrize("code", [E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE])
async def test_commits_follow_the_coordinator(brokers: ThreeBrokers, code: ErrorCode) -> None:
    brokers.coordinators["g"] = 1
    loading = {3}

    def error(node_id: int) -> int:
        if node_id != 3:
            brokers.coordinators["g"] = 3
            return code
        if node_id in loading:
            loading.clear()
            return E.COORDINATOR_LOAD_IN_PROGRESS
        return 0

    def commit(node_id: int, request: Any) -> dict[str, Any]:
        told = error(node_id)
        return by_topic(request, lambda one: {"partition_index": one.partition_index, "error_code": told})

    def fetch(node_id: int, request: Any) -> dict[str, Any]:
        row = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "metadata": ""}
        told = error(node_id)
        topics = [] if told else [{"name": "t", "partitions": [row]}]
        return {"groups": [{"group_id": "g", "topics": topics, "error_code": told}]}

    brokers.answers |= {ApiKey.OFFSET_COMMIT: commit, ApiKey.OFFSET_FETCH: fetch, ApiKey.FETCH: nothing}
    async with Consumer(**brokers.options, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        await consumer.commit({T0: 5})
        loading.add(3)
        assert (await consumer.committed(T0)) == 5
    assert brokers.took(ApiKey.OFFSET_COMMIT) == [1, 3, 3]
    assert brokers.took(ApiKey.OFFSET_FETCH) == [3, 3]


def nothing(node_id: int, request: Any) -> dict[str, Any]:
    rows = [{"partition_index": one.partition, "high_watermark": 0} for one in request.topics[0].partitions]
    return {"responses": [{"topic": "t", "partitions": rows}]}


# The admin client asks whom it may concern


def listing(name: str) -> Any:
    def answer(node_id: int, request: Any) -> dict[str, Any]:
        return {"groups": [{"group_id": f"{name}-{node_id}", "protocol_type": "", "group_state": "", "group_type": ""}]}

    return answer


async def test_groups_are_those_of_all_brokers(brokers: ThreeBrokers, admin: Admin) -> None:
    brokers.answers[ApiKey.LIST_GROUPS] = listing("g")
    listed = await admin.list_groups()
    assert [(one.group_id, one.coordinator_id) for one in listed] == [("g-1", 1), ("g-2", 2), ("g-3", 3)]


async def test_a_broker_that_came_is_asked_too(brokers: ThreeBrokers) -> None:
    brokers.answers[ApiKey.LIST_GROUPS] = listing("g")
    brokers.down.add(3)
    async with Admin(**brokers.options) as admin:
        assert [one.group_id for one in await admin.list_groups()] == ["g-1", "g-2"]
        brokers.down.clear()
        assert [one.group_id for one in await admin.list_groups()] == ["g-1", "g-2", "g-3"]


async def test_one_that_loads_its_groups_is_asked_again_and_the_others_are_not(
    brokers: ThreeBrokers, admin: Admin
) -> None:
    codes = [E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE]
    well = listing("g")

    def answer(node_id: int, request: Any) -> dict[str, Any]:
        return {"error_code": codes.pop(0)} if node_id == 2 and codes else well(node_id, request)

    brokers.answers[ApiKey.LIST_GROUPS] = answer
    assert [one.group_id for one in await admin.list_groups()] == ["g-1", "g-2", "g-3"]
    assert sorted(brokers.took(ApiKey.LIST_GROUPS)) == [1, 2, 2, 2, 3]


@pytest.mark.parametrize("api", [ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS])
async def test_what_one_broker_refuses_does_not_hide_the_others(
    brokers: ThreeBrokers, admin: Admin, api: ApiKey
) -> None:
    well = {
        ApiKey.LIST_GROUPS: lambda name: {"groups": [{"group_id": name}]},
        ApiKey.LIST_TRANSACTIONS: lambda name: {"transaction_states": [{"transactional_id": name}]},
    }[api]
    refused = {"error_code": E.CLUSTER_AUTHORIZATION_FAILED}
    brokers.answers[api] = lambda node_id, request: refused if node_id == 2 else well(f"g-{node_id}")
    with pytest.raises(SomeFailed, match="broker 2") as told:
        await (admin.list_groups() if api is ApiKey.LIST_GROUPS else admin.list_transactions())
    assert {node_id: error.code for node_id, error in told.value.errors.items()} == {2: E.CLUSTER_AUTHORIZATION_FAILED}
    assert sorted(told.value.results) == ["g-1", "g-3"]


async def test_one_that_says_nothing_is_given_up_where_that_is_wanted(brokers: ThreeBrokers) -> None:
    """It was SIGSTOP: its connections are taken, and nobody answers on them."""
    brokers.answers[ApiKey.LIST_GROUPS] = listing("g")
    brokers.silent.add(1)
    started = {"bootstrap_servers": f"localhost:{brokers.ports[2]}", "socket_connection_setup_timeout_ms": 100}
    async with Admin(**brokers.options | started, retry_silent_brokers=False) as admin:
        with pytest.raises(SomeFailed) as told:
            await admin.list_groups()
    assert sorted(told.value.results) == ["g-2", "g-3"]
    assert [type(error) for error in told.value.errors.values()] == [BrokerSilent]
    assert list(told.value.errors) == [1]


async def test_a_server_named_by_the_user_is_known_by_its_address(brokers: ThreeBrokers) -> None:
    """So nothing is asked of another one, which may be the one that hangs."""
    brokers.silent.add(1)
    async with Admin(**brokers.options | {"bootstrap_servers": f"localhost:{brokers.ports[3]}"}) as admin:
        assert await admin.list_topics() == ["t"]
    assert brokers.took(ApiKey.METADATA) == [3, 3]


async def test_one_that_could_not_be_reached_is_asked_last(brokers: ThreeBrokers, admin: Admin) -> None:
    brokers.answers[ApiKey.LIST_GROUPS] = listing("g")
    brokers.silent.add(1)
    few = {"socket_connection_setup_timeout_ms": 50, "reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 1}
    client = Client(ClientOptions(**brokers.options | few | {"bootstrap_servers": f"localhost:{brokers.ports[2]}"}))
    await client.start()
    try:
        with pytest.raises(BrokerSilent):
            await client.connection(1)
        await asyncio.sleep(0.01)  # longer than the pause before another try
        assert [node_id for node_id in client.some_nodes() if node_id > 0] == [2, 3, 1]
    finally:
        await client.close()


def states(node_id: int, request: Any) -> dict[str, Any]:
    return {"transaction_states": [{"transactional_id": one} for one in request.transactional_ids]}


async def test_coordinators_are_asked_together_each_for_its_own(brokers: ThreeBrokers, admin: Admin) -> None:
    brokers.coordinators |= {"a": 1, "b": 2, "c": 3, "d": 2}
    arrived: set[int] = set()
    all_there = asyncio.Event()

    async def answer(node_id: int, request: Any) -> dict[str, Any]:
        arrived.add(node_id)
        if len(arrived) == 3:
            all_there.set()
        await all_there.wait()  # if they were asked one after the other, the first would wait for ever
        return states(node_id, request)

    brokers.answers[ApiKey.DESCRIBE_TRANSACTIONS] = answer
    described = await admin.describe_transactions(["a", "b", "c", "d"])
    assert {name: one.coordinator.node_id for name, one in described.items()} == {"a": 1, "b": 2, "c": 3, "d": 2}
    assert sorted(brokers.took(ApiKey.DESCRIBE_TRANSACTIONS)) == [1, 2, 3]


async def test_one_whose_coordinator_moved_is_looked_up_again(brokers: ThreeBrokers, admin: Admin) -> None:
    brokers.coordinators |= {"a": 1, "b": 2}

    def answer(node_id: int, request: Any) -> dict[str, Any]:
        if node_id != 2:
            return states(node_id, request)
        brokers.coordinators["b"] = 3
        return {"transaction_states": [{"transactional_id": "b", "error_code": E.NOT_COORDINATOR}]}

    brokers.answers[ApiKey.DESCRIBE_TRANSACTIONS] = answer
    described = await admin.describe_transactions(["a", "b"])
    assert described["b"].coordinator.node_id == 3
    assert sorted(brokers.took(ApiKey.DESCRIBE_TRANSACTIONS)) == [1, 2, 3]


async def test_groups_whose_coordinator_is_away_do_not_hide_the_others(brokers: ThreeBrokers) -> None:
    brokers.coordinators |= {"a": 1, "b": 2}
    brokers.answers[ApiKey.DELETE_GROUPS] = lambda node_id, request: {
        "results": [{"group_id": one} for one in request.groups_names]
    }
    async with Admin(**brokers.options, default_api_timeout_ms=200) as admin:
        brokers.stop(2)
        with pytest.raises(SomeFailed) as told:
            await admin.delete_groups(["a", "b"])
    assert list(told.value.results) == ["a"]
    assert {name: error.code for name, error in told.value.errors.items()} == {"b": E.COORDINATOR_NOT_AVAILABLE}


async def ends(admin: Admin) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(dict.fromkeys((T0, T1, T2), "latest"))
    return {tp: one.offset for tp, one in found.items()}


async def trims(admin: Admin) -> dict[TopicPartition, int]:
    return await admin.delete_records(dict.fromkeys((T0, T1, T2), 5))


async def producers(admin: Admin) -> dict[TopicPartition, int]:
    found = await admin.describe_producers([T0, T1, T2])
    return {tp: one[0].producer_id for tp, one in found.items()}


AT_LEADERS: list[tuple[Any, ApiKey, Any]] = [
    (
        ends,
        ApiKey.LIST_OFFSETS,
        lambda request, code, node_id: by_topic(
            request,
            lambda one: {"partition_index": one.partition_index, "error_code": code, "offset": node_id},
        ),
    ),
    (
        trims,
        ApiKey.DELETE_RECORDS,
        lambda request, code, node_id: by_topic(
            request,
            lambda one: {"partition_index": one.partition_index, "error_code": code, "low_watermark": node_id},
        ),
    ),
    (
        producers,
        ApiKey.DESCRIBE_PRODUCERS,
        lambda request, code, node_id: {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {"partition_index": one, "error_code": code, "active_producers": [{"producer_id": node_id}]}
                        for one in topic.partition_indexes
                    ],
                }
                for topic in request.topics
            ]
        },
    ),
]


@pytest.mark.parametrize(("call", "api", "answer"), AT_LEADERS)
async def test_partitions_are_asked_of_their_leaders(
    brokers: ThreeBrokers, admin: Admin, call: Any, api: ApiKey, answer: Any
) -> None:
    brokers.answers[api] = lambda node_id, request: answer(request, 0, node_id)
    assert await call(admin) == {T0: 1, T1: 2, T2: 3}


@pytest.mark.parametrize(("call", "api", "answer"), AT_LEADERS)
async def test_a_partition_that_moved_is_asked_of_the_new_leader(
    brokers: ThreeBrokers, admin: Admin, call: Any, api: ApiKey, answer: Any
) -> None:
    def script(node_id: int, request: Any) -> dict[str, Any]:
        if node_id != 2:
            return dict(answer(request, 0, node_id))
        brokers.leaders[1] = 3, 2
        return dict(answer(request, E.NOT_LEADER_OR_FOLLOWER, node_id))

    brokers.answers[api] = script
    assert await call(admin) == {T0: 1, T1: 3, T2: 3}


@pytest.mark.parametrize(("call", "api", "answer"), AT_LEADERS)
async def test_a_leader_that_refuses_does_not_hide_the_others(
    brokers: ThreeBrokers, admin: Admin, call: Any, api: ApiKey, answer: Any
) -> None:
    code = E.TOPIC_AUTHORIZATION_FAILED
    brokers.answers[api] = lambda node_id, request: answer(request, code if node_id == 2 else 0, node_id)
    with pytest.raises(SomeFailed) as told:
        await call(admin)
    assert set(told.value.results) == {T0, T2}
    assert {tp: error.code for tp, error in told.value.errors.items()} == {T1: code}


async def test_a_partition_without_a_leader_does_not_hide_the_others(brokers: ThreeBrokers) -> None:
    brokers.answers[ApiKey.LIST_OFFSETS] = lambda node_id, request: AT_LEADERS[0][2](request, 0, node_id)
    brokers.leaders[1] = -1, 1
    async with Admin(**brokers.options, default_api_timeout_ms=200) as admin:
        with pytest.raises(SomeFailed) as told:
            await ends(admin)
    assert set(told.value.results) == {T0, T2}
    assert {tp: error.code for tp, error in told.value.errors.items()} == {T1: E.LEADER_NOT_AVAILABLE}


async def test_settings_of_a_broker_are_asked_of_that_broker(brokers: ThreeBrokers, admin: Admin) -> None:
    def answer(node_id: int, request: Any) -> dict[str, Any]:
        rows = [(one.resource_type, one.resource_name) for one in request.resources]
        config = {"name": "who", "value": str(node_id)}
        return {"results": [{"resource_type": kind, "resource_name": name, "configs": [config]} for kind, name in rows]}

    brokers.answers[ApiKey.DESCRIBE_CONFIGS] = answer
    described = await admin.describe_configs(brokers=[1, 2, 3])
    assert {node_id: settings["who"].value for node_id, settings in described.items()} == {1: "1", 2: "2", 3: "3"}


async def test_the_history_of_a_group_is_asked_of_its_coordinator(brokers: ThreeBrokers, admin: Admin) -> None:
    brokers.coordinators["g"] = 2

    def answer(node_id: int, request: Any) -> dict[str, Any]:
        if node_id == 2:
            brokers.coordinators["g"] = 3
            return {"error_code": E.NOT_COORDINATOR}
        return {"body": b"{}"}

    brokers.answers[ApiKey.DESCRIBE_GROUP_HISTORY] = answer
    assert await admin.describe_group_history("g") == b"{}"
    assert brokers.took(ApiKey.DESCRIBE_GROUP_HISTORY) == [2, 3]


async def test_an_error_of_the_only_broker_is_raised_as_it_is(brokers: ThreeBrokers) -> None:
    brokers.down |= {2, 3}
    brokers.answers[ApiKey.LIST_GROUPS] = lambda node_id, request: {"error_code": E.CLUSTER_AUTHORIZATION_FAILED}
    async with Admin(**brokers.options) as admin:
        with pytest.raises(KafkaError, match="list the groups of broker 1") as told:
            await admin.list_groups()
    assert not isinstance(told.value, SomeFailed)
