"""A listener that bounds nothing, for tests of connections."""

from __future__ import annotations

from ottla.broker.net.connection import Connection


class UnboundedHost:
    """What a connection needs from its listener but ``receive``; a rejection is a fault."""

    max_request_bytes = 64 << 20
    answer_room_bytes = 1 << 30
    is_full = False

    def most_request_bytes(self, api_key: int) -> int:
        return self.max_request_bytes

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...

    def rejected(self, connection: Connection, reason: str) -> None:
        raise AssertionError(reason)

    def holds(self, connection: Connection, held_bytes: int) -> bool:
        return True

    def unread(self, connection: Connection) -> None: ...

    reads_again = unread

    def room_for(self, connection: Connection, held_bytes: int, more_bytes: int) -> bool:
        return True
