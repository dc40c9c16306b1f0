"""Requests as they look at their version, and what a client waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.protocol.apis import ApiKey
from tests.support import requests
from tests.support.requests import Pairs

Fields = dict[str, Any]


def asked(api: ApiKey, version: int, fields: Fields) -> Any:
    """A request with what its version has."""
    request = requests.request(api, fields)
    layout = type(request).layout(version)
    return layout.decode(layout.encode(request))


@dataclass(slots=True)
class Call:
    """One request on a connection. ``hand`` sends it and is told whom to give the answer to."""

    api: ApiKey
    version: int
    request: Any
    timeout_ms: int
    hand: Callable[[Call], None]
    number: int = 0
    answered: Callable[[Any], None] | None = None

    def send(self, answered: Callable[[Any], None]) -> None:
        self.answered = answered
        self.hand(self)


@dataclass(slots=True)
class Identity:
    """The member that a request claims to come from."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1


def join(who: Identity, protocols: Pairs, session_ms: int, rebalance_ms: int, kind: str = "consumer") -> Fields:
    times = {"session_ms": session_ms, "rebalance_ms": rebalance_ms}
    fields = requests.join_fields(who.group_id, protocols=protocols, protocol_type=kind, **times)
    return fields | {"member_id": who.member_id, "group_instance_id": who.instance_id}


def sync(who: Identity, assignments: Pairs = (), protocol: tuple[str | None, str | None] = (None, None)) -> Fields:
    fields = requests.sync_fields(who.group_id, who.generation, who.member_id, assignments, instance=who.instance_id)
    return fields | {"protocol_type": protocol[0], "protocol_name": protocol[1]}


def heartbeat(who: Identity) -> Fields:
    return requests.heartbeat_fields(who.group_id, who.generation, who.member_id, who.instance_id)


def commit(who: Identity, offsets: Sequence[tuple[str, int, int, str]], retention_ms: int = -1) -> Fields:
    """``offsets`` are topic, partition, offset and metadata."""
    fields = requests.commit_fields(who.group_id, offsets, generation=who.generation, retention_ms=retention_ms)
    return fields | {"member_id": who.member_id, "group_instance_id": who.instance_id}


def fetch(
    group_ids: Sequence[str], version: int, topics: Sequence[tuple[str, Sequence[int]]] | None, stable: bool
) -> Fields:
    """All offsets without ``topics``, which versions before 2 cannot ask for."""
    wanted = {} if topics is None and version < 2 else topics
    return requests.offset_fetch_fields(group_ids, None if wanted is None else dict(wanted), stable=stable)
