"""Faults: which requests they take, and what becomes of these, seen from raw connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from ottla.broker.core.events import Event, FaultFired, Observer
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from ottla.testing.fault import FaultNeverFired
from tests.support.client import Client
from tests.support.peer import ConnectionClosed
from tests.support.requests import commit_fields, request

SILENT_S = 0.1


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


# actions


def test_an_error_is_answered_and_nothing_is_done(broker: Broker, client: Client) -> None:
    with broker.fail("OffsetCommit", error="NOT_COORDINATOR", times=1) as fault:
        assert client.commit("billing", "orders") == ErrorCode.NOT_COORDINATOR
        assert broker.group("billing").offsets == {}
        assert client.commit("billing", "orders") == 0
    assert fault.hits == 1
    assert broker.group("billing").offsets == {("orders", 0): 1}


def test_an_error_may_take_the_place_of_an_answer(broker: Broker, client: Client) -> None:
    with broker.fail("OffsetCommit", error="REQUEST_TIMED_OUT", on="response", times=1):
        assert client.commit("billing", "orders") == ErrorCode.REQUEST_TIMED_OUT
    assert broker.group("billing").offsets == {("orders", 0): 1}


@pytest.mark.parametrize(("lost", "is_done"), [("request", False), ("response", True)])
def test_what_is_dropped_leaves_the_connection_silent(broker: Broker, client: Client, lost: str, is_done: bool) -> None:
    with broker.fault("OffsetCommit", drop=lost, times=1) as fault:
        client.start(ApiKey.OFFSET_COMMIT, 8, **_commit())
        client.start(ApiKey.API_VERSIONS, 0)
        fault.wait()
        assert client.is_silent(SILENT_S)
    assert bool(broker.group("billing").offsets) is is_done


@pytest.mark.parametrize(("lost", "is_done"), [("request", False), ("response", True), (True, False)])
def test_a_connection_is_closed_in_the_place_of_something(
    broker: Broker, client: Client, lost: str | bool, is_done: bool
) -> None:
    with broker.fault("OffsetCommit", close=lost, times=1), pytest.raises(ConnectionClosed):
        client.commit("billing", "orders")
    assert bool(broker.group("billing").offsets) is is_done


@pytest.mark.parametrize(("held", "is_done"), [("request", False), ("response", True)])
def test_what_is_held_goes_on_when_it_is_released(broker: Broker, client: Client, held: str, is_done: bool) -> None:
    with broker.fault("OffsetCommit", hold=held) as fault:
        client.start(ApiKey.OFFSET_COMMIT, 8, **_commit())
        fault.wait()
        assert client.is_silent(SILENT_S)
        assert (fault.held, bool(broker.group("billing").offsets)) == (1, is_done)
        assert fault.release() == 1
        assert client.answer().topics[0].partitions[0].error_code == 0
        assert (fault.held, fault.release()) == (0, 0)
    assert broker.group("billing").offsets == {("orders", 0): 1}


def test_what_is_held_goes_on_when_the_fault_is_gone(broker: Broker, client: Client) -> None:
    with broker.fault("OffsetCommit", hold=True) as fault:
        client.start(ApiKey.OFFSET_COMMIT, 8, **_commit())
        fault.wait()
    assert client.answer().topics[0].partitions[0].error_code == 0


def test_what_is_held_of_a_client_that_is_gone_is_dropped(broker: Broker, connect: Callable[..., Client]) -> None:
    with broker.fault("OffsetCommit", hold=True) as fault:
        gone = connect()
        gone.start(ApiKey.OFFSET_COMMIT, 8, **_commit())
        fault.wait()
        gone.socket.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER: it is reset, not closed in order
        gone.close()
        deadline = time.monotonic() + 10
        while fault.held:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    assert broker.group("billing").offsets == {}


@pytest.mark.parametrize("on", ["request", "response"])
def test_a_delay_is_on_the_clock_of_the_broker(broker: Broker, client: Client, on: str) -> None:
    broker.clock.freeze()
    with broker.fault("OffsetCommit", delay=30, on=on) as fault:
        client.start(ApiKey.OFFSET_COMMIT, 8, **_commit())
        fault.wait()
        broker.clock.advance(seconds=29)
        assert client.is_silent(SILENT_S)
        broker.clock.advance(seconds=1)
        assert client.answer().topics[0].partitions[0].error_code == 0


def test_a_corrupt_answer_differs_by_its_seed(broker: Broker, client: Client) -> None:
    def frame() -> bytes:
        client.send(ApiKey.METADATA, 12, _metadata())
        client.opened.pop()
        return client.next_frame().rest

    healthy = frame()
    damaged = []
    for seed in (1, 1, 2):
        with broker.fault("Metadata", corrupt=True, seed=seed):
            damaged.append(frame())
    assert damaged[0] == damaged[1] != damaged[2]
    assert all(len(one) == len(healthy) and one != healthy for one in damaged)
    assert frame() == healthy


def test_a_throttled_client_is_told_and_not_read_from(broker: Broker, client: Client) -> None:
    broker.clock.freeze()
    with broker.fault("OffsetCommit", throttle=2, times=1):
        answer = client.call(ApiKey.OFFSET_COMMIT, 8, **_commit())
        assert (answer.throttle_time_ms, answer.topics[0].partitions[0].error_code) == (2_000, 0)
        client.start(ApiKey.API_VERSIONS, 0)
        assert client.is_silent(SILENT_S)
        broker.clock.advance(seconds=2)
        assert client.answer().error_code == 0


def test_the_coordinator_is_elsewhere_until_it_is_released(broker: Broker, client: Client) -> None:
    joined = client.stable("billing")
    assert client.commit("billing", "orders", **_of(joined)) == 0
    with broker.fault("Heartbeat", group="billing", elsewhere=True, times=1) as fault:
        assert client.heartbeat("billing", joined) == ErrorCode.NOT_COORDINATOR
        assert fault.held == 1
        assert fault.release() == 1
        deadline = time.monotonic() + 10
        while (told := _heartbeat(broker, joined)) in (
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ):
            assert time.monotonic() < deadline
        assert told == 0, "the group and its member are what they were"
    assert broker.group("billing").offsets == {("orders", 0): 1}


def test_a_parked_join_hears_that_the_coordinator_is_elsewhere(broker: Broker, connect: Callable[..., Client]) -> None:
    first, second = connect(), connect()
    joined = first.stable("billing")
    second.start_enter("billing")
    with broker.fault("Heartbeat", group="billing", elsewhere=0.05):
        assert first.heartbeat("billing", joined) == ErrorCode.NOT_COORDINATOR
        assert second.answer().error_code == ErrorCode.NOT_COORDINATOR


def test_a_broker_restarts_with_what_it_has_acknowledged(broker: Broker, connect: Callable[..., Client]) -> None:
    client, bystander = connect(), connect()
    joined = client.stable("billing")
    assert client.commit("billing", "orders", **_of(joined)) == 0
    broker.produce("orders", b"a")
    with broker.fault("Heartbeat", restart=0.05, times=1):
        with pytest.raises(ConnectionClosed):
            client.heartbeat("billing", joined)
        assert bystander.is_closed()
        deadline = time.monotonic() + 10
        while True:
            try:
                again = connect()
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert again.heartbeat("billing", joined) == 0
    assert broker.group("billing").offsets == {("orders", 0): 1}
    assert [one.value for one in broker.records("orders")] == [b"a"]


def test_acks_0_has_no_answer_that_could_be_an_error(broker: Broker, client: Client) -> None:
    with broker.fail("Produce", error="NOT_LEADER_OR_FOLLOWER"), pytest.raises(ConnectionClosed):
        client.produce("orders", acks=0)


# triggers


def test_triggers_choose_by_what_a_request_names(broker: Broker, connect: Callable[..., Client]) -> None:
    a, b = connect("a"), connect("b")
    broker.run(lambda: None)
    with broker.fail("OffsetCommit", group="billing", error=16) as by_group:
        assert a.commit("shipping", "orders") == 0
        assert a.commit("billing", "orders") == 16
    with broker.fail("OffsetCommit", client_id="b", error=16):
        assert a.commit("billing", "orders") == 0
        assert b.commit("billing", "orders") == 16
    assert by_group.hits == 1
    with broker.fail(["Produce", "Fetch"], topic="orders", error="UNKNOWN_TOPIC_OR_PARTITION") as by_topic:
        other = a.topic()
        assert a.produce(other).error_code == 0
        assert a.produce("orders").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert a.produce("orders", version=13).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "by its id"
        assert a.fetch("orders").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_topic.hits == 3


def test_a_black_hole_swallows_all_that_a_client_asks(broker: Broker, connect: Callable[..., Client]) -> None:
    lost, other = connect("lost"), connect("other")
    with broker.fault("*", client_id="lost", drop="request") as hole:
        lost.start(ApiKey.API_VERSIONS, 0)
        hole.wait()
        assert lost.is_silent(SILENT_S)
        assert other.commit("billing", "orders") == 0


def test_triggers_choose_by_the_phase_and_the_leader(broker: Broker, connect: Callable[..., Client]) -> None:
    leader, other = connect(), connect()
    trigger = {"group": "billing", "phase": "CompletingRebalance", "leader": False, "generation": 2}
    with broker.fault("SyncGroup", **trigger, close=True, allow_unused=True) as fault:
        first = leader.stable("billing")
        other.start_enter("billing")
        joined, second = leader.let_in("billing", first, other)
        assert joined.leader == joined.member_id
        leader.start_sync("billing", joined, {joined.member_id: b"x", second.member_id: b"y"})
        assert leader.answer().error_code == 0
        assert fault.hits == 0, "the leader's was not meant, nor that of the first generation"
        with pytest.raises(TimeoutError, match="of the last that it let pass, it came from the leader"):
            fault.wait(timeout=0)


def test_a_follower_is_caught_between_join_and_sync(broker: Broker, connect: Callable[..., Client]) -> None:
    leader, other = connect(), connect()
    first = leader.stable("billing")
    other.start_enter("billing")
    _, second = leader.let_in("billing", first, other)
    fault = broker.fault("SyncGroup", phase="CompletingRebalance", leader=False, close=True, times=1)
    with fault, pytest.raises(ConnectionClosed):
        other.sync("billing", second)


def test_counting(broker: Broker, client: Client) -> None:
    with broker.fail("OffsetCommit", error=16, nth=2) as fault:
        assert [client.commit("billing", "orders") for _ in range(4)] == [0, 16, 0, 0]
    assert fault.hits == 1
    with broker.fail("OffsetCommit", error=16, times=2):
        assert [client.commit("billing", "orders") for _ in range(4)] == [16, 16, 0, 0]
    with broker.fail("OffsetCommit", error=16, nth=2, times=2):
        assert [client.commit("billing", "orders") for _ in range(5)] == [0, 16, 16, 0, 0]


def test_chance_is_seeded(broker: Broker, client: Client) -> None:
    def run(seed: int) -> list[int]:
        with broker.fail("OffsetCommit", error=16, chance=0.5, seed=seed):
            return [client.commit("billing", "orders") for _ in range(20)]

    first = run(1)
    assert first == run(1) != run(2)
    assert set(first) == {0, 16}


def test_the_first_of_two_faults_has_the_request(broker: Broker, client: Client) -> None:
    with broker.fail("OffsetCommit", error=16, times=1) as first, broker.fail("OffsetCommit", error=15) as second:
        assert [client.commit("billing", "orders") for _ in range(2)] == [16, 15]
    assert (first.hits, second.hits) == (1, 1)


# what comes again


@pytest.mark.parametrize("is_set_first", [True, False])
def test_heartbeats_that_come_again_are_seen(broker: Broker, client: Client, is_set_first: bool) -> None:
    joined = client.stable("billing")
    beats = 0 if is_set_first else 3
    assert [client.heartbeat("billing", joined) for _ in range(beats)] == [0] * beats
    with broker.fail("Heartbeat", group="billing", error=27, nth=4) as fault:
        assert [client.heartbeat("billing", joined) for _ in range(6)] == [0, 0, 0, 27, 0, 0]
    assert fault.hits == 1
    assert client.heartbeat("billing", joined) == 0


@pytest.mark.parametrize("is_set_first", [True, False])
def test_commits_that_come_again_are_seen(broker: Broker, client: Client, is_set_first: bool) -> None:
    commits = 0 if is_set_first else 5
    assert [client.commit("billing", "orders", at) for at in range(commits)] == [0] * commits
    with broker.fail("OffsetCommit", group="billing", error=16, nth=4) as fault:
        assert [client.commit("billing", "orders", 10 + at) for at in range(6)] == [0, 0, 0, 16, 0, 0]
    assert fault.hits == 1
    assert client.commit("billing", "orders", 20) == 0
    assert broker.group("billing").offsets == {("orders", 0): 20}


def test_what_no_rule_is_about_takes_the_short_ways(broker: Broker, client: Client) -> None:
    joined = client.stable("billing")

    def short_ways() -> tuple[bool, bool]:
        (connection,) = broker.observatory._server.connections
        return (
            connection.repeat is not None,
            connection.prepared is not None and connection.prepared.serving is not None,
        )

    with broker.fail(["Heartbeat", "OffsetCommit"], group="other", error=16, allow_unused=True):
        for at in range(6):
            assert client.heartbeat("billing", joined) == 0
            assert client.commit("billing", "orders", at, **_of(joined)) == 0
        assert broker.run(short_ways) == (True, True)


# a fault that never fired, and what is told


def test_a_fault_that_never_fired_fails(broker: Broker, client: Client) -> None:
    never = pytest.raises(FaultNeverFired, match=r"never fired: no SyncGroup request came\. Mend the rule")
    with never, broker.fault("SyncGroup", drop="response"):
        pass
    passed = pytest.raises(FaultNeverFired, match=r"1 OffsetCommit request came; of the last .* its group was 'ship")
    with passed, broker.fail("OffsetCommit", group="billing", error=16):
        client.commit("shipping", "orders")
    with broker.fault("SyncGroup", drop="response", allow_unused=True):
        pass
    with pytest.raises(KeyError, match="mine"), broker.fault("SyncGroup", drop="response"):
        raise KeyError("mine")


def test_a_fault_without_a_block_is_judged_when_the_broker_ends() -> None:
    with pytest.raises(FaultNeverFired), Broker() as broker:
        broker.fault("SyncGroup", drop="response")


def test_waiting_says_what_came(broker: Broker, client: Client) -> None:
    fault = broker.fail("OffsetCommit", group="billing", error=16)
    client.commit("shipping", "orders")
    with pytest.raises(TimeoutError, match=r"fired 0 times in 0\.01 s, and 1 are awaited: 1 OffsetCommit request came"):
        fault.wait(timeout=0.01)
    client.commit("billing", "orders")
    fault.wait()
    fault.remove()
    assert client.commit("billing", "orders") == 0


async def test_waiting_leaves_the_loop_to_others(broker: Broker, client: Client) -> None:
    with broker.fail("OffsetCommit", error=16) as fault:
        thread = started(lambda: client.commit("billing", "orders"))
        await fault.wait_async()
        thread.join()


def test_observers_are_told(broker: Broker, client: Client) -> None:
    seen: list[Any] = []

    def watch() -> None:
        observer = broker.observatory.observer
        observer.defer(None)
        observer.add(_Keeps(seen))

    broker.run(watch)
    with broker.fault("OffsetCommit", group="billing", hold=True, name="held commit") as fault:
        client.start(ApiKey.OFFSET_COMMIT, 8, **_commit())
        fault.wait()
    client.answer()
    assert [(one.group_id, one.fault, one.api, one.client_id, one.done) for one in seen] == [
        ("billing", "held commit", "OffsetCommit", "peer", "held the request"),
        ("billing", "held commit", "OffsetCommit", "peer", "let the request go"),
    ]
    assert seen[0].line() == "A fault held the request: OffsetCommit of client peer (held commit)"


class _Keeps(Observer):
    """An observer of faults."""

    at_once = True

    def __init__(self, seen: list[Event]) -> None:
        self.seen = seen

    def wants(self, kind: type[Event]) -> bool:
        return kind is FaultFired

    def __call__(self, event: Event) -> None:
        self.seen.append(event)


def _commit() -> dict[str, Any]:
    return commit_fields("billing", [("orders", 0, 1)])


def _metadata() -> Any:
    return request(ApiKey.METADATA, {"topics": [{"name": "orders"}]})


def _of(joined: Any) -> dict[str, Any]:
    return {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}


def _heartbeat(broker: Broker, joined: Any) -> int:
    """From a connection of its own."""
    with closing(Client(broker.port)) as other:
        return other.heartbeat("billing", joined)
