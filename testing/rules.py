"""Access control rules of brokers in tests, as texts: ``User:alice ALLOW READ topic:orders``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TypeVar

from ottla.broker.core.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclOperation,
    Acls,
    Pattern,
    Permission,
    Resource,
    address,
)
from ottla.broker.core.security.authorizer import STANDARD_AUTHORIZER

FORM = "write 'User:alice ALLOW READ topic:orders', and 'from HOST' after it for one address"

E = TypeVar("E", bound=IntEnum)


def rules_of(texts: Iterable[str]) -> Acls:
    """The rules that texts say.

    ``topic:pay.*`` is about all topics whose names begin so, ``topic:*`` about all; ``cluster`` has no name.

    Raises:
        ValueError: a text is no rule.
    """
    return tuple(dict.fromkeys(map(_rule, texts)))


def _rule(text: str) -> Acl:
    words = text.split()
    if len(words) == 6 and words[4] == "from":
        host = address(words.pop())
        words.pop()
    else:
        host = WILDCARD
    if len(words) != 4:
        raise ValueError(f"acls: {text!r}: {FORM}")
    principal, permission, operation, what = words
    if not all(principal.partition(":")[::2]):
        raise ValueError(f"acls: {text!r}: a principal has a type and a name, as User:alice")
    kind, colon, name = what.partition(":")
    resource = _named(Resource, kind, text)
    if resource is Resource.CLUSTER:
        name = name or CLUSTER_NAME
    elif not colon or not name:
        raise ValueError(f"acls: {text!r}: {FORM}")
    is_prefix = len(name) > 1 and name.endswith(WILDCARD)
    pattern = Pattern.PREFIXED if is_prefix else Pattern.LITERAL
    allowed = _named(Permission, permission, text)
    asked = _named(AclOperation, operation, text)
    return Acl(resource, name[:-1] if is_prefix else name, pattern, principal, host, asked, allowed)


def _named(kind: type[E], word: str, text: str) -> E:
    found = kind.__members__.get(word.upper())
    if found is None:
        names = ", ".join(kind.__members__)
        raise ValueError(f"acls: {text!r}: {word!r} is none of {names}")
    return found


def rule_settings(acls: Iterable[str] | None, super_users: Sequence[str]) -> dict[str, str]:
    """The settings of a broker with rules; none where neither rules nor super users are given."""
    if acls is None and not super_users:
        return {}
    return {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": ";".join(super_users)}
