"""``python -m tests.image.check``: the images are built, and compose.yaml is brought up and lived with.

Three consumers share twelve partitions, one is killed, the broker is stopped and started again, the pipeline makes its
report, and at the end nothing is left. Where there is no container engine it says so and ends well.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.image import podman
from tests.image.engine import DATABASE, ROOT, CommandFailed, Engine, Podman, base_images, engine

WITHIN_S = 120.0
SPARK_WITHIN_S = 600.0
ADDED_MB = 100
STRAY = ("find", "/opt/ottla", "(", "-name", "pip", "-o", "-name", "setuptools", "-o", "-path", "*/ottla/tests", ")")
"""Finds what an image has no use for."""
PARTITIONS = 12
SKIPPED = 77
"""The exit code of a stage for which something is missing here."""


class Clock:
    """Seconds since the check began, in whichever process it goes on."""

    begun = time.monotonic()

    def __str__(self) -> str:
        return f"{time.monotonic() - self.begun:.0f} s"


clock = Clock()


def say(text: str) -> None:
    print(f"{clock!s:>6}  {text}", flush=True)


def until(what: str, holds: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Wait until something holds; a command that fails meanwhile has not made it so."""
    deadline = time.monotonic() + within_s
    while True:
        found: object = None
        try:
            if holds():
                return
        except CommandFailed as error:
            found = error
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}" + (f"; {found}" if found else "")
        time.sleep(0.5)


