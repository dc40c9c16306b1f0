"""Positions are checked against the epochs of a new leader (KIP-320)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.clients.options import ConsumerOptions
from ottla.clients.positions import Positions
from ottla.clients.subscription import PartitionState, SubscriptionState
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.protocol.records import TopicPartition

pytestmark = pytest.mark.asyncio

T0 = TopicPartition("t", 0)
OLD_EPOCH, NEW_EPOCH, OLD_EPOCH_ENDS = 1, 2, 47


class Leader:
    """A client whose only broker leads in the new epoch; ``meanwhile`` happens while its answer is under way."""

    client_id = "test"

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.cluster = self.tasks = self
        self.closed = False
        self.asked: list[int] = []
        self._meanwhile = meanwhile

    def leader(self, tp: TopicPartition) -> int:
        return 1

    def leader_epoch(self, tp: TopicPartition) -> int:
        return NEW_EPOCH

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work, name=name)

    async def send(self, node_id: int, request: OffsetForLeaderEpochRequest, kind: Any) -> OffsetForLeaderEpochResponse:
        self.asked.append(request.topics[0].partitions[0].leader_epoch)
        self._meanwhile()
        end = EpochEndOffset(partition=0, leader_epoch=OLD_EPOCH, end_offset=OLD_EPOCH_ENDS)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])


async def checked(position: int, move: Callable[[PartitionState], None] = lambda state: None) -> tuple[int | None, int]:
    """Where a consumer at this position of the old epoch stands after the check, and how often it asked."""
    subscription = SubscriptionState()
    subscription.assign([T0])
    (state,) = subscription.states()
    state.seek(position, OLD_EPOCH)
    leader = Leader(lambda: move(state))
    positions = Positions(leader, subscription, ConsumerOptions(), None, lambda: None, lambda error: None)  # type: ignore[arg-type]
    positions.poke()
    async with asyncio.timeout(10):
        await positions.changed.wait()
    return state.position, len(leader.asked)


async def test_a_position_within_its_epoch_stays() -> None:
    assert await checked(OLD_EPOCH_ENDS) == (OLD_EPOCH_ENDS, 1)


async def test_a_position_behind_the_end_of_its_epoch_goes_back() -> None:
    assert await checked(OLD_EPOCH_ENDS + 5) == (OLD_EPOCH_ENDS, 1)


async def test_records_of_the_new_epoch_that_come_meanwhile_are_not_taken_back() -> None:
    def move(state: PartitionState) -> None:
        state.moved(OLD_EPOCH_ENDS + 124, NEW_EPOCH)

    assert await checked(OLD_EPOCH_ENDS, move) == (OLD_EPOCH_ENDS + 124, 1)


async def test_a_jump_meanwhile_stays() -> None:
    def move(state: PartitionState) -> None:
        state.seek(OLD_EPOCH_ENDS + 50, NEW_EPOCH)

    assert await checked(OLD_EPOCH_ENDS, move) == (OLD_EPOCH_ENDS + 50, 1)
