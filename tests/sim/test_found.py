"""The least of what the simulation found in the coordinator once."""

from __future__ import annotations

import pytest

from ottla.broker.core.effects import Append, Reply
from ottla.broker.core.groups import removal
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.groups.replay import differences
from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import CoordinatorRecord
from tests.sim import calls
from tests.sim.calls import Identity

WALL_MS = 1_700_000_000_000


class Ctx:
    client_host = "/127.0.0.1"

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
        assert differences(self.durable_state(), replica.durable_state()) == []


NONE, FAILED = ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS


def test_offsets_go_with_the_tombstone_of_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch with the tombstone of an offset failed, the one with that of the group did not: a replay drops both."""
    monkeypatch.setattr(removal, "BATCH_RECORDS", 1)
    coordinator = Coordinator()
    commit = calls.commit(Identity("g"), 5, [("t", 0, 7, "")])
    coordinator.commit_offsets(commit, Ctx(), 0, WALL_MS)
    coordinator.finish(NONE)
    coordinator.delete_groups(calls.delete_groups(["g"]), Ctx(), 0, WALL_MS)
    coordinator.finish(FAILED, NONE)
    answer = coordinator.fetch_offsets(calls.fetch(["g"], 5, [("t", [0])], stable=False), Ctx(), 0)
    assert answer is not None
    assert answer.topics[0].partitions[0].committed_offset == -1
    coordinator.assert_replays()
