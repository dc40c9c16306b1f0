"""Credentials and access control rules, which are kept and described. Kafka has an authorizer that everybody passes."""

from __future__ import annotations

from ottla.protocol.apis import ApiKey
from tests.differential.quota_traces import SEEN_MS, noted
from tests.differential.tracing import Trace

SHA_256, SHA_512 = 1, 2
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = range(2, 8)
ALL, READ, WRITE = 2, 3, 4
DENY, ALLOW = 2, 3

Upsertion = tuple[str, int, int]
Rule = tuple[int, str, int, str, str, int, int]
Filter = tuple[int, str | None, int, str | None, str | None, int, int]


def credentials(t: Trace, *upsertions: Upsertion, remove: tuple[tuple[str, int], ...] = ()) -> None:
    secret = {"salt": b"salt", "salted_password": b"password"}
    fields = {
        "deletions": [{"name": name, "mechanism": mechanism} for name, mechanism in remove],
        "upsertions": [
            secret | {"name": name, "mechanism": mechanism, "iterations": iterations}
            for name, mechanism, iterations in upsertions
        ],
    }
    noted(t, f"{upsertions} {remove}", ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, ("results",), **fields)
    t.settle(SEEN_MS)


def who_has_credentials(t: Trace, *users: str, everybody: bool = False) -> None:
    rows = [{"name": name} for name in users]
    noted(t, repr(users), ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, ("results",), users=None if everybody else rows)


def trace_guarded_credentials(t: Trace) -> None:
    who_has_credentials(t)
    credentials(t, ("u", SHA_256, 4096))
    credentials(t, ("u", SHA_512, 16384), ("v", SHA_512, 5000))
    who_has_credentials(t)
    who_has_credentials(t, everybody=True)
    who_has_credentials(t, "v", "u")
    who_has_credentials(t, "v", "v", "x", "x", "")
    credentials(t, ("u", SHA_256, 8192))
    who_has_credentials(t, "u")
    credentials(t, remove=(("u", SHA_256),))
    who_has_credentials(t, "u")
    credentials(t, remove=(("u", SHA_512), ("v", SHA_512)))
    who_has_credentials(t)
    who_has_credentials(t, "u")


def trace_guarded_credentials_refused(t: Trace) -> None:
    credentials(t)
    for iterations in (4095, 16385, 0, -1):
        credentials(t, ("u", SHA_256, iterations))
        credentials(t, ("u", SHA_512, iterations))
    for mechanism in (0, 3, -1, 127):
        credentials(t, ("u", mechanism, 4096))
        credentials(t, remove=(("u", mechanism),))
    credentials(t, ("", SHA_256, 4096))
    credentials(t, ("", 0, 1))
    credentials(t, remove=(("", SHA_256),))
    credentials(t, remove=(("u", SHA_256),))
    credentials(t, ("u", SHA_256, 4096), ("u", SHA_512, 4096))
    credentials(t, ("u", SHA_256, 4096), ("u", SHA_256, 4096), ("u", SHA_256, 4096), ("v", SHA_256, 4096))
    credentials(t, ("v", SHA_512, 4096), remove=(("v", SHA_256),))
    credentials(t, remove=(("v", SHA_256), ("v", SHA_256)))
    credentials(t, remove=(("v", SHA_256), ("v", SHA_512)))
    credentials(t, ("v", SHA_256, 1), ("v", SHA_256, 4096))
    who_has_credentials(t)
    # Another mechanism: brokers of Kafka overlook a credential that is set with the request that removes the last one.
    credentials(t, ("w", SHA_512, 4096), remove=(("v", SHA_256), ("x", SHA_256)))
    who_has_credentials(t)
    credentials(t, remove=(("w", SHA_512),))


def allow(t: Trace, *rules: Rule, version: int = 3) -> None:
    names = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation",
             "permission_type")  # fmt: skip
    rows = [dict(zip(names, rule, strict=True)) for rule in rules]
    noted(t, repr(rules)[:200], ApiKey.CREATE_ACLS, version, (), creations=rows)
    t.settle(SEEN_MS)


FILTERED_BY = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter",
               "operation", "permission_type")  # fmt: skip


def rules(t: Trace, wanted: Filter, version: int = 3) -> None:
    fields = dict(zip(FILTERED_BY, wanted, strict=True))
    noted(t, repr(wanted), ApiKey.DESCRIBE_ACLS, version, ("resources",), **fields)


def take_back(t: Trace, *filters: Filter, version: int = 3) -> None:
    rows = [dict(zip(FILTERED_BY, wanted, strict=True)) for wanted in filters]
    answer = noted(t, repr(filters), ApiKey.DELETE_ACLS, version, ("filter_results",), filters=rows)
    t.note("removed", answer if isinstance(answer, str) else [len(row.matching_acls) for row in answer.filter_results])
    t.settle(SEEN_MS)


