"""`ottla groups wait` and `ottla groups watch` against a broker."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.cli import group_watch
from ottla.cli.group_looks import Look
from ottla.cli.group_wait import Wanted
from ottla.cli.group_watch import LAGS_PER_LOOK, Watched
from ottla.clients import Admin
from ottla.clients.errors import KafkaTimeout
from ottla.testing import Broker, BrokerProcess
from tests.cli.commands import HERE, Ottla
from tests.cli.conftest import Join, membership
from tests.differential.real_kafka import RealKafka, skip_without_kafka
from tests.support.client import Client
from tests.support.group_member import GroupMember
from tests.support.waiting import wait_for


def look(state: str = "Stable", members: int = 1, lag: int | None = 0) -> Look:
    return Look(state, members, "range", lag, None)  # type: ignore[arg-type]


@contextmanager
def soon(action: Callable[[], Any]) -> Iterator[None]:
    """Do something while the block runs."""
    thread = threading.Timer(0.4, action)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)


# -- wait


@pytest.mark.parametrize(
    ("wanted", "seen", "met"),
    [
        (Wanted("Stable", 3, None), look(members=3), True),
        (Wanted("Stable", 3, None), look(members=4), False),
        (Wanted("Stable", 3, None), look("PreparingRebalance", 3), False),
        (Wanted("Empty", 0, None), look("Empty", 0), True),
        (Wanted(None, None, 5), look(lag=5), True),
        (Wanted(None, None, 5), look(lag=6), False),
        (Wanted(None, None, 5), look(lag=None), False),
        (Wanted("Dead", None, None), look("Dead", 0, None), True),
    ],
)
def test_what_is_wanted(wanted: Wanted, seen: Look, met: bool) -> None:
    assert wanted.met_by(seen) is met


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Wanted("Stable", None, None), "be Stable"),
        (Wanted("Stable", 3, None), "be Stable with 3 members"),
        (Wanted("Stable", 1, 0), "be Stable with 1 member and lag 0"),
        (Wanted("Empty", None, 0), "be Empty with lag 0"),
        (Wanted(None, None, 5), "have lag 5 or less"),
        (Wanted(None, 0, None), "have 0 members"),
    ],
)
def test_what_is_wanted_in_words(wanted: Wanted, words: str) -> None:
    assert str(wanted) == words


@pytest.mark.e2e
def test_wait_ends_once_the_members_are_there(ottla: Any, join: Join) -> None:
    join("billing", "one")
    with soon(lambda: join("billing", "two")):
        done = ottla.run("groups", "wait", "billing", "--members", "2", "--timeout", "30s")
    assert re.fullmatch(r"Group 'billing': Stable, 2 members \(after \d+\.\d s\)\n", done.stdout)
    now = ottla.json("groups", "wait", "billing", "--state", "stable", "--timeout", "0s")
    assert (now["reached"], now["state"], now["members"], now["lag"]) == (True, "Stable", 2, None)


@pytest.mark.e2e
def test_wait_in_vain_says_what_was_seen_last(ottla: Any, join: Join) -> None:
    join("billing", "one")
    refused = ottla.run("groups", "wait", "billing", "--members", "3", "--timeout", "0.3s", expect=1)
    wanted = "Waited 0.3 s in vain for group 'billing' to be Stable with 3 members; at last it was: Stable, 1 member."
    assert (refused.stdout, refused.stderr) == ("", f"Error: {wanted}\n")
    refused = ottla.run("groups", "wait", "nope", "--timeout", "0", expect=1)
    assert refused.stderr == (
        "Error: There is no group 'nope'; waited 0.0 s in vain for it to be Stable.\n"
        "  `ottla groups list` shows those that exist.\n"
    )
    refused = ottla.run("groups", "wait", "nope", "--timeout", "0", "--format", "json", expect=1)
    assert json.loads(refused.stdout)["reached"] is False


@pytest.mark.e2e
def test_wait_in_vain_says_who_was_turned_away(ottla: Any, broker: Broker, join: Join) -> None:
    join("billing", "one")
    client = Client(broker.port)
    assert GroupMember(client.ask, "billing", protocols={"sticky": b""}).join(3).error_code
    client.close()
    lines = ottla.run("groups", "wait", "billing", "--members", "2", "--timeout", "0", expect=1).stderr.splitlines()
    assert lines[0].endswith("at last it was: Stable, 1 member.")
    assert lines[1].startswith("  peer was turned away") and lines[2:] == ["  `ottla why billing` says what to do."]


@pytest.mark.e2e
def test_wait_for_what_is_left_to_read(ottla: Any, join: Join) -> None:
    ottla.send("orders", b"1\n2\n3\n", "-p", "0")
    ottla.read("orders", "-G", "billing", "--from-beginning", "-c", "3")
    ottla.send("orders", b"4\n5\n", "-p", "0")
    assert ottla.run("groups", "wait", "billing", "--lag", "2", "--timeout", "0").stdout.startswith(
        "Group 'billing': Empty, 0 members, lag 2"
    )
    refused = ottla.run("groups", "wait", "billing", "--lag", "1", "--timeout", "0", expect=1)
    assert "for group 'billing' to have lag 1 or less; at last it was: Empty, 0 members, lag 2." in refused.stderr
    with soon(lambda: join("billing", "one")):
        ottla.run("groups", "wait", "billing", "--lag", "0", "--members", "1")


@pytest.mark.e2e
def test_records_that_nobody_has_committed_are_not_taken_for_read(ottla: Any) -> None:
    ottla.send("orders", b"1\n", "-p", "0")
    ottla.make_group("billing", "orders:1")
    assert "lag 0" in ottla.run("groups", "wait", "billing", "--lag", "0", "--timeout", "0").stdout
    refused = ottla.run("groups", "wait", "nope", "--lag", "0", "--timeout", "0", expect=1)
    assert "There is no group 'nope'" in refused.stderr


@pytest.mark.e2e
def test_wait_goes_through_an_outage(tmp_path: Any) -> None:
    with BrokerProcess(tmp_path / "data", topics={"orders": 1}) as broker:
        ottla = Ottla(broker.bootstrap_servers)
        broker.kill()

        def again() -> None:
            broker.restart()
            time.sleep(0.5)
            ottla.make_group("late")

        with soon(again):
            ottla.run("groups", "wait", "late", "--state", "Empty", "--timeout", "30s")


def test_wait_without_any_broker_says_so(unused_tcp_port: int) -> None:
    nobody = f"127.0.0.1:{unused_tcp_port}"
    done = HERE.run("groups", "wait", "billing", "--timeout", "0", "-b", nobody, expect=1)
    assert done.stderr.startswith("Error: Waited 0.0 s in vain for group 'billing' to be Stable; no broker answered (")


# -- watch


def test_changes_are_told_once() -> None:
    watched = Watched()
    changes = lambda looks: [(group_id, seen and seen.words(lag=True)) for group_id, seen in watched.update(looks, 1.0)]  # noqa: E731
    assert changes({"b": look(), "a": look("Empty", 0), "never": look("Dead", 0)}) == [
        ("a", "Empty, 0 members, lag 0"),
        ("b", "Stable, 1 member, lag 0"),
    ]
    assert changes({"b": look(), "a": look("Empty", 0)}) == []
    assert changes({"b": look(lag=None), "a": look("Dead", 0)}) == [("a", None), ("b", "Stable, 1 member, lag unknown")]
    assert changes({}) == [("b", None)]


class Watching:
    """`ottla groups watch` in a process of its own."""

    def __init__(self, ottla: Ottla, *arguments: str, terminal: bool = False) -> None:
        self._reader, writer = pty.openpty() if terminal else os.pipe()
        self.notes = tempfile.TemporaryFile()  # noqa: SIM115
        settings = {"COLUMNS": "100", "TERM": "xterm", "PYTHONFAULTHANDLER": "1"}
        arguments = ("groups", "watch", "--interval", "0.1s", *arguments)
        streams = {"stdin": subprocess.DEVNULL, "stdout": writer, "stderr": self.notes}
        self.process = ottla.spawn(*arguments, env=settings, **streams)
        os.close(writer)
        weakref.finalize(self, self.process.kill)  # of a test that fails before the end
        self.seen = ""

    def until(self, *wanted: str) -> str:
        """Wait until it has printed all of these."""
        deadline = time.monotonic() + 30
        while not all(text in self.seen for text in wanted):
            assert time.monotonic() < deadline, self.seen
            if select.select([self._reader], [], [], 0.5)[0]:
                self.seen += os.read(self._reader, 65_536).decode(errors="replace")
        return self.seen

    def said(self) -> str:
        """Everything on standard error."""
        return os.pread(self.notes.fileno(), 65_536, 0).decode(errors="replace")

    def noted(self, wanted: str) -> list[str]:
        """Wait until a line on standard error has this; gives all lines."""
        wait_for(lambda: wanted in self.said(), wanted, timeout_s=30, show=self.said)
        return self.said().splitlines()

    def end(self) -> int:
        """Ctrl-C. If that does not end it, what it is doing is in the failure."""
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # faulthandler writes where each thread is
            self.process.wait(20)
            pytest.fail(f"Ctrl-C did not end it.\nStandard error:\n{self.said()}\nStandard output:\n{self.seen}")
        os.close(self._reader)
        self.notes.close()
        return code


@pytest.mark.e2e
def test_watch_in_a_pipe_prints_a_line_for_each_change(ottla: Any, join: Join) -> None:
    ottla.send("orders", b"1\n2\n3\n", "-p", "0")
    ottla.read("orders", "-G", "billing", "--from-beginning", "-c", "3")
    lines, objects = Watching(ottla), Watching(ottla, "billing", "--format", "json")
    lines.until("  billing: Empty, 0 members, lag 0\n")
    objects.until('"state": "Empty"')
    member = join("billing", "one")
    lines.until("  billing: Stable, 1 member, lag 0\n")
    objects.until('"state": "Stable"')
    member.close()
    lines.until("1 member, lag 0\n")
    lines.until("Stable", "Empty")
    ottla.run("groups", "wait", "billing", "--state", "Empty")
    ottla.run("groups", "delete", "billing")
    text = lines.until("  billing: gone\n")
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  billing: ", line) for line in text.splitlines())
    found = [json.loads(line) for line in objects.until('"exists": false').splitlines()]
    assert found[0] == found[0] | {"group": "billing", "exists": True, "state": "Empty", "members": 0, "lag": 0}
    assert lines.end() == objects.end() == 0


@pytest.mark.e2e
@pytest.mark.parametrize("hangs", [False, True])
def test_watch_says_once_that_the_broker_does_not_answer_and_once_that_it_is_back(tmp_path: Any, hangs: bool) -> None:
    with BrokerProcess(tmp_path / "data", topics={"orders": 1}) as broker:
        ottla = Ottla(broker.bootstrap_servers)
        ottla.make_group("billing")
        watching = Watching(ottla)
        watching.until("  billing: Empty")
        began = time.monotonic()
        if hangs:
            os.kill(broker.pid, signal.SIGSTOP)
        else:
            broker.kill()
        watching.noted(f"  The broker at {broker.bootstrap_servers} does not answer (")
        assert time.monotonic() - began < 15  # the request of the moment, and some patience for a busy machine
        if hangs:
            os.kill(broker.pid, signal.SIGCONT)
        else:
            broker.restart()
        lines = watching.noted(f"  The broker at {broker.bootstrap_servers} answers again")
        assert len(lines) == 2, lines
        assert watching.end() == 0


@pytest.mark.e2e
def test_watch_on_a_terminal_draws_a_table(ottla: Any, join: Join) -> None:
    watching = Watching(ottla, "billing", terminal=True)
    watching.until("No such group yet: billing")
    join("billing", "one")
    watching.until("GROUP".lower(), "Stable", "range", "partitions", "orders 0-2")
    assert watching.end() == 0


@pytest.mark.e2e
@pytest.mark.parametrize("options", [(), ("--format", "json")])
def test_watch_says_which_groups_do_not_exist_yet(ottla: Any, options: tuple[str, ...]) -> None:
    ottla.make_group("billing")
    watching = Watching(ottla, "billing", "nope", *options)
    watching.until("billing", "Empty")
    said = watching.noted("There is no group 'nope' yet: waiting for it.")
    ottla.make_group("nope")
    watching.until("nope")
    assert len(said) == 1
    assert watching.end() == 0


@pytest.mark.e2e
def test_a_terminal_shows_which_of_several_groups_do_not_exist_yet(ottla: Any) -> None:
    ottla.make_group("billing")
    watching = Watching(ottla, "billing", "nope", terminal=True)
    watching.until("Empty", "No such group yet: nope")
    assert watching.end() == 0


@pytest.mark.e2e
def test_the_lag_of_many_groups_is_looked_at_in_turn(ottla: Any, broker: Broker) -> None:
    from confluent_kafka import Consumer, TopicPartition

    count = LAGS_PER_LOOK + 10
    for number in range(count):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"g{number}"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        consumer.close()
    watching = Watching(ottla)
    text = watching.until(*(f"  g{number}: Empty, 0 members, lag 0\n" for number in range(count)))
    assert text.count("lag unknown") == 10
    assert watching.end() == 0


class Steps(asyncio.SelectorEventLoop):
    """An event loop that cancels a task before its step of that number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.left = number
        self.task: asyncio.Task[None] | None = None

    def _run_once(self) -> None:
        self.left -= 1
        if not self.left and self.task is not None:
            self.task.cancel()
        super()._run_once()  # type: ignore[misc]


