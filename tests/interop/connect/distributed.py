"""A distributed Connect cluster: its connectors run on while workers, settings and the broker come and go.

Three connectors read a file each, exactly once, to one topic; one with three tasks prints that topic.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kafka.admin import KafkaAdminClient

from tests.interop.connect.processes import Refused, Worker, kill
from tests.interop.connect.reading import Reader, partitions, topic_config, until
from tests.interop.suite import NotHere, Run
from tests.support.processes import python

GROUP = "connect-cluster"
TOPIC = "lines"
SOURCES = ("source-1", "source-2", "source-3")
SINK = "sink"
TASKS = {**dict.fromkeys(SOURCES, 1), SINK: 3}
RECORDS = 100
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
SETTINGS: dict[str, object] = {
    "group.id": GROUP,
    "key.converter": STRINGS,
    "value.converter": STRINGS,
    "plugin.discovery": "service_load",
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": 2500,
    "heartbeat.interval.ms": 500,
    "scheduled.rebalance.max.delay.ms": 500,
    "offset.flush.interval.ms": 500,
    "consumer.session.timeout.ms": 2500,
    "consumer.heartbeat.interval.ms": 500,
    **{f"{what}.storage.topic": f"connect-{what}s" for what in ("config", "offset")},
    "status.storage.topic": "connect-status",
    **{f"{what}.storage.replication.factor": 1 for what in ("config", "offset", "status")},
}


class Connect:
    """The cluster, its files, and what has to be in them.

    Attributes:
        workers: all that ever ran, by name.
        written: every line that was written to a file.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.written: list[str] = []
        self.tasks = dict(TASKS)
        jars = run.place.cache / "jars"
        settings = {"bootstrap.servers": run.bootstrap, **SETTINGS}
        self.workers = {name: Worker(jars, run.scratch, name, settings) for name in ("one", "two", "three")}
        self.reader: Reader | None = None

    def close(self) -> None:
        for worker in self.workers.values():
            worker.kill()
        if self.reader is not None:
            self.reader.close()

    # -- asking

    def running(self) -> list[Worker]:
        return [worker for worker in self.workers.values() if worker.runs]

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Ask a worker; ask again while the cluster is busy with a rebalance."""
        found: list[Any] = []

        def answered() -> bool:
            try:
                found.append(self.running()[0].ask(method, path, body))
            except Refused as refused:
                # 409: a rebalance goes on; 500: the leader, whom the worker asked, has just gone.
                if refused.status not in (409, 500):
                    raise
                return False
            return True

        until(answered, f"{method} {path}", show=self.show)
        return found[0]

    def states(self) -> dict[str, dict[str, Any]]:
        """Of each connector and task its state and its worker: ``sink``, ``sink/0``."""
        found = {}
        for name, told in self.ask("GET", "/connectors?expand=status").items():
            found[name] = told["status"]["connector"]
            found |= {f"{name}/{task['id']}": task for task in told["status"]["tasks"]}
        return found

    def show(self) -> str:
        return "\n".join(worker.tail() for worker in self.workers.values())

    def settle(self, *, paused: Sequence[str] = ()) -> None:
        """Wait until all connectors and tasks run or are paused, on workers that live and share them evenly."""
        wanted = {}
        for name, count in self.tasks.items():
            state = "PAUSED" if name in paused else "RUNNING"
            wanted |= {name: state} | {f"{name}/{task}": state for task in range(count)}
        living = {worker.id for worker in self.running()}

        def settled() -> bool:
            found = self.states()
            shares = Counter(dict.fromkeys(living, 0))
            shares.update(one["worker_id"] for name, one in found.items() if "/" in name)
            return (
                {name: one["state"] for name, one in found.items()} == wanted
                and {one["worker_id"] for one in found.values()} <= living
                and max(shares.values()) - min(shares.values()) <= 1
            )

        until(settled, f"{wanted}, shared by {living}", show=lambda: f"{self._states_or_why()}\n{self.show()}")

    def _states_or_why(self) -> object:
        try:
            return self.running()[0].ask("GET", "/connectors?expand=status")
        except (OSError, Refused) as error:
            return error

    # -- records

    def write(self, what: str) -> None:
        """Append lines to every file."""
        for name in SOURCES:
            lines = [f"{name} {what} {number}" for number in range(RECORDS)]
            with (self.run.scratch / f"{name}.txt").open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
            self.written += lines

    def printed(self) -> Counter[str]:
        """Counts of the lines that the sink has printed, on all workers."""
        return Counter(line for worker in self.workers.values() for line in worker.lines())

    def flows(self, what: str) -> None:
        """Lines that are written now arrive, and so does everything before; the topic has each exactly once."""
        self.write(what)
        self.arrives()

    def arrives(self) -> None:
        assert self.reader is not None
        wanted = set(self.written)
        self.reader.wait(wanted, self.show)
        assert not (twice := self.reader.repeated()), f"more than once in the topic: {twice}"
        until(lambda: wanted <= set(self.printed()), "the sink to print all lines", show=self.show)

    def ottla(self, *words: str) -> str:
        """Run `ottla`; gives its output."""
        return python("ottla.cli", *words, "--bootstrap-server", self.run.bootstrap)

    def described(self) -> Any:
        """The group of the workers, as `ottla` describes it."""
        return json.loads(self.ottla("groups", "describe", GROUP, "--format", "json"))[0]

    def restart(self, name: str) -> None:
        self.workers[name].start()
        self.answers(name)

    def answers(self, *names: str) -> None:
        for name in names:
            until(self.workers[name].answers, f"worker {name}", show=self.show)


def two_workers_start(at: Connect) -> None:
    """They make the topics in which they keep what they know."""
    for name in ("one", "two"):
        at.workers[name].start()
    at.answers("one", "two")
    found = partitions(at.run.bootstrap)
    assert [found[name] for name in ("connect-configs", "connect-offsets", "connect-status")] == [1, 25, 5], found
    for name in ("connect-configs", "connect-offsets", "connect-status"):
        assert topic_config(at.run.bootstrap, name, "cleanup.policy") == "compact", name


def connectors_run(at: Connect) -> None:
    for name in SOURCES:
        file = at.run.scratch / f"{name}.txt"
        file.touch()
        config = {"connector.class": "FileStreamSource", "file": str(file), "topic": TOPIC, "tasks.max": 1}
        more = {"exactly.once.support": "required", "transaction.boundary": "poll"}
        # Three partitions: the connector makes the topic itself.
        made = {f"topic.creation.default.{key}": value for key, value in (("partitions", 3), ("replication.factor", 1))}
        at.ask("PUT", f"/connectors/{name}/config", {**config, **more, **made})
    at.write("first")
    # The sink has no file: it prints. The topic is there by now, so that its consumers need not look for it again.
    at.reader = Reader(at.run.bootstrap, TOPIC)
    assert partitions(at.run.bootstrap)[TOPIC] == 3
    config = {"connector.class": "FileStreamSink", "tasks.max": TASKS[SINK], "topics": TOPIC}
    at.ask("PUT", f"/connectors/{SINK}/config", config)
    at.settle()
    at.arrives()


def third_worker_joins(at: Connect) -> None:
    at.restart("three")
    at.settle()
    at.flows("with three")


def group_is_seen(at: Connect) -> None:
    """The workers' group has the type connect, and members whose assignments only Connect can read."""
    client = KafkaAdminClient(bootstrap_servers=at.run.bootstrap)
    try:
        types = {one["group_id"]: one["protocol_type"] for one in client.list_groups()}
    finally:
        client.close()
    assert (types[GROUP], types[f"connect-{SINK}"]) == ("connect", "consumer"), types
    described = at.described()
    found = [described[key] for key in ("state", "protocol_type", "assignor")]
    assert found == ["Stable", "connect", "sessioned"], described
    assert {one["client_id"] for one in described["members"]} == set(at.workers), described
    assert "3 members, type connect" in at.ottla("groups", "describe", GROUP)


