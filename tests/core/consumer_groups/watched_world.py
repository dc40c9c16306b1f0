"""A world of consumer groups that judges what becomes durable."""

from __future__ import annotations

from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.events import Event, TargetComputed
from ottla.protocol.errors import ErrorCode
from tests.core.consumer_groups import consumer_invariants
from tests.core.world import World


class WatchedWorld(World):
    """Looks at what each append has made durable, and at who was asked for what a target is computed with."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.epochs = consumer_invariants.Epochs()

    def look_at(self, event: Event) -> None:
        super().look_at(event)
        group = self.coordinator.groups.get(event.group_id)
        if isinstance(event, TargetComputed) and isinstance(group, ConsumerGroup):
            votes = [member.server_assignor for member in group.state.members.values() if member.server_assignor]
            most = max(map(votes.count, votes), default=0)
            assert votes.count(event.assignor) == most
            assert votes or event.assignor == self.config.assignors[0]

    def complete(self, error: ErrorCode = ErrorCode.NONE) -> None:
        super().complete(error)
        self.epochs.check(self.coordinator)
