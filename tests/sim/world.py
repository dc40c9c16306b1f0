"""The simulated world: nodes, logs, clients and what goes wrong, all from one seed."""

from __future__ import annotations

import random
from collections.abc import Generator

from ottla.broker.core.groups import removal
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.protocol.groups import coordinator_partition
from tests.sim.consumers import Consumer
from tests.sim.kernel import Kernel, Process, Violation
from tests.sim.modellog import ModelLog
from tests.sim.node import Node
from tests.sim.plan import Plan
from tests.sim.strangers import Administrator, Storer, Stranger, Visitor
from tests.sim.watch import Watch

TOPICS = {"t0": 3, "t1": 3, "t2": 3}
QUIET_MS = 600_000
"""The time in which a world without faults must come to rest."""


class World(Kernel):
    """See the module."""

    LATEST_TIMER_MS = 40

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.seed)
        self.plan = plan
        self.is_wild = True
        self.last_id = ""
        self.topics = dict(TOPICS)
        self.ids_seen: list[tuple[str, str, str | None]] = []
        self.generations_seen: dict[str, int] = {}
        self._look_again_ms = 0
        self._numbers = 0
        self._lives = 0
        self._ids = 0
        self.watch = Watch(self)
        self.logs = [ModelLog(self, partition) for partition in range(plan.partitions)]
        self.nodes = self.make_nodes()
        self.owners: list[Node | None] = [None] * plan.partitions
        self.epochs = [0] * plan.partitions
        self.consumers: list[Consumer] = []
        self._rng = self.rng("faults")

    def make_nodes(self) -> list[Node]:
        return [Node(self, f"n{index}") for index in range(self.plan.nodes)]

    # What depends on where the log is

    def logs_are_idle(self) -> bool:
        return all(log.is_idle for log in self.logs)

    def lose(self, partition: int) -> None:
        """The owner of a partition is gone."""
        self.logs[partition].cut()

    def give(self, partition: int, node: Node) -> None:
        """Let a node own a partition."""
        self.owners[partition] = node
        self.epochs[partition] += 1
        self.note(f"{node.name} takes partition {partition}")
        if self.fault("compaction"):
            self.logs[partition].compact()
        node.load(partition, self.epochs[partition])

    # Questions

    def fault(self, name: str) -> bool:
        """True if this may go wrong now."""
        return self.is_wild and name in self.plan.features

    active = fault

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def next_life(self) -> int:
        self._lives += 1
        return self._lives

    def new_id(self) -> str:
        self._ids += 1
        self.last_id = f"0000{self._ids:04d}-0000-4000-8000-000000000000"
        return self.last_id

    def partition_count(self, topic: str) -> int:
        """Of a topic, 0 if it does not exist (now)."""
        return self.topics.get(topic, 0)

    def coordinator_of(self, group_id: str, rng: random.Random) -> Node | None:
        """The coordinator as a client finds it, which may be the wrong one."""
        if self.fault("moves") and rng.random() < 0.05:
            return rng.choice(self.nodes)
        owner = self.owners[coordinator_partition(group_id, self.plan.partitions)]
        return owner if owner is not None and owner.is_up else None

    # Life

    def start(self) -> None:
        plan = self.plan
        for node in self.nodes:
            node.start()
        for partition in range(plan.partitions):
            self.give(partition, self.nodes[partition % len(self.nodes)])
        index = 0
        for group_id, count in zip(plan.group_ids(), plan.clients, strict=True):
            for _ in range(count):
                if index not in plan.without:
                    self.consumers.append(Consumer(self, index, group_id))
                index += 1
        for group_id in plan.group_ids():
            if plan.has("strangers"):
                Stranger(self, group_id)
        if plan.has("simple commits"):
            Storer(self)
        if plan.has("visitors"):
            Visitor(self)
        if plan.has("administration"):
            Administrator(self)
        for feature, trouble in (
            ("crashes", self._crashes),
            ("moves", self._moves),
            ("wall clock jumps", self._wall_jumps),
            ("topic deletion", self._topic_deletions),
        ):
            if plan.has(feature):
                Process(self, trouble())

    def simulate(self) -> None:
        """Run the plan: a wild time, then quiet, then everything must have come to rest."""
        sizes = removal.BATCH_RECORDS, GroupCoordinator.turn_deadlines
        if self.plan.has("small batches"):
            removal.BATCH_RECORDS, GroupCoordinator.turn_deadlines = 2, 1
        try:
            self.start()
            self.run(self.now_ms + self.plan.duration_ms)
            self.note("quiet")
            self.is_wild = False
            self.run(self.now_ms + QUIET_MS, done=self._is_at_rest)
            if unrest := list(self.unrest()):
                raise Violation("comes to rest", "; ".join(unrest))
            self.note("at rest")
            for node in self.nodes:
                if node.coordinator is not None:
                    self.watch.at_rest(node.coordinator)
        finally:
            removal.BATCH_RECORDS, GroupCoordinator.turn_deadlines = sizes

    def _is_at_rest(self) -> bool:
        if self.now_ms < self._look_again_ms:
            return False
        self._look_again_ms = self.now_ms + 500
        return not next(self.unrest(), None)

    def unrest(self) -> Generator[str, None, None]:
        """The reasons why the world is not at rest yet."""
        if any(owner is None or not owner.is_up for owner in self.owners):
            yield "a partition has no coordinator"
            return
        if not self.logs_are_idle():
            yield "records are on their way"
        for group_id in [*self.plan.group_ids(), "v0"]:
            owner = self.owners[coordinator_partition(group_id, self.plan.partitions)]
            assert owner is not None and owner.coordinator is not None
            if any(self.watch.answers.waiting.get(owner.coordinator.life, {})):
                yield "requests wait"
            group = owner.coordinator.views.get(group_id)
            alive = [consumer for consumer in self.consumers if consumer.group_id == group_id and not consumer.ended]
            inside = {consumer.who.member_id for consumer in alive}
            members = set(group.members) if group is not None else set()
            size = min(len(alive), self.plan.max_size)
            if size == 0:
                if group is not None and (group.state != "Empty" or group.pending):
                    yield f"{group_id} is {group.state} and should be empty"
            elif group is None or group.state != "Stable":
                yield f"{group_id} is {group.state if group else 'nothing'} and should be stable"
            elif len(members) < size or not members <= inside:  # static members may be more than a full group has
                yield f"{group_id} has the members {sorted(members)}, alive are {sorted(inside)}"
            elif any(c.who.generation != group.generation for c in alive if c.who.member_id in members):
                yield f"a member of {group_id} does not know of generation {group.generation}"

    # Trouble

    def _crashes(self) -> Generator[int, None, None]:
        while True:
            yield self._rng.randint(5_000, 40_000)
            if not self.is_wild:
                return
            node = self._rng.choice(self.nodes)
            self.note(f"{node.name} crashes")
            node.crash()
            orphans = [partition for partition, owner in enumerate(self.owners) if owner is node]
            for partition in orphans:
                self.lose(partition)
                self.owners[partition] = None
            yield self._rng.choice((10, 500, 8_000))
            node.start()
            for partition in orphans:
                self.give(partition, self._rng.choice(self.nodes))

    def _moves(self) -> Generator[int, None, None]:
        while True:
            yield self._rng.randint(5_000, 30_000)
            partition = self._rng.randrange(self.plan.partitions)
            owner = self.owners[partition]
            if not self.is_wild:
                return
            if owner is None or not owner.is_up:
                continue
            self.note(f"{owner.name} loses partition {partition}")
            self.owners[partition] = None
            self.epochs[partition] += 1
            self.lose(partition)
            owner.unload(partition, self.epochs[partition])
            yield self._rng.choice((0, 100, 5_000))
            heirs = [node for node in self.nodes if node.is_up]
            while not heirs:
                yield 100
                heirs = [node for node in self.nodes if node.is_up]
            self.give(partition, self._rng.choice(heirs))

    def _wall_jumps(self) -> Generator[int, None, None]:
        while self.is_wild:
            yield self._rng.randint(1_000, 30_000)
            self.wall_offset_ms += self._rng.choice((-30_000, 30_000, 3_600_000))
            self.note("the wall clock jumps")

    def _topic_deletions(self) -> Generator[int, None, None]:
        while self.is_wild:
            yield self._rng.randint(3_000, 20_000)
            topic = self._rng.choice(sorted(TOPICS))
            self.note(f"{topic} is deleted")
            self.topics.pop(topic)
            for node in self.nodes:
                node.topic_deleted(topic)
            yield self._rng.randint(1, 3_000)
            self.topics[topic] = TOPICS[topic]
