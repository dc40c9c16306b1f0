"""DescribeGroupHistory (key 20001): what happened to a group, and why. Ottla's own: Kafka has no such API.

It is not among the APIs that a broker advertises: who asks for it knows that it talks to Ottla.
"""

from __future__ import annotations

from ottla.protocol.schema import Bytes, Int16, Int32, Int64, Message, String, Words, message, wire


@message(versions=range(1), flexible_from=0)
class DescribeGroupHistoryRequest(Message):
    """Ask what happened to a group.

    ``view`` is ``why``, ``timeline`` or ``events``. The newest ``last`` episodes are told, those since ``since_ms``
    (Unix time), those of ``generation``; -1 stands for all. For ``events``, ``after`` is the number after which to
    begin and ``last`` how many to tell at most.
    """

    group_id: str = wire(String)
    view: str = wire(String)
    generation: int = wire(Int32, default=-1)
    last: int = wire(Int32, default=-1)
    since_ms: int = wire(Int64, default=-1)
    after: int = wire(Int64, default=0)


@message(versions=range(1), flexible_from=0)
class DescribeGroupHistoryResponse(Message):
    """A JSON document."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0, default=None)
    body: bytes = wire(Bytes)