def worker_killed(at: Connect) -> None:
    """Its tasks move when its session is over; what it had begun to write is aborted or complete."""
    at.write("before it is killed")
    at.workers["two"].kill()
    at.write("while it is gone")
    at.settle()
    at.flows("without it")


def worker_stopped(at: Connect) -> None:
    at.restart("two")
    at.workers["one"].stop()
    at.settle()
    at.flows("without the first")
    at.restart("one")
    at.settle()
    at.flows("all three again")


def paused_and_resumed(at: Connect) -> None:
    """A source and the sink stand still while the other sources go on."""
    assert at.reader is not None
    paused = (SOURCES[0], SINK)
    for name in paused:
        at.ask("PUT", f"/connectors/{name}/pause")
    at.settle(paused=paused)
    at.write("while paused")
    new = at.written[-3 * RECORDS :]
    at.reader.wait(set(new[RECORDS:]), at.show)
    assert not set(at.reader.values()) & set(new[:RECORDS]), "a paused source has read"
    assert not set(at.printed()) & set(new), "a paused sink has printed"
    for name in paused:
        at.ask("PUT", f"/connectors/{name}/resume")
    at.settle()
    at.arrives()


def config_changed(at: Connect) -> None:
    """Fewer tasks; and what Connect refuses leaves the connector as it is."""
    config = at.ask("GET", f"/connectors/{SINK}/config")
    try:
        at.ask("PUT", f"/connectors/{SINK}/config", {**config, "tasks.max": "none"})
        raise AssertionError("a config that is not a number was taken")
    except Refused as refused:
        assert refused.status == 400, refused
    at.tasks[SINK] = 2
    at.ask("PUT", f"/connectors/{SINK}/config", {**config, "tasks.max": 2})
    at.settle()
    at.flows("with two tasks")
    at.ask("POST", f"/connectors/{SINK}/restart?includeTasks=true")
    at.settle()
    at.flows("after a restart of the connector")


