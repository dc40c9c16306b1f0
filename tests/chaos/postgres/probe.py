"""When the groups of each node were answered: commits of groups of its own, to whoever coordinates them."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Collection, Sequence
from itertools import count, pairwise
from typing import Any, Self

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from tests.support.client import Client
from tests.support.requests import commit_fields, offset_fetch_fields
from tests.support.waiting import wait_for

GROUPS = 9
EVERY_S = 0.05
PATIENCE_S = 60.0
READ_EVERY = 7
PASSING = (7, 14, 15, 16)
"""Errors after which a client tries again."""
NOBODY = (-1, -1)
"""An epoch, and who leads under it."""
VIEWED_S = 0.05
SILENT_S = 0.3
"""A node is asked who leads no longer than that."""


class Probe:
    """See the module. Use with ``with``.

    Args:
        ports: where the nodes are at first, by id.
        topic: of which offsets are committed.
        broken: told what was promised and not kept.
        show: the state of things, for whoever has waited too long.
    """

    def __init__(
        self, ports: dict[int, int], topic: str, broken: Callable[[str], None], show: Callable[[], object]
    ) -> None:
        self._ports = ports
        self._topic = topic
        self._broken = broken
        self._show = show
        self._names = _one_group_of_each_shard()
        self._leaders: dict[int, tuple[int, int]] = {}
        self._answered: dict[int, list[float]] = {shard: [] for shard in self._names}
        self._began: dict[int, float] = dict.fromkeys(self._names, 0.0)
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._watch)]
        self._threads += [threading.Thread(target=self._commit, args=(shard,)) for shard in self._names]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def shards_of(self, node_ids: Collection[int]) -> list[int]:
        """What is watched of what some nodes lead."""
        return [shard for shard in self._names if self._leaders.get(shard, NOBODY)[1] in node_ids]

    def wait(self, shards: Collection[int] = ()) -> None:
        """Wait until a commit was answered that began from now on, in all shards or in some."""
        now_s = time.monotonic()
        wanted = list(shards or self._names)
        wait_for(
            lambda: all(self._began[shard] >= now_s for shard in wanted),
            "every group to be answered",
            timeout_s=PATIENCE_S,
            show=lambda: (
                f"{[shard for shard in wanted if self._began[shard] < now_s]} are not; {self._leaders}\n{self._show()}"
            ),
        )

    def gap_s(self, shards: Sequence[int], since_s: float) -> float:
        """The longest time that lay between two answers in one of some shards, of which the later came since then."""
        longest = 0.0
        for shard in shards:
            times = self._answered[shard][:]
            for earlier, later in pairwise(times):
                if later >= since_s:
                    longest = max(longest, later - earlier)
        return longest

    def _watch(self) -> None:
        """Who leads the shards, as the nodes say in turn; the largest epoch counts."""
        clients: dict[int, Client] = {}
        for number in count():
            if self._ends.wait(VIEWED_S):
                return
            node_id = list(self._ports)[number % len(self._ports)]
            try:
                if node_id not in clients:
                    clients[node_id] = Client(self._ports[node_id])
                    clients[node_id].socket.settimeout(SILENT_S)
                told = clients[node_id].metadata(OFFSETS_TOPIC)
                self._ports |= {broker.node_id: broker.port for broker in told.brokers}
                for place in told.topics[0].partitions:
                    shard, leader = place.partition_index, (place.leader_epoch, place.leader_id)
                    if leader > self._leaders.get(shard, NOBODY):
                        self._leaders[shard] = leader
            except OSError:
                if (client := clients.pop(node_id, None)) is not None:
                    client.close()

    def _commit(self, shard: int) -> None:
        group, acknowledged = self._names[shard], 0
        asker = _Asker(self._ports, lambda: self._leaders.get(shard, NOBODY), self._ends)
        for offset in count(1):
            if self._ends.wait(EVERY_S):
                return
            began_s = time.monotonic()
            try:
                fields = commit_fields(group, [(self._topic, 0, offset)], metadata="")
                told = asker.ask(ApiKey.OFFSET_COMMIT, 8, fields)
                error = told.topics[0].partitions[0].error_code
                if error in PASSING:
                    continue
                if error:
                    self._broken(f"client: a commit of {group} is refused: {ErrorCode(error).name}")
                    return
                acknowledged = offset
                self._answered[shard].append(time.monotonic())
                self._began[shard] = began_s
                if offset % READ_EVERY == 0:
                    told = asker.ask(ApiKey.OFFSET_FETCH, 8, offset_fetch_fields(group, {self._topic: [0]})).groups[0]
                    found = told.topics[0].partitions[0].committed_offset if not told.error_code else acknowledged
                    if found < acknowledged:
                        self._broken(f"lost commit: {group} was committed up to {acknowledged}, and is at {found}")
            except OSError:
                asker.close()


class _Asker:
    """Asks the node that leads a shard, and no longer than it does."""

    def __init__(self, ports: dict[int, int], leader: Callable[[], tuple[int, int]], ends: threading.Event) -> None:
        self._ports = ports
        self._leader = leader
        self._ends = ends
        self._client: Client | None = None
        self._asked = NOBODY

    def ask(self, key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        """The answer.

        Raises:
            OSError: there is none to be had, or somebody else is to be asked.
        """
        if self._client is None or self._asked != self._leader():
            self.close()
            self._asked = self._leader()
            if self._asked[1] not in self._ports:
                raise OSError("nobody leads")
            self._client = Client(self._ports[self._asked[1]])
        self._client.start(key, version, **fields)
        while not select.select([self._client.socket], [], [], EVERY_S)[0]:
            if self._ends.is_set() or self._asked != self._leader():
                raise OSError("led elsewhere")
        return self._client.answer()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _one_group_of_each_shard() -> dict[int, str]:
    """Names of groups, as many as are watched, by the shards that coordinate them, which are all different."""
    found: dict[int, str] = {}
    for number in count():
        found.setdefault(coordinator_partition(f"probe-{number}"), f"probe-{number}")
        if len(found) == GROUPS:
            return found
    raise AssertionError
