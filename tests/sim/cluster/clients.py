"""Clients of a simulated cluster: they know where a log is led until they are told otherwise, and ask again."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.sim.cluster.history import Batch, Read, Told, Viewed, is_passing
from tests.sim.cluster.leading import parse
from tests.sim.cluster.node import Node
from tests.sim.cluster.serving import BUSY, NOT_LEADER, OK, OUT_OF_RANGE

if TYPE_CHECKING:
    from tests.sim.cluster.world import ClusterWorld

TIMEOUT_MS = 1_500
HURRY_MS = 400
"""The longest pause of a client once it is only waited for that all get on."""
Life = Generator[Any, Any, Any]


@dataclass
class Ask:
    """A request to a node; the answer is a tuple, None if there is none in time."""

    world: ClusterWorld
    node_id: int
    method: Callable[..., None]
    args: tuple[Any, ...]
    timeout_ms: int = TIMEOUT_MS

    def send(self, told: Callable[[Any], None]) -> None:
        self.world.request(self.node_id, self.method, self.args, told)


class Client:
    """What all clients have in common.

    Attributes:
        progress: how often this one got what it wanted.
    """

    def __init__(self, world: ClusterWorld, name: str, log_id: int) -> None:
        self.world = world
        self.name = name
        self.log_id = log_id
        self.rng = world.kernel.rng(name)
        self.pause_ms = self.rng.choice((40, 120, 400))
        self.leader = self.rng.choice(world.node_ids)
        self.progress = 0

    def life(self) -> Life:
        """Do one thing after the other until the world ends."""
        while True:
            yield from self.once()
            self.progress += 1
            yield self.rng.randint(1, self.pause_ms if not self.world.faults.is_over else min(self.pause_ms, HURRY_MS))

    def once(self) -> Life:
        """One thing."""
        raise NotImplementedError

    def insist(self, method: Callable[..., None], *args: Any) -> Generator[Any, Any, tuple[Any, ...]]:
        """Ask the leader, wherever it is, until there is an answer that says more than where else to ask."""
        while True:
            answer = yield Ask(self.world, self.leader, method, args)
            if answer is None:
                if not self.world.faults.is_over and self.rng.random() < 0.3:
                    yield self.rng.randint(500, 5_000)
                yield from self.look_up()
            elif answer[0] == NOT_LEADER:
                hint = answer[1]
                if hint is None or hint == self.leader:
                    yield self.rng.randint(20, 120)
                    yield from self.look_up()
                else:
                    self.leader = hint
            elif answer[0] == BUSY:
                yield self.rng.randint(20, 120)
            else:
                return answer  # type: ignore[no-any-return]

    def look_up(self) -> Life:
        """Ask any node who leads."""
        node_id = self.rng.choice(self.world.node_ids)
        answer = yield Ask(self.world, node_id, Node.leader, (self.log_id, self.rng.random() < 0.5))
        if answer is not None:
            if answer[2] >= 0 and answer[3] is not None:
                self.world.history.views.append(Viewed(self.name, answer[3], self.log_id, answer[2]))
            if answer[1] is not None:
                self.leader = answer[1]
        else:
            yield 50


class Producer(Client):
    """Appends batches with rising numbers, each until it is acknowledged."""

    def __init__(self, world: ClusterWorld, name: str, log_id: int) -> None:
        super().__init__(world, name, log_id)
        self.number = 0
        if self.rng.random() < 0.3:
            self.pause_ms = 3_000  # so that a log is quiet for a while

    def once(self) -> Life:
        count = self.rng.choice((1, 1, 2, 3))
        code = ""
        while code != OK:
            code, *rest = yield from self.insist(Node.produce, self.log_id, self.name, self.number, count)
            if code != OK:
                self.world.history.failed.append((self.name, self.number))
        batch = Batch(self.log_id, rest[0], rest[0] + count - 1, self.name, self.number)
        self.world.history.acked.append((self.world.tick(), batch))
        self.number += 1


class Committer(Client):
    """Commits rising values for a group; one whose name begins with x only leaves what compaction removes."""

    def __init__(self, world: ClusterWorld, name: str, log_id: int) -> None:
        super().__init__(world, name, log_id)
        self.number = 0

    def once(self) -> Life:
        began = self.world.tick()
        code, *_ = yield from self.insist(Node.commit, self.log_id, self.name, self.number)
        if code == OK and not is_passing(self.name):
            told = Told(self.log_id, self.name, self.number, began, self.world.tick())
            self.world.history.commits.append(told)
        self.number += 1


class Asker(Client):
    """Asks for a group's committed value. Its name is the group's, and a mark."""

    def once(self) -> Life:
        group = self.name.rstrip("?")
        began = self.world.tick()
        answer = yield Ask(self.world, self.leader, Node.committed, (self.log_id, group))
        if answer is None or answer[0] != OK:
            yield from self.look_up()
        else:
            told = Told(self.log_id, group, answer[1], began, self.world.tick())
            self.world.history.fetches.append(told)


class EndAsker(Client):
    """Asks for the end of a log, again and again, of whoever it believes to lead it."""

    def once(self) -> Life:
        began = self.world.tick()
        answer = yield Ask(self.world, self.leader, Node.end_offset, (self.log_id,))
        if answer is None or answer[0] != OK:
            yield from self.look_up()
        else:
            self.world.history.ends.append(Told(self.log_id, self.name, answer[1], began, self.world.tick()))
            if self.rng.random() < 0.1:
                yield from self.look_up()


class Reader(Client):
    """Reads a log from its start on, and now and then from somewhere anew."""

    def __init__(self, world: ClusterWorld, name: str, log_id: int) -> None:
        super().__init__(world, name, log_id)
        self.position = 0

    def once(self) -> Life:
        code, *rest = yield from self.insist(Node.fetch, self.log_id, self.position)
        if code == OUT_OF_RANGE:
            self.position = rest[0]
        elif code == OK:
            if not rest[0] and self.position < rest[1]:
                self.world.history.holes.append(f"log {self.log_id} at {self.position}, below {rest[1]}")
            for row in rest[0]:
                name, number = parse(row)
                batch = Batch(row.log_id, row.base_offset, row.last_offset, name, number)
                self.world.history.reads.append(Read(self.position, batch, rest[1]))
                self.position = row.last_offset + 1
            if self.rng.random() < 0.1:
                self.position = self.rng.randint(0, self.position)


class Watcher(Client):
    """Asks one node who leads a log."""

    def once(self) -> Life:
        answer = yield Ask(self.world, self.leader, Node.leader, (self.log_id, False))
        if answer is not None and answer[2] >= 0 and answer[3] is not None:
            self.world.history.views.append(Viewed(self.name, answer[3], self.log_id, answer[2]))


class Administrator(Client):
    """Creates topics, asks for them, takes blocks of producer ids; moves, trims, compacts, sweeps, drains."""

    def once(self) -> Life:
        world, rng = self.world, self.rng
        node_id = rng.choice(world.node_ids)
        wish = rng.choice(world.plan.administration)
        if wish == "topic":
            yield from self._create(node_id)
        elif wish == "look":
            yield from self._look(node_id)
        elif wish == "ids":
            answer = yield Ask(world, node_id, Node.take_ids, ())
            if answer is not None and answer[0] == OK:
                world.history.id_blocks.append(answer[1])
        else:
            world.administrate(wish, rng)
        yield rng.randint(1, 400)

    def _create(self, node_id: int) -> Life:
        topic = f"{self.name}-{self.progress}"
        answer = yield Ask(self.world, node_id, Node.create, (topic,))
        if answer is not None:
            self.world.history.topics_created.append((self.world.tick(), topic))

    def _look(self, node_id: int) -> Life:
        created = self.world.history.topics_created
        if created:
            topic = self.rng.choice(created[-3:])[1]
            began = self.world.tick()
            answer = yield Ask(self.world, node_id, Node.knows, (topic,))
            if answer is not None and answer[0] == OK and not answer[1]:
                self.world.history.topics_denied.append((began, topic))
