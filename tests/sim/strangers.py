"""Other clients of a coordinator: administrators, tools that only store offsets, and senders of stale requests."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from tests.sim import calls
from tests.sim.calls import Identity
from tests.sim.consumers import COMMON_PROTOCOL, Client, Life
from tests.support.requests import delete_offsets_fields, leave_fields

if TYPE_CHECKING:
    from tests.sim.world import World


class Stranger(Client):
    """Sends requests with identities of others: current ones, old ones, mixed ones."""

    def __init__(self, world: World, group_id: str) -> None:
        super().__init__(world, f"stranger {group_id}", group_id)

    def life(self) -> Life:
        while self.world.is_wild:
            yield self.rng.randint(100, 4_000)
            if self.world.active("strangers"):
                yield from self.act()
                if self.rng.random() < 0.3:
                    self.hang_up()
        self.hang_up()

    def identity(self) -> Identity:
        rng, known = self.rng, [entry for entry in self.world.ids_seen[-12:] if entry[0] == self.group_id]
        _, member_id, instance = rng.choice(known) if known else ("", "nobody", None)
        if rng.random() < 0.1:
            member_id = rng.choice(("", "nobody"))
        if rng.random() < 0.2:
            instance = rng.choice((None, f"i-{self.group_id}", "i0", "i1", "nobody"))
        generation = self.world.generations_seen.get(self.group_id, 0) + rng.choice((0, 0, 0, 0, -1, 1))
        return Identity(self.group_id, member_id, instance, generation if rng.random() < 0.9 else -1)

    def act(self) -> Generator[Any, Any, Any]:
        rng, who = self.rng, self.identity()
        timeout_ms = rng.choice((50, 500, 3_000))
        action = rng.choice(("heartbeat", "commit", "sync", "join", "leave", "new", "odd"))
        if action == "heartbeat":
            version = rng.randint(0, 4)
            return (yield from self.ask(ApiKey.HEARTBEAT, version, calls.heartbeat(who), timeout_ms))
        if action == "commit":
            version = rng.randint(2, 8)
            offsets = [(rng.choice(("t0", "t1", "gone")), 0, self.world.next_number(), "")]
            return (yield from self.ask(ApiKey.OFFSET_COMMIT, version, calls.commit(who, offsets), timeout_ms))
        if action == "sync":
            version = rng.randint(0, 5)
            protocol = rng.choice(((PROTOCOL_TYPE, COMMON_PROTOCOL), (None, COMMON_PROTOCOL), ("connect", "custom")))
            wrong = [(who.member_id, f"{self.world.next_number()}:stolen".encode())]
            return (yield from self.ask(ApiKey.SYNC_GROUP, version, calls.sync(who, wrong, protocol), timeout_ms))
        if action == "leave":
            if rng.random() < 0.7:
                return None  # a stranger that sends everybody home would leave little to see
            version = rng.randint(0, 5)
            entries = [(who.member_id, who.instance_id), (who.member_id, None)][: rng.randint(1, 2)]
            fields = leave_fields(self.group_id, *entries)
            return (yield from self.ask(ApiKey.LEAVE_GROUP, version, fields, timeout_ms))
        session_ms = 6_000
        if action == "new":
            who = Identity(self.group_id)
        elif action == "odd":
            who = Identity(rng.choice((self.group_id, "", "none")), "odd" if rng.random() < 0.5 else "")
            session_ms = rng.choice((1, 5_999, 6_000, 1_800_001))
        version = rng.randint(0, 9)
        protocols = rng.choice(([], [(COMMON_PROTOCOL, b"\0\0")], [("custom", b"")]))
        fields = calls.join(who, protocols, session_ms, rng.choice((500, 3_000)), PROTOCOL_TYPE)
        return (yield from self.ask(ApiKey.JOIN_GROUP, version, fields, timeout_ms))


class Storer(Client):
    """Stores offsets without being a member, in a group of its own and in those of others."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "storer", "s0")

    def life(self) -> Life:
        while self.world.is_wild:
            yield self.rng.randint(300, 5_000)
            if self.world.active("simple commits"):
                self.hang_up()
                self.group_id = self.rng.choice(("s0", "s0", *self.world.plan.group_ids()))
                version = self.rng.randint(2, 8)
                offsets = [("t0", 0, self.world.next_number(), "m"), ("t1", 1, self.world.next_number(), "")]
                fields = calls.commit(Identity(self.group_id), offsets[: self.rng.randint(1, 2)])
                yield from self.ask(ApiKey.OFFSET_COMMIT, version, fields, 3_000)
        self.hang_up()


