"""What users may do whom rules are about: how rules decide, and how denied and hidden things are answered."""

from __future__ import annotations

from typing import Any

from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.protocol.apis import ApiKey
from tests.differential.log_calls import batch, made, until
from tests.differential.moves import versions
from tests.differential.permission_calls import CLUSTER, NAMES, OPERATIONS, TABLE, fields_of, filter_of, rule
from tests.differential.tracing import Trace
from tests.support.requests import (
    add_partitions_fields,
    commit_fields,
    create_fields,
    fetch_fields,
    init_producer_fields,
    join_fields,
    of_transaction,
    offset_fetch_fields,
)

A, R = AclOperation, Resource
ALICE, BOB, ADMIN = "as alice", "as bob", "as admin"
EVERYTHING: dict[str, Any] = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
KINDS = {"topic": R.TOPIC, "group": R.GROUP, "cluster": R.CLUSTER, "id": R.TRANSACTIONAL_ID}


def _rules(t: Trace, *words: str, user: str = "User:alice") -> list[dict[str, Any]]:
    """Rules as ``READ topic orders``: an own thing begins with @, a prefix ends in …, - before it denies, and a host
    may stand behind.
    """
    rows = []
    for each in words:
        operation, kind, name, *host = each.split()
        if name.startswith("@"):
            name = t.name + name[1:]
        rows.append(
            rule(
                user,
                A[operation.removeprefix("-")],
                KINDS[kind],
                name.removesuffix("…"),
                is_prefix=name.endswith("…"),
                host=host[0] if host else "*",
                denies=operation.startswith("-"),
            )
        )
    return rows


def allow(t: Trace, *words: str, user: str = "User:alice") -> None:
    """The rules from now on, once they are in force: there are no others."""
    t.ask(ApiKey.DELETE_ACLS, 3, filters=[EVERYTHING])
    until(lambda: not t.ask(ApiKey.DESCRIBE_ACLS, 3, **EVERYTHING).resources)
    wanted = _rules(t, *words, user=user)
    if wanted:
        answer = t.ask(ApiKey.CREATE_ACLS, 3, creations=wanted)
        assert not any(row.error_code for row in answer.results), answer
        until(lambda: all(t.ask(ApiKey.DESCRIBE_ACLS, 3, **filter_of(row)).resources for row in wanted))
    t.note(f"allowed: {words}", None)


def things(t: Trace) -> tuple[str, str]:
    """Two topics, and offsets in a group."""
    orders, pay = made(t, "orders", 3), made(t, "pay.in")
    for topic in t.ask(ApiKey.METADATA, 12, topics=[{"name": orders}, {"name": pay}]).topics:
        t.topic_ids[topic.name] = topic.topic_id
    rows = [(orders, 0, 5), (pay, 0, 7)]
    answer = t.ask(ApiKey.OFFSET_COMMIT, 8, **commit_fields(t.name, rows))
    assert not any(row.error_code for topic in answer.topics for row in topic.partitions), answer
    return orders, pay


def metadata(t: Trace, who: str, version: int, *names: str, create: bool = False, **ids: Any) -> Any:
    topics = [{"name": name} for name in names] + [{"name": None, "topic_id": one} for one in ids.values()]
    more = {"include_cluster_authorized_operations": version < 11} if version >= 8 else {}
    more |= {"include_topic_authorized_operations": True} if version >= 8 else {}
    return t.call(who, ApiKey.METADATA, version, topics=topics if names or ids else None if version else [],
                  allow_auto_topic_creation=create, **more)  # fmt: skip


def produce(t: Trace, who: str, *names: str, version: int = 9, acks: int = -1) -> None:
    rows = [{"name": name, "topic_id": t.id_of(name), "partition_data": [{"index": 0, "records": batch()}]}
            for name in names]  # fmt: skip
    t.call(who, ApiKey.PRODUCE, version, acks=acks, timeout_ms=5000, topic_data=rows, transactional_id=None)


