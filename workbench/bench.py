"""`Workbench`: an observatory whose broker can be interfered with, by faults and pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ottla.observe.observatory import Observatory
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.records import TopicPartition
from ottla.workbench.clock import VirtualClock
from ottla.workbench.control import Control
from ottla.workbench.faults import Fault, Faults
from ottla.workbench.rule import Rule
from ottla.workbench.time import OneBroker, Time

if TYPE_CHECKING:
    from ottla.broker.dispatch import Dispatcher
    from ottla.broker.handlers.services import Services
    from ottla.broker.net.socket_server import SocketServer
    from ottla.broker.observing import Address
    from ottla.broker.runtime.cleaner import Cleaner
    from ottla.broker.runtime.host import Host
    from ottla.broker.runtime.topics import TopicManager
    from ottla.broker.settings import Settings
    from ottla.observe.http.api import Endpoint

HELD_WHILE_PAUSED = ["JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat"]


class Workbench(Observatory):
    """See the module. Everything here is called on the broker's event loop.

    Args:
        new_time: gives the time of a broker that is one of several nodes; by default it has its own.

    Attributes:
        faults: the rules that are in force. There once the broker is ready.
        time: that of the broker. There once the broker is ready.
        denials: what was denied, as the audit tells it.
    """

    def __init__(
        self, settings: Settings, log: Any = None, *, new_time: Callable[[OneBroker], Time] | None = None
    ) -> None:
        super().__init__(settings, log, records_all=True)
        self._new_time = new_time or self._own_time
        self.faults: Faults
        self.time: Time
        self._dispatcher: Dispatcher
        self.denials: list[dict[str, Any]] = []
        self._paused: dict[str, Fault] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def dispatcher(self, services: Services, log: Any, codec: str) -> Dispatcher:
        services.audit.on_event = self._heard
        self._dispatcher = super().dispatcher(services, log, codec)
        return self._dispatcher

    def _heard(self, event: str, row: dict[str, Any]) -> None:
        if event == "denied":
            self.denials.append(row)

    def expire_sessions(self) -> int:
        """End all sessions that end, now; returns how many there were."""
        return self._server.expire_sessions()

    def control(self) -> Control:
        return Control(self)

    def endpoints(self) -> Sequence[Endpoint]:
        from ottla.workbench.http import endpoints  # where HTTP is served, and its packages are there

        return endpoints(Control(self))

    def composed(self, host: Host, cleaner: Cleaner) -> None:
        self.time = self._new_time(OneBroker(host, self._coordinator, cleaner))

    def _own_time(self, broker: OneBroker) -> Time:
        assert isinstance(self.clock, VirtualClock), "a broker with a workbench is made with clock=VirtualClock"
        return Time(self.clock, broker)

    def ready(self, address: Address, server: SocketServer) -> None:
        super().ready(address, server)
        self.faults = Faults(self._services, self._dispatcher, server, self.clock, self)

    def stopping(self) -> None:
        super().stopping()
        self.faults.stop()

    def tell_ready(self) -> None:
        super().tell_ready()
        self.log.warning("The workbench is on: whoever reaches the broker may let requests fail and move its clock")

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().stop()

    # Pauses

    @property
    def paused(self) -> list[str]:
        """The ids of the groups that are paused."""
        return list(self._paused)

    def pause(self, group_id: str) -> None:
        """Hold what members of a group ask for to join it and to be given partitions, and let no session end.

        Heartbeats, commits and everything else goes on; only those heartbeats wait by which members of the protocol
        ``consumer`` join and get partitions. A group that is paused stays so.
        """
        if group_id not in self._paused:
            rule = Rule.of(HELD_WHILE_PAUSED, group=group_id, hold="request", name=f"pause of {group_id}")
            self._paused[group_id] = self.faults.add(rule)
            self.time.hold(group_id)

    def resume(self, group_id: str) -> None:
        """Let a group go on: its sessions have as much time left as they had."""
        if (fault := self._paused.pop(group_id, None)) is not None:
            self.time.let_go(group_id)
            fault.remove()

    def remove(self, fault: Fault) -> None:
        """Take a fault out of force; if it is that of a pause, the group goes on."""
        for group_id in [group_id for group_id, one in self._paused.items() if one is fault]:
            self.resume(group_id)
        fault.remove()

    def coordinates(self, group_id: str) -> bool:
        """Whether a group is this node's, be it loaded or not."""
        cluster = self._services.cluster
        return cluster.leader(self.coordinated_by(group_id)).node_id == cluster.me

    def coordinated_by(self, group_id: str) -> TopicPartition:
        """The partition whose leader coordinates a group."""
        return TopicPartition(OFFSETS_TOPIC, self._partition_of(group_id))

    def leader(self, tp: TopicPartition) -> int:
        """The node that leads a partition, as far as this one knows; -1 for nobody."""
        return self._services.cluster.leader(tp).node_id

    @property
    def topics(self) -> TopicManager:
        """The topics as this node serves them."""
        return self._services.topics

    def _partition_of(self, group_id: str) -> int:
        return coordinator_partition(group_id, self._services.groups.partition_count)

    # What faults do beside requests

    def move_coordinator(self, group_id: str, away_s: float | None) -> Callable[[], None]:
        """Let the coordinator of a group, and of all others in its partition, be elsewhere, and then here again.

        Args:
            away_s: seconds; None until the function is called that is returned.
        """
        host = self._services.host
        given = host.give_up(OFFSETS_TOPIC, self._partition_of(group_id))  # nothing, if it is away already

        def back() -> None:
            self._spawn(host.load_again(given))

        if away_s is not None:
            self.clock.call_at(self.clock.monotonic_ms() + int(away_s * 1000), back)
        return back

    def restart(self, away_s: float) -> None:
        """Restart as far as clients can see: connections are lost, and everything is loaded from the logs.

        Args:
            away_s: seconds in which nobody can connect.
        """
        self._spawn(self._restart(away_s))

    async def _restart(self, away_s: float) -> None:
        services, server = self._services, self._server
        server.stop_accepting()
        services.members.forget()
        server.abort_all()
        given = services.host.give_up()
        services.fetch_sessions.clear()
        await asyncio.sleep(away_s)
        await services.host.load_again(given)
        await server.start(server.listeners)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