class Visitor(Client):
    """Comes into a group of its own and is soon gone again, so that the group is Empty most of the time."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "visitor", "v0")

    def life(self) -> Life:
        while self.world.is_wild:
            yield self.rng.choice((0, 50, 1_000, 3_000))
            if self.world.active("visitors"):
                yield from self.visit()
        self.hang_up()

    def visit(self) -> Life:
        rng, who = self.rng, Identity(self.group_id)
        join = calls.join(who, [(COMMON_PROTOCOL, b"")], 6_000, 3_000, "connect")
        answer = yield from self.ask(ApiKey.JOIN_GROUP, 3, join, 8_000)
        if answer is None or answer.error_code:
            return
        who.member_id, who.generation = answer.member_id, answer.generation_id
        if rng.random() < 0.3:
            assignments = [(member.member_id, b"0:") for member in answer.members]
            answer = yield from self.ask(ApiKey.SYNC_GROUP, 3, calls.sync(who, assignments), 2_000)
            commit = calls.commit(who, [("t0", 0, self.world.next_number(), "")])
            yield from self.ask(ApiKey.OFFSET_COMMIT, 5, commit, rng.choice((20, 5_000)))
        leave = leave_fields(self.group_id, (who.member_id, None))
        yield from self.ask(ApiKey.LEAVE_GROUP, 2, leave, rng.choice((20, 1_000)))
        if rng.random() < 0.3:
            delete = {"groups_names": [self.group_id]}
            yield from self.ask(ApiKey.DELETE_GROUPS, 2, delete, rng.choice((20, 1_000)))


class Administrator(Client):
    """Looks at groups, deletes them and their offsets."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "administrator", "g0")

    def life(self) -> Life:
        while self.world.is_wild:
            yield self.rng.randint(200, 4_000)
            if self.world.active("administration"):
                yield from self.act()
        self.hang_up()

    def act(self) -> Generator[Any, Any, Any]:
        rng = self.rng
        group_ids = [*self.world.plan.group_ids(), "s0", "v0", "none"]
        self.hang_up()
        self.group_id = rng.choice([*group_ids, "v0", "v0", "v0"])
        action = rng.choice(("describe", "list", "delete offsets", "delete offsets", "delete", "delete", "fetch"))
        if action == "describe":
            version = rng.randint(0, 5)
            return (yield from self.ask(ApiKey.DESCRIBE_GROUPS, version, {"groups": group_ids}, 3_000))
        if action == "list":
            version = rng.randint(0, 4)
            states = rng.choice(((), ("Stable",), ("empty", "PreparingRebalance")))
            return (yield from self.ask(ApiKey.LIST_GROUPS, version, {"states_filter": states}, 3_000))
        if action == "delete offsets":
            places = [("t0", 0), ("t0", 1), ("t0", 2), ("t1", 0), ("t1", 0), ("t2", 2)]
            fields = delete_offsets_fields(self.group_id, places)
            return (yield from self.ask(ApiKey.OFFSET_DELETE, 0, fields, 3_000))
        if action == "delete":
            names = [*rng.sample(group_ids, rng.randint(0, 1)), self.group_id, self.group_id]
            return (yield from self.ask(ApiKey.DELETE_GROUPS, rng.randint(0, 2), {"groups_names": names}, 3_000))
        version = rng.randint(1, 8)
        fields = calls.fetch(group_ids, version, rng.choice((None, [("t0", (0, 1))])), stable=rng.random() < 0.5)
        return (yield from self.ask(ApiKey.OFFSET_FETCH, version, fields, 5_000))
