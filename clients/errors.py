"""The errors of the clients: each carries Kafka's code, and its message says what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.clients.partitions import label, labels
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition


class KafkaError(Exception):
    """An operation failed with an error code.

    Attributes:
        code: Kafka's error code.
        retriable: the same call may succeed when made again. The clients have retried as long as their options allow.
    """

    default_code = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = self.default_code if code is None else code

    @property
    def retriable(self) -> bool:
        return self.code.retriable


class KafkaTimeout(KafkaError):
    """The time allowed is over. Whether a request in flight took effect is not known."""

    default_code = ErrorCode.REQUEST_TIMED_OUT


class BrokerSilent(KafkaTimeout):
    """A broker took no connection, or said nothing on it, for ``socket_connection_setup_timeout_ms``.

    Attributes:
        address: of the broker.
    """

    def __init__(self, address: str, timeout_ms: float) -> None:
        super().__init__(f"no connection to {address} in {timeout_ms:.0f} ms")
        self.address = address


class KafkaConnectionError(KafkaError):
    """A broker cannot be reached, or the connection broke before the answer came."""

    default_code = ErrorCode.NETWORK_EXCEPTION


class UnsupportedByBroker(KafkaError):
    """The broker serves no version of the API that this call can use."""

    default_code = ErrorCode.UNSUPPORTED_VERSION


class AuthenticationFailed(KafkaError):
    """The broker does not accept who this client says it is, or shows a certificate that is not trusted.

    The client does not connect any more: make a new one with another password, mechanism, token or certificate.
    """

    default_code = ErrorCode.SASL_AUTHENTICATION_FAILED


class TopicAuthorizationFailed(KafkaError):
    """Access to a topic is denied: its rules do not permit what was asked for, whether or not it exists.

    Attributes:
        topics: their names, if they are known.
    """

    default_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def __init__(self, message: str, code: ErrorCode | None = None, topics: Iterable[str] = ()) -> None:
        super().__init__(message, code)
        self.topics = tuple(topics)


class GroupAuthorizationFailed(KafkaError):
    """Access to a group is denied: its rules do not permit what was asked for, whether or not it exists."""

    default_code = ErrorCode.GROUP_AUTHORIZATION_FAILED


class ClusterAuthorizationFailed(KafkaError):
    """The rules of the cluster do not permit what was asked for."""

    default_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class TransactionalIdAuthorizationFailed(KafkaError):
    """The rules of a transactional id do not permit its use."""

    default_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class CommitFailed(KafkaError):
    """The offsets were not committed: this consumer no longer owns the partitions.

    The records since the last commit will be seen again by whoever owns them now. Go on polling.
    """

    default_code = ErrorCode.UNKNOWN_MEMBER_ID


class RebalanceInProgress(CommitFailed):
    """The offsets were not committed since a rebalance is under way: poll, then commit what is still owned."""

    default_code = ErrorCode.REBALANCE_IN_PROGRESS


class FencedInstance(KafkaError):
    """Another consumer joined with this group_instance_id (KIP-345). Give every consumer an id of its own."""

    default_code = ErrorCode.FENCED_INSTANCE_ID


class NoOffsetForPartition(KafkaError):
    """Partitions have no committed offset and ``auto_offset_reset`` is ``none``: seek, or choose a reset policy."""

    default_code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, partitions: list[TopicPartition]) -> None:
        super().__init__(f"no committed offset for {labels(partitions)} and auto_offset_reset is 'none': seek() them")
        self.partitions = partitions


class OffsetOutOfRange(KafkaError):
    """A position lies outside its log and ``auto_offset_reset`` is ``none``: seek, or choose a reset policy."""

    default_code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, positions: dict[TopicPartition, int]) -> None:
        names = ", ".join(f"{label(tp)} at {offset}" for tp, offset in positions.items())
        super().__init__(f"positions outside the log and auto_offset_reset is 'none': {names}; seek() them")
        self.positions = positions


class RecordCorrupt(KafkaError):
    """A fetched batch fails its CRC, cannot be decompressed or parsed, or would be too large. The position stays at it,
    or at its first record that cannot be parsed, and every call for records raises again, until you seek past the
    batch: ``consumer.seek(error.tp, error.next_offset)``.

    Attributes:
        offset: the consumer's position.
        next_offset: the first offset behind the batch, as its header says; None if that cannot be read either.
    """

    default_code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, tp: TopicPartition, offset: int, reason: str, next_offset: int | None = None) -> None:
        where = "" if next_offset is None else f"; the next one begins at offset {next_offset}"
        super().__init__(f"{label(tp)}: the batch at offset {offset} is corrupt: {reason}{where}")
        self.tp = tp
        self.offset = offset
        self.next_offset = next_offset


class RecordNotReadable(KafkaError):
    """A deserializer raised for a record. The position stays at it: seek past it to go on (KIP-334)."""

    default_code = ErrorCode.INVALID_RECORD

    def __init__(self, tp: TopicPartition, offset: int, what: str, reason: Exception) -> None:
        super().__init__(f"{label(tp)}: {what} of the record at offset {offset}: {reason!r}")
        self.tp = tp
        self.offset = offset


class TransactionFailed(KafkaError):
    """The transaction cannot be committed: abort it, begin another, and do its work again (KIP-1050)."""

    default_code = ErrorCode.TRANSACTION_ABORTABLE


class ProducerFenced(KafkaError):
    """A newer producer has this transactional_id, or the coordinator gave the transaction up: this one is of no use.

    Stop it. If this process is still the one that should work, make a new producer.
    """

    default_code = ErrorCode.PRODUCER_FENCED


class InvalidTransactionState(KafkaError):
    """A call that does not fit the transaction's state, e.g. ``send()`` before ``begin_transaction()``."""

    default_code = ErrorCode.INVALID_TXN_STATE


