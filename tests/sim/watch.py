"""All checks, in the order in which they look at a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.check_answers import Answers, Table
from tests.sim.check_generations import Generations
from tests.sim.check_log import LogCheck
from tests.sim.check_members import Membership, Sessions
from tests.sim.kernel import Violation
from tests.sim.views import Step

if TYPE_CHECKING:
    from tests.sim.watched import WatchedCoordinator
    from tests.sim.world import World


class Watch:
    """See the module."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.answers = Answers(world)
        self.table = Table(world)
        self.sessions = Sessions(world)
        self.members = Membership(world, self.sessions)
        self.generations = Generations(world)
        self.log = LogCheck(world)
        self.steps = 0

    def look(self, coordinator: WatchedCoordinator, step: Step) -> None:
        """A coordinator did something."""
        self.steps += 1
        for event in step.events:
            self.world.note(f"  {coordinator.name} {event.group_id}", event)
        self.table.step(step)
        self.sessions.step(step)
        self.members.step(step)
        self.generations.step(step)
        self.log.step(coordinator, step)
        self.answers.step(step)
        deadlines = coordinator.deadlines
        if len(deadlines._heap) > 2 * len(deadlines._queued) + 66:
            raise Violation("bounded memory", f"{len(deadlines._heap)} entries for {len(deadlines._queued)} keys")

    def replayed(self, goes_on: bool, partition: int, offset: int) -> None:
        if not goes_on:
            raise Violation("replay", f"the record at {partition}:{offset} ended the load")

    def died(self, coordinator: WatchedCoordinator) -> None:
        """A coordinator is gone with everything that it had not made durable."""
        self.answers.died(coordinator.life)
        self.sessions.died(coordinator.life)
        self.log.given_up(coordinator.life)

    def at_rest(self, coordinator: WatchedCoordinator) -> None:
        """The world was quiet for long enough."""
        self.answers.at_rest(coordinator.life)
        self.log.compare(coordinator)
