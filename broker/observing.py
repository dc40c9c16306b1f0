"""What a broker wants of those who observe it: `Observing`. The broker knows nothing else of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.broker.clock import Clock
from ottla.broker.core.events import UNOBSERVED, Observer
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.topics.partition import Topic
from ottla.broker.dispatch import Dispatcher
from ottla.broker.engine import Engine
from ottla.broker.handlers.services import Control, Explain, Services
from ottla.broker.net.socket_server import SocketServer
from ottla.broker.runtime.cleaner import Cleaner
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.topics import TopicManager
from ottla.protocol.records import TopicPartition


class CannotObserve(Exception):
    """The broker cannot be observed as its settings say; the message says why and, where it can, what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker is reached.

    Attributes:
        listening: ``host:port`` for this machine.
        told: host and port that clients are told, unless each is told the address that it reached.
    """

    listening: str
    told: tuple[str, int]


class Observing:
    """Observes one broker. This one observes nothing: it is what a broker has by default.

    A broker calls the methods in the order in which they stand here, on its event loop; if its start
    fails, it calls `stop`.

    Attributes:
        observer: is told of the group coordinator's events.
    """

    observer: Observer = UNOBSERVED

    async def start(self, clock: Clock) -> None:
        """Begin: nothing is opened yet.

        Raises:
            CannotObserve: an address is taken, or a package is missing.
        """

    def topic_changed(self, topic: str, partitions_before: int, partitions: int) -> None:
        """Take note of a topic that was created (0 partitions before) or has more partitions."""

    def topic_deleted(self, topic: Topic) -> None:
        """Take note of a topic that is gone."""

    async def begin(self, engine: Engine, topics: TopicManager, directory: Path | None) -> None:
        """The storage is open and the topics are there; no group is loaded yet.

        Args:
            directory: of the data; None where everything is in memory.

        Raises:
            CannotObserve: a file cannot be written.
            EngineError: an internal topic cannot be created.
        """

    def explain(self, coordinator: GroupCoordinator, software_of: Callable[[str, str], str]) -> Explain | None:
        """Give what DescribeGroupHistory answers from; None where no history is kept.

        Args:
            coordinator: is loaded later.
            software_of: gives a member's client library and version, by group and member id.
        """
        return None

    def control(self) -> Control | None:
        """Give what carries out Workbench requests; None where nobody may interfere."""
        return None

    def dispatcher(self, services: Services, log: Any, codec: str) -> Dispatcher:
        """Make the dispatcher: an own one where requests are measured."""
        return Dispatcher(services, log, codec)

    def watch_appends(self, appended: Callable[[TopicPartition], None]) -> Callable[[TopicPartition], None]:
        """Give what is called with each partition that was appended to: ``appended``, or what calls it."""
        return appended

    def composed(self, host: Host, cleaner: Cleaner) -> None:
        """All parts are made; nothing is loaded yet.

        Args:
            host: has the deadlines of all coordinators; cleaner: that of retention and compaction.
        """

    def ready(self, address: Address, server: SocketServer) -> None:
        """The broker serves clients."""

    def tell_ready(self) -> None:
        """Log where else the broker is reached."""

    def look_at_keys(self) -> None:
        """Somebody says that the files of keys and certificates are new."""

    def failed(self) -> None:
        """Nothing can be made durable any more."""

    def stopping(self) -> None:
        """The broker stops: it answers what is open, and accepts nothing more."""

    def drained(self) -> None:
        """All is answered; the storage is open for a moment yet."""

    def silence(self) -> None:
        """Stop without a word, as a killed process does: in the place of `stopping` and `drained`."""

    async def stop(self) -> None:
        """The storage is closed: let go of everything."""
