# ruff: noqa: RUF009 - opt() is dataclasses.field() with a check
"""The options of the three clients: aiokafka's names, Kafka's defaults unless said otherwise. Times in ms.

A bad option raises `OptionError` naming the key, the value and what is allowed; an unknown one names its neighbours.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Self

from ottla.clients.errors import OptionError
from ottla.protocol.compression import MAX_DECOMPRESSED_BYTES, Codec

INT32_MAX = 2**31 - 1
Check = tuple[str, Callable[[Any], bool]]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def between(low: int, high: int = INT32_MAX) -> Check:
    """An integer in a range, both ends inclusive."""
    return f"an integer from {low} to {high}", lambda value: _is_int(value) and low <= value <= high


def one_of(*allowed: Any) -> Check:
    """One of a few values; types count, so that True is not 1."""
    words = ", ".join(repr(value) for value in allowed)
    return words, lambda value: any(type(value) is type(one) and value == one for one in allowed)


def or_none(check: Check) -> Check:
    words, test = check
    return f"{words}, or None", lambda value: value is None or test(value)


FLAG: Check = ("True or False", lambda value: isinstance(value, bool))
TEXT: Check = ("a text that is not empty", lambda value: isinstance(value, str) and value != "")
ANY_TEXT: Check = ("a text", lambda value: isinstance(value, str))
CALLABLE: Check = ("a function", callable)
ANYTHING: Check = ("anything", lambda value: True)
SERVERS: Check = (
    "'host:port', several separated by commas, or a list of them",
    lambda value: (
        (isinstance(value, str) and value != "")
        or (isinstance(value, Sequence) and len(value) > 0 and all(isinstance(one, str) and one for one in value))
    ),
)


def opt(default: Any, check: Check) -> Any:
    return field(default=default, metadata={"check": check})


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """What every client takes.

    bootstrap_servers: where to ask for the cluster; one that answers is enough. The port is 9092 unless given.
    bootstrap_timeout_ms: while none answers, or has a name that can be resolved, ``start()`` tries again for so long;
        0 raises at once. A program that starts together with its broker waits for it (for names: KIP-909).
    client_id: a name for logs on both sides.
    request_timeout_ms: how long one request may take.
    socket_connection_setup_timeout_ms: how long it may take to connect, if not longer than a request (KIP-601).
    retry_backoff_ms, retry_backoff_max_ms: the wait before a retry, doubled up to the second.
    reconnect_backoff_ms, reconnect_backoff_max_ms: the same for connections.
    metadata_max_age_ms: cluster metadata are asked for again after this long.
    connections_max_idle_ms: a connection that is not used is closed after this long.
    receive_message_max_bytes: the longest answer that is read.
    security_protocol, ssl_context: PLAINTEXT, or SSL with a context.
    """

    role: ClassVar[str] = "client"

    bootstrap_servers: str | Sequence[str] = opt("localhost:9092", SERVERS)
    bootstrap_timeout_ms: int = opt(0, between(0))
    client_id: str | None = opt(None, or_none(TEXT))
    request_timeout_ms: int = opt(40_000, between(1))
    socket_connection_setup_timeout_ms: int = opt(10_000, between(1))
    retry_backoff_ms: int = opt(100, between(0))
    retry_backoff_max_ms: int = opt(1_000, between(0))
    reconnect_backoff_ms: int = opt(50, between(0))
    reconnect_backoff_max_ms: int = opt(1_000, between(0))
    metadata_max_age_ms: int = opt(300_000, between(1))
    connections_max_idle_ms: int = opt(540_000, between(1))
    receive_message_max_bytes: int = opt(256 << 20, between(1024))
    security_protocol: str = opt("PLAINTEXT", one_of("PLAINTEXT", "SSL"))
    ssl_context: ssl.SSLContext | None = opt(
        None, ("an ssl.SSLContext, or None", lambda value: value is None or isinstance(value, ssl.SSLContext))
    )

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Options from keyword arguments.

        Raises:
            OptionError: an unknown name.
        """
        known = {one.name for one in fields(cls)}
        for name, value in given.items():
            if name not in known:
                near = get_close_matches(name.replace(".", "_"), known, n=3)
                hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(known))}"
                raise OptionError(f"{name}={value!r}: a {cls.role} has no such option; {hint}")
        return cls(**given)

    def __post_init__(self) -> None:
        for one in fields(self):
            if one.default is MISSING:
                continue
            words, test = one.metadata["check"]
            value = getattr(self, one.name)
            if not test(value):
                raise OptionError(f"{one.name}={value!r}: allowed is {words}")
        self.servers()
        if self.security_protocol == "SSL" and self.ssl_context is None:
            self.refuse("ssl_context", "an ssl.SSLContext, as security_protocol is 'SSL'")

    def refuse(self, name: str, allowed: str) -> None:
        raise OptionError(f"{name}={getattr(self, name)!r}: allowed is {allowed}")

    def servers(self) -> list[tuple[str, int]]:
        """The bootstrap servers as (host, port)."""
        given = self.bootstrap_servers
        texts = given.split(",") if isinstance(given, str) else list(given)
        return [self._server(text.strip()) for text in texts if text.strip()]

    def _server(self, text: str) -> tuple[str, int]:
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
            host, port = text, "9092"  # no port, or a bare IPv6 address
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise OptionError(f"bootstrap_servers={self.bootstrap_servers!r}: {text!r} is not 'host:port'")
        return host.strip("[]"), int(port)


