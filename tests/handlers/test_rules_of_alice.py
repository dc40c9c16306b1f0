"""Requests of somebody who may do only what a rule says, as answers have it: fields, order, and what is hidden."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import pytest_asyncio

from ottla.broker.core.security.acls import Acl, AclOperation, Pattern, Permission, Resource
from ottla.broker.core.security.session import ANONYMOUS, Session
from ottla.broker.handlers.describe_group_history import LEFT_OUT, without
from ottla.broker.settings import FIELDS
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID
from tests.support.requests import (
    add_partitions_fields,
    commit_fields,
    consumer_heartbeat_fields,
    create_fields,
    fetch_fields,
    heartbeat_fields,
    init_producer_fields,
    join_fields,
    of_transaction,
    offset_fetch_fields,
)
from tests.support.rules import WITH_RULES

A, R, E = AclOperation, Resource, ErrorCode
ALICE, BOB = Session("User:alice", "SASL", "PLAIN"), Session("User:bob", "SASL", "PLAIN")
NOT_ASKED = -(1 << 31)


@pytest_asyncio.fixture
async def world(new_world: Any) -> Any:
    settings = {FIELDS[key].name: value for key, value in WITH_RULES.items()}
    settings |= {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
    world = await new_world(**settings, max_incremental_fetch_session_cache_slots=9).start()
    await world.topic("orders", partitions=3)
    await world.topic("pay.in")
    await world.call(ApiKey.OFFSET_COMMIT, 8, **commit_fields("g", [("orders", 0, 5), ("pay.in", 0, 7)]))
    await world.call(ApiKey.OFFSET_COMMIT, 8, **commit_fields("h", [("pay.in", 0, 7)]))
    await world.call(ApiKey.INIT_PRODUCER_ID, 4, **init_producer_fields("t"))
    world.session = ALICE
    world.log.lines.clear()
    return world


def allow(world: Any, *words: str) -> None:
    """Rules as ``READ topic orders``, or ``-READ topic orders`` to deny it; a name that ends in ``…`` is a prefix."""

    def acls() -> Iterator[Acl]:
        for each in words:
            operation, kind, name = each.removeprefix("-").split()
            permission = Permission.DENY if each.startswith("-") else Permission.ALLOW
            resource = {"id": R.TRANSACTIONAL_ID}.get(kind) or R[kind.upper()]
            pattern = Pattern.PREFIXED if name.endswith("…") else Pattern.LITERAL
            yield Acl(resource, name.removesuffix("…"), pattern, ALICE.principal, "*", A[operation], permission)

    world.authorizer.change([*acls()])


def cluster(operation: str) -> str:
    return f"{operation} cluster kafka-cluster"


async def metadata(world: Any, version: int = 12, **fields: Any) -> Any:
    asked = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    return await world.call(ApiKey.METADATA, version, **asked | fields)


async def test_metadata_of_nothing(world: Any) -> None:
    """53."""
    answer = await metadata(world, topics=None)
    assert (answer.topics, len(answer.brokers), answer.controller_id) == ([], 1, 1)
    answer = await metadata(world, topics=[{"name": "orders"}, {"name": "nothere"}, {"name": "__consumer_offsets"}])
    assert [
        (row.error_code, row.topic_id, row.is_internal, row.partitions, row.topic_authorized_operations)
        for row in answer.topics
    ] == [(29, ZERO_UUID, False, [], NOT_ASKED)] * 3
    assert [row.name for row in answer.topics] == ["orders", "nothere", "__consumer_offsets"]


async def test_a_request_that_is_wrong_whoever_asks(world: Any) -> None:
    """A fault of the request itself is told before it is asked who may: the level of the log cannot be replaced."""
    resources = [{"resource_type": kind, "resource_name": "1", "configs": []} for kind in (8, 4)]
    answer = await world.call(ApiKey.ALTER_CONFIGS, 2, resources=resources)
    assert [row.error_code for row in answer.responses] == [E.INVALID_REQUEST, E.CLUSTER_AUTHORIZATION_FAILED]


async def test_a_follower_that_may_not(world: Any) -> None:
    """It hears the same of all that it asks for, as it asks."""
    ids = [world.id_of("orders"), uuid.UUID(int=99), world.id_of("pay.in")]
    topics = [row for each in ids for row in fetch_fields(each)["topics"]]
    answer = await world.call(ApiKey.FETCH, 13, **fetch_fields("", replica_id=1) | {"topics": topics})
    told = [(topic.topic_id, row.error_code) for topic in answer.responses for row in topic.partitions]
    assert told == [(each, E.TOPIC_AUTHORIZATION_FAILED) for each in ids]


async def test_credentials_of_nobody_in_particular(world: Any) -> None:
    """Who may not see credentials gets a row for each user that he names, and none has the name."""
    users = [{"name": "x"}, {"name": "y"}]
    answer = await world.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users)
    refused = E.CLUSTER_AUTHORIZATION_FAILED
    assert answer.error_code == refused
    assert [(row.user, row.error_code) for row in answer.results] == [("", refused)] * 2


async def test_metadata_by_ids(world: Any) -> None:
    """54: ids are no secret, names are."""
    known, nobodys = world.id_of("orders"), uuid.UUID(int=99)
    answer = await metadata(world, topics=[{"name": None, "topic_id": each} for each in (known, nobodys)])
    assert [(row.error_code, row.name, row.topic_id) for row in answer.topics] == [
        (29, None, known),
        (100, None, nobodys),
    ]


@pytest.mark.parametrize("version", [4, 12])
async def test_topics_that_come_to_be_by_asking(world: Any, version: int) -> None:
    """59, Q-14: those that may be created are."""
    allow(world, "CREATE topic tmp.…", "DESCRIBE topic *")
    names = ["orders", "tmp.b", "other"]
    answer = await metadata(world, version, topics=[{"name": each} for each in names], allow_auto_topic_creation=True)
    assert {row.name: row.error_code for row in answer.topics} == {"orders": 0, "tmp.b": 0, "other": 29}
    assert set(names) & set(world.topics.topics) == {"orders", "tmp.b"}
    allow(world, cluster("CREATE"), "DESCRIBE topic *")
    answer = await metadata(world, version, topics=[{"name": "other"}], allow_auto_topic_creation=True)
    assert [row.error_code for row in answer.topics] == [0]


async def test_produce_to_two_topics(world: Any, make_batch: Any) -> None:
    """55."""
    allow(world, "WRITE topic orders")
    places = (
        ("pay.in", [(0, make_batch(b"x"))]),
        ("orders", [(0, make_batch(b"x"))]),
        ("nothere", [(0, make_batch(b"x"))]),
    )
    answer = world.produced_all(*places).response
    rows = [
        (topic.name, row.error_code, row.base_offset) for topic in answer.responses for row in topic.partition_responses
    ]
    assert rows == [("pay.in", 29, -1), ("orders", 0, 0), ("nothere", 29, -1)]
    ids = [(world.id_of("pay.in"), [(0, make_batch(b"x"))]), (uuid.UUID(int=99), [(0, make_batch(b"x"))])]
    answer = world.produced_all(*ids, version=13).response
    assert [row.error_code for topic in answer.responses for row in topic.partition_responses] == [29, 100]
    without_answer = world.produced_all(*places, acks=0)
    assert without_answer.aborted is not None
    assert without_answer.response is None
    assert (await world.call(ApiKey.INIT_PRODUCER_ID, 4, **init_producer_fields(None))).error_code == 0


async def test_a_consumer(world: Any) -> None:
    """56."""
    allow(world, "READ topic orders", "READ group g")
    asked = [("pay.in", 0, 1), ("orders", 0, 1), ("nothere", 0, 1), ("orders", 99, 1)]
    answer = await world.call(ApiKey.OFFSET_COMMIT, 8, **commit_fields("g", asked))
    found = {(topic.name, row.partition_index): row.error_code for topic in answer.topics for row in topic.partitions}
    assert found == {("pay.in", 0): 29, ("orders", 0): 0, ("nothere", 0): 29, ("orders", 99): 3}
    answer = await world.call(ApiKey.OFFSET_FETCH, 8, **offset_fetch_fields(["g", "h"]))
    told = [(row.group_id, row.error_code, [topic.name for topic in row.topics]) for row in answer.groups]
    assert told == [("g", 0, ["orders"]), ("h", 30, [])]
    topics = {"pay.in": [0], "orders": [0]}
    answer = await world.call(ApiKey.OFFSET_FETCH, 8, **offset_fetch_fields("g", topics))
    rows = [(topic.name, topic.partitions[0].error_code, topic.partitions[0].committed_offset)
            for topic in answer.groups[0].topics]  # fmt: skip
    assert rows == [("orders", 0, 1), ("pay.in", 29, -1)]


@pytest.mark.parametrize("version", range(1, 8))
async def test_offsets_of_a_group_that_is_denied_to_old_clients(world: Any, version: int) -> None:
    answer = await world.call(ApiKey.OFFSET_FETCH, version, **offset_fetch_fields("g", {"orders": [0, 1]}))
    rows = [(row.error_code, row.committed_offset) for topic in answer.topics for row in topic.partitions]
    assert (answer.error_code, rows) == ((30, []) if version >= 2 else (0, [(30, -1)] * 2))


async def test_one_who_reads_topics_and_no_groups(world: Any) -> None:
    """57."""
    allow(world, "READ topic orders")
    answer = await world.call(ApiKey.JOIN_GROUP, 9, **join_fields("g"))
    assert (answer.error_code, answer.generation_id, answer.member_id, answer.leader) == (30, -1, "", "")
    assert answer.protocol_name is None
    assert (await world.call(ApiKey.JOIN_GROUP, 6, **join_fields("g"))).protocol_name == ""
    for version in (0, 4):
        answer = await world.call(ApiKey.FIND_COORDINATOR, version, key="g", coordinator_keys=["g"])
        row = answer.coordinators[0] if version >= 4 else answer
        assert (row.error_code, row.node_id, row.host, row.port) == (30, -1, "", -1)
    assert world.groups.groups["g"].member_count == 0


async def test_one_who_describes_a_group(world: Any) -> None:
    """58: what is denied comes first in DescribeGroups, and last in DeleteGroups."""
    allow(world, "DESCRIBE group g")
    answer = await world.call(ApiKey.DESCRIBE_GROUPS, 5, groups=["g", "h"], include_authorized_operations=True)
    assert [(row.group_id, row.error_code, row.authorized_operations) for row in answer.groups] == [
        ("h", 30, NOT_ASKED),
        ("g", 0, 1 << A.DESCRIBE),
    ]
    assert (await world.call(ApiKey.HEARTBEAT, 4, **heartbeat_fields("g", 1, "m"))).error_code == 30
    assert [row.group_id for row in (await world.call(ApiKey.LIST_GROUPS, 4)).groups] == ["g"]
    allow(world, "DELETE group h")
    answer = await world.call(ApiKey.DELETE_GROUPS, 2, groups_names=["g", "h", "g"])
    assert [(row.group_id, row.error_code) for row in answer.results] == [("h", 0), ("g", 30)]
    assert "g" in world.groups.groups


async def test_one_who_creates_topics(world: Any) -> None:
    """59."""
    allow(world, "CREATE topic tmp.…")
    answer = await world.call(ApiKey.CREATE_TOPICS, 7, **create_fields({"tmp.a": 2, "other": 1}))
    created, other = sorted(answer.topics, key=lambda row: row.error_code)
    assert (created.name, created.error_code, created.topic_id) == ("tmp.a", 0, world.id_of("tmp.a"))
    assert (created.topic_config_error_code, created.num_partitions, created.replication_factor) == (29, -1, -1)
    assert created.configs == []
    assert (other.name, other.error_code, other.topic_id) == ("other", 29, ZERO_UUID)
    allow(world, "CREATE topic tmp.…", "DESCRIBE_CONFIGS topic tmp.b")
    (row,) = (await world.call(ApiKey.CREATE_TOPICS, 7, **create_fields({"tmp.b": 2}))).topics
    assert (row.topic_config_error_code, row.num_partitions) == (0, 2)
    assert row.configs


async def test_a_transaction_with_a_topic_that_is_denied(world: Any) -> None:
    """60: then nothing is added."""
    allow(world, "WRITE id t", "WRITE topic orders")
    who = of_transaction("t", (0, 0))
    places = [("orders", 0), ("pay.in", 0)]
    answer = await world.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, **add_partitions_fields(who, places))
    found = {
        (topic.name, row.partition_index): row.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    }
    assert found == {("orders", 0): 55, ("pay.in", 0): 29}
    described = await world.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["t", "u"])
    assert [(row.transactional_id, row.error_code, row.topics) for row in described.transaction_states] == [
        ("t", 0, []),
        ("u", 53, []),
    ]


async def test_topics_of_a_transaction_that_are_hidden(world: Any) -> None:
    world.session = ANONYMOUS
    places = add_partitions_fields(of_transaction("t", (0, 0)), [("orders", 0), ("pay.in", 0)])
    await world.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, **places)
    world.session = ALICE
    allow(world, "DESCRIBE id t", "DESCRIBE topic orders")
    described = await world.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["t"])
    assert [topic.topic for topic in described.transaction_states[0].topics] == ["orders"]


async def test_one_who_deletes_topics(world: Any) -> None:
    """61."""
    allow(world, "DELETE topic orders")

    async def codes(*names: str) -> dict[str, int]:
        topics = [{"name": each} for each in names]
        answer = await world.call(ApiKey.DELETE_TOPICS, 6, topics=topics)
        return {row.name: row.error_code for row in answer.responses}

    assert await codes("orders", "nothere", "pay.in") == {"orders": 0, "nothere": 29, "pay.in": 29}
    allow(world, "DESCRIBE topic *")
    assert await codes("nothere", "pay.in") == {"nothere": 3, "pay.in": 29}


async def test_deletion_by_id(world: Any) -> None:
    known, nobodys = world.id_of("orders"), uuid.UUID(int=99)
    topics = [{"name": None, "topic_id": each} for each in (known, nobodys)]

    async def rows() -> list[tuple[int, str | None]]:
        answer = await world.call(ApiKey.DELETE_TOPICS, 6, topics=topics)
        return sorted((row.error_code, row.name) for row in answer.responses)

    assert await rows() == [(29, None), (100, None)]
    allow(world, "DESCRIBE topic orders")
    assert await rows() == [(29, "orders"), (100, None)]
    allow(world, "DELETE topic orders", "-DESCRIBE topic orders")
    assert await rows() == [(0, "orders"), (100, None)]


async def test_deletion_by_an_id_that_everybody_may(world: Any) -> None:
    allow(world, cluster("DELETE"))
    answer = await world.call(ApiKey.DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": world.id_of("orders")}])
    assert [(row.error_code, row.name) for row in answer.responses] == [(0, "orders")]


async def test_one_who_describes_settings(world: Any) -> None:
    """62; what is denied comes last."""
    allow(world, cluster("DESCRIBE_CONFIGS"))
    resources = [{"resource_type": 2, "resource_name": "orders"}, {"resource_type": 4, "resource_name": "1"}]
    answer = await world.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources)
    assert [(row.resource_type, row.error_code, bool(row.configs)) for row in answer.results] == [
        (4, 0, True),
        (2, 29, False),
    ]
    unknown = await world.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[*resources, {"resource_type": 3}])
    assert {row.error_code for row in unknown.results} == {E.INVALID_REQUEST}
    assert (await world.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1)).error_code == 0
    entries = [{"entity": [{"entity_type": "user", "entity_name": each}], "ops": []} for each in "ab"]
    answer = await world.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries)
    assert [(row.entity[0].entity_name, row.error_code) for row in answer.entries] == [("a", 31), ("b", 31)]


@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
async def test_faults_of_a_change_of_settings_are_told_before_it_is_denied(world: Any, key: ApiKey) -> None:
    config = {"name": "retention.ms", "value": "1000"}
    faults = {"orders": [config, config], "pay.in": [config | {"value": None}], "other": [config]}
    resources = [{"resource_type": 2, "resource_name": name, "configs": configs} for name, configs in faults.items()]
    twice = [{"resource_type": 2, "resource_name": "x", "configs": [config]}] * 2
    answer = await world.call(key, 1, resources=[*resources, *twice])
    assert [row.error_code for row in answer.responses] == [42, 42, 29, 42, 42]


@pytest.mark.parametrize(
    ("rule", "of_topic", "of_cluster"),
    [
        ("READ topic orders", 264, 0),
        ("ALL topic orders", 3576, 0),
        (cluster("ALL"), None, 8096),
        (cluster("ALTER"), None, 1 << A.ALTER | 1 << A.DESCRIBE),
    ],
)
async def test_operations(world: Any, rule: str, of_topic: int | None, of_cluster: int) -> None:
    """63. Such questions leave no line of the audit but the first one of an API, which is about the cluster."""
    allow(world, rule)
    asked = {"topics": [{"name": "orders"}], "include_cluster_authorized_operations": True}
    for version in (8, 10):
        answer = await metadata(world, version, **asked)
        assert answer.cluster_authorized_operations == of_cluster
        assert answer.topics[0].topic_authorized_operations == (NOT_ASKED if of_topic is None else of_topic)
    answer = await world.call(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True, endpoint_type=1)
    assert answer.cluster_authorized_operations == of_cluster
    answer = await world.call(ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=1)
    assert answer.cluster_authorized_operations == NOT_ASKED
    told = [(fields["operation"], fields["api"]) for event, fields in world.log.lines if event == "denied"]
    of_apis = [] if of_cluster else [("DESCRIBE", "METADATA"), ("DESCRIBE", "DESCRIBE_CLUSTER")]
    assert told == of_apis + ([] if of_topic else [("DESCRIBE", "METADATA")])


async def test_a_page_of_topics(world: Any) -> None:
    """What is denied comes last, and is not counted, also behind the page; of all topics it is hidden."""
    allow(world, "DESCRIBE topic orders", "DESCRIBE topic zzz")
    names = [{"name": each} for each in ("pay.in", "zzz", "orders", "aaa", "zzzz")]
    asked = {"response_partition_limit": 3, "cursor": None}
    answer = await world.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=names, **asked)
    assert [(row.name, row.error_code, len(row.partitions)) for row in answer.topics] == [
        ("orders", 0, 3),
        ("aaa", 29, 0),
        ("pay.in", 29, 0),
        ("zzzz", 29, 0),
    ]
    assert answer.next_cursor.topic_name == "zzz"
    assert answer.topics[1].topic_authorized_operations == NOT_ASKED
    answer = await world.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], **asked)
    assert [row.name for row in answer.topics] == ["orders"]


async def test_a_fetch_session_belongs_to_who_opened_it(world: Any) -> None:
    """Q-13."""
    allow(world, "READ topic *")
    opened = world.fetch(topic="orders", session_epoch=0).response
    assert opened.session_id
    again = {"session_id": opened.session_id, "session_epoch": 1, "topics": []}
    world.session = BOB
    assert (await world.call(ApiKey.FETCH, 12, max_bytes=1, **again)).error_code == E.FETCH_SESSION_ID_NOT_FOUND
    world.session = ALICE
    assert (await world.call(ApiKey.FETCH, 12, max_bytes=1, **again)).error_code == 0


async def test_partitions_that_are_denied_in_a_fetch_session(world: Any, make_batch: Any) -> None:
    """They are told in each answer, and nobody waits for them."""
    allow(world, "READ topic orders", "WRITE topic orders")
    opened = world.fetch_all(("pay.in", [(0, 0)]), ("orders", [(0, 0)]), session_epoch=0).response
    told = [(topic.topic, row.error_code) for topic in opened.responses for row in topic.partitions]
    assert told == [("orders", 0), ("pay.in", 29)]
    world.produced(make_batch(b"x"), topic="orders")
    again = world.fetch_all(session_id=opened.session_id, session_epoch=1, min_bytes=1, max_wait_ms=500, max_bytes=1)
    rows = [
        (topic.topic, row.error_code, bool(row.records))
        for topic in again.response.responses
        for row in topic.partitions
    ]
    assert rows == [("orders", 0, True), ("pay.in", 29, False)]
    alone = world.fetch_all(("pay.in", [(0, 0)]), min_bytes=1, max_wait_ms=500)
    assert alone.finished, "there is nothing to wait for"


async def test_a_consumer_group_with_a_topic_that_is_denied(world: Any) -> None:
    """Its members have it, so that it is not told who they are."""
    for name in ("orders", "pay.in"):
        world.groups.topic_changed(name, world.id_of(name), [()], world.wall)
    world.session = ANONYMOUS
    fields = consumer_heartbeat_fields("modern", "m", names=["orders", "pay.in"])
    assert (await world.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields)).error_code == 0
    world.session = ALICE
    allow(world, "DESCRIBE group modern", "DESCRIBE topic orders")
    asked = {"group_ids": ["modern", "h"], "include_authorized_operations": True}
    denied, hidden = (await world.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, **asked)).groups
    assert (denied.group_id, denied.error_code) == ("h", 30)
    assert (hidden.group_id, hidden.error_code, hidden.members, hidden.group_epoch) == ("modern", 29, [], 0)
    allow(world, "DESCRIBE group modern", "DESCRIBE topic *")
    _, shown = (await world.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, **asked)).groups
    assert (shown.error_code, len(shown.members), shown.authorized_operations) == (0, 1, 1 << A.DESCRIBE)


async def test_one_with_rules_about_rules(world: Any) -> None:
    """A change counts for the next request; what was made is told to the audit."""
    allow(world, cluster("ALTER"))
    rule = {"resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3, "principal": "User:alice"}
    rule |= {"host": "::1", "operation": 3, "permission_type": 3}
    answer = await world.call(ApiKey.CREATE_ACLS, 3, creations=[rule, rule | {"principal": "alice"}])
    assert [row.error_code for row in answer.results] == [0, 42]
    assert [acl.host for acl in world.topics.catalog.acls] == ["0:0:0:0:0:0:0:1"]
    told = [fields["rule"] for event, fields in world.log.lines if event == "acl_created"]
    assert told == ["ALLOW READ on TOPIC:LITERAL:orders for User:alice from 0:0:0:0:0:0:0:1"]
    # The rules that count are those of the catalog now: alice may not alter the cluster any more.
    answer = await world.call(ApiKey.CREATE_ACLS, 3, creations=[rule])
    assert [row.error_code for row in answer.results] == [31]


def test_a_history_without_some_topics() -> None:
    told = {
        "group_id": "orders",
        "events": [
            {"seq": 1, "topic": "orders", "offset": 3},
            {"seq": 2, "topics": ["orders", "pay.in"], "moves": [["orders", 0, 1, 2], ["pay.in", 0, 1, 2]]},
            {"seq": 3, "by": {"orders": 1, "pay.in": 2}, "partitions": ["orders-0", "pay.in-0"]},
        ],
        "flow": {"lag": [1]},
    }
    left = without(json.dumps(told).encode(), {"orders"})
    assert left is not None
    assert json.loads(left) == {
        "group_id": "orders",
        "events": [
            {"seq": 2, "topics": ["pay.in"], "moves": [["pay.in", 0, 1, 2]]},
            {"seq": 3, "by": {"pay.in": 2}, "partitions": ["pay.in-0"]},
        ],
    }
    assert without(json.dumps(told).encode(), {"nothere"}) is None
    assert "describe" in LEFT_OUT