def offsets_read_and_reset(at: Connect) -> None:
    """Offsets of a stopped connector are told, set and deleted; the sink then prints everything once more."""
    source, sink = SOURCES[0], SINK
    for name in (source, sink):
        at.ask("PUT", f"/connectors/{name}/stop")

    def stopped() -> bool:
        found = at.states()
        return all(found[name]["state"] == "STOPPED" and f"{name}/0" not in found for name in (source, sink))

    until(stopped, "stopped connectors", show=at.show)
    [told] = at.ask("GET", f"/connectors/{source}/offsets")["offsets"]
    file = at.run.scratch / f"{source}.txt"
    assert told == {"partition": {"filename": str(file)}, "offset": {"position": file.stat().st_size}}, told
    told = at.ask("GET", f"/connectors/{sink}/offsets")["offsets"]
    assert {row["partition"]["kafka_partition"] for row in told} == {0, 1, 2}, told
    assert sum(row["offset"]["kafka_offset"] for row in told) >= len(at.written), told

    # The sink's offsets are those of its consumer group: one is set to the beginning, then all are deleted.
    row = {"partition": {"kafka_topic": TOPIC, "kafka_partition": 0}, "offset": {"kafka_offset": 0}}
    at.ask("PATCH", f"/connectors/{sink}/offsets", {"offsets": [row]})
    told = at.ask("GET", f"/connectors/{sink}/offsets")["offsets"]
    assert row in told, told
    at.ask("DELETE", f"/connectors/{sink}/offsets")
    assert at.ask("GET", f"/connectors/{sink}/offsets")["offsets"] == []
    # The source begins at the last line again.
    last = at.written[-2 * RECORDS - 1]
    position = file.stat().st_size - len(f"{last}\n")
    row = {"partition": {"filename": str(file)}, "offset": {"position": position}}
    at.ask("PATCH", f"/connectors/{source}/offsets", {"offsets": [row]})
    before = at.printed()
    for name in (source, sink):
        at.ask("PUT", f"/connectors/{name}/resume")
    at.settle()
    assert at.reader is not None
    until(lambda: at.reader.repeated() == {last: 2}, "the last line once more", show=at.reader.repeated)
    until(lambda: all(at.printed()[line] > before[line] for line in at.written), "all printed again", show=at.show)


def broker_restarted(at: Connect) -> None:
    """The broker is killed under everything that runs, and comes back on its data."""
    if at.run.broker is None:
        raise NotHere("the broker was given from outside and is not restarted")
    at.write("before the broker is killed")
    kill(at.run.broker)
    at.write("while there is no broker")
    at.run.broker.restart()
    at.settle()
    at.flows("with the broker again")


def connectors_deleted(at: Connect) -> None:
    """Their records stay; the workers leave, and their group is empty."""
    for name in at.tasks:
        at.ask("DELETE", f"/connectors/{name}")
    assert at.ask("GET", "/connectors") == []
    for worker in at.running():
        worker.stop()
    assert TOPIC in partitions(at.run.bootstrap)
    described = at.described()
    assert (described["state"], described["members"]) == ("Empty", []), described


STEPS: list[Callable[[Connect], None]] = [
    two_workers_start,
    connectors_run,
    third_worker_joins,
    group_is_seen,
    worker_killed,
    worker_stopped,
    paused_and_resumed,
    config_changed,
    broker_restarted,
    offsets_read_and_reset,
    connectors_deleted,
]
