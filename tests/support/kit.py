"""One interface to every client under test. Errors are the client's own; `Kit.code` gives the Kafka code of one.

Releases of two years ago are played in environments of their own, so this needs nothing but the standard library.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

Place = tuple[str, int]
"""A topic and a partition."""

Ack = tuple[int, int]
"""Partition and offset that a producer was told."""

KINDS = ("confluent", "kafka-python", "aiokafka", "ottla")


class Row(NamedTuple):
    """A record to be produced."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class Got(NamedTuple):
    """A record that was read."""

    partition: int
    offset: int
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int

    @classmethod
    def of(cls, record: Any) -> Got:
        """A record as the clients in pure Python give it."""
        headers = tuple(record.headers)
        return cls(record.partition, record.offset, record.value, record.key, headers, record.timestamp)


class Transactional(ABC):
    """A transactional producer whose id is initialized.

    Args:
        producer: the client's; all begin and end transactions by the same names.
        run: waits for what a call gives.
    """

    def __init__(self, producer: Any, run: Callable[[Any], Any] = lambda given: given) -> None:
        self._producer = producer
        self._run = run

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    @abstractmethod
    def send(self, topic: str, values: Sequence[bytes]) -> None:
        """Produce to partition 0, and wait until it is acknowledged."""

    @abstractmethod
    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


Poll = Callable[[float], Sequence[Got]]
"""Gives what has come within so many seconds."""


class Kit(ABC):
    """A client that writes and reads records.

    Attributes:
        kind: which of the members of `tests.support.members` it is.
        lacks: features that it has not, each with the reason that is shown.
        producing: options of all its producers.
        quick: options of its consumers for the shortest sessions.
    """

    kind: str
    lacks: Mapping[str, str] = MappingProxyType({})
    producing: Mapping[str, Any] = MappingProxyType({})
    quick: Mapping[str, Any] = MappingProxyType({"heartbeat_interval_ms": 300})

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        rows: Sequence[Row],
        *,
        partition: int | None = None,
        codec: str = "none",
        idempotent: bool = False,
        one_by_one: bool = False,
        **options: Any,
    ) -> list[Ack]:
        """Produce in one batch a partition, and give partition and offset of each record as acknowledged.

        Args:
            one_by_one: each record when the one before is acknowledged.
            options: the client's own; underscores may stand for the dots in their names.
        """
        packing = {} if codec == "none" else {"compression_type": codec}
        given = {"linger_ms": 20, "enable_idempotence": idempotent, **packing, **self.producing, **options}
        return self._produce(given, topic, rows, partition, one_by_one)

    @abstractmethod
    def _produce(
        self, options: dict[str, Any], topic: str, rows: Sequence[Row], partition: int | None, one_by_one: bool
    ) -> list[Ack]: ...

    def say(self, topic: str, texts: Sequence[str], *, idempotent: bool = True, **options: Any) -> list[Ack]:
        """Produce texts, each with itself as its key and with one header, which names the client."""
        rows = [Row(text.encode(), text.encode(), (("by", self.kind.encode()),)) for text in texts]
        return self.produce(topic, rows, idempotent=idempotent, **options)

    @abstractmethod
    def reading(self, starts: Mapping[Place, int], **options: Any) -> AbstractContextManager[Poll]:
        """Read from offsets, without a group; what is out of range is reset to the beginning."""

    def read(
        self,
        starts: Mapping[Place, int],
        count: int,
        *,
        committed: bool = False,
        patience_s: float = 20,
        quiet_s: float = 0,
        **options: Any,
    ) -> list[Got]:
        """Read until there are so many records or nothing came for so long.

        Args:
            committed: whether to leave out what is aborted or open.
            quiet_s: how long nothing more may come when there are so many.
            options: the client's own, with underscores for dots.
        """
        isolation = "read_committed" if committed else "read_uncommitted"
        found: list[Got] = []
        with self.reading(starts, isolation_level=isolation, **options) as poll:
            last = time.monotonic()
            while time.monotonic() - last < (patience_s if len(found) < count else quiet_s):
                if got := poll(0.2):
                    found += got
                    last = time.monotonic()
        return found


