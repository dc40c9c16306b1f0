"""Quotas of clients: what may be set, what is described, and who has to wait for how long."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from ottla.protocol.apis import ApiKey
from tests.differential import log_calls
from tests.differential.log_calls import alter
from tests.differential.tracing import Trace
from tests.differential.wire import Wire, plain
from tests.support.requests import create_fields, fetch_fields, produce_fields, request

WHO = "client"
EXACT, DEFAULT, SPECIFIED = range(3)
SEEN_MS = 100
"""By then a change has reached all of Kafka."""

Entity = Mapping[str, str | None]
Op = tuple[str, float | None]

USER, CLIENT, IP = "user", "client-id", "ip"
PRODUCED, FETCHED, SPENT, MUTATED = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"
)  # fmt: skip
CONNECTED = "connection_creation_rate"


def by_name(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


def noted(t: Trace, what: str, key: ApiKey, version: int, lists: tuple[str, ...], **fields: Any) -> Any:
    """Ask, and note the answer with its lists in order."""
    answer = t.ask(key, version, _who=WHO, **fields)
    t.answers += 1
    value = plain(answer)
    if isinstance(value, dict):
        value = t.tidy(key, value)
        for name in lists:
            rows = value[name]
            for row in rows or ():
                for inner in ("entity", "values", "matching_acls", "acls", "credential_infos"):
                    if inner in row:
                        row[inner] = by_name(row[inner])
            value[name] = None if rows is None else by_name(rows)
    t.note(f"{what} {key.name} v{version}", value)
    return answer


def change(t: Trace, *entries: tuple[Entity, list[Op]], version: int = 1, only_check: bool = False) -> None:
    rows = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
            "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops],
        }
        for entity, ops in entries
    ]
    noted(t, repr(entries)[:200], ApiKey.ALTER_CLIENT_QUOTAS, version, ("entries",), entries=rows,
          validate_only=only_check)  # fmt: skip
    t.settle(SEEN_MS)


def described(t: Trace, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> None:
    rows = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]
    noted(t, f"{components} {strict}", ApiKey.DESCRIBE_CLIENT_QUOTAS, version, ("entries",), components=rows,
          strict=strict)  # fmt: skip


def trace_quotas_set_and_removed(t: Trace) -> None:
    for version in range(2):
        for entity in ({USER: t.name}, {CLIENT: t.name}, {USER: t.name, CLIENT: t.name}):
            change(t, (entity, [(PRODUCED, 1e9), (FETCHED, 2e9), (SPENT, 150.5), (MUTATED, 1e6)]), version=version)
            described(t, version=version)
            change(t, (entity, [(PRODUCED, None), (FETCHED, 3e9)]), version=version)
            described(t, version=version)
            change(t, (entity, [(FETCHED, None), (SPENT, None), (MUTATED, None)]), version=version)
            described(t, version=version)
    change(t, ({IP: "10.1.2.3"}, [(CONNECTED, 5.0)]), ({IP: None}, [(CONNECTED, 1e6)]))
    described(t)
    change(t, ({IP: "10.1.2.3"}, [(CONNECTED, None)]), ({IP: None}, [(CONNECTED, None)]))
    described(t)


def trace_quotas_refused(t: Trace) -> None:
    name = t.name
    for entity in (
        {}, {"nonsense": name}, {USER: ""}, {CLIENT: ""}, {IP: ""}, {IP: name, USER: name}, {IP: name, CLIENT: name},
        {IP: None, CLIENT: None}, {USER: name, "group": name}, {IP: "no-such-host.invalid"},
    ):  # fmt: skip
        change(t, (entity, [(PRODUCED, 1e9)]))
    for ops in (
        [("nonsense", 1.0)], [("nonsense", None)], [(CONNECTED, 5.0)], [(PRODUCED, 0.0)], [(PRODUCED, -1.0)],
        [(PRODUCED, 1.5)], [(PRODUCED, 1000000.0000001)], [(SPENT, 0.0)], [(SPENT, math.inf)], [(PRODUCED, math.inf)],
        [(PRODUCED, 1e19)], [(PRODUCED, 9.223372036854775e18)], [(MUTATED, 0.25)], [(MUTATED, -0.25)],
        [(PRODUCED, 1e9), (PRODUCED, 2e9)], [(PRODUCED, 1e9), (PRODUCED, None)], [(PRODUCED, 1e9), (FETCHED, 0.0)], [],
    ):  # fmt: skip
        change(t, ({CLIENT: name}, ops))
        described(t)
    change(t, ({CLIENT: name}, [(key, None) for key in (PRODUCED, FETCHED, SPENT, MUTATED)]))
    for ops in ([(PRODUCED, 5.0)], [(CONNECTED, 1e10)], [(CONNECTED, 1.5)], [(CONNECTED, 0.0)], [(SPENT, 5.0)]):
        change(t, ({IP: "10.1.2.4"}, ops))
    described(t)


def trace_quotas_of_one_request(t: Trace) -> None:
    one, two = {CLIENT: f"{t.name}-1"}, {CLIENT: f"{t.name}-2"}
    change(t)
    change(t, (one, [(PRODUCED, 1e9)]), (two, [(PRODUCED, 0.0)]))
    described(t)
    change(t, (one, [(FETCHED, 1e9)]), (one, [(SPENT, 500.0)]))
    described(t)
    change(t, (two, [(FETCHED, 1e9)]), ({}, [(SPENT, 500.0)]), only_check=True)
    described(t)
    change(t, (one, [(PRODUCED, 1e9), (PRODUCED, 1e8)]), (one, [(SPENT, 400.0)]))
    described(t)
    for entity in (one, two):
        change(t, (entity, [(key, None) for key in (PRODUCED, FETCHED, SPENT)]))
    described(t)


def trace_quotas_described(t: Trace) -> None:
    entities: list[Entity] = [
        {USER: "u"}, {USER: "v"}, {USER: None}, {CLIENT: "c"}, {CLIENT: "d"}, {CLIENT: None}, {USER: "u", CLIENT: "c"},
        {USER: "u", CLIENT: None}, {USER: None, CLIENT: "c"}, {USER: None, CLIENT: None}, {IP: "10.0.0.1"}, {IP: None},
    ]  # fmt: skip
    change(t, *((entity, [(CONNECTED, 1e6)] if IP in entity else [(SPENT, 1e6)]) for entity in entities))
    matches = [(EXACT, "u"), (EXACT, "c"), (EXACT, "x"), (DEFAULT, None), (SPECIFIED, None)]
    for strict in (False, True):
        described(t, strict=strict)
        for kind in (USER, CLIENT, IP):
            for match_type, match in matches:
                described(t, (kind, match_type, match), strict=strict)
        described(t, (IP, EXACT, "10.0.0.1"), strict=strict)
        for match_type, match in matches:
            for other_type, other in matches:
                described(t, (USER, match_type, match), (CLIENT, other_type, other), strict=strict)
    for components in (
        [("", EXACT, "u")], [("nonsense", EXACT, "u")], [(USER, EXACT, None)], [(USER, DEFAULT, "u")],
        [(USER, SPECIFIED, "u")], [(USER, 3, "u")], [(USER, -1, None)], [(USER, EXACT, "")],
        [(USER, EXACT, "u"), (USER, EXACT, "v")], [(USER, EXACT, "u"), (USER, SPECIFIED, None)],
        [(IP, SPECIFIED, None), (USER, SPECIFIED, None)], [(IP, SPECIFIED, None), (CLIENT, DEFAULT, None)],
        [(USER, 7, "u"), ("nonsense", EXACT, "u")], [("nonsense", 7, "u")],
    ):  # fmt: skip
        for version in range(2):
            described(t, *components, version=version)
    change(t, *((entity, [(CONNECTED, None)] if IP in entity else [(SPENT, None)]) for entity in entities))
    described(t)


# ------------------------------------------------------------------------------------------------- who has to wait


def throttled(t: Trace, wire: Wire, key: ApiKey, version: int, exact: bool = True, **fields: Any) -> Any:
    """Ask on a connection of a client with a quota; note the answer, and for how long the client has to wait.

    That is ``exact`` for the first request of a client; afterwards it depends on the time between them.
    """
    answer = wire.ask(key, version, 30, **fields)
    t.answers += 1
    value = t.tidy(key, plain(answer))
    if not exact and isinstance(value, dict):
        value["throttle_time_ms"] = "some time" if value["throttle_time_ms"] else 0
    t.note(f"{key.name} v{version} of {wire.client_id and wire.client_id.replace(t.name, '@')}", value)
    return answer


def fresh(t: Trace, who: str) -> Wire:
    t.wires.append(t.connect(f"{t.name}-{who}"))
    return t.wires[-1]


def writing(topic: str, size: int, acks: int = -1) -> dict[str, Any]:
    """The fields of a Produce request with so large a record."""
    data = log_calls.batch(key=None, value=b"x" * size)
    return produce_fields(topic, data, acks=acks, timeout_ms=5000)


def produce(t: Trace, wire: Wire, topic: str, size: int, exact: bool = True) -> Any:
    return throttled(t, wire, ApiKey.PRODUCE, 9, exact, **writing(topic, size))


def fetch(t: Trace, wire: Wire, topic: str, session_id: int = 0, session_epoch: int = -1, *, exact: bool = True) -> Any:
    session = {"session_id": session_id, "session_epoch": session_epoch}
    fields = fetch_fields(topic, max_wait_ms=100, min_bytes=1, **session)
    return throttled(t, wire, ApiKey.FETCH, 12, exact, **fields)


def quota(t: Trace, who: str, key: str, value: float | None, **entity: str | None) -> None:
    change(t, (entity or {CLIENT: f"{t.name}-{who}"}, [(key, value)]))


def trace_quotas_of_produced_bytes(t: Trace) -> None:
    topic = log_calls.made(t)
    for size, rate in ((100_000, 1_000.0), (100_000, 9_000.0), (10_000, 1_500.0), (123_457, 7_777.0)):
        who = f"p{size}-{rate:.0f}"
        quota(t, who, PRODUCED, rate)
        produce(t, fresh(t, who), topic, size)
        quota(t, who, PRODUCED, None)


def trace_quotas_of_fetched_bytes(t: Trace) -> None:
    topic = log_calls.made(t)
    produce(t, fresh(t, "anybody"), topic, 60_000)
    for rate in (1_000.0, 5_500.0, 9_000.0):
        who = f"f{rate:.0f}"
        quota(t, who, FETCHED, rate)
        fetch(t, fresh(t, who), topic)
        fetch(t, fresh(t, who), topic, exact=False)
        quota(t, who, FETCHED, None)


def trace_quotas_of_fetch_sessions(t: Trace) -> None:
    topic = log_calls.made(t)
    produce(t, fresh(t, "anybody"), topic, 60_000)
    quota(t, "s", FETCHED, 1_000.0)
    fetch(t, fresh(t, "s"), topic, session_epoch=0, exact=False)
    quota(t, "s", FETCHED, 1e9)
    begun = fetch(t, fresh(t, "s"), topic, session_epoch=0, exact=False)
    quota(t, "s", FETCHED, 1_000.0)
    fetch(t, fresh(t, "s"), topic, begun.session_id, 1, exact=False)
    quota(t, "s", FETCHED, 1e9)
    fetch(t, fresh(t, "s"), topic, begun.session_id, 2, exact=False)
    quota(t, "s", FETCHED, None)


def trace_quotas_of_time(t: Trace) -> None:
    quota(t, "r", SPENT, 0.0001)
    for key, version, fields in (
        (ApiKey.API_VERSIONS, 3, {"client_software_name": "a", "client_software_version": "1"}),
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": True}),
        (ApiKey.LIST_GROUPS, 4, {"states_filter": ["Dead"]}),
        (ApiKey.HEARTBEAT, 4, {"group_id": f"{t.name}-g", "generation_id": 1, "member_id": "m"}),
        (ApiKey.HEARTBEAT, 4, {"group_id": f"{t.name}-g", "generation_id": 1, "member_id": "m"}),
        (ApiKey.CREATE_TOPICS, 7, {"topics": [], "timeout_ms": 1000}),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": []}),
    ):
        answer = fresh(t, "r").ask(key, version, 30, **fields)
        t.answers += 1
        t.note(f"{key.name} v{version}", answer if isinstance(answer, str) else answer.throttle_time_ms)
    quota(t, "r", SPENT, None)


def trace_quotas_mute(t: Trace) -> None:
    topic = log_calls.made(t)
    quota(t, "m", PRODUCED, 9_100.0)
    for acks in (-1, 0):
        wire = fresh(t, "m")
        if acks:
            produce(t, wire, topic, 100_000)
        else:
            wire.send(ApiKey.PRODUCE, 9, request(ApiKey.PRODUCE, writing(topic, 50_000, acks=0)))
        began = time.monotonic()
        answer = wire.ask(ApiKey.LIST_GROUPS, 4, 30, states_filter=["Dead"])
        t.note(f"acks={acks}: answered while it had to wait", time.monotonic() - began < 0.8)
        t.note("and then", answer if isinstance(answer, str) else answer.error_code)
    quota(t, "m", PRODUCED, None)


def trace_quotas_of_partitions(t: Trace) -> None:
    quota(t, "c", MUTATED, 1.0)
    for version in (7, 5):
        fields = create_fields({f"{t.name}-{version}-{number}": 6 for number in range(3)}, timeout_ms=5000)
        answer = fresh(t, "c").ask(ApiKey.CREATE_TOPICS, version, 30, **fields)
        t.answers += 1
        t.note(f"CREATE_TOPICS v{version}", [round(answer.throttle_time_ms, -3),
                                             sorted((row.name, row.error_code) for row in answer.topics)])  # fmt: skip
    quota(t, "c", MUTATED, None)


def trace_quotas_of_topics_by_asking(t: Trace) -> None:
    """Topics that come to be by asking for them count, and nobody is told to wait."""
    quota(t, "q", MUTATED, 0.1)
    for number in range(4):
        topics = [{"name": f"{t.name}-{number}"}]
        answer = fresh(t, "q").ask(ApiKey.METADATA, 9, topics=topics, allow_auto_topic_creation=True)
        t.note("METADATA", answer.throttle_time_ms)
        t.settle(SEEN_MS)
    topics = [{"name": f"{t.name}-{number}"} for number in range(4)]
    answer = fresh(t, "q").ask(ApiKey.METADATA, 9, topics=topics, allow_auto_topic_creation=False)
    t.answers += 5
    t.note("created", sorted((row.name.replace(t.name, "@"), row.error_code) for row in answer.topics))
    quota(t, "q", MUTATED, None)


def trace_quotas_of_whom(t: Trace) -> None:
    """Of several quotas the one that counts: each that is added is more specific, and is little where that was much."""
    topic = log_calls.made(t)
    user, who = "ANONYMOUS", f"{t.name}-w"
    entities: list[Entity] = [
        {CLIENT: None}, {CLIENT: who}, {USER: None}, {USER: None, CLIENT: None}, {USER: None, CLIENT: who},
        {USER: user}, {USER: user, CLIENT: None}, {USER: user, CLIENT: who},
    ]  # fmt: skip
    others: list[Entity] = [{USER: "somebody"}, {USER: "somebody", CLIENT: who}, {USER: user, CLIENT: "another"}]
    for number, entity in enumerate(entities):
        little = number % 2 == 0
        change(t, (entity, [(PRODUCED, 100.0 if little else 1e12)]))
        change(t, *((other, [(PRODUCED, 1e12 if little else 100.0)]) for other in others))
        wait_ms = produce(t, fresh(t, "w"), topic, 100_000, exact=False).throttle_time_ms
        t.note(f"must wait after {entity}".replace(t.name, "@"), wait_ms > 0)
    for entity in (*entities, *others):
        change(t, (entity, [(PRODUCED, None)]))


def trace_quotas_of_addresses(t: Trace) -> None:
    change(t, ({IP: "127.0.0.1"}, [(CONNECTED, 1.0)]))
    answered = []
    for _ in range(12):
        answer = fresh(t, "a").ask(ApiKey.LIST_GROUPS, 4, 5, states_filter=["Dead"])
        answered.append(not isinstance(answer, str))
    change(t, ({IP: "127.0.0.1"}, [(CONNECTED, None)]))
    t.note("answered", answered)


# ------------------------------------------------------------------------------------------- what has settings


def resources(t: Trace, version: int, *kinds: int) -> None:
    value = plain(t.ask(ApiKey.LIST_CONFIG_RESOURCES, version, _who=WHO, resource_types=list(kinds)))
    t.answers += 1
    if isinstance(value, dict):
        value["config_resources"] = sorted(
            (row["resource_type"], row["resource_name"].replace(t.name, "@"))
            for row in value["config_resources"]
            if row["resource_name"].startswith((t.name, "__consumer"))
            or (row["resource_type"] in (4, 8) and int(row["resource_name"]) not in t.node_ids[1:])
        )
    t.note(f"LIST_CONFIG_RESOURCES v{version} {kinds}", value)


def trace_config_resources(t: Trace) -> None:
    log_calls.made(t)
    alter(t, 32, t.name, ("consumer.session.timeout.ms", 0, "50000"))
    t.settle(SEEN_MS)
    resources(t, 0)
    for kinds in ([], [2], [4], [8], [16], [32], [2, 4], [2, 2], [0], [1], [99], [2, 99], [2, 4, 8, 16, 32]):
        resources(t, 1, *kinds)
    alter(t, 32, t.name, ("consumer.session.timeout.ms", 1, None))
    t.settle(SEEN_MS)
    resources(t, 1, 32)
