# ruff: noqa: RUF009 - opt() is dataclasses.field() with a check
"""The options of the three clients: aiokafka's names, Kafka's defaults unless said otherwise. Times in ms.

docs/client.md is printed from the docstrings here: each option has its entry, ``name: meaning``.

A bad option raises `OptionError` naming the key, the value and what is allowed; an unknown one names its neighbours.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from ottla.clients.backoff import Backoff
from ottla.clients.errors import OptionError
from ottla.clients.given import is_int, is_name
from ottla.clients.structs import EARLIEST, LATEST
from ottla.protocol.compression import MAX_DECOMPRESSED_BYTES, Codec

INT32_MAX = 2**31 - 1
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
Check = tuple[str, Callable[[Any], bool]]


def between(low: int, high: int = INT32_MAX) -> Check:
    """An integer in a range, both ends inclusive."""
    return f"an integer from {low} to {high}", lambda value: is_int(value) and low <= value <= high


def one_of(*allowed: Any) -> Check:
    """One of a few values; types count, so that True is not 1."""
    words = ", ".join(repr(value) for value in allowed)
    return words, lambda value: any(type(value) is type(one) and value == one for one in allowed)


def or_none(check: Check) -> Check:
    words, test = check
    return f"{words}, or None", lambda value: value is None or test(value)


FLAG: Check = ("True or False", lambda value: isinstance(value, bool))
TEXT: Check = ("a text that is not empty", lambda value: is_name(value) and value != "")
ANY_TEXT: Check = ("a text", is_name)
CALLABLE: Check = ("a function", callable)
STRATEGY: Check = (
    "'range', 'roundrobin', 'sticky', 'cooperative-sticky', an Assignor object, or a list of these, each once",
    lambda value: True,  # make_assignors checks it: who does not consume need not import assignors
)
SERVERS: Check = (
    "'host:port', several separated by commas, or a list of them",
    lambda value: (
        (isinstance(value, str) and value != "")
        or (isinstance(value, Sequence) and len(value) > 0 and all(isinstance(one, str) and one for one in value))
    ),
)


def opt(default: Any, check: Check, *, secret: bool = False) -> Any:
    return field(default=default, metadata={"check": check, "secret": secret}, repr=not secret)


@runtime_checkable
class TokenProvider(Protocol):
    """Where the tokens of OAUTHBEARER come from; an object of yours with these two methods."""

    async def token(self) -> str:
        """A token that is valid now. It is asked for before each exchange, and may be the same as before."""
        ...

    def extensions(self) -> Mapping[str, str]:
        """What the broker is told besides (KIP-342), often nothing."""
        ...


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """Options of every client.

    bootstrap_servers: where to ask for the cluster; one that answers is enough. The port is 9092 unless given.
    bootstrap_timeout_ms: while none answers, or has a name that can be resolved, ``start()`` tries again for so long;
        0 raises at once. A program that starts together with its broker waits for it (for names: KIP-909).
    client_id: a name for logs on both sides.
    request_timeout_ms: the longest time for one request.
    socket_connection_setup_timeout_ms: the longest time to connect, but at most that for a request (KIP-601).
    retry_backoff_ms, retry_backoff_max_ms: the wait before a retry, doubled up to the second.
    reconnect_backoff_ms, reconnect_backoff_max_ms: the same for connections.
    metadata_max_age_ms: cluster metadata are asked for again after this long.
    connections_max_idle_ms: the client closes a connection that it has not used for this long.
    receive_message_max_bytes: the longest answer that is read; the connection is closed at a longer one.
    security_protocol: PLAINTEXT; SSL, encrypted by TLS; SASL_PLAINTEXT or SASL_SSL, which tell the broker who this
        client is.
    ssl_context: checks the brokers' certificates and shows the client's. None makes one that trusts the machine's
        authorities, or what the following name.
    ssl_cafile: a file with the authorities to trust, as PEM, in their place.
    ssl_certfile, ssl_keyfile, ssl_password: the client's certificate, its key, if it is in a file of its own, and the
        key's password.
    ssl_check_hostname: whether a broker's certificate must be for the name by which it is reached.
    sasl_mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
    sasl_plain_username, sasl_plain_password: for PLAIN and SCRAM.
    sasl_oauth_token_provider: for OAUTHBEARER, a TokenProvider.
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
    security_protocol: str = opt("PLAINTEXT", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
    ssl_context: ssl.SSLContext | None = opt(
        None, ("an ssl.SSLContext, or None", lambda value: value is None or isinstance(value, ssl.SSLContext))
    )
    ssl_cafile: str | None = opt(None, or_none(TEXT))
    ssl_certfile: str | None = opt(None, or_none(TEXT))
    ssl_keyfile: str | None = opt(None, or_none(TEXT))
    ssl_password: str | None = opt(None, or_none(ANY_TEXT), secret=True)
    ssl_check_hostname: bool = opt(True, FLAG)
    sasl_mechanism: str = opt("PLAIN", one_of(*SASL_MECHANISMS))
    sasl_plain_username: str | None = opt(None, or_none(TEXT))
    sasl_plain_password: str | None = opt(None, or_none(TEXT), secret=True)
    sasl_oauth_token_provider: TokenProvider | None = opt(
        None,
        (
            "an object with `async def token()` and `extensions()`, or None",
            lambda value: value is None or isinstance(value, TokenProvider),
        ),
        secret=True,
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
                having = [one for one in CLIENTS if name in one.__dataclass_fields__]
                hints = [f"it is one of {' and '.join(one.role.capitalize() for one in having)}"] if having else []
                hints += [f"did you mean {' or '.join(near)}?"] if near else []
                hint = "; ".join(hints) or "docs/client.md lists those that it has"
                # It may be a password under another name.
                shown = "…" if name.startswith(("sasl", "ssl", "password")) else repr(value)
                raise OptionError(f"{name}={shown}: {cls.role.capitalize()} has no such option; {hint}")
        return cls(**given)

    def __post_init__(self) -> None:
        for one in fields(self):
            if one.default is MISSING:
                continue
            words, test = one.metadata["check"]
            if not test(getattr(self, one.name)):
                self.refuse(one.name, words)
        self.servers()
        self._check_security()

    def _check_security(self) -> None:
        """Refuse what contradicts itself: who gives a password or a certificate relies on it."""
        protocol = f"security_protocol is {self.security_protocol!r}"
        for one in fields(ClientOptions):
            if not one.name.startswith(("ssl_", "sasl_")) or getattr(self, one.name) == one.default:
                continue
            of_tls = one.name.startswith("ssl_")
            if not (self.has_tls if of_tls else self.has_sasl):
                either = "SSL" if of_tls else "SASL_PLAINTEXT"
                wanted = "SASL_SSL" if self.has_tls or self.has_sasl else f"SASL_SSL or {either}"
                raise OptionError(
                    f"{self._shown(one.name)}: it means nothing, as {protocol}; say {wanted} there, or leave this out"
                )
            if one.name.startswith("ssl_") and one.name != "ssl_context" and self.ssl_context is not None:
                self.refuse(one.name, f"{one.default!r}, as there is an ssl_context")
        if (self.ssl_keyfile is not None or self.ssl_password is not None) and self.ssl_certfile is None:
            self.refuse("ssl_certfile", "the file with the client's certificate, as there is a key of it")
        if not self.has_sasl:
            return
        by_token = self.sasl_mechanism == "OAUTHBEARER"
        needed = ["sasl_oauth_token_provider"] if by_token else ["sasl_plain_username", "sasl_plain_password"]
        for name in ("sasl_plain_username", "sasl_plain_password", "sasl_oauth_token_provider"):
            given = getattr(self, name) is not None
            if given is not (name in needed):
                what = "it means nothing" if given else "it is needed"
                mechanism = f"sasl_mechanism is {self.sasl_mechanism!r}"
                raise OptionError(f"{self._shown(name)}: {what}, as {protocol} and {mechanism}")

    @property
    def has_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    def refuse(self, name: str, allowed: str) -> None:
        """Raise the error for an option; the value of a secret one is not shown."""
        raise OptionError(f"{self._shown(name)}: allowed is {allowed}")

    def _shown(self, name: str) -> str:
        value = getattr(self, name)
        secret = value is not None and type(self).__dataclass_fields__[name].metadata["secret"]
        return f"{name}={'…' if secret else repr(value)}"

    def retry_backoff(self) -> Backoff:
        """New waits between the tries of a call."""
        return Backoff(self.retry_backoff_ms, self.retry_backoff_max_ms)

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
    """Options of a producer, besides those of every client.

    acks: the brokers that must have a record before it counts as delivered: none (0), the leader (1), or all in-sync
        replicas ("all", or -1). None means "all".
    enable_idempotence: retries neither duplicate nor reorder records. None means on, unless acks or
        max_in_flight_requests_per_connection exclude it.
    compression_type: the codec of batches.
    max_batch_size: bytes of a batch; a record that is larger gets a batch of its own.
    max_request_size: bytes of the largest request, and of the largest record.
    linger_ms: the time for which a batch that is not full waits for more records.
    buffer_memory: bytes of the records that wait to be sent. ``send()`` waits beyond it, at most max_block_ms.
    max_block_ms: the longest wait of ``send()`` for metadata or for room, and of transactions' calls for an answer.
    delivery_timeout_ms: the time from ``send()`` to the end of the last retry.
    max_in_flight_requests_per_connection: requests that may be under way to a broker; 5 at most with idempotence.
    transactional_id: makes the producer transactional. One id for each process that may work at a time: a later
        producer with the same id ends the work of an earlier one.
    transaction_timeout_ms: the coordinator aborts a transaction that takes longer.
    partitioner: ``f(key_bytes, all_partitions, available_partitions) -> partition``; by default Kafka's murmur2.
    key_serializer: makes bytes of a key. It is not called for None, which means no key.
    value_serializer: makes bytes of a value. It is not called for None, which is a tombstone.
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
    """Options of a consumer, besides those of every client.

    group_id: the consumer group. Topics need one; with None, ``assign`` chooses the partitions.
    group_instance_id: a name that outlives restarts; it makes the consumer a static member (KIP-345).
    group_protocol: ``classic``, or ``consumer``: the broker divides the partitions (KIP-848), and members give up and
        take partitions one by one. Needs Ottla, or Apache Kafka 4.0 or later.
    group_remote_assignor: the broker's assignor that this member prefers, for the protocol ``consumer``. With None the
        broker chooses.
    client_rack: the rack in which the consumer runs; sent with its subscription and its fetches.
    auto_offset_reset: where to begin if the group has committed no offset, or one that the log does not have any more.
        With none the consumer raises NoOffsetForPartition or OffsetOutOfRange.
    enable_auto_commit: commit the records that you are done with: now and then, before a rebalance and at the end. You
        are done with records when you ask for the next ones.
    auto_commit_interval_ms: the time between two such commits.
    session_timeout_ms: the coordinator removes this member if it hears nothing of it for so long. For the protocol
        ``classic``; with ``consumer`` the broker decides.
    heartbeat_interval_ms: the time between two heartbeats. It must be less than session_timeout_ms; a third is advised.
        For the protocol ``classic``; with ``consumer`` the broker decides.
    max_poll_interval_ms: the longest time between two calls for records; after it the consumer leaves the group.
    rebalance_timeout_ms: the time for which a rebalance waits for this member. None means max_poll_interval_ms.
    max_poll_records: the most records that one ``getmany`` or ``poll`` returns.
    default_api_timeout_ms: the longest time for ``commit``, ``position`` and the like, retries included.
    partition_assignment_strategy: one assignor or several, in order of preference, for the protocol ``classic``.
    fetch_min_bytes: the broker waits until it has so many bytes for a fetch, but at most fetch_max_wait_ms.
    fetch_max_wait_ms: the longest that it waits.
    fetch_max_bytes: the most bytes that a fetch brings; one whole batch comes in any case.
    max_partition_fetch_bytes: the same for each partition.
    max_decompressed_batch_bytes: bytes of the largest batch when it is decompressed; a larger one raises RecordCorrupt.
    check_crcs: check the CRC of every batch.
    isolation_level: with read_committed, records of open and aborted transactions are not given out.
    exclude_internal_topics: a pattern does not match internal topics.
    allow_auto_create_topics: the broker may create a topic that is subscribed to and missing, if it is set to do that.
    key_deserializer: makes a key of bytes. It is not called for a record without a key.
    value_deserializer: makes a value of bytes. It is not called for a tombstone.
    interceptors: ConsumerInterceptor objects, called in this order.
    """

    role: ClassVar[str] = "consumer"

    group_id: str | None = opt(None, or_none(TEXT))
    group_instance_id: str | None = opt(None, or_none(TEXT))
    group_protocol: str = opt("classic", one_of("classic", "consumer"))
    group_remote_assignor: str | None = opt(None, one_of("uniform", "range", None))
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
    partition_assignment_strategy: Any = opt(("range", "cooperative-sticky"), STRATEGY)
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
            self.refuse(
                "heartbeat_interval_ms",
                f"less than session_timeout_ms={self.session_timeout_ms}; a third of that is advised",
            )
        if self.by_broker:
            self._check_by_broker()
        elif self.group_remote_assignor is not None:
            self.refuse("group_remote_assignor", "None, as group_protocol is 'classic'")
        if self.group_instance_id is not None and self.group_id is None:
            self.refuse("group_instance_id", "None, as there is no group_id")

    def _check_by_broker(self) -> None:
        """Refuse what the protocol ``consumer`` has no use for, as Java's consumer does."""
        instead = {
            "session_timeout_ms": "the group's setting consumer.session.timeout.ms decides",
            "heartbeat_interval_ms": "the group's setting consumer.heartbeat.interval.ms decides",
            "partition_assignment_strategy": "see group_remote_assignor",
        }
        for one in fields(self):
            if one.name in instead and getattr(self, one.name) != one.default:
                self.refuse(one.name, f"the default, as group_protocol is 'consumer': {instead[one.name]}")

    @property
    def by_broker(self) -> bool:
        """The broker divides the partitions: the protocol is ``consumer``."""
        return self.group_protocol == "consumer"

    @property
    def group(self) -> str:
        """The group_id of a consumer that has one."""
        assert self.group_id is not None
        return self.group_id

    @property
    def join_timeout_ms(self) -> int:
        """The rebalance timeout on the wire: how long the group waits for this member to rejoin."""
        return self.max_poll_interval_ms if self.rebalance_timeout_ms is None else self.rebalance_timeout_ms

    @property
    def reset_to(self) -> int:
        """The offset to look up where none is known; meant for a policy other than ``none``."""
        return EARLIEST if self.auto_offset_reset == "earliest" else LATEST

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"


@dataclass(frozen=True, kw_only=True)
class AdminOptions(ClientOptions):
    """Options of an admin client, besides those of every client.

    default_api_timeout_ms: the longest time for a whole call, retries included.
    retry_silent_brokers: a call asks a broker again that takes no connection in time; without it, it fails with what
        the others answered.
    """

    role: ClassVar[str] = "admin"

    default_api_timeout_ms: int = opt(60_000, between(1))
    retry_silent_brokers: bool = opt(True, FLAG)


CLIENTS: tuple[type[ClientOptions], ...] = (ProducerOptions, ConsumerOptions, AdminOptions)
"""The options of the clients, to tell to which of them an unknown one belongs."""
