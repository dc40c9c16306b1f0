"""`ottla acls`: what rules its options make, as Kafka's tool would; and what comes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.core.security.acls import AclOperation, Pattern, Permission, Resource
from ottla.clients.security_admin import AclRule
from tests.cli.commands import HERE

T, G, X, C = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID, Resource.CLUSTER
ALL, READ, WRITE, CREATE, DESCRIBE = (AclOperation[name] for name in ("ALL", "READ", "WRITE", "CREATE", "DESCRIBE"))
ALLOW, DENY = Permission.ALLOW, Permission.DENY


class Rules:
    """An admin client that is asked for rules, in the place of one that asks a broker."""

    def __init__(self) -> None:
        self.rules: list[AclRule] = []
        self.filters: list[AclRule] = []

    async def add_acls(self, rules: list[AclRule]) -> None:
        self.rules += rules

    async def list_acls(self, wanted: AclRule) -> list[AclRule]:
        self.filters.append(wanted)
        return self.rules

    async def remove_acls(self, filters: list[AclRule]) -> dict[AclRule, list[AclRule]]:
        self.filters += filters
        return dict.fromkeys(filters, self.rules)


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Rules:
    import asyncio

    asked = Rules()

    def with_admin(bootstrap: str, work: Callable[[Any], Any], kind: type) -> Any:
        return asyncio.run(work(asked))

    monkeypatch.setattr("ottla.cli.acls.with_admin", with_admin)
    return asked


def rule(
    kind: int,
    name: str,
    operation: int,
    *,
    prefixed: bool = False,
    who: str = "User:a",
    host: str = "*",
    effect: int = ALLOW,
) -> AclRule:
    return AclRule(kind, name, Pattern.PREFIXED if prefixed else Pattern.LITERAL, who, host, operation, effect)


A = "--allow-principal User:a "


@pytest.mark.parametrize(
    "words, made",
    [
        (f"{A} --topic t", [rule(T, "t", ALL)]),
        (f"{A} --operation read --operation Write --topic t", [rule(T, "t", READ), rule(T, "t", WRITE)]),
        (f"{A} --cluster --operation ClusterAction", [rule(C, "kafka-cluster", AclOperation.CLUSTER_ACTION)]),
        (f"{A} --topic t. --resource-pattern-type prefixed", [rule(T, "t.", ALL, prefixed=True)]),
        (
            "--deny-principal User:b --deny-host 10.0.0.1 --deny-host 10.0.0.2 --group g --operation Read",
            [rule(G, "g", READ, who="User:b", host=host, effect=DENY) for host in ("10.0.0.1", "10.0.0.2")],
        ),
        (f"{A} --producer --topic t", [rule(T, "t", one) for one in (WRITE, DESCRIBE, CREATE)]),
        (
            f"{A} --producer --idempotent --topic t --transactional-id x",
            [rule(T, "t", one) for one in (WRITE, DESCRIBE, CREATE)]
            + [rule(X, "x", one) for one in (WRITE, DESCRIBE)]
            + [rule(C, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE)],
        ),
        (f"{A} --consumer --topic t --group g", [rule(T, "t", READ), rule(T, "t", DESCRIBE), rule(G, "g", READ)]),
        (
            f"{A} --producer --consumer --topic t --group g",
            [rule(T, "t", one) for one in (WRITE, DESCRIBE, CREATE, READ)] + [rule(G, "g", READ)],
        ),
    ],
)
def test_rules_are_those_of_kafkas_tool(rules: Rules, words: str, made: list[AclRule]) -> None:
    HERE.run("acls", "add", *words.split())
    assert rules.rules == made


@pytest.mark.parametrize(
    "words, said",
    [
        (A, "Name what the rules are about"),
        ("--topic t", "Say whom"),
        (f"{A} --producer --group g", "--producer needs --topic"),
        (f"{A} --consumer --topic t", "--consumer needs --topic and --group"),
        (f"{A} --idempotent --topic t", "--idempotent goes with --producer"),
        (f"{A} --topic t --operation Dance", "Dance"),
        (f"{A} --topic t --group g --operation Write", "Nobody can Write a group: choose from All, Read, Delete"),
        ("--allow-principal user:a --topic t", "'user:a' is nobody: write User:NAME"),
        ("--allow-principal alice --topic t", "'alice' is nobody"),
        ("--allow-principal User:al* --topic t", "'User:al*' is nobody"),
        ("--allow-principal User:a,User:b --topic t", "'User:a,User:b' is nobody"),
        ("--deny-principal User:a --deny-host 10.0.0.0/8 --topic t", "'10.0.0.0/8' fits nobody"),
        (f"{A} --topic orders*", "say --topic orders --resource-pattern-type prefixed"),
    ],
)
def test_slips(rules: Rules, words: str, said: str) -> None:
    assert said in HERE.run("acls", "add", *words.split(), expect=2).stderr
    assert rules.rules == []


def test_rules_are_listed(rules: Rules) -> None:
    rules.rules = [rule(T, "t", AclOperation.DESCRIBE_CONFIGS, prefixed=True), rule(G, "g", READ, effect=DENY)]
    assert HERE.rows("acls", "list")[1:] == [
        ["topic", "t", "prefixed", "User:a", "*", "DescribeConfigs", "ALLOW"],
        ["group", "g", "literal", "User:a", "*", "Read", "DENY"],
    ]
    HERE.run(
        "acls", "list", "--topic", "t1", "--group", "g", "--resource-pattern-type", "match", "--principal", "User:a"
    )
    assert rules.filters == [
        AclRule(),
        AclRule(T, "t1", Pattern.MATCH, "User:a"),
        AclRule(G, "g", Pattern.MATCH, "User:a"),
    ]


def test_rules_are_removed(rules: Rules) -> None:
    rules.rules = [rule(T, "t", READ)]
    HERE.run("acls", "remove", *f"{A} --topic t --operation Read".split())
    assert rules.filters == rules.rules
    assert "aborted" in HERE.run("acls", "remove", "--topic", "t", expect=1, given="n\n").stderr.lower()
    assert HERE.run("acls", "remove", "--topic", "t", "--force").stdout == "1 rule removed.\n"
    assert rules.filters[1:] == [AclRule(T, "t", Pattern.LITERAL)]
    rules.rules = []
    assert "There are no such rules." in HERE.run("acls", "remove", "--topic", "t", "--force", expect=1).stderr
