"""A group under load moves to the consumer protocol (KIP-848) by a rolling restart of its members, and back.

Its members are Java consumers and confluent-kafka consumers. No partition is without an owner longer than the restart
of a member takes, and no record is lost. Their classic assignor is `range`: where librdkafka leads a group with
`cooperative-sticky` it puts user data into assignments, and such a group cannot move, on Apache Kafka neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import ConsumerGroupType

from tests.interop.jvm import jar_version, java_version
from tests.interop.mixed.members import CONFLUENT, PYTHON, MixedCast, of, prepare_java
from tests.interop.python_envs import environment
from tests.interop.suite import QUICK_CONSUMER_GROUPS, Place, Result, Run, Suite, needs, told
from tests.support.cast import Cast
from tests.support.clients import confluent
from tests.support.clients.confluent import Stream
from tests.support.kit import Place as Partition
from tests.support.members import ProcessMember
from tests.support.waiting import wait_for

KINDS = ("java", "confluent", "java", "confluent")
PARTITIONS = 12
SESSION_MS = 10_000


def _mixed(place: Place) -> Place:
    return of(place, "mixed")


def prepare(place: Place) -> None:
    prepare_java(_mixed(place))
    environment(_mixed(place), "python", *PYTHON)


class Story:
    """One group, whose members are replaced one by one.

    Attributes:
        present: the members, in the order in which they are restarted.
    """

    def __init__(self, run: Run) -> None:
        self.group = f"migrated-{time.time_ns() // 1_000_000:x}"
        self.cast = MixedCast(_mixed(run.place), run.bootstrap, self.group, "range", SESSION_MS)
        self.present: list[ProcessMember] = []
        self._bootstrap, self._say = run.bootstrap, run.say
        confluent.create_topics(run.bootstrap, {self.group: PARTITIONS})
        self._stream = Stream(run.bootstrap, self.group, PARTITIONS)

    def classic_group(self) -> None:
        for kind in KINDS:
            self.present.append(self.cast.prepare(kind).start())
            self._settle()
        self._is(ConsumerGroupType.CLASSIC)

    def to_the_consumer_protocol(self) -> None:
        self._roll(modern=True)
        self._is(ConsumerGroupType.CONSUMER)

    def back_to_the_classic_protocol(self) -> None:
        self._roll(modern=False)
        self._is(ConsumerGroupType.CLASSIC)

    def nothing_was_lost(self) -> None:
        values = self._stream.stop()
        self.cast.wait_seen(values)
        again = sum(times - 1 for times in self.cast.seen(values).values())
        self._say(f"{len(values)} records, none lost; {again} that were not committed yet were read again")
        assert not any(one.troubles for one in self.cast.everyone), self.cast.describe()

    def _roll(self, *, modern: bool) -> None:
        """Restart every member as one of the other protocol."""
        began = time.monotonic()
        rolled = []
        for number, old in enumerate(self.present):
            heir = self.cast.prepare(old.role.kind, modern=modern)
            stopping = time.monotonic()
            old.stop()
            self.present[number] = heir.start()
            self._settle()
            first = next(change.at for change in heir.changes if change.kind == "assigned" and change.places)
            rolled.append(first - stopping)
        gaps = self._gaps(began)
        longest = max(gaps.values(), default=0.0)
        self._say(
            f"longest without an owner {longest:.1f} s; restarts took {', '.join(f'{one:.1f} s' for one in rolled)}"
        )
        assert longest <= max(rolled), f"{gaps}\n{self.cast.describe()}"

    def _gaps(self, since: float) -> dict[Partition, float]:
        """For how long each partition had no owner, at most."""
        gaps: dict[Partition, float] = {}
        owners: dict[Partition, int] = {}
        lost_at: dict[Partition, float] = {}
        changes = sorted((change for one in self.cast.everyone for change in one.changes), key=lambda change: change.at)
        for change in changes:
            for place in change.places:
                owners[place] = owners.get(place, 0) + (1 if change.kind == "assigned" else -1)
                if not owners[place]:
                    lost_at[place] = change.at
                elif change.kind == "assigned" and place in lost_at and change.at > since:
                    gaps[place] = max(gaps.get(place, 0.0), change.at - lost_at.pop(place))
        return gaps

    def _settle(self) -> None:
        self.cast.wait_settled(self.present, PARTITIONS)

    def _is(self, kind: ConsumerGroupType) -> None:
        """Wait until the group is of this type."""

        def holds() -> bool:
            admin = confluent.admin(self._bootstrap)  # its futures end with it
            return bool(confluent.result(admin.describe_consumer_groups([self.group])).type == kind)

        wait_for(holds, f"the group to be one of type {kind.name}")


STEPS: Mapping[str, Callable[[Story], None]] = {
    "a_classic_group": Story.classic_group,
    "to_the_consumer_protocol": Story.to_the_consumer_protocol,
    "back_to_the_classic_protocol": Story.back_to_the_classic_protocol,
    "nothing_lost": Story.nothing_was_lost,
}


def run(run: Run) -> Iterator[Result]:
    story = Story(run)
    try:
        yield from told("rolling", story, STEPS)
    finally:
        Cast.__exit__(story.cast, None, None, None)


def versions(place: Place) -> str:
    clients = jar_version(of(place, "java").cache / "jars", "kafka-clients")
    return f"kafka-clients {clients}, {java_version()}, {CONFLUENT.replace('==', ' ')}"


SUITE = Suite(
    title="Migration of a group",
    language="Java and C",
    missing=needs("java", "javac"),
    prepare=prepare,
    versions=versions,
    settings={
        "group.min.session.timeout.ms": 500,
        **QUICK_CONSUMER_GROUPS,
        "group.consumer.session.timeout.ms": SESSION_MS,
        "group.consumer.migration.policy": "bidirectional",
    },
    run=run,
)
