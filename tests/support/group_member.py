"""A member of a group that speaks the protocol itself, over whatever carries its requests.

It remembers what it was told, and says so in its next request: a socket, a coordinator in a world without sockets or a
handler give the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.support.requests import (
    Pairs,
    Topic,
    commit_fields,
    heartbeat_fields,
    join_fields,
    leave_fields,
    request,
    sync_fields,
)

Send = Callable[[ApiKey, int, Any], Any]
"""Takes an API, a version and a request; gives the answer, or what will have it later."""


class GroupMember:
    """The state of a group member, and its requests.

    Args:
        send: what every verb gives is what this gives.
        protocols: names and metadata; None for the assignor range and a subscription.

    Attributes:
        member_id, generation, protocol: as `learn` was told last.
    """

    def __init__(
        self,
        send: Send,
        group: str,
        *,
        instance: str | None = None,
        protocols: Pairs | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 30_000,
        rebalance_ms: int = 30_000,
    ) -> None:
        self._send = send
        self.group = group
        self.instance = instance
        self.protocols = protocols
        self.protocol_type = protocol_type
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.member_id = ""
        self.generation = -1
        self.protocol = "range"

    def ask(self, key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        return self._send(key, version, request(key, fields))

    def join(self, version: int = 9, **fields: Any) -> Any:
        """``fields`` are more of the request's, or others."""
        own = join_fields(
            self.group,
            member_id=self.member_id,
            instance=self.instance,
            protocols=self.protocols,
            protocol_type=self.protocol_type,
            session_ms=self.session_ms,
            rebalance_ms=self.rebalance_ms,
        )
        return self.ask(ApiKey.JOIN_GROUP, version, own | fields)

    def learn(self, joined: Any) -> bool:
        """Keep what the answer to a join says; whether the member is in the group now, and is not to ask once more."""
        if joined.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = joined.member_id
        if joined.error_code == ErrorCode.NONE:
            self.generation, self.protocol = joined.generation_id, joined.protocol_name
        return bool(joined.error_code == ErrorCode.NONE)

    def sync(self, assignments: Pairs = (), version: int = 5) -> Any:
        """``assignments`` are a leader's: bytes by member id."""
        names = {"protocol_type": self.protocol_type, "protocol_name": self.protocol}
        fields = sync_fields(self.group, self.generation, self.member_id, assignments, instance=self.instance, **names)
        return self.ask(ApiKey.SYNC_GROUP, version, fields)

    def heartbeat(self, version: int = 4) -> Any:
        fields = heartbeat_fields(self.group, self.generation, self.member_id, self.instance)
        return self.ask(ApiKey.HEARTBEAT, version, fields)

    def commit(self, offsets: Iterable[tuple[Topic, int, int]], version: int = 8, **options: Any) -> Any:
        """``offsets``: topic, partition and offset; ``options`` are those of `commit_fields`."""
        own = {"generation": self.generation, "member_id": self.member_id, "instance": self.instance}
        return self.ask(ApiKey.OFFSET_COMMIT, version, commit_fields(self.group, offsets, **own | options))

    def leave(self, version: int = 5, reason: str | None = None) -> Any:
        """By its member id."""
        fields = leave_fields(self.group, (self.member_id, None), reason=reason)
        return self.ask(ApiKey.LEAVE_GROUP, version, fields)
