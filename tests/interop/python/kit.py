"""What the scenarios ask of a Python client. Errors are the client's own; `Kit.code` gives the Kafka code of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

Place = tuple[str, int]
"""A topic and a partition."""


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


class Transactional(ABC):
    """A transactional producer whose id is initialized."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, values: Sequence[bytes]) -> None:
        """Produce to partition 0, and wait until it is acknowledged."""

    @abstractmethod
    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Kit(ABC):
    """A client.

    Attributes:
        kind: which of the members of tests/e2e it is.
        lacks: features that it has not, each with the reason that is shown.
        quick: options of its consumers for the shortest sessions.
    """

    kind: str
    lacks: Mapping[str, str] = MappingProxyType({})
    quick: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def code(self, error: BaseException) -> int:
        """Kafka's number of an error that the client raised; negative for those of the client's own."""

    @abstractmethod
    def produce(
        self,
        topic: str,
        rows: Sequence[Row],
        *,
        partition: int | None = None,
        codec: str = "none",
        options: Mapping[str, Any] | None = None,
    ) -> list[tuple[int, int]]:
        """Produce, and give partition and offset of each as acknowledged."""

    @abstractmethod
    def read(
        self, starts: Mapping[Place, int], count: int, *, committed: bool = False, patience_s: float = 20
    ) -> list[Got]:
        """Read from offsets, without a group, until there are so many records or nothing came for so long."""

    @abstractmethod
    def transactional(self, transactional_id: str) -> Transactional: ...

    @abstractmethod
    def commit(self, group: str, offsets: Mapping[Place, tuple[int, str]]) -> None:
        """Commit offsets with notes as a consumer that is no member."""

    @abstractmethod
    def committed(self, group: str, place: Place) -> tuple[int, str]:
        """Offset and note."""

    @abstractmethod
    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None: ...

    @abstractmethod
    def delete(self, topic: str) -> None: ...

    @abstractmethod
    def topics(self) -> set[str]: ...

    @abstractmethod
    def partitions(self, topic: str) -> int: ...

    @abstractmethod
    def grow(self, topic: str, partitions: int) -> None: ...

    @abstractmethod
    def configs(self, topic: str) -> dict[str, str | None]: ...

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
    def subscribe_pattern(self, pattern: str, wanted: Sequence[bytes], group: str) -> set[bytes]:
        """Consume what matches a regular expression, in a group, until everything wanted was read."""
