"""The filters of DescribeClientQuotas (KIP-546)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ottla.broker.core.quotas.entities import CLIENT_ID, IP, USER, Entity
from ottla.broker.core.refusal import Refusal, bad_request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest


class Match(IntEnum):
    """The ways to compare a part of an entity."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class Filter(NamedTuple):
    """Parts that an entity must have, of types that it must have. ``strict``: and no others."""

    exact: dict[str, str | None]
    types: set[str]
    strict: bool

    def fits(self, entity: Entity) -> bool:
        """True if an entity meets all conditions."""
        if self.strict and len(entity) != len(self.exact) + len(self.types):
            return False
        names = dict(entity)
        return self.types <= names.keys() and all(
            kind in names and names[kind] == name for kind, name in self.exact.items()
        )


def filter_of(request: DescribeClientQuotasRequest) -> Filter | Refusal:
    """The filter that the conditions of a request make together, or why they make none."""
    found = Filter({}, set(), request.strict)
    for component in request.components:
        kind, match_type, match = component.entity_type, component.match_type, component.match
        if not kind:
            return bad_request("A condition needs the type of an entity")
        if kind in found.exact or kind in found.types:
            return bad_request(f"There may be one condition on {kind} only")
        if kind not in (USER, CLIENT_ID, IP):
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"There are no quotas for entities of type '{kind}'")
        if match_type == Match.EXACT:
            if match is None:
                return bad_request("An exact match needs a name")
            found.exact[kind] = match
        elif match_type not in (Match.DEFAULT, Match.SPECIFIED):
            return bad_request(f"There is no match of type {match_type}")
        elif match is not None:
            return bad_request("Only an exact match has a name")
        elif match_type == Match.DEFAULT:
            found.exact[kind] = None
        else:
            found.types.add(kind)
    kinds = found.exact.keys() | found.types
    if IP in kinds and len(kinds) > 1:
        return bad_request("An ip stands alone: it cannot be joined with a user or a client-id")
    return found
