"""DeleteTopics (key 20), by name or by topic id. KIP-4, KIP-516."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.schema import ArrayOf, Int16, Int32, Message, String, Uuid, Words, message, struct, wire


@struct
class DeleteTopicState:
    """A topic by name, or by id with a null name."""

    name: str | None = wire(String, since=6, nullable_since=6, default=None)
    topic_id: UUID = wire(Uuid, since=6)


@message(versions=range(1, 7), flexible_from=4)
class DeleteTopicsRequest(Message):
    """Delete topics: by name up to version 5, by name or id from version 6."""

    topics: list[DeleteTopicState] = wire(ArrayOf(DeleteTopicState), since=6)
    topic_names: list[str] = wire(ArrayOf(String), until=5)
    timeout_ms: int = wire(Int32)


@struct
class DeletableTopicResult:
    """The outcome for one topic."""

    name: str | None = wire(String, nullable_since=6)
    topic_id: UUID = wire(Uuid, since=6)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, since=5, nullable_since=5, default=None)


@message(versions=range(1, 7), flexible_from=4)
class DeleteTopicsResponse(Message):
    """The outcome for each topic."""

    throttle_time_ms: int = wire(Int32)
    responses: list[DeletableTopicResult] = wire(ArrayOf(DeletableTopicResult))
