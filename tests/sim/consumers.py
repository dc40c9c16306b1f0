"""Model consumers: clients of the classic protocol, with the manners and the bad manners that real ones have."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, encode_subscription
from ottla.protocol.errors import ErrorCode
from tests.sim import calls
from tests.sim.calls import Call, Identity
from tests.sim.kernel import Process
from tests.sim.network import Link
from tests.support.requests import leave_fields

if TYPE_CHECKING:
    from tests.sim.world import World

Life = Generator[Any, Any, None]
Act = Generator[Any, Any, bool]

COMMON_PROTOCOL = "range"
OTHER_PROTOCOLS = ("roundrobin", "sticky", "cooperative-sticky")
UNITS = 6
"""The number of things that a leader distributes."""

QUIET_TIMEOUT_MS = 90_000


class Client:
    """Somebody with a connection, and moods that the plan allows while the world is not quiet."""

    def __init__(self, world: World, name: str, group_id: str) -> None:
        self.world = world
        self.name = name
        self.group_id = group_id
        self.rng = world.rng(f"{name} at work")
        self.link: Link | None = None
        self.process = Process(world, self.life())
        self._links = 0

    def life(self) -> Life:
        raise NotImplementedError

    def chance(self, feature: str, odds: float) -> bool:
        return self.world.active(feature) and self.rng.random() < odds

    def ask(self, api: ApiKey, version: int, fields: calls.Fields, timeout_ms: int) -> Generator[Any, Any, Any]:
        """Send a request to the coordinator of the group; None if there is no answer, and then no connection."""
        if self.link is None or not self.link.usable:
            node = self.world.coordinator_of(self.group_id, self.rng)
            if node is None:
                yield self.rng.randint(50, 400)
                return None
            self._links += 1
            self.link = Link(self.world, node, f"{self.name}/{self._links}")
        answer = yield Call(api, version, calls.asked(api, version, fields), timeout_ms, self.link.send)
        if answer is None:
            self.hang_up()
        return answer

    def hang_up(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None


class Consumer(Client):
    """One member of a group, or one who would like to be.

    Attributes:
        ended: it will not come back.
        who: what it believes to be.
    """

    def __init__(self, world: World, index: int, group_id: str) -> None:
        rng = world.rng(f"consumer {index}")
        self.ended = False
        self.committed: list[tuple[str, int, str]] = []  # topic, partition and metadata of the last commit
        is_static = world.plan.has("static members") and rng.random() < 0.6
        instance = None
        if is_static:
            instance = f"i{index}"
            if world.plan.has("duplicates") and rng.random() < 0.5:
                instance = f"i-{group_id}"
        self.who = Identity(group_id, instance_id=instance)
        self.choose_timeouts(rng)
        old = world.plan.has("old versions") and rng.random() < 0.6
        lowest = (5, 3, 3, 3, 7) if is_static and rng.random() < 0.8 else (5 if is_static else 0, 0, 0, 0, 2)
        newest = (9, 5, 4, 5, 8)
        self.versions = [rng.randint(low, high) if old else high for low, high in zip(lowest, newest, strict=True)]
        self.is_misfit = world.plan.has("misfits") and rng.random() < 0.4
        self.kind = rng.choice((PROTOCOL_TYPE, "connect")) if self.is_misfit else PROTOCOL_TYPE
        self.revision = 0
        self.protocol_names = [COMMON_PROTOCOL]
        if world.plan.has("several protocols"):
            # All of a group know the same: one that was loaded knows only the protocol that was chosen last, and would
            # keep out who does not support it until its leader joins anew.
            of_group = world.rng(f"protocols of {group_id}")
            self.protocol_names += of_group.sample(OTHER_PROTOCOLS, of_group.randint(0, 2))
            rng.shuffle(self.protocol_names)
        if self.is_misfit:
            self.protocol_names = rng.choice((["custom"], ["custom", COMMON_PROTOCOL], self.protocol_names[:1]))
        self.topics = rng.sample(sorted(world.topics), 2)
        self.protocol_name = ""
        self.members: list[Any] = []
        self.is_leader = False
        self.skips_assignment = False
        super().__init__(world, f"consumer {index}", group_id)

    def choose_timeouts(self, rng: Random) -> None:
        self.session_ms = rng.choice((6_000, 6_000, 10_000, 15_000))
        self.rebalance_ms = rng.choice((3_000, 6_000, 15_000, 30_000))
        self.heartbeat_ms = min(self.session_ms, self.rebalance_ms) // 3

    def goes_on(self) -> bool:
        """True if it stays for the quiet time: misfits and doubles do not."""
        if not self.world.is_wild and (self.is_misfit or self.is_double()):
            self.ended = True
        return not self.ended

    def is_double(self) -> bool:
        """True if an older consumer has the same instance id. Two would fence each other for ever."""
        mine = self.group_id, self.who.instance_id
        older = self.world.consumers[: self.world.consumers.index(self)]
        return mine[1] is not None and any((c.group_id, c.who.instance_id) == mine for c in older if not c.ended)

    def protocols(self) -> list[tuple[str, bytes]]:
        subscription = Subscription(topics=self.topics, user_data=str(self.revision).encode())
        return [(name, encode_subscription(subscription, version=0)) for name in self.protocol_names]

    def patience(self) -> int:
        if self.chance("impatience", 0.3):
            return self.rng.choice((50, 500, 2_000))
        return self.rebalance_ms + 5_000 if self.world.is_wild else QUIET_TIMEOUT_MS

    def life(self) -> Life:
        yield self.rng.choice((0, 0, 100, 2_000, 10_000))
        while self.goes_on():
            if (yield from self.join()) and (yield from self.sync()):
                yield from self.work()

    # Joining

    def join(self) -> Act:
        who, version = self.who, self.versions[0]
        fields = calls.join(who, self.protocols(), self.session_ms, self.rebalance_ms, self.kind)
        answer = yield from self.ask(ApiKey.JOIN_GROUP, version, fields, self.patience())
        if answer is None:
            if self.chance("forgotten ids", 0.5):
                who.member_id = ""
            yield self.rng.randint(10, 300)
            return False
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            who.member_id = answer.member_id
            self.world.ids_seen.append((self.group_id, who.member_id, None))
            if self.chance("forgotten ids", 0.2):
                who.member_id = ""
            if self.chance("naps", 0.1):
                yield self.nap_ms()
            return False
        if answer.error_code:
            yield from self.refused(answer.error_code)
            return False
        who.member_id, who.generation = answer.member_id, answer.generation_id
        self.world.ids_seen.append((self.group_id, who.member_id, who.instance_id))
        self.world.generations_seen[self.group_id] = who.generation
        self.protocol_name = answer.protocol_name
        self.is_leader = answer.leader == who.member_id
        self.skips_assignment = answer.skip_assignment
        self.members = answer.members
        return True

    def refused(self, error: int) -> Life:
        """Do what clients do when they hear an error of the group."""
        who = self.who
        match error:
            case ErrorCode.UNKNOWN_MEMBER_ID:
                who.member_id = ""
            case ErrorCode.FENCED_INSTANCE_ID:
                who.member_id = ""
                if not self.chance("duplicates", 0.8):
                    self.ended = True
                yield self.rng.randint(500, 10_000)
            case ErrorCode.INCONSISTENT_GROUP_PROTOCOL | ErrorCode.GROUP_MAX_SIZE_REACHED:
                who.member_id = ""
                yield self.rng.randint(500, 4_000)
            case ErrorCode.COORDINATOR_NOT_AVAILABLE | ErrorCode.NOT_COORDINATOR:
                self.hang_up()
        yield self.rng.randint(10, 300)

    def nap_ms(self) -> int:
        return self.rng.randint(self.session_ms // 2, self.session_ms * 2)

    # Syncing

    def sync(self) -> Act:
        if self.is_leader and self.chance("late leaders", 0.4):
            yield self.rng.randint(100, self.rebalance_ms * 5 // 4)
        if self.chance("silent members", 0.1):
            yield self.rebalance_ms + self.rng.randint(0, 3_000)
            return False
        if self.chance("late followers", 0.3):
            for _ in range(self.rng.randint(1, 4)):
                if self.rng.random() < 0.3:
                    yield from self.commit()
                if (yield from self.heartbeat()):
                    return False
                yield self.rng.randint(10, self.rebalance_ms // 2)
        for _ in range(3):
            answer = yield from self.ask(ApiKey.SYNC_GROUP, self.versions[1], self.sync_fields(), self.patience())
            if answer is not None:
                if not answer.error_code:
                    return True
                yield from self.refused(answer.error_code)
                return False
        return False

    def sync_fields(self) -> calls.Fields:
        assignments: list[tuple[str, bytes]] = []
        if self.is_leader and not self.skips_assignment:
            number = self.world.next_number()
            for position, member in enumerate(self.members):
                if self.chance("strangers", 0.1):
                    continue  # left out: it gets nothing
                units = range((position + number) % len(self.members), UNITS, len(self.members))
                assignments.append((member.member_id, f"{number}:{','.join(map(str, units))}".encode()))
            if self.chance("strangers", 0.1):
                assignments.append(("nobody", b"0:"))
        return calls.sync(self.who, assignments, (self.kind, self.protocol_name or "?"))

    # Being a member

    def work(self) -> Life:
        while self.goes_on():
            yield self.heartbeat_ms + self.rng.randint(0, 200)
            if self.chance("naps", 0.05):
                yield self.nap_ms()
            if self.chance("client crashes", 0.04):
                yield from self.crash()
                return
            if self.chance("leaving", 0.05):
                yield from self.leave()
                return
            if self.chance("new subscriptions", 0.05):
                self.revise()
                return
            if self.is_leader and self.chance("eager leaders", 0.1):
                return
            if self.who.instance_id is not None and self.chance("restarts", 0.15):
                self.who.member_id = ""
                if self.rng.random() < 0.3:
                    self.revise()
                return
            if self.rng.random() < 0.4:
                yield from self.commit()
            if self.rng.random() < 0.1:
                yield from self.fetch()
            if error := (yield from self.heartbeat()):
                if error == ErrorCode.REBALANCE_IN_PROGRESS:
                    if self.rng.random() < 0.4:
                        yield from self.commit()
                    if self.chance("naps", 0.2):
                        yield self.rng.randint(0, self.rebalance_ms * 2)
                return

    def revise(self) -> None:
        """Want something else from now on, and have other timeouts now and then."""
        self.revision += 1
        self.topics = self.rng.sample(sorted(self.world.topics), self.rng.randint(1, 2))
        if self.rng.random() < 0.5:
            self.choose_timeouts(self.rng)

    def heartbeat(self) -> Generator[Any, Any, int]:
        """Send one; the error to act on."""
        answer = yield from self.ask(ApiKey.HEARTBEAT, self.versions[2], calls.heartbeat(self.who), 1_500)
        if answer is None:
            return 0  # the next one will tell
        if answer.error_code and answer.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            yield from self.refused(answer.error_code)
        return int(answer.error_code)

    def commit(self) -> Life:
        """Commit some partitions, now and then several times in a row, as a consumer does that gets on."""
        for _ in range(self.rng.choice((1, 1, 2, 4))):
            yield from self.commit_once()

    def commit_once(self) -> Life:
        if not self.committed or self.rng.random() < 0.2:
            self.committed = [
                (topic, self.rng.randint(0, 2), self.rng.choice(("", "", "m", "😀" * 5, "x" * 11)))
                for topic in self.rng.sample(self.topics, self.rng.randint(1, len(self.topics)))
            ]
        offsets = [(topic, partition, self.world.next_number(), text) for topic, partition, text in self.committed]
        retention_ms = self.rng.choice((-1, 0, 5_000)) if self.world.active("expiration") else -1
        who = self.who
        if self.chance("strangers", 0.1):
            who = Identity(who.group_id, who.member_id, who.instance_id, who.generation - 1)
        fields = calls.commit(who, offsets, retention_ms)
        yield from self.ask(ApiKey.OFFSET_COMMIT, self.versions[4], fields, self.rng.choice((1_000, 30_000)))

    def fetch(self) -> Life:
        version = self.rng.randint(1, 8)
        topics = None if self.rng.random() < 0.3 else [(topic, (0, 1, 2)) for topic in self.topics]
        fields = calls.fetch([self.group_id], version, topics, stable=self.rng.random() < 0.5)
        yield from self.ask(ApiKey.OFFSET_FETCH, version, fields, 5_000)

    # Ways to go

    def leave(self) -> Life:
        who, version = self.who, self.versions[3]
        member_id = who.member_id
        if version >= 3 and who.instance_id is not None and self.rng.random() < 0.5:
            member_id = ""
        fields = leave_fields(self.group_id, (member_id, who.instance_id))
        yield from self.ask(ApiKey.LEAVE_GROUP, version, fields, 5_000)
        yield from self.away()

    def crash(self) -> Life:
        """Die without a word, with or without the connection."""
        if self.rng.random() < 0.5:
            self.hang_up()
        self.link = None
        yield from self.away()

    def away(self) -> Life:
        """Be gone for a while or for ever; who comes back has forgotten its id."""
        self.who.member_id, self.who.generation = "", -1
        self.ended = self.rng.random() < 0.25
        comes_back_soon = self.who.instance_id is not None and self.rng.random() < 0.6
        yield self.rng.randint(0, self.session_ms // 2 if comes_back_soon else 3 * self.session_ms)
