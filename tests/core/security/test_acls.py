"""Access control rules: what may be one, and which rules a filter means (KIP-290)."""

from __future__ import annotations

import json

import pytest

from ottla.broker.core.refusal import Refusal
from ottla.broker.core.security.acls import Acl, acls_from_state, acls_state, add, fits, is_filter, remove
from ottla.protocol.messages.delete_acls import DeleteAclsFilter

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER = 2, 3, 4

LITERAL_T = Acl(TOPIC, "t", LITERAL, "User:a", "*", 3, 3)
PREFIX_T = Acl(TOPIC, "t", PREFIXED, "User:a", "10.0.0.1", 4, 3)
EVERY = Acl(TOPIC, "*", LITERAL, "User:*", "*", 8, 2)
OF_GROUP = Acl(GROUP, "t", LITERAL, "User:b", "*", 3, 3)
RULES = (LITERAL_T, PREFIX_T, EVERY, OF_GROUP)


def wanted(**fields: object) -> DeleteAclsFilter:
    everything = {"operation": ANY, "permission_type": ANY, "resource_type_filter": ANY, "pattern_type_filter": ANY}
    everything |= {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    named = {f"{name}_filter" if f"{name}_filter" in everything else name: value for name, value in fields.items()}
    return DeleteAclsFilter(**everything | named)


@pytest.mark.parametrize(
    ("fields", "meant"),
    [
        ({}, RULES),
        ({"resource_type": GROUP}, (OF_GROUP,)),
        ({"resource_name": "t"}, (LITERAL_T, PREFIX_T, OF_GROUP)),
        ({"resource_name": "t", "pattern_type": LITERAL}, (LITERAL_T, OF_GROUP)),
        ({"resource_name": "t", "pattern_type": MATCH}, (LITERAL_T, PREFIX_T, EVERY, OF_GROUP)),
        ({"resource_name": "test", "pattern_type": MATCH}, (PREFIX_T, EVERY)),
        ({"resource_name": "other", "pattern_type": MATCH}, (EVERY,)),
        ({"resource_name": "test", "pattern_type": PREFIXED}, ()),
        ({"pattern_type": PREFIXED}, (PREFIX_T,)),
        ({"pattern_type": MATCH}, RULES),
        ({"principal": "User:a"}, (LITERAL_T, PREFIX_T)),
        ({"principal": "User:*"}, (EVERY,)),
        ({"host": "10.0.0.1"}, (PREFIX_T,)),
        ({"operation": 3}, (LITERAL_T, OF_GROUP)),
        ({"permission_type": 2}, (EVERY,)),
        ({"resource_type": 99}, ()),
    ],
)
def test_filters(fields: dict[str, object], meant: tuple[Acl, ...]) -> None:
    assert tuple(acl for acl in RULES if fits(wanted(**fields), acl)) == meant


def test_a_rule_is_there_once() -> None:
    acls, refusals = add((LITERAL_T,), [LITERAL_T, PREFIX_T, PREFIX_T])
    assert acls == (LITERAL_T, PREFIX_T)
    assert refusals == [None, None, None]


def test_what_two_filters_mean_both_have_removed() -> None:
    acls, outcomes = remove(RULES, [wanted(resource_type=TOPIC), wanted(resource_name="t"), wanted(operation=99)])
    assert acls == ()
    assert outcomes[:2] == [[LITERAL_T, PREFIX_T, EVERY], [LITERAL_T, PREFIX_T, OF_GROUP]]
    assert isinstance(outcomes[2], Refusal)


@pytest.mark.parametrize(
    "fields",
    [
        {"resource_type": 8},
        {"resource_name": ""},
        {"resource_type": CLUSTER},
        {"pattern_type": 5},
        {"principal": ""},
        {"principal": "nobody"},
        {"operation": 16},
        {"permission_type": 4},
    ],
)
def test_what_is_no_rule(fields: dict[str, object]) -> None:
    acls, (refusal, _) = add((), [LITERAL_T._replace(**fields), PREFIX_T])  # type: ignore[arg-type]
    assert acls == (PREFIX_T,)
    assert refusal is not None


def test_what_only_filters_have() -> None:
    assert is_filter(LITERAL_T._replace(pattern_type=MATCH))
    assert is_filter(LITERAL_T._replace(operation=ANY))
    assert not is_filter(LITERAL_T)


def test_what_is_stored_is_read_again() -> None:
    assert acls_from_state(json.loads(json.dumps(acls_state(RULES)))) == RULES