def trace_secured_rules_decide(t: Trace) -> None:
    """20.5: 48, 49, 51."""
    orders, pay = things(t)

    def see(*who: str) -> None:
        for each in who or (ALICE,):
            metadata(t, each, 9, orders, pay)
            t.call(each, ApiKey.FETCH, 11, **fetch_fields(pay))
            produce(t, each, orders, pay)
            t.call(each, ApiKey.INIT_PRODUCER_ID, 4, **init_producer_fields(None))

    allow(t, "-READ topic @-pay.…", "ALL topic @-pay.in")
    see()
    allow(t, "READ topic @-orders 127.0.0.1", "READ topic @-pay.in 127.0.0.2")
    see(ALICE, f"{ALICE}@127.0.0.2", BOB)
    for words in (
        ("-WRITE topic *", "WRITE topic @-orders"),
        ("WRITE topic @-ord…", "-WRITE topic @…"),
        ("WRITE topic @-orders", "-WRITE topic @…"),
        ("WRITE topic @-orders", "-WRITE topic @-orders"),
        ("WRITE topic @-ord…", "-WRITE topic @-orders"),
        ("WRITE topic *", "-WRITE topic @-orders"),
        ("ALL topic @-orders", "-DESCRIBE topic @-orders"),
        ("-ALL topic @-orders", "WRITE topic @-orders"),
        ("DESCRIBE topic *", "CREATE topic *"),
        ("ALTER_CONFIGS topic *", "DELETE topic @-pay…"),
        ("READ topic @-orders",),
        ("IDEMPOTENT_WRITE cluster kafka-cluster",),
        ("WRITE cluster kafka-cluster",),
    ):
        allow(t, *words)
        see()
    allow(t, "-ALL topic *", "-ALL cluster kafka-cluster", user="User:*")
    see(ALICE, ADMIN)
    allow(t, "ALL topic @…", user="User:*")
    see(ALICE, BOB)
    allow(t, "ALL topic @…", user="Group:alice")
    see(ALICE)
    allow(t)


def trace_secured_nothing(t: Trace) -> None:
    """20.6: 53, 54; every request of the table by somebody who may do nothing."""
    orders, pay = things(t)
    allow(t)
    for version in versions(ApiKey.METADATA):
        metadata(t, ALICE, version)
        metadata(t, ALICE, version, orders, f"{t.name}-nothere", pay)
        if version >= 12:
            metadata(t, ALICE, version, known=t.id_of(orders), nobodys=t.id_of("nobody"))
    for title, row in TABLE.items():
        if row.key in (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS):
            continue  # to change rules is for others; and Kafka never answers who may not see the credentials of all
        for version in versions(row.key):
            if version in row.of:
                names = {name: t.name + own[1:] for name, own in NAMES.items()}
                fields = fields_of(t, row, [orders, f"{t.name}-nothere", pay], names)
                t.note(title, None)
                t.call(ALICE, row.key, version, **fields | OPERATIONS.get(row.key, {}))


def trace_secured_producing(t: Trace) -> None:
    """20.6: 55, 60."""
    orders, pay = things(t)
    allow(t, "WRITE topic @-orders", "WRITE id @-t")
    for version in (3, 9, 12, 13):
        produce(t, ALICE, pay, orders, f"{t.name}-nothere", version=version)
    t.call(ALICE, ApiKey.INIT_PRODUCER_ID, 4, **init_producer_fields(None))
    t.call(ALICE, ApiKey.INIT_PRODUCER_ID, 4, **init_producer_fields(f"{t.name}-u"))
    told = t.call(ALICE, ApiKey.INIT_PRODUCER_ID, 4, **init_producer_fields(f"{t.name}-t"))
    who = of_transaction(f"{t.name}-t", (told.producer_id, told.producer_epoch))
    for rows in (
        [(orders, 0), (pay, 0)],
        [(pay, 0)],
        [(orders, 9), (pay, 0)],
        [("__consumer_offsets", 0), (orders, 0)],
    ):
        t.call(ALICE, ApiKey.ADD_PARTITIONS_TO_TXN, 3, **add_partitions_fields(who, rows))
    t.call(ADMIN, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[f"{t.name}-t"])
    t.call(ALICE, ApiKey.ADD_OFFSETS_TO_TXN, 3, **who | {"group_id": t.name})
    t.call(ALICE, ApiKey.ADD_PARTITIONS_TO_TXN, 3, **add_partitions_fields(who, [(orders, 0)]))
    t.call(ALICE, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[f"{t.name}-t", f"{t.name}-u"])
    allow(t, "WRITE id @-t")
    t.call(ALICE, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[f"{t.name}-t"])
    t.call(ALICE, ApiKey.LIST_TRANSACTIONS, 1)
    t.call(ALICE, ApiKey.END_TXN, 3, **who | {"committed": False})
    produce(t, ALICE, pay, orders, acks=0)


