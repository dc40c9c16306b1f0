"""Creating, growing, deleting and describing topics."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.apis import ApiKey
from tests.differential.calls import TOPIC, commit_alone, fetch
from tests.differential.log_calls import (
    WHO,
    change,
    configs,
    create,
    delete,
    grow,
    made,
    metadata,
    topic,
    wait_for,
)
from tests.differential.tracing import Trace


def trace_create_topics(t: Trace) -> None:
    for version in range(2, 8):
        name = f"{t.name}-{version}"
        if version < 7:  # Kafka makes up a topic id even here
            create(t, topic(name, 2), version=version, only_check=True)
        create(t, topic(name, 2), version=version)
        create(t, topic(name, 2), version=version)
        create(t, topic(name, 2), version=version, only_check=True)
        create(t, topic(f"{name}-n", -1, -1), version=version)
    create(t)


def trace_create_topics_refused(t: Trace) -> None:
    a = f"{t.name}-a"
    for only_check in (True, False):
        for bad in ("", ".", "..", "a b", "a/b", "x" * 250, "é", "a\0"):
            create(t, topic(bad), only_check=only_check)
        create(t, topic(a, 0), only_check=only_check)
        create(t, topic(a, -2), only_check=only_check)
        create(t, topic(a, 1, 0), only_check=only_check)
        create(t, topic(a, 1, -2), only_check=only_check)
        create(t, topic(a, 1, 2), only_check=only_check)
        create(t, topic(a, 0, 0), only_check=only_check)
        create(t, topic(a), topic(a), topic(f"{a}b", 0), only_check=only_check)
        create(t, topic(a, 2, -1, assigned={0: [1]}), only_check=only_check)
        create(t, topic(a, -1, 2, assigned={0: [1]}), only_check=only_check)
        create(t, topic(a, -1, -1, assigned={0: [9]}), only_check=only_check)
        create(t, topic(a, -1, -1, assigned={0: []}), only_check=only_check)
        create(t, topic(a, -1, -1, assigned={0: [1, 1]}), only_check=only_check)
        create(t, topic(a, -1, -1, assigned={1: [1]}), only_check=only_check)
        create(t, topic(a, -1, -1, assigned={0: [1], 2: [1]}), only_check=only_check)
        create(t, topic(a, -1, -1, assigned={0: [-1]}), only_check=only_check)
        for key, value in (
            ("nonsense", "1"),
            ("retention.ms", "x"),
            ("retention.ms", "-2"),
            ("retention.ms", None),
            ("cleanup.policy", "shrink"),
            ("compression.type", "rar"),
            ("max.message.bytes", "-1"),
            ("segment.bytes", "10"),
            ("min.insync.replicas", "0"),
            ("message.timestamp.type", "Never"),
        ):
            create(t, topic(a, configs={key: value}), only_check=only_check)
    create(t, topic(TOPIC), topic("__consumer_offsets"))


def trace_create_topics_with_assignments(t: Trace) -> None:
    create(t, topic(f"{t.name}-a", -1, -1, assigned={0: [1], 1: [1]}), version=7)
    create(t, topic(f"{t.name}-b", -1, -1, assigned={1: [1], 0: [1]}), version=5)
    metadata(t, 8, f"{t.name}-a", f"{t.name}-b")


def trace_colliding_names(t: Trace) -> None:
    create(t, topic(f"{t.name}-a.b"))
    create(t, topic(f"{t.name}-a_b"))


def trace_create_partitions(t: Trace) -> None:
    name = made(t, count=2)
    for version in range(4):
        grow(t, change(name, 2), version=version)
        grow(t, change(name, 1), version=version)
        grow(t, change(name, 0), version=version)
        grow(t, change(name, -1), version=version)
        grow(t, change(f"{t.name}-absent", 3), version=version)
        grow(t, change(name, 3), change(name, 4), version=version)
        grow(t, change("", 3), version=version)
        grow(t, change(name, 3 + version), version=version, only_check=True)
        grow(t, change(name, 3 + version, [[9]]), version=version)
        grow(t, change(name, 3 + version, []), version=version)
        grow(t, change(name, 3 + version, [[1], [1]]), version=version)
        grow(t, change(name, 3 + version, [[]]), version=version)
        grow(t, change(name, 3 + version, [[1, 1]]), version=version)
        grow(t, change(name, 3 + version, [[1]]), version=version)
    t.settle(200)
    metadata(t, 8, name)


def trace_delete_topics(t: Trace) -> None:
    for version in range(1, 7):
        a, b = made(t, f"a{version}"), made(t, f"b{version}")
        commit_alone(t, offsets=[(a, 0, 5)])
        if version < 6:
            for names in ([f"{t.name}-absent", ""], [a, a, b], [], [a]):
                delete(t, *names, version=version)
        else:
            for states in (
                [{"name": f"{t.name}-absent"}, {"name": ""}],
                [{"name": None, "topic_id": UUID(int=77)}],
                [{"name": None}],
                [{"name": a, "topic_id": UUID(int=77)}],
                [{"name": a}, {"name": a}],
                [{"name": a}, {"name": b}],
            ):
                t.call(WHO, ApiKey.DELETE_TOPICS, version, topics=states, timeout_ms=10_000)
        wait_for(t, b, gone=True)
        metadata(t, 8, b)
        t.settle(200)
        fetch(t, wanted={a: [0]})
        commit_alone(t, offsets=[(b, 0, 5)])


def trace_metadata(t: Trace) -> None:
    name = made(t, count=2)
    found = metadata(t, 10, name)
    topic_id = found.topics[0].topic_id
    for version in range(13):
        metadata(t, version, name)
        metadata(t, version, name, name)
        if version >= 4:  # before that, asking creates
            metadata(t, version, f"{t.name}-absent", "", "a b", "x" * 250, name)
        metadata(t, version, everything=True) if version else metadata(t, version)
        if version:
            metadata(t, version)
        metadata(t, version, "__consumer_offsets", "", "a b")
        if version >= 8:
            metadata(t, version, name, f"{t.name}-absent", operations=True)
        if version >= 12:
            metadata(t, version, ids=[topic_id])
            metadata(t, version, ids=[UUID(int=77)])


def trace_auto_creation(t: Trace) -> None:
    for version in (4, 8, 12):
        name = f"{t.name}-auto{version}"
        metadata(t, version, name)
        metadata(t, version, name, create=True)
        t.transcript.pop()  # Kafka says that it is unknown, we create it first
        wait_for(t, name)
        metadata(t, version, name, create=True)
        metadata(t, version, f"{t.name} bad", "", create=True)


def trace_describe_cluster(t: Trace) -> None:
    for version in range(2):
        for operations in (False, True):
            t.call(WHO, ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=operations)
    t.call(WHO, ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=2)
    t.call(WHO, ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=3)


def trace_describe_configs(t: Trace) -> None:
    name = made(t, cleanup_policy="compact", retention_ms="1000", max_message_bytes="2000")
    for version in range(1, 5):
        configs(t, 2, name, ["cleanup.policy", "retention.ms", "max.message.bytes", "segment.bytes"], version)
        configs(t, 2, name, ["nonsense"], version)
        configs(t, 2, name, ["retention.ms"], version, include_synonyms=True)
        configs(t, 2, name, ["min.insync.replicas"], version, include_synonyms=True)
        configs(t, 2, f"{t.name}-absent", None, version)
        configs(t, 2, "", None, version)
        configs(t, 2, "a b", None, version)
        configs(t, 3, name, None, version)
        configs(t, 4, "77", ["node.id"], version)
        configs(t, 4, "x", ["node.id"], version)
        configs(t, 8, "x", None, version)
        configs(t, 4, "1", ["advertised.listeners.nonsense"], version)
        configs(t, 4, "1", ["node.id", "group.initial.rebalance.delay.ms", "offsets.topic.num.partitions"], version)
    t.call(WHO, ApiKey.DESCRIBE_CONFIGS, 4, resources=[])


def trace_describe_configs_of_a_topic(t: Trace) -> None:
    configs(t, 2, made(t), None)
    configs(t, 2, made(t, "b"), [])
