"""The supervisor of nodes: what it starts when, and what it tells everybody."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.supervise import (
    AFTER_TURNS_MS,
    LONGEST_WAIT_MS,
    SUPERSEDED,
    TELL_AGAIN_MS,
    TURNS_MS,
    Supervisor,
)
from ottla.protocol.stored.cluster_file import ClusterFile, NodeEntry, decode_cluster, directory_of, encode_cluster
from tests.observe.http.fakes import Lines, ManualClock

EMPTY = ClusterFile(
    cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
    supervisor_pid=1,
    nodes={one: NodeEntry(node_id=one, directory=directory_of(one, 1)) for one in (1, 2, 3)},
)


class World:
    """Three nodes whose processes are only counted, and a clock."""

    def __init__(self, *, is_ephemeral: bool = False) -> None:
        self.clock = ManualClock()
        self.lines = Lines()
        self.done: list[tuple[str, int]] = []
        self.stored: list[ClusterFile] = []
        self.ready: list[list[str]] = []
        self.stops = 0
        self.pids = 100
        self.refuses: OSError | None = None
        self.supervisor = Supervisor(
            EMPTY,
            self,
            self.clock,
            self.lines,
            store=self._store,
            on_ready=self.ready.append,
            on_stopped=self._stopped,
            is_ephemeral=is_ephemeral,
        )
        self.supervisor.start()

    def _store(self, cluster: ClusterFile) -> None:
        self.stored.append(decode_cluster(encode_cluster(cluster), "cluster.json"))

    def _stopped(self) -> None:
        self.stops += 1

    def start(self, node_id: int) -> int:
        if self.refuses is not None:
            raise self.refuses
        self.done.append(("start", node_id))
        self.pids += 1
        return self.pids

    def terminate(self, node_id: int) -> None:
        self.done.append(("terminate", node_id))

    def kill(self, node_id: int) -> None:
        self.done.append(("kill", node_id))

    def up(self, *node_ids: int, epoch: int = 0, look: bool = True) -> None:
        for node_id in node_ids:
            address = f"127.0.0.1:{9091 + node_id}"
            endpoints = {"PLAINTEXT": ["127.0.0.1", 9091 + node_id]}
            row: dict[str, Any] = {"epoch": epoch, "address": address, "endpoints": endpoints, "http": None}
            self.supervisor.reported(node_id, row)
        if look:
            self.look(1, 2, 3)

    def look(self, *node_ids: int) -> None:
        """Let those of them that are up look at what stands in the file."""
        up = [node.node_id for node in self.stored[-1].nodes.values() if node.state == "up"]
        for node_id in {*node_ids} & {*up}:
            self.supervisor.reported(node_id, {"sees": up})

    def states(self) -> str:
        """Those of all nodes as everybody reads them."""
        return " ".join(node.state for node in self.stored[-1].nodes.values())

    def node(self, node_id: int) -> NodeEntry:
        return self.stored[-1].nodes[node_id]

    def events(self) -> list[str]:
        return [event for _, event, _ in self.lines.told]

    def began(self) -> list[tuple[str, int]]:
        """What was done since this was asked."""
        done, self.done = self.done, []
        return done


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def running(world: World) -> World:
    world.up(1, 2, 3)
    world.began()
    return world


def test_all_start_at_once_and_the_first_line_comes_when_all_are_up(world: World) -> None:
    assert world.began() == [("start", 1), ("start", 2), ("start", 3)]
    world.up(1, 3)
    assert world.ready == []
    assert world.states() == "up starting up"
    world.up(2, epoch=4)
    assert world.ready == [["127.0.0.1:9092", "127.0.0.1:9093", "127.0.0.1:9094"]]
    assert world.lines.told[-1][1:] == ("Ready", {"listen": ", ".join(world.ready[0]), "nodes": 3})
    assert (world.node(2).epoch, world.node(2).pid, world.node(2).directory) == (4, 102, "nodes/2")
    assert world.node(2).endpoints == {"PLAINTEXT": ("127.0.0.1", 9093)}


def test_the_first_line_waits_until_the_nodes_know_of_each_other(world: World) -> None:
    """A client that reads it, and asks any of them, is told of all of them."""
    world.up(1, 2)
    world.up(3, look=False)
    world.look(1, 3)
    assert world.states() == "up up up" and world.ready == []
    world.look(2)
    assert [len(addresses) for addresses in world.ready] == [3]


def test_a_node_that_dies_is_started_again_after_a_tenth_of_a_second(running: World) -> None:
    running.supervisor.ended(2, -9)
    assert running.states() == "up starting up", "clients are told of it all the while"
    assert (running.node(2).why, running.node(2).pid) == ("it was ended by SIGKILL", 0)
    running.clock.advance(99)
    assert running.began() == []
    running.clock.advance(1)
    assert running.began() == [("start", 2)]
    assert running.states() == "up starting up"
    running.up(2, epoch=1)
    assert running.node(2).why == ""
    assert running.ready == [["127.0.0.1:9092", "127.0.0.1:9093", "127.0.0.1:9094"]]


def test_of_a_node_in_memory_the_log_says_what_is_lost() -> None:
    world = World(is_ephemeral=True)
    world.up(1, 2, 3)
    world.supervisor.ended(2, -9)
    ((said, _),) = world.lines.of("error")
    assert said == "Node ended, and is started again: its records and groups were in memory, and are lost"


def waits(world: World, node_id: int, lives: int, lived_ms: int | None = None) -> list[int]:
    """How long the supervisor waits after each of so many lives: not up at all, or up so long."""
    found = []
    for _ in range(lives):
        if lived_ms is not None:
            world.up(node_id)
            world.clock.advance(lived_ms)
        world.supervisor.ended(node_id, 1)
        (timer,) = world.clock.pending()
        found.append(timer.when_ms - world.clock.now_ms)
        world.clock.advance(found[-1])
    return found


def test_waits_double_up_to_five_seconds(running: World) -> None:
    assert waits(running, 2, 8) == [100, 200, 400, 800, 1600, 3200, 5000, 5000]


def test_a_long_life_begins_at_the_shortest_wait_again(running: World) -> None:
    assert waits(running, 2, 3, lived_ms=LONGEST_WAIT_MS - 1) == [100, 200, 400]
    assert waits(running, 2, 2, lived_ms=LONGEST_WAIT_MS) == [100, 100]


def test_two_supervisors_with_one_id_do_not_take_turns(running: World) -> None:
    def waits_after_losing_its_id() -> int:
        running.supervisor.ended(2, SUPERSEDED)
        assert running.node(2).why == "another process has its id"
        (timer,) = running.clock.pending()
        waited_ms = timer.when_ms - running.clock.now_ms
        running.clock.advance(waited_ms)
        running.up(2)
        running.clock.advance(LONGEST_WAIT_MS)
        return waited_ms

    assert [waits_after_losing_its_id() for _ in range(3)] == [100, AFTER_TURNS_MS, AFTER_TURNS_MS]
    running.clock.advance(TURNS_MS)
    assert waits_after_losing_its_id() == 100


def test_one_that_cannot_start_does_not_keep_the_others_from_being_ready(world: World) -> None:
    world.up(1, 3)
    world.supervisor.reported(2, {"why": "orders-0 is damaged"})
    world.supervisor.ended(2, 1)
    assert world.ready == [["127.0.0.1:9092", "127.0.0.1:9094"]]
    told = {"listen": "127.0.0.1:9092, 127.0.0.1:9094", "nodes": 2, "missing": "node 2: orders-0 is damaged"}
    assert world.lines.of("warning") == [("Ready, but not all nodes are up", told)]
    world.clock.advance(100)
    assert world.node(2).state == "starting"
    assert world.node(2).why == "orders-0 is damaged"  # until it starts: it is what people look for
    world.supervisor.ended(2, 70)
    assert world.node(2).why == "its storage failed; its log says how"


def test_the_log_says_once_a_minute_why_a_node_does_not_start(world: World) -> None:
    begun = world.clock.now_ms
    while world.clock.now_ms - begun < 3 * TELL_AGAIN_MS:
        world.supervisor.reported(2, {"why": "orders-0 is damaged"})
        waits(world, 2, 1)
    line = ("Node does not start, and is tried again", {"node": 2, "reason": "orders-0 is damaged"})
    assert world.lines.of("error") == [line] * 3


def test_no_process_can_be_started(running: World) -> None:
    running.refuses = OSError(11, "Resource temporarily unavailable")
    assert waits(running, 3, 1) == [100]
    assert running.node(3).why == "no process can be started: Resource temporarily unavailable"
    running.refuses = None
    running.clock.advance(200)
    assert running.began() == [("start", 3)]


def test_a_rolling_restart_waits_for_each(running: World) -> None:
    running.supervisor.restart_all()
    for node_id in (1, 2, 3):
        assert running.began() == [("terminate", node_id)]
        assert running.node(node_id).state == "draining"
        running.supervisor.ended(node_id, 0)
        assert running.began() == [("start", node_id)]
        assert running.states().split().count("up") == 2
        running.up(node_id, epoch=1)
        assert running.began() == [], "clients come to know it again first"
        running.clock.advance(2_000)
    assert running.began() == []
    assert running.events()[-1] == "Rolling restart is through"
    assert [node.epoch for node in running.stored[-1].nodes.values()] == [1, 1, 1]


def test_a_rolling_restart_ends_at_a_node_that_does_not_come_back(running: World) -> None:
    running.supervisor.restart_all()
    running.supervisor.ended(1, 0)
    running.supervisor.reported(1, {"why": "broker.rack=: not a word"})
    running.supervisor.ended(1, 1)
    assert running.states() == "down up up"
    assert "Rolling restart ends early: the other nodes go on as they were" in running.events()
    running.began()
    running.clock.advance(100)
    running.up(1)
    assert running.began() == [("start", 1)]
    running.supervisor.restart_all()  # once it is mended
    assert running.began() == [("terminate", 1)]


@pytest.mark.parametrize("was_silent", [0, 7])
def test_a_rolling_restart_ends_at_a_node_that_hangs(running: World, was_silent: int) -> None:
    """Before it is asked to end, or then."""

    def look(times: int) -> None:
        for _ in range(times):
            running.supervisor.reported(2, {})
            running.supervisor.reported(3, {})
            running.supervisor.look()

    look(was_silent)
    running.supervisor.restart_all()
    assert running.began() == [("terminate", 1)]
    look(5)
    assert [fields["reason"] for _, fields in running.lines.of("error")] == ["node 1 does not answer"]
    assert running.states() == "draining up up" and running.began() == []
    running.supervisor.restart_all()  # the others may be restarted
    assert running.began() == [("terminate", 2)]
    running.supervisor.ended(1, -9)
    running.clock.advance(100)
    assert running.began() == [("start", 1)]


def test_a_node_without_a_sign_of_life_is_told_of_and_left_alone(running: World) -> None:
    for look in range(1, 12):
        running.supervisor.reported(1, {})
        running.supervisor.look()
        assert running.node(2).why == (f"it has not answered for {look // 5 * 5} s" if look >= 5 else "")
    assert running.states() == "up up up" and running.node(1).why == "" and running.began() == []
    assert running.lines.of("warning") == [
        ("Node does not answer", {"node": one, "pid": running.node(one).pid}) for one in (2, 3)
    ]
    running.supervisor.reported(2, {})
    running.supervisor.ended(3, -9)
    running.clock.advance(100)
    running.up(3)
    assert [node.why for node in running.stored[-1].nodes.values()] == ["", "", ""]
    assert running.lines.of("warning")[2:] == [("Node answers again", {"node": 2, "silent_ms": 11_000})]


def test_nodes_may_be_long_in_starting(world: World) -> None:
    for _ in range(20):
        world.supervisor.look()
    assert [node.why for node in world.stored[-1].nodes.values()] == ["", "", ""]


def test_a_second_rolling_restart_waits_for_somebody_to_ask_again(running: World) -> None:
    running.supervisor.restart_all()
    running.began()
    running.supervisor.restart_all()
    assert running.began() == []
    assert running.events()[-1] == "A rolling restart is under way already"


def test_stop_lets_all_end_and_starts_nothing_more(running: World) -> None:
    running.supervisor.ended(3, 1)
    running.supervisor.stop()
    assert running.began() == [("terminate", 1), ("terminate", 2)]
    assert running.states() == "draining draining down"
    assert running.clock.pending() == []
    running.supervisor.ended(2, 0)
    assert running.stops == 0
    running.supervisor.ended(1, 0)
    assert running.stops == 1
    assert running.states() == "down down down"
    assert [node.why for node in running.stored[-1].nodes.values()][:2] == ["", ""]


def test_a_second_signal_ends_them_at_once(running: World) -> None:
    running.supervisor.stop()
    running.began()
    running.supervisor.stop()
    assert running.began() == [("kill", 1), ("kill", 2), ("kill", 3)]


def test_a_stop_during_the_start_says_nobody_is_ready(world: World) -> None:
    world.supervisor.stop()
    for node_id in (1, 2, 3):
        world.up(node_id)
        world.supervisor.ended(node_id, 0)
    assert world.ready == []
    assert world.stops == 1