def trace_secured_consuming(t: Trace) -> None:
    """20.6: 56, 57, 58."""
    orders, pay = things(t)
    allow(t, "READ topic @-orders", "READ group @")
    for version in versions(ApiKey.OFFSET_COMMIT):
        rows = [(pay, 0, 1), (orders, 0, 1), (f"{t.name}-nothere", 0, 1), (orders, 99, 1)]
        t.call(ALICE, ApiKey.OFFSET_COMMIT, version, **commit_fields(t.name, rows, name=t.named))
    for version in versions(ApiKey.OFFSET_FETCH):
        wanted = {pay: [0], orders: [0, 7], f"{t.name}-nothere": [0]}
        t.call(ALICE, ApiKey.OFFSET_FETCH, version, **offset_fetch_fields([t.name], wanted, name=t.named))
        if version >= 2:
            groups = [t.name, f"{t.name}h"] if version >= 8 else [t.name]
            t.call(ALICE, ApiKey.OFFSET_FETCH, version, **offset_fetch_fields(groups, None))
    allow(t, "READ topic @-orders")
    for version in versions(ApiKey.JOIN_GROUP):
        t.call(ALICE, ApiKey.JOIN_GROUP, version, **join_fields(t.name))
    for version in versions(ApiKey.FIND_COORDINATOR):
        for kind in (0, 1) if version else (0,):
            keys = [t.name, f"{t.name}-t"]
            t.call(ALICE, ApiKey.FIND_COORDINATOR, version, key=keys[0], coordinator_keys=keys, key_type=kind)
    allow(t, "DESCRIBE group @")
    for version in versions(ApiKey.LIST_GROUPS):
        t.call(ALICE, ApiKey.LIST_GROUPS, version)
    for version in versions(ApiKey.DESCRIBE_GROUPS):
        t.call(ALICE, ApiKey.DESCRIBE_GROUPS, version, groups=[f"{t.name}h", t.name],
               include_authorized_operations=version >= 3)  # fmt: skip
    t.call(ALICE, ApiKey.HEARTBEAT, 3, group_id=t.name, member_id="m", generation_id=1)
    for version in versions(ApiKey.DELETE_GROUPS):
        t.call(ALICE, ApiKey.DELETE_GROUPS, version, groups_names=[t.name, f"{t.name}h", t.name])


def trace_secured_topics(t: Trace) -> None:
    """20.6: 59, 61."""
    orders, pay = things(t)
    allow(t, "CREATE topic @-tmp.…")
    for version in versions(ApiKey.CREATE_TOPICS):
        wanted = create_fields({f"{t.name}-tmp.{version}": 1, f"{t.name}-other": 1})
        t.call(ALICE, ApiKey.CREATE_TOPICS, version, **wanted)
    allow(t, "CREATE topic @-tmp.…", "DESCRIBE_CONFIGS topic @-tmp.…")
    t.call(ALICE, ApiKey.CREATE_TOPICS, 7, **create_fields({f"{t.name}-tmp.x": 1}), validate_only=True)
    allow(t, "DESCRIBE topic *")
    metadata(t, ALICE, 9, orders, f"{t.name}-other", create=True)
    allow(t, "DELETE topic @-orders", "DESCRIBE topic @-there")
    absent, seen = f"{t.name}-nothere", f"{t.name}-there"
    for version in versions(ApiKey.DELETE_TOPICS):
        names = [absent, pay, seen]
        rows: list[dict[str, Any]] = [{"name": name} for name in names]
        if version >= 6:
            rows += [{"name": None, "topic_id": t.id_of(pay)}, {"name": None, "topic_id": t.id_of("nobody")}]
        t.call(ALICE, ApiKey.DELETE_TOPICS, version, topic_names=names, topics=rows, timeout_ms=10_000)
    t.call(ALICE, ApiKey.DELETE_TOPICS, 5, topic_names=[orders], timeout_ms=10_000)
    allow(t, f"DELETE topic {pay}", f"-DESCRIBE topic {pay}")
    t.call(ALICE, ApiKey.DELETE_TOPICS, 6, topics=[{"name": pay}], timeout_ms=10_000)
    row = {"name": None, "topic_id": t.id_of(pay)}
    t.call(ALICE, ApiKey.DELETE_TOPICS, 6, topics=[row], timeout_ms=10_000)


