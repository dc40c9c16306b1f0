"""What rules allow: a question, the rules that are about it, and the verdict, as Kafka's StandardAuthorizer has them.

A rule is *about* a resource if its name is the resource's, ``*``, or, of a prefixed one, the beginning of it. It *fits*
a question if principal, host and operation do so, too. One DENY that fits outweighs every ALLOW. Where none fits,
nobody may, unless no rule at all is about the resource and the settings leave that open to all (KIP-140, KIP-290).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from ottla.broker.core.security.acls import WILDCARD, Acl, AclOperation, Acls, Pattern, Permission, Resource

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
"""Its name before KRaft."""

NODE: Final = "Node"
"""The type of the principals of nodes of the same cluster, where users have ``User``. No client gets one."""

EVERYBODY: Final = "User:*"
"""The principal of rules that are for all users."""

MOST_REMEMBERED = 10_000
"""Verdicts that are remembered."""
LONGEST_REMEMBERED = 300
"""Characters of a name. Clients choose names: longer ones are looked up each time, so that memory has a bound."""

_IMPLIED_BY: Final[Mapping[int, frozenset[int]]] = {
    AclOperation.DESCRIBE: frozenset(
        (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset((AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)),
}
"""What allows an operation besides ALL, if it is not itself alone. Whoever is denied them may do it all the same."""

_PROBE = "hardcode"
"""The topic by which Kafka finds out whether somebody may do something with whatever topic (KIP-679)."""


class Basis(Enum):
    """The reason for a verdict that is no rule."""

    SUPER_USER = "super user"
    NODE = "a node of this cluster"
    NO_RULE_FITS = "no rule allows it"
    NO_RULE = "no rule is about the resource"


class Verdict(NamedTuple):
    """An answer, and the rule that it rests on, or what else it rests on."""

    is_allowed: bool
    basis: Acl | Basis


_SUPER_USER = Verdict(True, Basis.SUPER_USER)
_NO_RULE_FITS = Verdict(False, Basis.NO_RULE_FITS)

_Rules = dict[str, list[Acl]]
"""The rules of one pattern, by principal."""


class _Index:
    """The rules of one kind of resource.

    Attributes:
        literal, prefixed: by the name of the rules.
        lengths: of the names in ``prefixed``, each once.
    """

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Rules] = {}
        self.prefixed: dict[str, _Rules] = {}
        self.lengths: Sequence[int] = ()

    def about(self, name: str) -> Iterator[_Rules]:
        """All that is about a resource."""
        if (exact := self.literal.get(name)) is not None:
            yield exact
        if name != WILDCARD and (wild := self.literal.get(WILDCARD)) is not None:
            yield wild
        size = len(name)
        for length in self.lengths:
            if length > size:
                break
            if (found := self.prefixed.get(name[:length])) is not None:
                yield found


class Authorizer:
    """Decides by rules who may do what.

    Args:
        super_users: principals that may do everything.
        open_without_rules: whether everybody may do what no rule is about.
    """

    def __init__(self, acls: Acls, super_users: frozenset[str] = frozenset(), *, open_without_rules: bool = False):
        self._super_users = super_users
        self._without_rules = Verdict(open_without_rules, Basis.NO_RULE)
        self._verdicts: dict[tuple[str, str, int, int, str], Verdict] = {}
        self._somewhere: dict[tuple[str, str, int, int], bool] = {}
        self.change(acls)

    def change(self, acls: Acls) -> None:
        """Go by other rules from now on."""
        indexes: dict[int, _Index] = {}
        for acl in acls:
            index = indexes.get(acl.resource_type)
            if index is None:
                index = indexes[acl.resource_type] = _Index()
            named = index.prefixed if acl.pattern_type == Pattern.PREFIXED else index.literal
            named.setdefault(acl.resource_name, {}).setdefault(acl.principal, []).append(acl)
        for index in indexes.values():
            index.lengths = sorted({len(name) for name in index.prefixed})
        self._indexes = indexes
        self._verdicts.clear()
        self._somewhere.clear()

    def verdict(self, principal: str, host: str, operation: AclOperation, resource: Resource, name: str) -> Verdict:
        """May somebody do something?

        Args:
            host: the client's address as Java writes it.
            name: of the resource; patterns cannot be asked for.
        """
        if principal in self._super_users:
            return _SUPER_USER
        key = principal, host, operation, resource, name
        known = self._verdicts.get(key)
        if known is None:
            known = self._decide(*key)
            if len(name) <= LONGEST_REMEMBERED:
                if len(self._verdicts) >= MOST_REMEMBERED:
                    del self._verdicts[next(iter(self._verdicts))]
                self._verdicts[key] = known
        return known

    def _decide(self, principal: str, host: str, operation: int, resource: int, name: str) -> Verdict:
        if principal.startswith(f"{NODE}:") and operation == AclOperation.CLUSTER_ACTION:
            return Verdict(True, Basis.NODE)
        index = self._indexes.get(resource)
        if index is None:
            return self._without_rules
        allowed: Acl | None = None
        is_about = False
        sufficient = _sufficient(operation)
        for rules in index.about(name):
            is_about = True
            for acl in _of(rules, principal, host):
                if acl.permission_type == Permission.DENY:
                    if acl.operation in (operation, AclOperation.ALL):
                        return Verdict(False, acl)
                elif acl.operation in sufficient:
                    allowed = acl
        if allowed is not None:
            return Verdict(True, allowed)
        return _NO_RULE_FITS if is_about else self._without_rules

    def permits_somewhere(self, principal: str, host: str, operation: AclOperation, resource: Resource) -> bool:
        """May somebody do something with any resource of a kind at all (KIP-679)?

        No operation implies another one here, as in Kafka.
        """
        if self.verdict(principal, host, operation, resource, _PROBE).is_allowed:
            return True
        key = principal, host, operation, resource
        known = self._somewhere.get(key)
        if known is None:
            if len(self._somewhere) >= MOST_REMEMBERED:
                self._somewhere.clear()
            known = self._somewhere[key] = self._decide_somewhere(*key)
        return known

    def _decide_somewhere(self, principal: str, host: str, operation: int, resource: int) -> bool:
        index = self._indexes.get(resource)
        if index is None:
            return False

        def told(named: dict[str, _Rules], permission: Permission) -> dict[str, None]:
            return {
                name: None
                for name, rules in named.items()
                if any(
                    acl.permission_type == permission and acl.operation in (operation, AclOperation.ALL)
                    for acl in _of(rules, principal, host)
                )
            }

        denied, allowed = told(index.literal, Permission.DENY), told(index.literal, Permission.ALLOW)
        if WILDCARD in denied:
            return False
        if WILDCARD in allowed:
            return True
        denied_prefixes = told(index.prefixed, Permission.DENY)

        def is_free(name: str) -> bool:
            return not any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))

        return any(name not in denied and is_free(name) for name in allowed) or any(
            map(is_free, told(index.prefixed, Permission.ALLOW))
        )


def _sufficient(operation: int) -> frozenset[int]:
    """The operations of rules that allow one."""
    return _IMPLIED_BY.get(operation, frozenset((operation,))) | {AclOperation.ALL}


def _of(rules: _Rules, principal: str, host: str) -> Iterator[Acl]:
    """The rules for a principal at a host."""
    for who in (principal, EVERYBODY) if principal != EVERYBODY else (EVERYBODY,):
        for acl in rules.get(who, ()):
            if acl.host == WILDCARD or acl.host == host:
                yield acl


def super_users(text: str) -> frozenset[str]:
    """The principals of ``super.users``, which stand between semicolons.

    Raises:
        ValueError: one has no type, or a comma stands where a semicolon has to; the text says which.
    """
    names = [name for each in text.split(";") if (name := each.strip())]
    for name in names:
        if ",User:" in name.replace(" ", ""):
            raise ValueError(f"super.users: {name!r}: semicolons stand between principals, as User:admin;User:root")
        if not all(name.partition(":")[::2]):
            raise ValueError(f"super.users: {name!r} is no principal; write it with its type, as User:admin")
    return frozenset(names)
