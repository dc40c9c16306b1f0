"""The life of a group, the same for every client: three members, one leaves, one is killed, one joins late, all stop,
and one comes back to what was committed.
"""

import time
from functools import partial

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import ConsumerGroupDescription

from ottla.testing import Broker
from tests.e2e.inside import generation
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.kit import kit_of
from tests.support.waiting import stays, wait_for

PARTITIONS = 6
AMPLE_MS = 45_000
"""A session timeout, of those who come back, that even a busy machine keeps."""


class Watcher:
    """Looks at groups from outside."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = confluent.admin(bootstrap)

    def describe(self, group: str) -> ConsumerGroupDescription:
        return self._admin.describe_consumer_groups([group])[group].result(30)

    def members(self, group: str) -> set[str]:
        """The client ids of the members."""
        return {member.client_id for member in self.describe(group).members}

    def state(self, group: str) -> ConsumerGroupState:
        return self.describe(group).state


def values(round_name: str, count: int = 60) -> list[str]:
    return [f"{round_name} {number}" for number in range(count)]


def live(kind: str, broker: Broker, cast: Cast) -> None:
    """The whole life. Nothing may be lost; nothing may be seen twice but by whoever takes over from the killed."""
    bootstrap, group = broker.bootstrap_servers, cast.group
    watcher, say = Watcher(bootstrap), kit_of(kind, bootstrap).say
    all_places = places(group, PARTITIONS)
    confluent.create_topics(bootstrap, {group: PARTITIONS})

    doomed = cast.add(kind, process=True)
    stayer, leaver = cast.add(kind), cast.add(kind)
    for one in (doomed, stayer, leaver):
        one.start()
    cast.wait_shared([doomed, stayer, leaver], all_places)
    assert watcher.state(group) == ConsumerGroupState.STABLE
    assert watcher.members(group) == {one.role.name for one in (doomed, stayer, leaver)}
    say(group, values("three"))
    cast.wait_seen_once(values("three"))
    before = generation(broker, group)

    leaver.stop()
    assert leaver.role.name not in watcher.members(group), "a member that closes leaves at once"
    cast.wait_shared([doomed, stayer], all_places)
    say(group, values("two"))
    cast.wait_seen_once(values("three") + values("two"))
    assert generation(broker, group) > before
    doomed.commit()

    doomed.kill()
    killed_at = time.monotonic()
    assert doomed.role.name in watcher.members(group), "a member whose connection drops stays until its session ends"
    late = cast.join(kind)
    cast.wait_shared([stayer, late], all_places)
    # The last heartbeat was at most an interval of 3 s before the end, and took its time on a busy machine.
    assert time.monotonic() - killed_at > 2, f"the session of the killed member is longer\n{cast.describe()}"
    assert watcher.members(group) == {stayer.role.name, late.role.name}
    say(group, values("late"))
    cast.wait_seen(values("late"))
    for one in (stayer, late):
        one.commit()
        one.stop()
    wait_for(lambda: watcher.state(group) == ConsumerGroupState.EMPTY, "the group to be empty", show=cast.describe)

    say(group, values("again"))
    heir = cast.join(kind)
    cast.wait_seen_once(values("again"))
    assert {seen.value for seen in heir.seen} == set(values("again")), "it begins at what was committed"
    assert not any(one.troubles for one in cast.everyone), cast.describe()


def come_back(kind: str, broker: Broker, cast: Cast, *, then_expire: bool = False) -> None:
    """Static members are killed and come back within their session: each gets what it had, and nobody else notices.

    Args:
        then_expire: also watch one stop and not come back.
    """
    bootstrap, group = broker.bootstrap_servers, cast.group
    watcher, say = Watcher(bootstrap), kit_of(kind, bootstrap).say
    confluent.create_topics(bootstrap, {group: PARTITIONS})
    first, second = (
        cast.add(kind, process=True, instance_id=f"static-{number}", session_timeout_ms=AMPLE_MS) for number in (1, 2)
    )
    witness = cast.add(kind, instance_id="witness", session_timeout_ms=AMPLE_MS)
    for one in (first, second, witness):
        one.start()
    cast.wait_shared([first, second, witness], places(group, PARTITIONS))
    say(group, values("before"))
    cast.wait_seen_once(values("before"))
    owned = {one.role.instance_id: one.owned for one in (first, second)}
    before, changes = generation(broker, group), list(witness.changes)
    first.commit()
    second.commit()

    # One of the two may lead the group, and one of them does not: both are tried.
    first.kill()
    second.kill()
    back = [
        cast.add(
            kind,
            process=True,
            instance_id=one.role.instance_id,
            name=one.role.name,
            session_timeout_ms=AMPLE_MS,
        )
        for one in (first, second)
    ]
    for one in back:
        one.start()
    stays(
        lambda: generation(broker, group) == before,
        "the generation stays while static members come back",
        until=lambda: all(one.owned == owned[one.role.instance_id] for one in back),
    )
    assert witness.changes == changes, f"the others notice nothing\n{cast.describe()}"
    say(group, values("after"))
    cast.wait_seen_once(values("before") + values("after"))
    assert generation(broker, group) == before
    assert watcher.members(group) == {one.role.name for one in (*back, witness)}

    if not then_expire:
        return
    # A static member that stops does not leave: only the end of its session makes room.
    present = [*back, witness]
    fleeting = cast.join(kind, instance_id="fleeting")
    cast.wait_shared([*present, fleeting], places(group, PARTITIONS))
    before = generation(broker, group)
    fleeting.stop()
    assert fleeting.role.name in watcher.members(group)
    cast.wait_shared(present, places(group, PARTITIONS))
    assert watcher.members(group) == {one.role.name for one in present}
    assert generation(broker, group) > before


def no_full_stop(kind: str, broker: Broker, cast: Cast, *, reads_on: bool) -> None:
    """With cooperative-sticky, members keep what does not move, and go on reading it while the group rebalances.

    Args:
        reads_on: whether this client gives records to its user while its JoinGroup is under way.
    """
    bootstrap, group = broker.bootstrap_servers, cast.group
    all_places = places(group, PARTITIONS)
    confluent.create_topics(bootstrap, {group: PARTITIONS})
    first, second = (cast.join(kind, assignor="cooperative-sticky") for _ in range(2))
    cast.wait_shared([first, second], all_places)
    stream = confluent.Stream(bootstrap, group, PARTITIONS)
    wait_for(lambda: {seen[:2] for seen in first.seen} == first.owned, "the stream to arrive", show=cast.describe)
    had = {one.role.name: one.owned for one in (first, second)}
    before = {one.role.name: len(one.changes) for one in (first, second)}

    def revoked_at() -> float:
        return max((change.at for change in first.changes if change.kind == "revoked"), default=float("inf"))

    def first_reads_on() -> bool:
        return {seen[:2] for seen in first.seen if seen.at > revoked_at()} >= first.owned

    if reads_on:
        # While the second is asked to give a partition up, the group cannot go on; the first reads all that it keeps.
        second.before_giving_up = partial(wait_for, first_reads_on, "the first to read on", show=cast.describe)
    late = cast.join(kind, assignor="cooperative-sticky")
    cast.wait_shared([first, second, late], all_places)
    values = stream.stop()
    cast.wait_seen_once(values)

    for one in (first, second):
        kept = one.owned
        assert kept < had[one.role.name], f"it keeps what it had, less what moved\n{cast.describe()}"
        changes = [change for change in one.changes[before[one.role.name] :] if change.places]
        assert [change.kind for change in changes] == ["revoked"], cast.describe()
        assert changes[0].places == had[one.role.name] - kept, cast.describe()
    assert late.owned == frozenset().union(*had.values()) - first.owned - second.owned
    assert not any(one.troubles for one in cast.everyone), cast.describe()
