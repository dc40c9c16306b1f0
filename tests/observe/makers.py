"""Events and headers of recordings, with any value in fields that a test says nothing about."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypeVar

from ottla.broker.core.events import CommitReceived, Event, FetchParked, JoinReceived
from ottla.broker.core.groups.config import GroupConfig
from ottla.observe.recording import Header

Kind = TypeVar("Kind", bound=Event)

ANY: dict[str, Any] = {
    "group_id": "g",
    "cause": 1,
    "number": 1,
    "api_version": 9,
    "client_id": "c",
    "client_host": "/h",
    "member_id": "m",
    "group_instance_id": None,
    "generation": 1,
    "reason": None,
    "session_timeout_ms": 1,
    "rebalance_timeout_ms": 1,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "protocols": [],
    "leader_id": "m",
    "state": "Stable",
    "state_since_ms": None,
    "was_pending": False,
    "loaded": [],
    "commits": [],
}
APIS: dict[type[Event], str] = {
    CommitReceived: "OffsetCommit",
    FetchParked: "OffsetFetch",
    JoinReceived: "JoinGroup",
}

HEADER = Header(
    version="1",
    node_id=1,
    cluster_id="c",
    run_id="run",
    started_ms=5,
    started_at_ms=3,
    partitions=50,
    settings=asdict(GroupConfig()),
)


def event_of(kind: type[Kind], **fields: Any) -> Kind:
    """An event of a kind; that a request came has no cause."""
    given = {name: ANY[name] for name in kind.__struct_fields__ if name in ANY}
    if kind in APIS:
        given |= {"api": APIS[kind], "cause": 0}
    return kind(**given | fields)
