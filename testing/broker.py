"""`Broker`: an embedded broker with the verbs that tests use."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.testing.clock import Clock
from ottla.testing.embedded import OWN_SUBJECT, EmbeddedBroker
from ottla.testing.fault import Fault
from ottla.testing.group import Group
from ottla.testing.logins import OAUTHBEARER

if TYPE_CHECKING:
    from ottla.clients import ConsumerRecord, RecordMetadata

Bytes: TypeAlias = bytes | str | None
"""A key or a value; a text is sent as UTF-8."""
CLIENTS = {"confluent": "bootstrap.servers", "aiokafka": "bootstrap_servers", "kafka-python": "bootstrap_servers"}
"""The name by which each client takes the address."""

_LIBRDKAFKAS = {
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_password": "sasl.password",
    "sasl_plain_username": "sasl.username",
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
}


class Broker(EmbeddedBroker):
    """A broker for tests, on an event loop of its own in a daemon thread. Use with ``with`` or ``async with``.

    ```python
    with Broker(topics=["orders"]) as broker:
        broker.produce("orders", [b"a", b"b"])
        broker.group("billing").wait(members=1, lag=0)
    ```

    The arguments are those of `EmbeddedBroker`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._faults: list[Fault] = []

    # topics and records

    @property
    def topics(self) -> dict[str, int]:
        """The topics with their partition counts, without Kafka's internal ones and Ottla's own."""
        view = self.observatory.view
        found = self.run(lambda: list(view.topics()))
        return {one.topic: len(one.partitions) for one in found if not one.is_internal}

    def produce(
        self, topic: str, values: Iterable[Bytes] | Bytes, *, key: Bytes = None, partition: int | None = None
    ) -> list[RecordMetadata]:
        """Write records, and wait until they are acknowledged.

        Args:
            values: the values of the records, in order; one alone may be given as it is.
            key: the key of each of them. It chooses the partition, if ``partition`` does not.

        Returns:
            Where each of them is: ``topic``, ``partition``, ``offset``.

        Raises:
            TypeError: values are neither bytes nor texts.
            ottla.clients.KafkaError: there is no such topic, or the broker refuses the records.
        """
        listed = [values] if isinstance(values, bytes | str | None) else list(values)
        encoded = [_bytes("values", one) for one in listed]
        return self.call(self._produce(topic, encoded, _bytes("key", key), partition))

    async def _produce(
        self, topic: str, values: list[bytes | None], key: bytes | None, partition: int | None
    ) -> list[RecordMetadata]:
        from ottla.clients import Producer

        async with Producer(**self.connection) as producer:
            sent = [await producer.send(topic, value, key=key, partition=partition) for value in values]
            await producer.flush()
            return [one.result() for one in sent]

    def records(self, topic: str) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """All records of a topic that count, by partition: ``value``, ``key``, ``offset``, ``partition``, ``headers``.

        Those of aborted and of open transactions are left out.

        Raises:
            ValueError: there is no such topic.
        """
        if topic not in (known := self.topics):
            raise ValueError(f"there is no topic {topic!r}; there are {list(known)}")
        return self.call(self._records(topic))

    async def _records(self, topic: str) -> list[ConsumerRecord[Any, Any]]:
        from ottla.clients import Consumer, TopicPartition

        options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        async with Consumer(**self.connection, **options) as consumer:
            partitions = [TopicPartition(topic, one) for one in sorted(await consumer.partitions_for_topic(topic))]
            ends = await consumer.end_offsets(partitions)
            consumer.assign(partitions)
            found = []
            while any([await consumer.position(one) < ends[one] for one in partitions]):
                for rows in (await consumer.getmany(timeout_ms=100)).values():
                    found += [row for row in rows if row.offset < ends[row.tp]]
        return sorted(found, key=lambda row: (row.partition, row.offset))

    # groups

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that there are, by their ids."""
        view = self.observatory.view
        return {group_id: Group(self, group_id, lambda: self) for group_id in self.run(view.group_ids)}

    def group(self, group_id: str) -> Group:
        """A group, whether there is one of the id or not yet.

        Raises:
            TypeError: the id is no text, or empty.
        """
        if not isinstance(group_id, str) or not group_id:
            raise TypeError(f"group({group_id!r}): write the group's id, such as broker.group('billing')")
        return Group(self, group_id, lambda: self)

    # time and faults

    @property
    def clock(self) -> Clock:
        """The broker's time, which a test can freeze and move ahead."""
        return Clock(self._thread, lambda: self.workbench.time)

    def fault(self, api: str | Iterable[str], **rule: Any) -> Fault:
        """Let something go wrong: a fault is in force from now on, until it is removed or its ``with`` block ends.

        ```python
        with broker.fault("SyncGroup", group="billing", drop="response", times=1) as fault:
            start_my_consumer()
            fault.wait()
        ```

        Args:
            api: the API of the requests that it is about, several of them, or ``*`` for all.
            rule: which requests it is about, and what becomes of them: see `ottla.workbench.rule.Rule`.

        Raises:
            ottla.workbench.rule.BadRule: the rule cannot be; the message says what was meant.
            FaultNeverFired: when its ``with`` block, or the broker's, ends and it never fired.
        """
        from ottla.workbench.rule import Rule

        fault = Fault(self, Rule.of(api if isinstance(api, str) else list(api), **rule))
        self._faults.append(fault)
        return fault

    def fail(self, api: str | Iterable[str], *, error: str | int, **rule: Any) -> Fault:
        """Let requests fail with an error of Kafka's: ``broker.fail("OffsetCommit", error="NOT_COORDINATOR")``.

        The same as `fault`.
        """
        return self.fault(api, error=error, **rule)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is None:
            self.check_faults()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, trace)
        if error is None:
            self.check_faults()

    def check_faults(self) -> None:
        """Fail if a fault has never fired and had to. Raises `FaultNeverFired`, once for each."""
        for fault in self._faults:
            fault.check()

    # clients

    def client_config(self, client: str, user: str = "") -> dict[str, Any]:
        """The settings that have a client connect to this broker: ``confluent``, ``aiokafka`` or ``kafka-python``.

        Args:
            user: of a broker with SASL, who the client is; the first that there is unless you say it. For OAUTHBEARER
                anybody: the client asks for tokens of his, a new one for each connection.

        Raises:
            ValueError: the client is none of them, or there is no such user.
            ModuleNotFoundError: tokens are for a client that is not installed.
        """
        if client not in CLIENTS:
            raise ValueError(f"client_config({client!r}): write one of {', '.join(map(repr, CLIENTS))}")
        options: dict[str, Any] = {CLIENTS[client]: self.bootstrap_servers}
        secured = self._tls_options(client) | self._sasl_options(client, user)
        if self.security_protocol != "PLAINTEXT":
            secured["security_protocol"] = self.security_protocol
        if client != "confluent":
            return options | secured
        return options | {_LIBRDKAFKAS.get(name, name): value for name, value in secured.items()}

    def _sasl_options(self, client: str, user: str) -> dict[str, Any]:
        """How a client says who it is."""
        if self._logins is None:
            return {}
        if self._logins.mechanism == OAUTHBEARER:
            return {"sasl_mechanism": OAUTHBEARER, **self._tokens(user).options(client)}
        return self._logins.options(user)

    def _tls_options(self, client: str) -> dict[str, Any]:
        """How a client is told of TLS; of a certificate, where it has to show one."""
        if self._authority is None:
            return {}
        if client == "aiokafka":
            return {"ssl_context": self.ssl_context()}
        files = {"ssl_cafile": self.cafile}
        if self._is_mutual:
            shown = self.client_certificate(OWN_SUBJECT)
            files |= {"ssl_certfile": shown.certfile, "ssl_keyfile": shown.keyfile}
        return files


def _bytes(name: str, given: Any) -> bytes | None:
    if isinstance(given, str):
        return given.encode()
    if given is None or isinstance(given, bytes):
        return given
    raise TypeError(f"{name}: {given!r} is neither bytes nor a text: write {name}=[b'…'], or encode it first")
