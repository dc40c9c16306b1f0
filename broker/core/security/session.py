"""Who is at the other end of a connection."""

from __future__ import annotations

from typing import Final, NamedTuple


class Session(NamedTuple):
    """A connection from the end of its authentication to its own, or to its expiry (KIP-368).

    Attributes:
        principal: a type and a name, ``User:alice``.
        listener: the name of the listener that it came by, in upper case.
        mechanism: of SASL; empty where none was asked for.
        ends_ms: from then on (Unix ms) nothing is served before it has authenticated again; None: never.
    """

    principal: str = "User:ANONYMOUS"
    listener: str = "PLAINTEXT"
    mechanism: str = ""
    ends_ms: int | None = None

    @property
    def user(self) -> str:
        """The name of the principal, for whom quotas count."""
        return self.principal.partition(":")[2]


ANONYMOUS: Final = Session()
"""Of a listener that asks nobody who he is."""