CODECS = {
    None: Codec.NONE,
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """What a producer takes besides.

    acks: 0 does not ask, 1 asks the leader, "all" (or -1) all in-sync replicas; by default "all".
    enable_idempotence: no duplicates and no reordering by retries; by default on, unless acks or
        max_in_flight_requests_per_connection exclude it.
    compression_type: None, gzip, snappy, lz4 or zstd.
    max_batch_size: bytes of a batch; a record that is larger gets a batch of its own.
    max_request_size: the largest request, and the largest record.
    linger_ms: how long a batch that is not full waits for more records.
    buffer_memory: bytes of records waiting; ``send()`` waits beyond it, at most max_block_ms.
    delivery_timeout_ms: from ``send()`` to the end of the last retry.
    transactional_id: makes the producer transactional. One id for each process that may work at a time: a later
        producer with the same id ends the work of an earlier one.
    transaction_timeout_ms: the coordinator aborts a transaction that takes longer.
    partitioner: ``f(key_bytes, all_partitions, available_partitions) -> partition``; by default Kafka's murmur2.
    key_serializer, value_serializer: to bytes. None stays None: no key, or a tombstone.
    """

    role: ClassVar[str] = "producer"

    acks: int | str | None = opt(None, one_of(0, 1, -1, "all", None))
    enable_idempotence: bool | None = opt(None, or_none(FLAG))
    compression_type: str | None = opt(None, one_of(*CODECS))
    max_batch_size: int = opt(16_384, between(0))
    max_request_size: int = opt(1_048_576, between(1))
    linger_ms: int = opt(0, between(0))
    buffer_memory: int = opt(32 << 20, between(1, 2**62))
    max_block_ms: int = opt(60_000, between(0))
    delivery_timeout_ms: int = opt(120_000, between(1))
    max_in_flight_requests_per_connection: int = opt(5, between(1))
    transactional_id: str | None = opt(None, or_none(TEXT))
    transaction_timeout_ms: int = opt(60_000, between(1))
    partitioner: Callable[..., int] | None = opt(None, or_none(CALLABLE))
    key_serializer: Callable[[Any], bytes | None] | None = opt(None, or_none(CALLABLE))
    value_serializer: Callable[[Any], bytes | None] | None = opt(None, or_none(CALLABLE))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.enable_idempotence:
            if self.acks not in (None, -1, "all"):
                self.refuse("acks", "'all' (or -1), as enable_idempotence is on")
            if self.max_in_flight_requests_per_connection > 5:
                self.refuse("max_in_flight_requests_per_connection", "1 to 5, as enable_idempotence is on")
        if self.transactional_id is not None and not self.idempotent:
            self.refuse("transactional_id", "None, as acks, enable_idempotence or the requests in flight exclude it")
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            self.refuse("delivery_timeout_ms", "at least linger_ms + request_timeout_ms")

    @property
    def idempotent(self) -> bool:
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        return self.acks in (None, -1, "all") and self.max_in_flight_requests_per_connection <= 5

    @property
    def acks_on_wire(self) -> int:
        return self.acks if isinstance(self.acks, int) else -1

    @property
    def codec(self) -> Codec:
        return CODECS[self.compression_type]


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions(ClientOptions):
    """What a consumer takes besides.

    group_id: the consumer group; None consumes without one.
    group_instance_id: an id that outlives restarts makes a static member (KIP-345).
    client_rack: where the consumer stands; sent with its subscription and its fetches.
    auto_offset_reset: where to begin without a committed offset: earliest, latest or none (an error).
    enable_auto_commit, auto_commit_interval_ms: commit what you are done with, now and then, before a rebalance and
        at the end. You are done with records when you ask for the next ones.
    session_timeout_ms, heartbeat_interval_ms: how the coordinator notices that this process is gone.
    max_poll_interval_ms: how long you may take between two calls before the consumer leaves the group; also how long
        the group waits for this member in a rebalance, unless rebalance_timeout_ms is given.
    max_poll_records: the most records that one ``getmany`` or ``poll`` returns.
    default_api_timeout_ms: how long ``commit``, ``position`` and the like may take, retries included.
    partition_assignment_strategy: assignors in order of preference, by name or as objects.
    fetch_min_bytes, fetch_max_wait_ms: the broker waits for so many bytes, but not longer.
    fetch_max_bytes, max_partition_fetch_bytes: the most that a fetch brings (at least one batch comes in any case).
    max_decompressed_batch_bytes: a batch that becomes larger when it is decompressed is not read: it raises.
    check_crcs: check every batch.
    isolation_level: read_uncommitted or read_committed.
    exclude_internal_topics: a pattern does not match internal topics.
    allow_auto_create_topics: a subscribed topic that is missing is created if the broker does that.
    key_deserializer, value_deserializer: from bytes; not asked where there is none.
    interceptors: objects with ``on_consume(records)`` and ``on_commit(offsets)``.
    """

    role: ClassVar[str] = "consumer"

    group_id: str | None = opt(None, or_none(TEXT))
    group_instance_id: str | None = opt(None, or_none(TEXT))
    client_rack: str | None = opt(None, or_none(ANY_TEXT))
    auto_offset_reset: str = opt("latest", one_of("earliest", "latest", "none"))
    enable_auto_commit: bool = opt(True, FLAG)
    auto_commit_interval_ms: int = opt(5_000, between(1))
    session_timeout_ms: int = opt(45_000, between(1))
    heartbeat_interval_ms: int = opt(3_000, between(1))
    max_poll_interval_ms: int = opt(300_000, between(1))
    rebalance_timeout_ms: int | None = opt(None, or_none(between(1)))
    max_poll_records: int = opt(500, between(1))
    default_api_timeout_ms: int = opt(60_000, between(1))
    partition_assignment_strategy: Any = opt(("range", "cooperative-sticky"), ANYTHING)
    fetch_min_bytes: int = opt(1, between(0))
    fetch_max_bytes: int = opt(52_428_800, between(0))
    fetch_max_wait_ms: int = opt(500, between(0))
    max_partition_fetch_bytes: int = opt(1_048_576, between(0))
    max_decompressed_batch_bytes: int = opt(MAX_DECOMPRESSED_BYTES, between(1))
    check_crcs: bool = opt(True, FLAG)
    isolation_level: str = opt("read_uncommitted", one_of("read_uncommitted", "read_committed"))
    exclude_internal_topics: bool = opt(True, FLAG)
    allow_auto_create_topics: bool = opt(True, FLAG)
    key_deserializer: Callable[[bytes], Any] | None = opt(None, or_none(CALLABLE))
    value_deserializer: Callable[[bytes], Any] | None = opt(None, or_none(CALLABLE))
    interceptors: Sequence[Any] = opt((), ("a list of interceptors", lambda value: isinstance(value, Sequence)))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            self.refuse("heartbeat_interval_ms", "less than session_timeout_ms, a third of it at most for safety")
        if self.group_instance_id is not None and self.group_id is None:
            self.refuse("group_instance_id", "None, as there is no group_id")

    @property
    def join_timeout_ms(self) -> int:
        """How long the group waits for this member to rejoin: the rebalance timeout on the wire."""
        return self.max_poll_interval_ms if self.rebalance_timeout_ms is None else self.rebalance_timeout_ms

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"


@dataclass(frozen=True, kw_only=True)
class AdminOptions(ClientOptions):
    """What an admin client takes besides.

    default_api_timeout_ms: how long a whole call may take, retries included.
    """

    role: ClassVar[str] = "admin"

    default_api_timeout_ms: int = opt(60_000, between(1))