class WholeKit(Kit):
    """A client with transactions, offsets and administration.

    Attributes:
        new_topic: the client's class of a topic to be made.
        settings: what it names that topic's settings.
    """

    new_topic: Any
    settings = "topic_configs"

    @abstractmethod
    def code(self, error: BaseException) -> int:
        """Kafka's number of an error that the client raised; negative for those of the client's own."""

    @abstractmethod
    def transactional(self, transactional_id: str) -> Transactional: ...

    @abstractmethod
    def commit(self, group: str, offsets: Mapping[Place, tuple[int, str]]) -> None:
        """Commit offsets with notes as a consumer that is no member."""

    @abstractmethod
    def committed(self, group: str, place: Place) -> tuple[int, str]:
        """Offset and note."""

    def create(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication: int = 1,
        validate_only: bool = False,
    ) -> None:
        wanted = self.new_topic(topic, partitions, replication, **{self.settings: dict(configs or {})})
        self._create([wanted], validate_only=validate_only)

    @abstractmethod
    def _create(self, wanted: list[Any], *, validate_only: bool) -> None: ...

    @abstractmethod
    def delete(self, topic: str) -> None: ...

    @abstractmethod
    def topics(self) -> set[str]: ...

    @abstractmethod
    def leaders(self, topic: str) -> dict[int, int]:
        """By partition."""

    @abstractmethod
    def grow(self, topic: str, partitions: int) -> None: ...

    @abstractmethod
    def configs(self, name: str, kind: str = "topic") -> dict[str, str | None]:
        """Of a topic, or of a ``broker`` by its id."""

    @abstractmethod
    def alter(self, topic: str, configs: Mapping[str, str]) -> None: ...

    @abstractmethod
    def groups(self) -> set[str]: ...

    @abstractmethod
    def describe(self, group: str) -> tuple[str, set[str]]:
        """State in Kafka's words (Stable, Empty, Dead …), and the members' client ids."""

    @abstractmethod
    def group_offsets(self, group: str) -> dict[Place, int]: ...

    @abstractmethod
    def delete_group(self, group: str) -> None: ...

    @abstractmethod
    def delete_records(self, place: Place, before: int) -> int:
        """Delete what is older than an offset, and give the lowest that is left."""

    @abstractmethod
    def ends(self, place: Place) -> tuple[int, int]:
        """The first offset that can be read, and the next to be given."""

    @abstractmethod
    def offset_at(self, place: Place, timestamp_ms: int) -> int:
        """The first offset at or after a time; -1 if there is none."""

    @abstractmethod
    def subscribing(self, pattern: str, group: str) -> AbstractContextManager[Poll]:
        """Consume what matches a regular expression, in a group."""

    def subscribe_pattern(self, pattern: str, wanted: Sequence[bytes], group: str) -> set[bytes | None]:
        """The same until everything wanted was read."""
        found: set[bytes | None] = set()
        deadline = time.monotonic() + 30
        with self.subscribing(pattern, group) as poll:
            while not found >= set(wanted) and time.monotonic() < deadline:
                found |= {got.value for got in poll(0.5)}
        return found


def kit_of(kind: str, bootstrap: str) -> Any:
    """The client of a kind; all but the included one have a whole kit."""
    return import_module(f"tests.support.clients.{kind.replace('-', '_')}").KIT(bootstrap)


def produce(bootstrap: str, topic: str, texts: Sequence[str], *, kind: str = "confluent", **options: Any) -> list[Ack]:
    """Have a client `Kit.say` texts."""
    acknowledged: list[Ack] = kit_of(kind, bootstrap).say(topic, texts, **options)
    return acknowledged
