"""The pulse of a group's coordinator: commits of another group that it coordinates, again and again."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence

from examples.nodes.way import Address, ask
from ottla.protocol.apis import ApiKey
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

EVERY_S = 0.05


class Pulse:
    """See the module. A commit is answered once it is stored, which a heartbeat need not wait for.

    Args:
        topic: of which offsets are committed.
        nodes: where each node is; they are asked in turn who coordinates.
    """

    def __init__(self, group: str, topic: str, nodes: Mapping[int, Address]) -> None:
        names = (f"pulse-{number}" for number in itertools.count())
        self._group = next(one for one in names if coordinator_partition(one) == coordinator_partition(group))
        self._topic = topic
        self._nodes = nodes
        self._answered: list[tuple[float, float]] = []

    async def watch(self) -> None:
        """Commit, until cancelled. No commit waits for an earlier one."""
        async with asyncio.TaskGroup() as beats:
            for offset, where in enumerate(itertools.cycle(self._nodes.values())):
                beats.create_task(self._beat(where, offset))
                await asyncio.sleep(EVERY_S)

    def answered_since(self, moment: float) -> bool:
        """Whether a commit was answered that was sent after a moment, by `time.monotonic`."""
        return any(sent > moment for sent, _ in self._answered)

    def silence_s(self, since: float) -> float:
        """For how long no commit was answered. See `longest_s`."""
        return longest_s([answered for _, answered in self._answered], since)

    async def _beat(self, where: Address, offset: int) -> None:
        sent = time.monotonic()
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        commit = OffsetCommitRequest(
            group_id=self._group,
            member_id="",
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=[place])],
        )
        try:
            (found,) = (await ask(where, ApiKey.FIND_COORDINATOR, 4, request)).coordinators
            if found.error_code:
                return
            answer = await ask((found.host, found.port), ApiKey.OFFSET_COMMIT, 8, commit)
        except (OSError, EOFError, TimeoutError):
            return
        if not answer.topics[0].partitions[0].error_code:
            self._answered.append((sent, time.monotonic()))


def longest_s(times: Sequence[float], since: float) -> float:
    """The longest time between two moments, of which the later is after a certain one."""
    return max((later - earlier for earlier, later in itertools.pairwise(times) if later > since), default=0.0)