def trace_secured_cluster(t: Trace) -> None:
    """20.6: 62, 63."""
    orders, _ = things(t)
    broker = {"resource_type": 4, "resource_name": "1", "configuration_keys": ["sasl.jaas.config", "num.partitions"]}
    topic = {"resource_type": 2, "resource_name": orders, "configuration_keys": ["retention.ms"]}
    quota = {"ops": [{"key": "producer_byte_rate", "value": 1e9}]}
    entries = [quota | {"entity": [{"entity_type": "user", "entity_name": name}]} for name in ("x", "y")]
    for operation in ("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "DESCRIBE", "ALTER", "CREATE", "CLUSTER_ACTION"):
        allow(t, f"{operation} cluster {CLUSTER}", "READ topic @-orders")
        t.call(ALICE, ApiKey.DESCRIBE_CONFIGS, 4, resources=[topic, broker])
        t.call(ALICE, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[])
        t.call(ALICE, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=True)
        for version in range(8, 13):
            metadata(t, ALICE, version, orders, f"{t.name}-nothere")
        for version in versions(ApiKey.DESCRIBE_CLUSTER):
            for wanted in (False, True):
                t.call(ALICE, ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=wanted)
        t.call(ALICE, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": orders}], response_partition_limit=9,
               cursor=None)  # fmt: skip
    allow(t)


def trace_secured_rules_taken_back(t: Trace) -> None:
    """20.5: 52; a fetch session goes on with what its reader may read by then."""
    orders, pay = things(t)
    produce(t, ADMIN, orders, pay)
    rows = [{"topic": name, "partitions": [{"partition_max_bytes": 1 << 20}]} for name in (orders, pay)]
    for words in (("READ topic @-orders",), ("READ topic @-orders", "READ topic @-pay.in")):
        allow(t, *words)
        wanted = fetch_fields(orders) | {"topics": rows, "session_epoch": 0}
        session_id = t.call(ALICE, ApiKey.FETCH, 11, **wanted).session_id
        for epoch, then in enumerate((words, (), ("READ topic @-pay.in",), ("-READ topic *",), words, words), 1):
            allow(t, *then)
            t.call(ALICE, ApiKey.FETCH, 11, **wanted | {"topics": [], "session_id": session_id, "session_epoch": epoch})
    allow(t)


def trace_lenient_where_no_rule_is(t: Trace) -> None:
    """20.5: 50."""
    orders, pay = things(t)
    for words in (
        (),
        ("READ topic @-orders",),
        ("-READ topic @-orders",),
        ("WRITE topic @-ord…",),
        ("-ALL topic @-ord…", "DESCRIBE topic @-orders"),
        ("READ topic hardcode",),
        ("READ topic @-orders", "READ topic *"),
        ("READ group @",),
        ("-ALL group @…",),
        ("READ id @",),
        (f"IDEMPOTENT_WRITE cluster {CLUSTER}",),
        (f"-CREATE cluster {CLUSTER}", "READ topic hardcode"),
    ):
        allow(t, *words, user="User:bob")
        for who in (ALICE, BOB):
            metadata(t, who, 9, orders, pay)
            metadata(t, who, 9)
            t.call(who, ApiKey.FETCH, 11, **fetch_fields(orders))
            produce(t, who, orders, pay)
            t.call(who, ApiKey.INIT_PRODUCER_ID, 4, **init_producer_fields(None))
            t.call(who, ApiKey.INIT_PRODUCER_ID, 4, **init_producer_fields(t.name))
            t.call(who, ApiKey.DESCRIBE_GROUPS, 5, groups=[t.name], include_authorized_operations=True)
            t.call(who, ApiKey.LIST_GROUPS, 4)
            t.call(who, ApiKey.OFFSET_FETCH, 7, **offset_fetch_fields([t.name], None))
            t.call(who, ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=True)
    allow(t)


def trace_waiting_without_an_authorizer(t: Trace) -> None:
    """20.6: 64."""
    rows = _rules(t, "READ topic @", "READ group @")
    for version in range(1, 4):
        t.call("admin", ApiKey.DESCRIBE_ACLS, version, **EVERYTHING)
        t.call("admin", ApiKey.CREATE_ACLS, version, creations=rows)
        t.call("admin", ApiKey.DELETE_ACLS, version, filters=[EVERYTHING, filter_of(rows[0])])