@pytest.mark.e2e
def test_ctrl_c_ends_it_whatever_it_is_doing(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it closes a connection that failed, to try again with another."""
    looks = itertools.count()

    async def look(admin: Admin, wanted: object, lags: object) -> dict[str, Look]:
        if next(looks) % 2:
            raise KafkaTimeout("no answer")
        await admin.list_groups()
        return {}

    monkeypatch.setattr(group_watch, "_look", look)
    tries = itertools.count()

    async def main() -> None:
        async for turn in group_watch.looks(broker.bootstrap_servers, [], 0.001):
            if turn.trouble:
                next(tries)

    for number in range(1, 40):
        looks = itertools.count()
        loop = Steps(number)
        loop.task = loop.create_task(main())
        loop.call_later(20, loop.stop)
        loop.task.add_done_callback(lambda _, loop=loop: loop.stop())  # type: ignore[misc]
        loop.run_forever()
        assert loop.task.cancelled(), f"cancelled at step {number}, it went on"
        loop.close()
    assert next(tries) > 0  # so far it came


# -- Apache Kafka


@pytest.mark.e2e
@pytest.mark.slow
def test_both_work_with_apache_kafka() -> None:
    skip_without_kafka()
    with RealKafka({"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}) as kafka:
        ottla = Ottla(f"127.0.0.1:{kafka.port}")
        ottla.run("topics", "create", "orders", "--partitions", "3")
        refused = ottla.run("groups", "wait", "billing", "--timeout", "0", expect=1)
        assert "There is no group 'billing'" in refused.stderr
        watching = Watching(ottla)
        ottla.send("orders", b"1\n2\n3\n", "-p", "0")
        with membership(ottla.bootstrap, "billing", "one"):
            done = ottla.run("groups", "wait", "billing", "--members", "1", "--lag", "0", "--timeout", "60s")
            assert "Group 'billing': Stable, 1 member, lag 0" in done.stdout
            watching.until("  billing: Stable, 1 member, lag 0\n")
        ottla.run("groups", "wait", "billing", "--state", "Empty")
        watching.until("  billing: Empty, 0 members, lag 0\n")
        assert watching.end() == 0
