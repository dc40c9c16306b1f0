"""The least of what the simulation found in the coordinator once."""

from __future__ import annotations

import pytest

from ottla.broker.core.effects import Append, Reply
from ottla.broker.core.groups import removal
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import CoordinatorRecord
from tests.core.durable import differences, durable_state
from tests.sim import calls
from tests.sim.calls import Identity

WALL_MS = 1_700_000_000_000


class Ctx:
    client_host = "/127.0.0.1"
    encoded = b""

    def __init__(self, api_version: int = 5, client_id: str = "c") -> None:
        self.api_version = api_version
        self.client_id = client_id


class Coordinator(GroupCoordinator):
    """One partition, time by hand, and appends whose outcome the test decides."""

    def __init__(self, **config: object) -> None:
        self.ids = iter(range(100))
        super().__init__(GroupConfig(group_initial_rebalance_delay_ms=0, **config), lambda: str(next(self.ids)), 1)  # type: ignore[arg-type]
        self.start()
        self.load_started(0, 0)
        self.loaded(0, 0, WALL_MS)
        self.log: list[CoordinatorRecord] = []
        self.waiting: list[Append] = []
        self.replies: dict[Ctx, object] = {}

    def settle(self) -> None:
        for effect in self.take_effects():
            if isinstance(effect, Append):
                self.waiting.append(effect)
            elif isinstance(effect, Reply):
                self.replies[effect.ctx] = effect.response  # type: ignore[index]

    def finish(self, *errors: ErrorCode) -> None:
        """Let the oldest appends come to their end."""
        self.settle()
        for error in errors:
            append = self.waiting.pop(0)
            if not error:
                self.log += append.records
            self.appended(append.token, error, 0, WALL_MS)
            self.settle()

    def assert_replays(self) -> None:
        replica = GroupCoordinator(GroupConfig(), str, 1)
        replica.load_started(0, 0)
        for offset, record in enumerate(self.log):
            replica.replay(0, record, offset)
        replica.loaded(0, 0, WALL_MS)
        assert differences(durable_state(self), durable_state(replica)) == []


NONE, FAILED = ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_deletion_that_half_failed_leaves_the_same_with_and_without_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tombstone of an offset failed, that of its group did not: the offset stays, for whoever reads the log."""
    monkeypatch.setattr(removal, "BATCH_RECORDS", 1)
    coordinator = Coordinator()
    coordinator.commit_offsets(calls.commit(Identity("g"), 5, [("t", 0, 7, "")]), Ctx(), 0, WALL_MS)
    coordinator.finish(NONE)
    ctx = Ctx(1)
    coordinator.delete_groups(calls.delete_groups(["g"]), ctx, 0, WALL_MS)
    coordinator.finish(FAILED, NONE)
    assert coordinator.replies[ctx].results[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[attr-defined]
    answer = coordinator.fetch_offsets(calls.fetch(["g"], 5, [("t", [0])], stable=False), Ctx(), 0, WALL_MS)
    assert answer is not None
    assert answer.topics[0].partitions[0].committed_offset == 7
    coordinator.assert_replays()
    del coordinator.log[-1]  # a tombstone that compaction has done away with
    coordinator.assert_replays()


def test_a_fetch_that_waited_does_not_take_a_group_that_was_given_up_for_unknown() -> None:
    coordinator = Coordinator()
    for group_id in ("a", "b"):
        coordinator.commit_offsets(calls.commit(Identity(group_id), 5, [("t", 0, 7, "")]), Ctx(), 0, WALL_MS)
    coordinator.finish(NONE, NONE)
    coordinator.commit_offsets(calls.commit(Identity("a"), 5, [("t", 0, 8, "")]), Ctx(), 0, WALL_MS)
    ctx = Ctx(8)
    assert coordinator.fetch_offsets(calls.fetch(["a", "b"], 8, None, stable=True), ctx, 0, WALL_MS) is None
    coordinator.unload(0, 0, WALL_MS)
    coordinator.settle()
    answer = coordinator.replies[ctx]
    assert [group.error_code for group in answer.groups] == [ErrorCode.NOT_COORDINATOR] * 2  # type: ignore[attr-defined]


def test_memory_does_not_grow_with_heartbeats() -> None:
    """Moving a deadline costs no entry of the heap, however often it is done."""
    coordinator = Coordinator()
    protocols = [("range", b"")]
    ids = []
    for _ in range(3):
        request = calls.join(Identity("g"), 4, protocols, 6_000, 3_000, "connect")
        answer = coordinator.join(request, Ctx(4), 0, WALL_MS)
        assert answer is not None
        ids.append(answer.member_id)
        request = calls.join(Identity("g", answer.member_id), 4, protocols, 6_000, 3_000, "connect")
        assert coordinator.join(request, Ctx(4), 0, WALL_MS) is None
    for _ in range(2):  # a delay of 0 ms is extended once, as somebody new came
        coordinator.advance(0, WALL_MS)
    for member_id in ids:
        assert coordinator.sync(calls.sync(Identity("g", member_id, None, 1), 2), Ctx(2), 0, WALL_MS) is None
    coordinator.finish(NONE, NONE)
    assert len(coordinator.replies) == 6
    for now_ms in range(0, 60_000, 10):
        for member_id in ids:
            assert coordinator.heartbeat(calls.heartbeat(Identity("g", member_id, None, 1), 4), now_ms) == NONE
        coordinator.advance(now_ms, WALL_MS + now_ms)
        assert len(coordinator.deadlines._heap) < 20
    coordinator.advance(66_000, WALL_MS)
    gone = [coordinator.heartbeat(calls.heartbeat(Identity("g", name, None, 1), 4), 66_000) for name in ids]
    assert gone == [ErrorCode.UNKNOWN_MEMBER_ID] * 3
