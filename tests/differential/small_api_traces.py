"""Directories, pages of topics, elections, reassignments and features, as far as one node has them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.protocol.apis import ApiKey
from tests.differential.log_calls import WHO, batch, made, pages, produce
from tests.differential.tracing import Trace


def trace_describe_log_dirs(t: Trace) -> None:
    name = made(t, count=3)
    produce(t, name, batch(3))
    produce(t, name, batch(1, value=b"v" * 1000), partition=2)
    for version in range(1, 6):
        for wanted in (
            None,
            [],
            [(name, [0])],
            [(name, [2, 0, 0]), (name, [1])],
            [(name, [7, -1])],
            [(name, [])],
            [(f"{t.name}-absent", [0]), (name, [2])],
        ):
            topics = None if wanted is None else [{"topic": n, "partitions": p} for n, p in wanted]
            t.call(WHO, ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics)


def trace_alter_replica_log_dirs(t: Trace) -> None:
    """Only to directories that there are not: the two brokers live in different ones."""
    name = made(t, count=3)
    wanted: list[list[tuple[str, str, list[int]]]] = [
        [],
        [("/nowhere", name, [0])],
        [("/nowhere", name, [2, 0, 0, 7]), ("", name, [1])],
        [("/nowhere", f"{t.name}-absent", [0]), ("/nowhere", name, [])],
        [("/nowhere", f"{name}{'n' * (213 - len(name))}", [0, 10])],
        [("/nowhere", f"{name}{'n' * (214 - len(name))}", [0])],
    ]
    for version in (1, 2):
        for rows in wanted:
            dirs = [{"path": path, "topics": [{"name": topic, "partitions": which}]} for path, topic, which in rows]
            t.call(WHO, ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)


def trace_describe_topic_partitions(t: Trace) -> None:
    a, b, c = made(t, "a", 3), made(t, "b", 2), made(t, "c", 1)
    absent = f"{t.name}-absent"
    pages(t, a)
    pages(t, c, a, b, a)
    pages(t, absent, a)
    pages(t, "a b", ".", "__transaction_state_not", a)
    for limit in (1, 2, 3, 4, 5, 6, 7, 0, -1, 1 << 30):
        pages(t, a, b, c, limit=limit)
        pages(t, absent, a, b, limit=limit)
    for at in ((a, 0), (a, 1), (a, 2), (a, 3), (a, 9), (b, 0), (f"{t.name}-aa", 1), (absent, 2), ("", 1), ("zzz", 0)):
        for limit in (1, 2, 2000):
            pages(t, a, b, c, limit=limit, cursor=at)
            pages(t, absent, a, limit=limit, cursor=at)
    pages(t, a, b, cursor=(a, -1))
    pages(t, cursor=(a, -1))
    pages(t, cursor=("zzz", 0))
    pages(t, limit=2, cursor=(f"{t.name}-aa", 1))
    pages(t, limit=3, cursor=(a, 1))
    pages(t, limit=5, cursor=(a, 1))


def elect(t: Trace, wanted: Sequence[tuple[str, list[int]]] | None, version: int, kind: int = 0) -> None:
    rows = None if wanted is None else [{"topic": name, "partitions": indexes} for name, indexes in wanted]
    t.call(WHO, ApiKey.ELECT_LEADERS, version, topic_partitions=rows, timeout_ms=10_000, election_type=kind)


def trace_elect_leaders(t: Trace) -> None:
    name = made(t, count=2)
    for version in range(3):
        for kind in (0, 1, 2, -1) if version else (0,):
            elect(t, None, version, kind)
            elect(t, [], version, kind)
            elect(t, [(name, [0, 1])], version, kind)
            elect(t, [(name, [1, 0, 1, 7, -1]), (f"{t.name}-absent", [0]), (name, [])], version, kind)
            elect(t, [("__consumer_offsets", [0]), ("", [0])], version, kind)


def trace_partition_reassignments(t: Trace) -> None:
    name = made(t, count=2)
    (told,) = t.ask(ApiKey.METADATA, 12, topics=[{"name": name}]).topics
    home = next(row.leader_id for row in told.partitions if row.partition_index == 0)
    for wanted in (None, [], [(name, [0, 1])], [(name, [7])], [(name, [])], [(f"{t.name}-absent", [0])], [("", [0])]):
        topics = wanted and [{"name": n, "partition_indexes": p} for n, p in wanted]
        t.call(WHO, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=topics, timeout_ms=10_000)
    for version in range(2):
        for may_change in (True, False) if version else (True,):
            reassign(t, version, may_change)
            reassign(t, version, may_change, (name, []))
            for replicas in ([home], None, [], [9], [home, 9], [9, home], [home] * 2, [9, 9], [-1], [home, -1]):
                for where in (name, f"{t.name}-absent", ""):
                    for partition in (0, 5, -1):
                        reassign(t, version, may_change, (where, [(partition, replicas)]))
            reassign(t, version, may_change, (name, [(0, [home]), (1, None), (0, [9])]), (name, [(0, [home])]))
    t.call(WHO, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout_ms=10_000)


def reassign(t: Trace, version: int, may_change: bool, *wanted: tuple[str, list[tuple[int, list[int] | None]]]) -> None:
    topics = [
        {"name": name, "partitions": [{"partition_index": index, "replicas": replicas} for index, replicas in rows]}
        for name, rows in wanted
    ]
    fields = {"topics": topics, "timeout_ms": 10_000, "allow_replication_factor_change": may_change}
    t.call(WHO, ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, **fields)


def features(t: Trace, version: int, *wanted: tuple[str, int] | tuple[str, int, int], **options: int) -> None:
    updates = [
        {
            "feature": name,
            "max_version_level": level,
            "allow_downgrade": version == 0 and kinds != () and kinds[0] != 1,
            "upgrade_type": kinds[0] if version and kinds else 1,
        }
        for name, level, *kinds in wanted
    ]
    t.call(WHO, ApiKey.UPDATE_FEATURES, version, feature_updates=updates, **options)


def trace_update_features(t: Trace) -> None:
    """Nothing that changes a feature in Kafka: what other traces see is the same whenever this one runs."""
    mine = "transaction.version"
    for version in range(3):
        features(t, version)
        for timeout in (0, -1, -(2**31), 2**31 - 1):
            features(t, version, (mine, 2), timeout_ms=timeout)
        for name in (mine, "nobody.has.this", ""):
            for level in (-(2**15), -1, 0, 1, 2, 3, 2**15 - 1):
                for kind in (1, 0, 4, -1):
                    features(t, version, (name, level, kind))
                if name != mine or level >= 2:
                    features(t, version, (name, level, 2))
                    features(t, version, (name, level, 3))
        features(t, version, (mine, 2), (mine, 2))
        features(t, version, (mine, 3), (mine, 2))
        features(t, version, (mine, 2), (mine, 3))
        features(t, version, (mine, 2), ("nobody.has.this", 1))
        if version:
            for level in (1, 2, 3):
                features(t, version, (mine, level), validate_only=True)
