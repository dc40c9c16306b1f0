"""Apache Kafka and Ottla with the same settings, ready for traces."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.groups import coordinator_partition
from ottla.testing import BrokerProcess
from tests.differential.calls import GROUP_PARTITIONS, TOPIC
from tests.differential.real_kafka import RealKafka, free_row, listeners
from tests.differential.several import Nodes, Ways
from tests.differential.tracing import Trace
from tests.differential.txn_calls import TRANSACTION_PARTITIONS
from tests.differential.users import DELAY_MS, LIFETIME_MS, OF_SCRAM, SUPER_USERS, jaas, scram_credentials
from tests.support.requests import create_fields
from tests.support.rules import WITH_RULES
from tests.support.waiting import wait_for

# What both brokers are started with. "prompt": a group's first generation forms at once; "waiting": it does not.
# "guarded": there are credentials and access control rules, and everybody may do everything nevertheless.
# "secured": there is a second listener, where users log in who may do what rules allow. "lenient": all may do what no
# rule is about; who fails to log in need not wait; and sessions of SCRAM end.
COMMON = {
    "node.id": 1,
    "group.min.session.timeout.ms": 300,
    "group.max.session.timeout.ms": 1_800_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.assignors": "range,uniform",
    "offsets.topic.num.partitions": GROUP_PARTITIONS,
    "transaction.state.log.num.partitions": TRANSACTION_PARTITIONS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "num.partitions": 2,
    "log.cleaner.backoff.ms": 200,
    "log.message.timestamp.after.max.ms": 3_600_000,
    "offset.metadata.max.bytes": 64,
    # Topics that come and go cost Kafka little with these.
    "log.index.size.max.bytes": 65_536,
    "log.segment.delete.delay.ms": 1_000,
    # What Kafka does not have.
    "ottla.group.events.enable": "false",
    "ottla.offsets.topic.min.compaction.lag.ms": 0,
}
# Of Kafka alone: answers leave in the order in which requests came.
QUIET: dict[str, object] = {
    "num.io.threads": 1,
    "log.initial.task.delay.ms": 1_000,
}
SECURED = (
    COMMON
    | WITH_RULES
    | {
        "group.initial.rebalance.delay.ms": 0,
        "super.users": ";".join(["User:ANONYMOUS", *SUPER_USERS]),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(),
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": OF_SCRAM,
        "connection.failed.authentication.delay.ms": DELAY_MS,
    }
)
PROFILES: dict[str, dict[str, object]] = {
    "prompt": COMMON | {"group.initial.rebalance.delay.ms": 0},
    "waiting": COMMON
    | {"group.initial.rebalance.delay.ms": 600, "group.max.size": 2, "group.consumer.migration.policy": "upgrade"},
    "guarded": COMMON | WITH_RULES,
    "secured": SECURED,
    "lenient": SECURED
    | {
        "allow.everyone.if.no.acl.found": "true",
        "connection.failed.authentication.delay.ms": 0,
        "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": LIFETIME_MS,
    },
}


class Beside(BrokerProcess):
    """Ottla with the listeners of its settings, on ports like those of Kafka."""

    def __init__(self, settings: Mapping[str, object], nodes: int | None = None) -> None:
        super().__init__(settings={**settings, "listeners": listeners(free_row(), settings)}, nodes=nodes)


@contextmanager
def brokers(profile: str, nodes: int | None = None) -> Iterator[tuple[int, int]]:
    """The ports of Apache Kafka and of Ottla, which may be so many `Nodes`."""
    settings = PROFILES[profile]
    with RealKafka(QUIET | settings) as kafka, Beside(settings, nodes) as ottla:
        ports = kafka.port, ottla.port
        if nodes:
            ways = Ways(ottla.port)
            ports = Nodes([kafka.port] * nodes, ways), Nodes(range(ottla.port, ottla.port + nodes), ways)
        for port in ports:
            prepare(port, settings)
        yield ports


def prepare(port: int, settings: Mapping[str, object]) -> None:
    """The topic of the group traces, a coordinator that is there and loaded, and users where there is SASL."""
    trace = Trace(port, "prepare")
    fields = create_fields({TOPIC: 3})
    _until(lambda: trace.ask(ApiKey.CREATE_TOPICS, 5, **fields).topics[0].error_code in (0, 36))
    late: dict[str, Any] = {"transaction_timeout_ms": 1000}
    calls = [(ApiKey.INIT_PRODUCER_ID, 1, late | {"transactional_id": None})]
    for name in _one_of_each(GROUP_PARTITIONS):
        calls.append((ApiKey.FIND_COORDINATOR, 2, {"key": name}))
        calls.append((ApiKey.OFFSET_FETCH, 5, {"group_id": name, "topics": []}))
    for name in _one_of_each(TRANSACTION_PARTITIONS):
        calls.append((ApiKey.FIND_COORDINATOR, 2, {"key": name, "key_type": 1}))
        calls.append((ApiKey.INIT_PRODUCER_ID, 1, late | {"transactional_id": name}))
    for key, version, fields in calls:
        ask = partial(trace.ask, key, version, **fields)
        _until(lambda ask=ask: ask().error_code == 0)
    if "sasl.enabled.mechanisms" in settings:
        trace.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, upsertions=scram_credentials())
    trace.close()


def _one_of_each(count: int) -> list[str]:
    """Ids that belong to all the partitions of a coordinator's topic."""
    found: dict[int, str] = {}
    for number in itertools.count():
        if len(found) == count:
            break
        found.setdefault(coordinator_partition(f"prepare-{number}", count), f"prepare-{number}")
    return list(found.values())


def _until(check: Callable[[], bool]) -> None:
    wait_for(check, "a broker to become ready", timeout_s=30, pause_s=0.1)
