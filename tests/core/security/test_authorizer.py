"""What rules allow: each rule of rules by itself, and the index against a plain look at all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import pytest

from ottla.broker.core.security.acls import (
    MOST_RULES,
    Acl,
    AclOperation,
    Pattern,
    Permission,
    Resource,
    add,
    address,
)
from ottla.broker.core.security.authorizer import (
    LONGEST_REMEMBERED,
    MOST_REMEMBERED,
    Authorizer,
    Basis,
    Verdict,
    super_users,
)

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
)
ALICE, BOB, ADMIN = "User:alice", "User:bob", "User:admin"
HERE, THERE = "127.0.0.1", "127.0.0.2"


def rule(text: str) -> Acl:
    """A rule as ``alice ALLOW READ orders``; a name that ends in ``…`` is a prefix; ``@host`` may follow."""
    who, permission, operation, name, *host = text.split()
    return Acl(
        Resource.TOPIC,
        name.removesuffix("…"),
        Pattern.PREFIXED if name.endswith("…") else Pattern.LITERAL,
        who if ":" in who else f"User:{who}",
        host[0][1:] if host else "*",
        AclOperation[operation],
        Permission[permission],
    )


def authorizer(*rules: str, open_without_rules: bool = False) -> Authorizer:
    return Authorizer([*map(rule, rules)], frozenset((ADMIN,)), open_without_rules=open_without_rules)


def may(
    by: Authorizer, operation: AclOperation, name: str = "orders", principal: str = ALICE, host: str = HERE
) -> bool:
    return by.verdict(principal, host, operation, Resource.TOPIC, name).is_allowed


# -- rules


@pytest.mark.parametrize(
    ("rules", "name", "allowed"),
    [
        (["alice ALLOW READ orders"], "orders", True),
        (["alice ALLOW READ orders"], "Orders", False),
        (["alice ALLOW READ orders"], "orders.eu", False),
        (["alice ALLOW READ *"], "orders", True),
        (["alice ALLOW READ ord…"], "orders", True),
        (["alice ALLOW READ orders…"], "orders", True),
        (["alice ALLOW READ orders.…"], "orders", False),
        (["alice ALLOW READ rders…"], "orders", False),
        (["alice ALLOW READ *…"], "orders", False),
        (["alice ALLOW READ *…"], "*orders", True),
        (["alice ALLOW READ *"], "*", True),
        (["alice ALLOW READ *…"], "*", True),
        (["bob ALLOW READ orders"], "orders", False),
        (["* ALLOW READ orders"], "orders", True),
        (["Group:alice ALLOW READ orders"], "orders", False),
        (["alice ALLOW READ orders @127.0.0.1"], "orders", True),
        (["alice ALLOW READ orders @127.0.0.2"], "orders", False),
        (["alice ALLOW READ orders @127.0.0.2", "alice ALLOW READ o… @127.0.0.1"], "orders", True),
    ],
)
def test_a_rule_is_about_a_name_and_fits_somebody_somewhere(rules: list[str], name: str, allowed: bool) -> None:
    assert may(authorizer(*rules), READ, name) is allowed


@pytest.mark.parametrize("permission", ["ALLOW", "DENY"])
@pytest.mark.parametrize("operation", AclOperation)
def test_what_an_operation_implies(permission: str, operation: AclOperation) -> None:
    """ALL is every operation. Some imply that one may describe; to be denied them denies nothing else (Z-12)."""
    implied = {
        AclOperation.READ: {AclOperation.DESCRIBE},
        AclOperation.WRITE: {AclOperation.DESCRIBE},
        AclOperation.DELETE: {AclOperation.DESCRIBE},
        AclOperation.ALTER: {AclOperation.DESCRIBE},
        AclOperation.ALTER_CONFIGS: {AclOperation.DESCRIBE_CONFIGS},
    }
    everything = set(AclOperation) - {AclOperation.ALL}
    if permission == "ALLOW":
        by = authorizer(f"alice ALLOW {operation.name} orders")
        expected = everything if operation is AclOperation.ALL else {operation} | implied.get(operation, set())
    else:
        by = authorizer("alice ALLOW ALL orders", f"alice DENY {operation.name} orders")
        expected = set() if operation is AclOperation.ALL else everything - {operation}
    assert {each for each in everything if may(by, each)} == expected


@pytest.mark.parametrize(
    "rules",
    [
        ["alice DENY READ *", "alice ALLOW ALL orders"],
        ["alice ALLOW ALL orders", "alice DENY READ *"],
        ["alice ALLOW ALL orders", "* DENY READ o…"],
        ["alice ALLOW READ *", "alice DENY ALL orders @127.0.0.1"],
    ],
)
def test_what_is_denied_is_denied_however_it_is_allowed(rules: list[str]) -> None:
    assert not may(authorizer(*rules), READ)


def test_a_prefix_denied_and_a_name_allowed() -> None:
    """20.5, 48."""
    by = authorizer("alice DENY READ pay.…", "alice ALLOW ALL pay.in")
    assert [may(by, each, "pay.in") for each in (READ, DESCRIBE, WRITE)] == [False, True, True]


@pytest.mark.parametrize("is_open", [False, True])
def test_what_no_rule_is_about(is_open: bool) -> None:
    """20.5, 50: a rule for whomever closes what it is about to all others."""
    by = authorizer("bob ALLOW READ orders", "bob DENY WRITE pay.…", open_without_rules=is_open)
    assert not may(by, READ, "orders")
    assert not may(by, READ, "pay.in")
    assert may(by, READ, "others") is is_open
    assert by.verdict(ALICE, HERE, READ, Resource.GROUP, "orders").is_allowed is is_open


def test_a_rule_is_about_one_kind_of_resource() -> None:
    by = authorizer("alice ALLOW ALL *")
    assert not by.verdict(ALICE, HERE, READ, Resource.GROUP, "orders").is_allowed


def test_super_users_may_do_everything() -> None:
    assert may(authorizer("* DENY ALL *"), READ, principal=ADMIN)
    assert not may(authorizer(), READ, principal="user:admin")


def test_every_verdict_says_what_it_rests_on() -> None:
    by = authorizer("alice ALLOW READ orders", "bob DENY READ ord…", "bob ALLOW READ orders")

    def verdict(principal: str, name: str = "orders") -> Verdict:
        return by.verdict(principal, HERE, READ, Resource.TOPIC, name)

    assert verdict(ALICE) == (True, rule("alice ALLOW READ orders"))
    assert verdict(BOB) == (False, rule("bob DENY READ ord…"))
    assert verdict("User:carol") == (False, Basis.NO_RULE_FITS)
    assert verdict(BOB, "pay.in") == (False, Basis.NO_RULE)
    assert verdict(ADMIN) == (True, Basis.SUPER_USER)
    assert str(verdict(BOB).basis) == "DENY READ on TOPIC:PREFIXED:ord for User:bob from *"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", set()),
        ("User:admin", {"User:admin"}),
        (" User:a=b,C ; User:CN=x,OU=y;; ", {"User:a=b,C", "User:CN=x,OU=y"}),
    ],
)
def test_super_users_stand_between_semicolons(text: str, found: set[str]) -> None:
    assert super_users(text) == found


@pytest.mark.parametrize("text", ["admin", "User:a;bob", ":x", "User:", "User:a, User:b"])
def test_a_super_user_without_a_type_or_a_name(text: str) -> None:
    with pytest.raises(ValueError, match="User:admin"):
        super_users(text)


@pytest.mark.parametrize(
    ("text", "as_java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("*", "*"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("FE80::00ab", "fe80:0:0:0:0:0:0:ab"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
        ("a:b", "a:b"),
    ],
)
def test_addresses_are_as_java_has_them(text: str, as_java: str) -> None:
    assert address(text) == as_java


# -- somewhere


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ([], False),
        (["alice ALLOW WRITE a"], True),
        (["alice ALLOW ALL a…"], True),
        (["alice ALLOW READ a"], False),
        (["bob ALLOW WRITE a"], False),
        (["* ALLOW WRITE a"], True),
        (["alice ALLOW WRITE a @127.0.0.2"], False),
        (["alice DENY WRITE *", "alice ALLOW WRITE a"], False),
        (["alice DENY WRITE *", "alice ALLOW WRITE *"], False),
        (["alice ALLOW WRITE *", "alice DENY WRITE a"], True),
        (["alice ALLOW WRITE *", "alice DENY WRITE hardcode"], True),
        (["alice ALLOW WRITE ab…", "alice DENY WRITE a…"], False),
        (["alice ALLOW WRITE ab…", "alice DENY WRITE ab…"], False),
        (["alice ALLOW WRITE ab…", "alice DENY WRITE abc…"], True),
        (["alice ALLOW WRITE ab", "alice DENY WRITE a"], True),
        (["alice ALLOW WRITE ab", "alice DENY WRITE ab"], False),
        (["alice ALLOW WRITE ab", "alice DENY WRITE a…"], False),
        (["alice ALLOW WRITE ab…", "alice DENY WRITE ab"], True),
        (["alice ALLOW WRITE ab", "alice DENY READ ab"], True),
        (["alice DENY WRITE a", "alice ALLOW WRITE a", "alice ALLOW WRITE b"], True),
    ],
)
def test_somewhere(rules: list[str], allowed: bool) -> None:
    """Z-20; 20.5, 51."""
    by = authorizer(*rules)
    for _ in range(2):  # the second time it is remembered
        assert by.permits_somewhere(ALICE, HERE, WRITE, Resource.TOPIC) is allowed


def test_somewhere_for_a_super_user_and_where_all_is_open() -> None:
    assert authorizer("* DENY ALL *").permits_somewhere(ADMIN, HERE, WRITE, Resource.TOPIC)
    assert authorizer(open_without_rules=True).permits_somewhere(ALICE, HERE, WRITE, Resource.TOPIC)
    assert not authorizer("* DENY ALL *", open_without_rules=True).permits_somewhere(ALICE, HERE, WRITE, Resource.TOPIC)


# -- memory


def test_other_rules_count_at_once() -> None:
    by = authorizer("alice ALLOW READ orders")
    assert may(by, READ)
    assert by.permits_somewhere(ALICE, HERE, READ, Resource.TOPIC)
    by.change([])
    assert not may(by, READ)
    assert not by.permits_somewhere(ALICE, HERE, READ, Resource.TOPIC)


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    by = authorizer("alice ALLOW READ t…")
    for number in range(MOST_REMEMBERED + 10):
        assert may(by, READ, f"t{number}")
    may(by, READ, "n" * (LONGEST_REMEMBERED + 1))
    assert len(by._verdicts) == MOST_REMEMBERED
    monkeypatch.setattr(by, "_decide", lambda *asked: pytest.fail(f"{asked} was not remembered"))
    assert may(by, READ, f"t{MOST_REMEMBERED}")


def test_there_are_so_many_rules_at_most() -> None:
    full = tuple(rule(f"alice ALLOW READ t{number}") for number in range(MOST_RULES))
    acls, refusals = add(full, [rule("alice ALLOW READ t0"), rule("alice ALLOW READ more")])
    assert acls == full
    assert [refusal is None for refusal in refusals] == [True, False]


# -- against a plain look at all rules


def plain_verdict(
    rules: Iterable[Acl], principal: str, host: str, operation: int, resource: int, name: str, *, is_open: bool
) -> bool:
    """Z-11 to Z-13, word by word."""
    about = [
        acl
        for acl in rules
        if acl.resource_type == resource
        and (
            name.startswith(acl.resource_name)
            if acl.pattern_type == Pattern.PREFIXED
            else acl.resource_name in (name, "*")
        )
    ]
    fitting = [acl for acl in about if acl.principal in (principal, "User:*") and acl.host in (host, "*")]
    implied = {8: {3, 4, 6, 7, 8}, 10: {10, 11}}.get(operation, {operation}) | {2}
    if any(acl.permission_type == Permission.DENY and acl.operation in (operation, 2) for acl in fitting):
        return False
    if any(acl.permission_type == Permission.ALLOW and acl.operation in implied for acl in fitting):
        return True
    return not about and is_open


def some_rules(rng: Random, names: Sequence[str]) -> list[Acl]:
    return [
        Acl(
            rng.choice((Resource.TOPIC, Resource.GROUP)),
            rng.choice(names) or "*",
            rng.choice((Pattern.LITERAL, Pattern.PREFIXED)),
            rng.choice((ALICE, BOB, "User:*")),
            rng.choice((HERE, "*")),
            rng.choice(list(AclOperation)),
            rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        )
        for _ in range(rng.randrange(12))
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_index_against_all_rules(seed: int) -> None:
    rng = Random(seed)
    for _ in range(50):
        names = ["".join(rng.choices("ab*", k=rng.randrange(4))) for _ in range(8)]
        rules, is_open = some_rules(rng, names), rng.random() < 0.5
        by = Authorizer(rules, open_without_rules=is_open)
        for _ in range(20):
            asked = (
                rng.choice((ALICE, BOB, "User:carol")),
                rng.choice((HERE, THERE)),
                rng.choice([each for each in AclOperation if each is not AclOperation.ALL]),
                rng.choice((Resource.TOPIC, Resource.GROUP)),
                rng.choice(names),
            )
            verdict = by.verdict(*asked)
            assert verdict.is_allowed is plain_verdict(rules, *asked, is_open=is_open), (seed, rules, asked)
            if isinstance(verdict.basis, Acl):
                assert verdict.basis in rules
                assert verdict.is_allowed is (verdict.basis.permission_type == Permission.ALLOW)