EVERYTHING: Filter = (ANY, None, ANY, None, None, ANY, ANY)
SOME: tuple[Rule, ...] = (
    (TOPIC, "t", LITERAL, "User:a", "*", READ, ALLOW),
    (TOPIC, "t", PREFIXED, "User:a", "*", WRITE, ALLOW),
    (TOPIC, "te", PREFIXED, "User:b", "10.0.0.1", ALL, DENY),
    (TOPIC, "*", LITERAL, "User:*", "*", 8, ALLOW),
    (GROUP, "t", LITERAL, "User:a", "*", READ, ALLOW),
    (CLUSTER, "kafka-cluster", LITERAL, "User:c", "*", 9, DENY),
    (TRANSACTIONAL_ID, "x", PREFIXED, "User:a", "*", WRITE, ALLOW),
    (TOKEN, "d", LITERAL, "User:a", "*", 8, ALLOW),
    (USER, "User:u", LITERAL, "User:a", "*", 13, ALLOW),
)


def trace_guarded_rules(t: Trace) -> None:
    for version in range(1, 4):
        chosen = SOME if version == 3 else SOME[:-1]
        allow(t, *chosen, version=version)
        rules(t, EVERYTHING, version)
        allow(t, *chosen[:3], version=version)
        rules(t, EVERYTHING, version)
        take_back(t, EVERYTHING, version=version)
        rules(t, EVERYTHING, version)


def trace_guarded_rules_found(t: Trace) -> None:
    allow(t, *SOME)
    for pattern in (ANY, MATCH, LITERAL, PREFIXED):
        for name in (None, "t", "te", "test", "*", "", "nobody"):
            rules(t, (TOPIC, name, pattern, None, None, ANY, ANY))
            rules(t, (ANY, name, pattern, None, None, ANY, ANY))
    for principal in ("User:a", "User:*", "User:b", "", "nonsense"):
        rules(t, (ANY, None, ANY, principal, None, ANY, ANY))
    for host in ("*", "10.0.0.1", ""):
        rules(t, (ANY, None, ANY, None, host, ANY, ANY))
    for operation in (*range(1, 17), 99):
        rules(t, (ANY, None, ANY, None, None, operation, ANY))
    for permission in (1, 2, 3, 4):
        rules(t, (ANY, None, ANY, None, None, ANY, permission))
    for kind in (*range(1, 9), 99):
        rules(t, (kind, None, ANY, None, None, ANY, ANY))
    rules(t, (ANY, None, 5, None, None, ANY, ANY))
    take_back(t, (TOPIC, "t", MATCH, None, None, ANY, ANY), (TOPIC, "t", LITERAL, None, None, ANY, ANY))
    rules(t, EVERYTHING)
    take_back(t, (GROUP, None, ANY, None, None, ANY, 9), (GROUP, None, ANY, "User:a", None, ANY, ALLOW))
    take_back(t, (9, None, ANY, None, None, ANY, ANY), (TOPIC, None, 9, None, None, ANY, ANY))
    take_back(t)
    take_back(t, EVERYTHING)


def trace_guarded_rules_refused(t: Trace) -> None:
    good: Rule = SOME[0]
    allow(t)
    for at, values in ((0, (1, 8, 99, -1)), (1, ("",)), (2, (1, 2, 5, -1)), (5, (1, 15, 16, 99)), (6, (1, 4, -1))):
        for value in values:
            allow(t, (*good[:at], value, *good[at + 1 :]), SOME[4])  # type: ignore[arg-type]
    for principal in ("", "nobody", "Group:x", "User:", ":x"):
        allow(t, (*good[:3], principal, *good[4:]))
    for host in ("", "no-such-host", "10.0.0.0/8"):
        allow(t, (*good[:4], host, *good[5:]))
    for kind, name in ((CLUSTER, "x"), (CLUSTER, ""), (TOPIC, "not a name"), (USER, "u"), (USER, "User:u")):
        allow(t, (kind, name, *good[2:]))
    rules(t, EVERYTHING)
    take_back(t, EVERYTHING)


def trace_guarded_rules_unknown(t: Trace) -> None:
    """What a client cannot mean closes its connection."""
    good: Rule = SOME[0]
    for at in (0, 2, 5, 6):
        allow(t, (*good[:at], 0, *good[at + 1 :]))  # type: ignore[arg-type]
        wanted = (*EVERYTHING[:at], 0, *EVERYTHING[at + 1 :])
        rules(t, wanted)  # type: ignore[arg-type]
        take_back(t, wanted)  # type: ignore[arg-type]
    rules(t, EVERYTHING)