class SomeFailed(KafkaError):
    """Of several things that one admin call was asked for, some failed; what went well is in ``results``.

    Attributes:
        errors: by thing, e.g. topic name or group id.
        results: by thing.
    """

    def __init__(self, errors: Mapping[Any, KafkaError], results: Mapping[Any, Any]) -> None:
        first = next(iter(errors.values()))
        super().__init__("; ".join(str(error) for error in errors.values()), first.code)
        self.errors = dict(errors)
        self.results = dict(results)


class ClientClosed(KafkaError):
    """The client is not running: call ``start()`` first, and nothing after ``stop()``."""

    default_code = ErrorCode.INVALID_REQUEST


class OptionError(ValueError):
    """An option or argument that cannot be; the message names it, its value and what is allowed."""


_ADVICE: dict[ErrorCode, str] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ask for access to the cluster",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is loading; try again",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "no coordinator yet; try again",
    ErrorCode.FENCED_MEMBER_EPOCH: "the group went on without this member; give up its partitions and join again",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "ask for access to the group",
    ErrorCode.GROUP_ID_NOT_FOUND: "no such group; `list_groups()` shows those that exist",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group is full (group.max.size); stop another member first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that subscribe to the topic first",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "no assignor in common with the other members; give all of them one, e.g. "
        "partition_assignment_strategy='roundrobin'; or the broker's group.consumer.migration.policy lets no member of "
        "the classic protocol into a consumer group"
    ),
    ErrorCode.INVALID_GROUP_ID: "group_id must not be empty",
    ErrorCode.INVALID_REPLICATION_FACTOR: "ask for no more replicas than there are brokers",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "write the pattern in the syntax of RE2; it must match the whole name",
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "session_timeout_ms must lie between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
    ),
    ErrorCode.INVALID_TXN_STATE: (
        "the coordinator has ended the transaction, perhaps as it took longer than transaction_timeout_ms; "
        "make a new producer"
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a topic's name is 1 to 249 letters, digits, '.', '_' or '-'",
    ErrorCode.MESSAGE_TOO_LARGE: "the record exceeds the topic's max.message.bytes",
    ErrorCode.NON_EMPTY_GROUP: "the group has members; stop them first",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "shorten the metadata (offset.metadata.max.bytes)",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "transaction_timeout_ms must not exceed the broker's transaction.max.timeout.ms"
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "ask for access to the transactional id",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`list_transactions()` shows those that exist",
    ErrorCode.TOPIC_ALREADY_EXISTS: "the topic exists; use it, or delete it first",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "ask for access to the topic",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`list_topics()` shows those that exist",
    ErrorCode.UNRELEASED_INSTANCE_ID: (
        "another running member has this group_instance_id; stop it, or give every consumer an id of its own"
    ),
    ErrorCode.UNSUPPORTED_ASSIGNOR: "the broker has no such assignor (group.consumer.assignors)",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "choose another compression_type",
}

_CLASSES: dict[ErrorCode, type[KafkaError]] = {
    one.default_code: one
    for one in (
        AuthenticationFailed,
        ClusterAuthorizationFailed,
        FencedInstance,
        GroupAuthorizationFailed,
        KafkaConnectionError,
        KafkaTimeout,
        RebalanceInProgress,
        TopicAuthorizationFailed,
        TransactionalIdAuthorizationFailed,
        UnsupportedByBroker,
    )
}

COORDINATOR_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Codes after which the coordinator is looked up again."""
STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)
"""Codes of a partition after which metadata are asked for again."""
NOT_THE_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Codes of a partition with which its broker may name the leader (KIP-951)."""


def error_code(value: int) -> ErrorCode:
    """The code of a response; one that is newer than this client reads as UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(value)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def error_of(value: int, subject: str, detail: str | None = None, topic: str | None = None) -> KafkaError:
    """The exception for an error code in a response.

    Args:
        value: the code.
        subject: the action that failed, e.g. ``create topic 'orders'``.
        detail: the broker's own words, if it sent any.
        topic: that it is about.
    """
    code = error_code(value)
    words = code.text if code == value else f"error code {value}"
    parts = [f"{subject}: {words}"]
    said = (detail or "").rstrip(".")
    if said and said.lower() != words.lower():
        parts.append(said)
    elif advice := _ADVICE.get(code):
        parts.append(advice)
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic is not None:
        return TopicAuthorizationFailed("; ".join(parts), code, [topic])
    return _CLASSES.get(code, KafkaError)("; ".join(parts), code)


def check(value: int, subject: str, detail: str | None = None) -> None:
    """Raise the exception for an error code, unless it is NONE. Takes what `error_of` takes."""
    if value:
        raise error_of(value, subject, detail)