class Check:
    """The steps, one after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asked = "broker"
        self._produced = 0

    # what is asked

    def group(self) -> dict[str, Any]:
        (found,) = json.loads(
            self._engine.ottla("groups", "describe", "readers", "--format", "json", service=self._asked)
        )
        return dict(found)

    def shares(self) -> list[int]:
        """How many partitions each member has, if every partition has one owner and the group is at rest."""
        group = self.group()
        owned = [[one["partition"] for one in member["assignment"]] for member in group["members"]]
        whole = sorted(partition for share in owned for partition in share) == list(range(PARTITIONS))
        return sorted(map(len, owned)) if whole and group["state"] == "Stable" else []

    def offsets(self, name: str) -> dict[int, int]:
        """By partition, `committed_offset` or `log_end_offset`; 0 where nothing is committed."""
        return {one["partition"]: one[name] or 0 for one in self.group()["offsets"]}

    def goes_on(self) -> None:
        """Wait until more is produced than there is now, and that is consumed."""
        there = sum(self.offsets("log_end_offset").values())
        until("more is produced", lambda: sum(self.offsets("log_end_offset").values()) > there)
        self.consumed()

    def consumed(self) -> None:
        """Wait until everything that is in the log now is consumed and committed."""
        ends = self.offsets("log_end_offset")
        self._produced = sum(ends.values())

        def committed() -> bool:
            done = self.offsets("committed_offset")
            return all(done[partition] >= end for partition, end in ends.items())

        until(f"everything up to {ends} is committed", committed)

    # what is done

    def images(self) -> None:
        (base,) = base_images()
        size, below = (int(self._engine.inspected(image, ".Size")) for image in ("ottla:local", base))
        added = (size - below) / 1e6
        assert added < ADDED_MB, f"the image adds {added:.0f} MB to its base, more than {ADDED_MB}"
        user = self._engine.inspected("ottla:local", ".Config.User")
        assert user.split(":")[0] not in ("", "0", "root"), f"the image runs as user {user!r}: root"
        say(f"built: the broker's image adds {added:.0f} MB to its base and runs as {user}")

    def come_up(self) -> None:
        self._engine.up("--scale", "consumer=3")
        (broker,) = self._engine.containers("broker")
        until("the broker is healthy", lambda: self._engine.healthy(broker))
        stray = self._engine.execute("broker", *STRAY)
        assert not stray, f"the image holds what it does not need: {stray}"
        until("three consumers have 4, 4 and 4 partitions", lambda: self.shares() == [4, 4, 4])
        self.goes_on()
        say("up and healthy: three consumers share twelve partitions, 4 each")

    def lose_a_consumer(self) -> None:
        self._engine.run(self._engine.program, "kill", self._engine.containers("consumer")[0])
        until("the other two have 6 partitions each", lambda: self.shares() == [6, 6])
        self.goes_on()
        say("one was killed: the other two have 6 each and have consumed everything")

    def restart_the_broker(self) -> None:
        (broker,) = self._engine.containers("broker")
        program = self._engine.program
        self._engine.run(program, "stop", broker)
        code = self._engine.inspected(broker, ".State.ExitCode")
        assert code == "0", f"the broker ended with exit code {code} when it was stopped"
        self._engine.run(program, "start", broker)
        until("the broker is healthy again", lambda: self._engine.healthy(broker))
        until("the two consumers are back with 6 partitions each", lambda: self.shares() == [6, 6])
        self.goes_on()
        say("the broker was stopped and started: the group goes on where it was")

    def lose_nothing(self) -> None:
        (producer,) = self._engine.containers("producer")
        self._engine.run(self._engine.program, "stop", producer)
        told = re.findall(r"^stopped: (\d+) lines acknowledged$", self._engine.log(producer), re.M)
        assert len(told) == 1, f"the producer did not deliver everything: {self._engine.log(producer)[-300:]}"
        self.consumed()
        read = self._engine.ottla("consume", "lines", "--from-beginning", "--exit", "--quiet", "--format", r"%p\n")
        there = len(read.split())
        assert int(told[0]) == there == self._produced, (
            f"{told[0]} lines were acknowledged, the logs' ends say {self._produced}, and {there} can be read"
        )
        say(f"all {there} lines that were acknowledged are there, once each, and are consumed")

    def report(self) -> None:
        self._engine.up("pipeline", profile="pipeline")
        batches = [f"/lake/checkpoints/{table}/commits/0" for table in ("offset_commits", "group_generations")]
        until("the pipeline has written", lambda: self._engine.execute("pipeline", "ls", *batches), SPARK_WITHIN_S)
        (pipeline,) = self._engine.containers("pipeline")
        self._engine.run(self._engine.program, "stop", pipeline)
        for step in ("gold", "report"):
            self._engine.once("pipeline", step, "--lake", "/lake")
        page = self._engine.once("--entrypoint", "cat", "pipeline", "/lake/report.html")
        assert "readers" in page and "</html>" in page, f"the report does not tell of the group: {page[:300]}"
        say(f"the pipeline's profile has made its report of the group, {len(page) // 1000} kB")

    def secure(self) -> None:
        self._engine.up("secure-producer", "secure-consumer", "secure-guest", profile="secure")
        (consumer,) = self._engine.containers("secure-consumer")
        until("who may consume does", lambda: "lines a second from 12 partitions" in self._engine.log(consumer))
        (guest,) = self._engine.containers("secure-guest", ended=True)
        until("the guest is refused", lambda: "topic authorization failed" in self._engine.log(guest))
        say("with TLS, passwords and rules: who may works, and the guest is refused")

    def cluster(self) -> None:
        self._engine.up("cluster-producer", "cluster-consumer", profile="cluster")
        self._asked = "node1"
        until("the consumer has twelve partitions", lambda: self.shares() == [PARTITIONS])
        until("every node leads its share", lambda: all(node["group_shards"] for node in self.nodes()))
        (consumer,) = self._engine.containers("cluster-consumer")
        self._engine.run(self._engine.program, "kill", self._engine.containers("node2")[0])
        until("the others have taken over", self.group)
        self.goes_on()
        told = self._engine.log(consumer).count("rebalance: got")
        assert told == 1, f"the consumer was given partitions {told} times, as a node was killed"
        say("three nodes over PostgreSQL: one was killed, and the group goes on in its generation")

    def nodes(self) -> list[dict[str, Any]]:
        return list(json.loads(self._engine.ottla("cluster", "status", "--format", "json", service="node1"))["nodes"])

    def logs_are_clean(self) -> None:
        for container in self._engine.everything()["containers"]:
            log = self._engine.log(container)
            assert "Traceback" not in log, f"a traceback in a log:\n{log[-3000:]}"

    def leave_nothing(self) -> None:
        self._engine.down()
        assert not (left := self._engine.everything()), f"`down --volumes` leaves {left}"
        say("down: no container, volume or network is left")

    def run(self) -> None:
        self.images()
        self.come_up()
        self.lose_a_consumer()
        self.restart_the_broker()
        self.lose_nothing()
        self.report()
        self.secure()
        self.cluster()
        self.logs_are_clean()
        self.leave_nothing()

    def tell_logs(self) -> None:
        """The end of every log, for whoever looks for the cause."""
        for container in self._engine.everything().get("containers", []):
            name = self._engine.inspected(container, ".Name")
            print(f"--- {name}\n" + "\n".join(self._engine.log(container).splitlines()[-30:]))


def build(engine: Engine) -> None:
    say(f"with {engine.run(engine.program, '--version').strip()}")
    if isinstance(engine, Podman):
        for image in (*base_images(), DATABASE):
            if instead := podman.provide(image):
                say(f"no registry has {image} for this machine: {instead} stands in for it")
    engine.build()


def live(engine: Engine) -> None:
    check = Check(engine)
    engine.clear()  # what a run left that was killed
    try:
        check.run()
    except Exception:
        check.tell_logs()
        raise
    finally:
        engine.clear()


STAGES = {"build": build, "live": live}


def apart(stage: str) -> int:
    """Carry out a stage in namespaces of its own; only building needs the machine's network."""
    command = [sys.executable, "-m", "tests.image.check", stage, "--begun", str(clock.begun)]
    return subprocess.run(podman.apart(command, network=stage == "build"), cwd=ROOT).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    # What the check says to itself within the namespaces.
    parser.add_argument("stage", nargs="?", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--begun", type=float, default=clock.begun, help=argparse.SUPPRESS)
    given = parser.parse_args()
    clock.begun = given.begun
    try:
        chosen = engine()
        if isinstance(chosen, Podman) and given.stage is None:
            podman.require_apart()
            with podman.alone():
                code = apart("build") or apart("live")
            return 0 if code == SKIPPED else code
        for name, stage in STAGES.items():
            if given.stage in (None, name):
                stage(chosen)
    except podman.Unavailable as error:
        print(f"skipped: {error}")
        return SKIPPED if given.stage else 0
    except (AssertionError, CommandFailed, subprocess.TimeoutExpired) as error:
        print(f"FAILED after {clock}: {error}")
        return 1
    if given.stage in (None, "live"):
        say("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
