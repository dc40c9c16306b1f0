"""Members of both protocols who do anything at any time, topics that come and go, a log that fails, clocks that jump.

Nothing contradicts itself meanwhile, no partition has two owners, and once the faults end everybody has its share. A
failure names its seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.state import ConsumerGroupState, Member
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.state import GroupState
from ottla.broker.core.groups.config import GroupConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest
from tests.core.consumer_groups import consumer_invariants
from tests.core.consumer_groups.modern_rendering import topic_id
from tests.core.consumer_groups.watched_world import WatchedWorld
from tests.core.durable import durable_state
from tests.core.world import ENTRIES, Ctx
from tests.support.classic_member import ClassicMember
from tests.support.modern_member import ModernMember
from tests.support.requests import commit_fields, leave_fields, request

STEPS = 250
ROUNDS = 60
FAILURES = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE]
TOPICS = ["t", "u", "t9"]


class Person(ModernMember):
    """A member, of which one request is open at a time. Some lie about what they have."""

    def __init__(self, walk: Walk, name: str, instance: str | None, *, is_liar: bool) -> None:
        super().__init__(
            self._hand_over, "g", name, instance=instance, rebalance_ms=walk.random.choice([5_000, 60_000])
        )
        self.walk = walk
        self.is_liar = is_liar
        self.open: list[Ctx] = []

    def _hand_over(self, heartbeat: Any) -> Ctx:
        layout = type(heartbeat).layout(1)
        ctx = Ctx(self.member_id, 1, layout.decode(layout.encode(heartbeat)))
        self.open.append(ctx)
        self.walk.beat(ctx)
        return ctx

    def hear(self) -> None:
        for ctx in [ctx for ctx in self.open if ctx.answer is not None]:
            self.open.remove(ctx)
            if not ctx.is_gone:
                self.learn(ctx.answer)


class ClassicPerson(ClassicMember):
    """A member of the classic protocol, of which one request is open at a time."""

    def __init__(self, walk: Walk, name: str, instance: str | None, *, cooperative: bool) -> None:
        super().__init__(
            self._hand_over,
            lambda heartbeat: walk.world.coordinator.heartbeat(heartbeat, walk.world.now_ms),
            lambda: {topic: len(racks) for topic, (_, racks) in walk.world.topics.items()},
            "g",
            instance=instance,
            cooperative=cooperative,
            session_ms=walk.random.choice([6_000, 20_000]),
            rebalance_ms=walk.random.choice([5_000, 60_000]),
        )
        self.walk = walk
        self.name = name
        self.open: list[Ctx] = []

    def _hand_over(self, asked: Any) -> None:
        api = ApiKey.JOIN_GROUP if isinstance(asked, JoinGroupRequest) else ApiKey.SYNC_GROUP
        version = 9 if api is ApiKey.JOIN_GROUP else 5
        self.open.append(self.walk.send(self.name, api, version, asked))

    def hear(self) -> None:
        for ctx in [ctx for ctx in self.open if ctx.answer is not None]:
            self.open.remove(ctx)
            self.learn(ctx.answer)


class Walk:
    """One seed's world."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = WatchedWorld(
            GroupConfig(
                group_consumer_assignment_interval_ms=self.random.choice([0, 0, 1_000]),
                group_consumer_max_size=self.random.choice([3, 1_000, 1_000]),
                group_consumer_assignors=self.random.choice(["uniform,range", "range,uniform"]),
                group_consumer_migration_policy=self.random.choice(["bidirectional"] * 3 + ["upgrade", "downgrade"]),
                group_max_size=self.random.choice([2, 1_000, 1_000]),
                group_initial_rebalance_delay_ms=self.random.choice([0, 3_000]),
                offsets_retention_ms=60_000,
                offsets_retention_check_interval_ms=30_000,
            ),
            partition_count=2,
        )
        self.created: dict[str, int] = {}
        self.world.load()
        self.grow_topic("t")
        self.people = [
            Person(self, f"p{number}", f"i{number % 2}" if number > 3 else None, is_liar=number == 3)
            for number in range(7)
        ]
        self.people.append(Person(self, "p7", "i2", is_liar=False))
        self.classics = [
            ClassicPerson(self, f"c{number}", "i2" if number == 2 else None, cooperative=number > 0)
            for number in range(3)
        ]
        self.waiting: list[Ctx] = []
        self.alone = 0
        """So many steps more are those of members of the classic protocol."""

    def step(self) -> None:
        person = self.random.choice(self.people)
        verbs = (
            [self.heartbeat] * 6 + [Person.let_go] * 2 + [self.subscribe, self.leave, self.lose, self.lie, self.commit]
        )
        verbs += [self.advance, self.advance, self.log, self.log, self.topic, self.admin]
        if self.random.random() < 0.02:
            self.leave_alone()
        if self.alone or self.random.random() < 0.35:
            self.alone = max(self.alone - 1, 0)
            self.classic_step(self.random.choice(self.classics))
        else:
            self.random.choice(verbs)(person)
        if self.random.random() < 0.004:
            self.restart()
        self.check()

    def check(self) -> None:
        for person in (*self.people, *self.classics):
            person.hear()
        consumer_invariants.check(self.world.coordinator, self.world.now_ms)
        self.check_readers()
        self.world.check_log()

    def check_readers(self) -> None:
        """Whoever is at its epoch reads what the broker knows it to have; of that each partition has one owner."""
        group = self.world.coordinator.groups.get("g")
        members = group.durable.members if isinstance(group, ConsumerGroup) else {}
        readers: dict[tuple[UUID, int], str] = {}
        for person in self.people:
            member = members.get(person.member_id)
            if member is None or member.epoch != person.epoch or person.open or person.is_liar:
                continue
            has = {
                (topic, partition)
                for owned in (member.assigned, member.pending)
                for topic, partitions in owned.items()
                for partition in partitions
            }
            assert person.owned <= has
            for partition in person.owned:
                assert readers.setdefault(partition, person.member_id) == person.member_id
        for classic in self.classics:
            member = members.get(classic.member_id)
            if member is None or member.epoch != classic.generation or classic.open:
                continue
            for topic, partition in classic.owned:
                if topic in self.world.topics:
                    topic_id = self.world.topics[topic][0]
                    if partition in member.assigned.get(topic_id, ()) or partition in member.pending.get(topic_id, ()):
                        assert readers.setdefault((topic_id, partition), classic.member_id) == classic.member_id

    def classic_step(self, person: ClassicPerson) -> None:
        """Somebody of the classic protocol goes on, goes, crashes, or says whatever comes to mind."""
        chance = self.random.random()
        if chance < 0.75:
            if not person.open:
                person.act()
        elif chance < 0.85:
            person.topics = self.random.choice([["t"], ["t"], ["t", "u"]])
            person.has_to_join = person.has_to_join or not person.open
        elif chance < 0.92:
            self.lose_classic(person)
        elif not person.open and person.member_id:
            self.send(person.name, ApiKey.LEAVE_GROUP, 5, person.leave())

    def leave_alone(self) -> None:
        """The members of the consumer protocol go, and leave the others alone for a while."""
        self.alone = 12
        for person in self.people:
            if not person.open and not person.is_fenced:
                person.leave()

    def lose_classic(self, person: ClassicPerson) -> None:
        """Its answer is lost with its connection, or its process ends."""
        person.open.clear()
        if self.random.random() < 0.5:
            person.crash()
        else:
            person.has_to_join = True

    def heartbeat(self, person: Person) -> None:
        if not person.open and not person.is_fenced:
            person.heartbeat()

    def subscribe(self, person: Person) -> None:
        regex = self.random.choice([None, None, None, "t.*", "u"])
        names = None if regex and self.random.random() < 0.5 else self.random.choice([["t"], ["t"], ["t", "u"], []])
        person.subscribe(names, regex)
        person.assignor = self.random.choice([person.assignor, "range", "uniform"])

    def leave(self, person: Person) -> None:
        if not person.open and self.random.random() < 0.5:
            person.leave(for_a_while=person.instance is not None and self.random.random() < 0.7)
            person.owned = frozenset()

    def lose(self, person: Person) -> None:
        for ctx in person.open:
            ctx.is_gone = True
        person.open.clear()
        person.is_fenced = False
        if self.random.random() < 0.5:
            person.crash()
        else:
            person.reconnect()

    def lie(self, person: Person) -> None:
        """Somebody says whatever comes to mind, for itself or under the name of one that lies."""
        name = self.random.choice(["p3", "stranger"])
        member = self.member(name)
        previous = [] if member is None else [member.previous_epoch] * 4
        fields = {
            "group_id": self.random.choice(["g", "g", "other"]),
            "member_id": name,
            "member_epoch": self.random.choice([-3, -2, -1, 0, 1, 2, 3, 4, 9, *previous]),
            "instance_id": self.random.choice([None, None, "x"]),
            "rebalance_timeout_ms": self.random.choice([-1, 0, 1_000]),
            "subscribed_topic_names": self.random.choice([None, ["t"], ["u", "nope"]]),
            "subscribed_topic_regex": self.random.choice([None, None, "", "[", "t.*"]),
            "topic_partitions": self.random.choice(
                [None, [], [{"topic_id": topic_id("t"), "partitions": [0, self.random.randrange(5)]}]]
            ),
        }
        heartbeat = request(ApiKey.CONSUMER_GROUP_HEARTBEAT, fields)
        layout = type(heartbeat).layout(1)
        self.beat(Ctx(name, 1, layout.decode(layout.encode(heartbeat))))

    def member(self, member_id: str) -> Member | None:
        """The member of the group, as heartbeats find it."""
        group = self.world.coordinator.groups.get("g")
        return group.state.members.get(member_id) if isinstance(group, ConsumerGroup) else None

    def beat(self, ctx: Ctx) -> None:
        """A heartbeat, and whether its epoch is one to go on with (2.5)."""
        says = ctx.request
        member = self.member(says.member_id)
        may_go_on = True
        if member is not None and says.group_id == "g" and says.instance_id is None and says.member_epoch > 0:
            owned = says.topic_partitions
            missed_an_answer = owned is not None and all(
                set(topic.partitions) <= member.assigned.get(topic.topic_id, {}).keys() for topic in owned
            )
            may_go_on = says.member_epoch == member.epoch or (
                says.member_epoch < member.epoch and says.member_epoch == member.previous_epoch and missed_an_answer
            )
        self.world.beat(ctx)
        if ctx.answer is not None and not ctx.answer.error_code and says.member_epoch >= 0:
            group = self.world.coordinator.groups[says.group_id]
            assert isinstance(group, ConsumerGroup)
            assert group.durable.members[ctx.answer.member_id].epoch == ctx.answer.member_epoch
        assert may_go_on or ctx.answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.INVALID_REQUEST)

    def ask(self, key: ApiKey, version: int, fields: dict[str, Any]) -> None:
        self.waiting.append(self.send("admin", key, version, request(key, fields)))

    def send(self, who: str, key: ApiKey, version: int, asked: Any) -> Ctx:
        return self.world.ask(who, ENTRIES[key], asked, version)

    def commit(self, person: Person) -> None:
        """Whoever is at its epoch may commit what it has, and nobody else at an epoch that is over."""
        offsets = [(self.random.choice(TOPICS), self.random.randrange(3), self.random.randrange(99))]
        who: dict[str, Any] = {"member_id": person.member_id, "instance": person.instance}
        self.ask(ApiKey.OFFSET_COMMIT, 9, commit_fields("g", offsets, generation=person.epoch, **who))

    def advance(self, person: Person) -> None:
        self.world.advance_to(self.world.now_ms + self.random.choice([1, 500, 2_000, 7_000, 46_000]))

    def log(self, person: Person) -> None:
        """Nothing that comes after what the log has lost is in it: appends fail together."""
        world = self.world
        if not world.hold and self.random.random() < 0.2:
            world.hold = True
        elif world.held and self.random.random() < 0.5:
            world.complete()
            world.settle()
        elif world.held and self.random.random() < 0.4:
            error = self.random.choice(FAILURES)
            for _ in range(len(world.held)):
                world.complete(error)
            world.settle()
        elif self.random.random() < 0.3:
            world.hold = False
            world.settle()

    def topic(self, person: Person) -> None:
        name = self.random.choice(TOPICS)
        if name in self.world.topics and self.random.random() < 0.4:
            self.world.delete_topic(name)
        elif name not in self.world.topics or len(self.world.topics[name][1]) < 7:
            self.grow_topic(name)
        self.world.settle()

    def grow_topic(self, name: str) -> None:
        known = self.world.topics.get(name)
        if known is None:
            self.created[name] = self.created.get(name, 0) + 1
            known = topic_id(name, self.created[name]), [[]]
        rack = self.random.choice(["r1", "r2"])
        self.world.put_topic(name, known[0], [*known[1], *[[rack]] * self.random.choice([1, 2])])

    def admin(self, person: Person) -> None:
        match self.random.randrange(4):
            case 0:
                self.ask(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g", "other"]})
            case 1:
                self.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["g"]})
            case 2:
                self.ask(ApiKey.LIST_GROUPS, 5, {})
            case _:
                self.ask(ApiKey.LEAVE_GROUP, 5, leave_fields("g", (person.member_id, None), ("nobody", None)))

    def restart(self) -> None:
        for person in self.people:
            if person.open:
                self.lose(person)
        for classic in self.classics:
            if classic.open:
                self.lose_classic(classic)
        self.waiting.clear()
        self.world.restart()

    def converge(self) -> None:
        """The faults end. Everybody who is not replaced by another one gets its share, in a group of either kind."""
        world = self.world
        world.hold = False
        world.settle()
        for classic in self.classics:
            self.waiting += classic.open
            classic.open.clear()
            classic.crash()
            classic.topics = ["t"]
        world.advance_to(world.now_ms + 400_000)
        self.check()
        for person in self.people:
            self.lose(person)
            person.crash()
        if "t" not in world.topics:
            self.grow_topic("t")
        people = [person for person in self.people if person.member_id in ("p0", "p1", "p2", "p4", "p5")]
        people = people[: world.config.group_consumer_max_size]
        self.settle(people)
        away, back = self.people[4], self.people[6]
        if away in people:
            away.leave(for_a_while=True)
            self.check()
            people[people.index(away)] = back
            self.settle(people)
        people.pop(0).leave()
        self.settle(people)
        self.rest(people)
        self.grow_topic("t")
        world.hold = True
        people[0].heartbeat()
        if world.held:
            world.complete(FAILURES[0])
        world.hold = False
        self.settle(people)
        self.change_sides(people)

    def rest(self, people: list[Person]) -> None:
        """Nothing happens, and nobody is sent away."""
        epochs = [person.epoch for person in people]
        for _ in range(24):
            self.world.advance_to(self.world.now_ms + 4_000)
            for person in people:
                person.heartbeat()
                self.check()
        assert [person.epoch for person in people] == epochs

    def change_sides(self, people: list[Person]) -> None:
        """Members of the classic protocol come, those of the other one go, and come back."""
        world = self.world
        room = min(world.config.group_consumer_max_size - len(people), world.config.group_max_size, 2)
        classics = self.classics[:room]
        self.settle([*people, *classics])
        *others, last = people
        for person in others:
            person.leave()
            self.check()
        self.settle([last, *classics])
        last.leave()
        if isinstance(world.coordinator.groups.get("g"), ConsumerGroup):
            # In a consumer group of classic members alone nobody is told that somebody went, until one joins again.
            for classic in classics:
                classic.has_to_join = True
        self.settle(classics)
        group = world.coordinator.groups.get("g")
        if isinstance(group, ConsumerGroup) or world.config.may_convert("upgrade"):
            self.settle([*people, *classics])
        for classic in classics:
            self.send(classic.name, ApiKey.LEAVE_GROUP, 5, classic.leave())

    def settle(self, people: Sequence[Person | ClassicPerson]) -> None:
        """Who is there stays until everybody has its share."""
        world = self.world
        for _ in range(ROUNDS if people else 0):
            for person in people:
                if isinstance(person, ClassicPerson):
                    self.go_on(person)
                else:
                    person.heartbeat()
                    self.check()
                    person.let_go()
            world.advance_to(world.now_ms + 2_500)
            self.check()
            if self.has_settled(people):
                return
        assert not people, f"not settled after {ROUNDS} rounds"

    def go_on(self, person: ClassicPerson) -> None:
        """A member of the classic protocol does what it can at once: it joins and syncs without a pause."""
        for _ in range(3):
            if not person.open:
                person.act()
            self.check()
            if person.has_joined:
                return

    def has_settled(self, people: Sequence[Person | ClassicPerson]) -> bool:
        group = self.world.coordinator.groups.get("g")
        if isinstance(group, ConsumerGroup):
            if not self.is_balanced(group):
                return False
            topics, epoch = group.state.subscriptions.topics(), group.state.epoch
        elif isinstance(group, ClassicGroup) and group.state is GroupState.STABLE:
            topics, epoch = sorted(group.topics or ()), group.generation
        else:
            return False
        wanted = {
            (name, number)
            for name in topics
            if name in self.world.topics
            for number in range(len(self.world.topics[name][1]))
        }
        has = [partition for person in people for partition in self.read_by(person)]
        assert len(has) == len(set(has)), "two read the same"
        return set(has) == wanted and all(
            person.generation == epoch and person.has_joined
            if isinstance(person, ClassicPerson)
            else person.epoch == epoch
            for person in people
        )

    def is_balanced(self, group: ConsumerGroup) -> bool:
        return (
            group.state.group_state is ConsumerGroupState.STABLE
            and group.checked_version == self.world.coordinator.topics.version
            and not group.state.subscriptions.regexes.keys() - group.state.resolved.keys()
        )

    def read_by(self, person: Person | ClassicPerson) -> list[tuple[str, int]]:
        if isinstance(person, ClassicPerson):
            return sorted(person.owned)
        names = {topic_id: name for name, (topic_id, _) in self.world.topics.items()}
        return [(names.get(topic_id, str(topic_id)), number) for topic_id, number in person.owned]

    def finish(self) -> None:
        """Nobody asks any more: every member and group goes, and everybody was answered."""
        world = self.world
        world.advance_to(world.now_ms + 400_000)
        consumer_invariants.check(world.coordinator, world.now_ms)
        world.check_log()
        assert durable_state(world.coordinator) == {}
        assert not world.coordinator.groups
        assert all(ctx.answer is not None for ctx in self.waiting)
        assert {key.timer for key in world.coordinator.deadlines._due} == {"retention"}


def play(seed: int) -> None:
    """Walk from the beginning to the end."""
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.converge()
    walk.finish()
