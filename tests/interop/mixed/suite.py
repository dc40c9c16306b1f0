"""Members of Java, Go, JavaScript, Python and C in one group, that come, leave and crash.

``--option only=REGEXP`` chooses steps of a story by name; a story is told for each assignor that they share.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from tests.interop.mixed.members import LANGUAGES, MixedCast, ProcessMember, missing, prepare, versions
from tests.interop.suite import Result, Run, Suite, told
from tests.support.cast import Cast
from tests.support.clients import confluent
from tests.support.kit import produce
from tests.support.waiting import wait_for

ASSIGNORS = ("roundrobin", "range")
PARTITIONS = 12
SESSION_MS = 2500
RECORDS = 120


class Story:
    """One group, whose members come and go.

    Attributes:
        present: the members by client.
    """

    def __init__(self, run: Run, assignor: str) -> None:
        self.group = f"mixed-{assignor}-{time.time_ns() // 1_000_000:x}"
        self.cast = MixedCast(run.place, run.bootstrap, self.group, assignor, SESSION_MS)
        self.present: dict[str, ProcessMember] = {}
        self._bootstrap = run.bootstrap
        self._known: list[str] = []
        confluent.create_topics(run.bootstrap, {self.group: PARTITIONS})

    def settle(self) -> None:
        self.cast.wait_settled(list(self.present.values()), PARTITIONS)

    def produce(self, what: str, *, once: bool = True) -> None:
        """Produce; each record is read by someone, and if nobody crashed, by only one."""
        values = [f"{what} {number}" for number in range(RECORDS)]
        acknowledged = produce(self._bootstrap, self.group, values)
        assert len({partition for partition, _ in acknowledged}) == PARTITIONS, "every partition has some"
        self._known += values
        self.cast.wait_seen(self._known)
        if once:
            repeated = {value: times for value, times in self.cast.seen(values).items() if times != 1}
            assert not repeated, f"seen more than once: {repeated}\n{self.cast.describe()}"

    def joins(self) -> None:
        """One after another, so that each finds the others there."""
        for kind in LANGUAGES:
            self.present[kind] = self.cast.prepare(kind).start()
            self.settle()
        self.produce("all are there")

    def leave_and_return(self) -> None:
        """Each leaves once, the oldest first, and another of its kind comes: so each kind leads once."""
        for kind in LANGUAGES:
            heir = self.cast.prepare(kind)
            self.present.pop(kind).stop()
            self.settle()
            self.produce(f"without {kind}")
            self.present[kind] = heir.start()
            self.settle()
            self.produce(f"with {kind} again")

    def crash(self) -> None:
        """Each is killed once, while records come; the others take over when its session is over."""
        for kind in LANGUAGES:
            heir = self.cast.prepare(kind)
            self.present.pop(kind).kill()
            self.produce(f"{kind} was killed", once=False)
            self.settle()
            self.present[kind] = heir.start()
            self.settle()
            self.produce(f"{kind} is back")

    def all_at_once(self) -> None:
        """Half of them leave and are killed at the same moment as as many join."""
        heirs = {kind: self.cast.prepare(kind) for kind in LANGUAGES}
        for number, (kind, heir) in enumerate(heirs.items()):
            gone, self.present[kind] = self.present[kind], heir.start()
            if number % 2:
                gone.kill()
            else:
                gone.stop()
        self.settle()
        self.produce("at last")

    def leave(self) -> None:
        """All leave: the group is empty, and everything is committed."""
        for one in self.present.values():
            one.stop()
        heir = self.cast.prepare("confluent")
        already = len(heir.seen)
        heir.start()
        self.present = {"confluent": heir}
        self.settle()
        self.produce("after all")
        wait_for(lambda: len(heir.seen) - already >= RECORDS, "the last records", show=self.cast.describe)
        troubles = [one for one in self.cast.everyone if one.troubles]
        assert not troubles, self.cast.describe()


STEPS: dict[str, Callable[[Story], None]] = {
    "join": Story.joins,
    "leave_and_return": Story.leave_and_return,
    "crash": Story.crash,
    "all_at_once": Story.all_at_once,
    "all_leave": Story.leave,
}


def run(run: Run) -> Iterator[Result]:
    for assignor in ASSIGNORS:
        if re.search(run.options.get("only", ""), assignor):
            story = Story(run, assignor)
            try:
                yield from told(assignor, story, STEPS)
            finally:
                Cast.__exit__(story.cast, None, None, None)


SUITE = Suite(
    title="Five clients in one group",
    language="Java, Go, JavaScript, Python and C",
    missing=missing,
    prepare=prepare,
    versions=versions,
    settings={"group.min.session.timeout.ms": 500},
    run=run,
)
