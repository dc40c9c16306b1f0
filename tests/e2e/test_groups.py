"""Groups of the consumers of one client: the scenarios of tests/interop, with the generations that the broker logs."""

from functools import partial

import pytest

from ottla.testing import Broker
from tests.e2e.inside import Staged
from tests.interop.python import groups
from tests.interop.python.groups import PARTITIONS
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.kit import KINDS
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

LIFE = [groups.group_join_and_leave, groups.group_crash, groups.commit_and_resume]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scenario", [*LIFE, groups.group_static_member], ids=lambda scenario: scenario.__name__)
def test_life_of_a_group(scenario: groups.Scenario, kind: str, broker: Broker, name: str) -> None:
    Staged(kind, broker, name).play(scenario)


def test_a_static_member_that_stops_does_not_leave(broker: Broker, name: str) -> None:
    """Only the end of its session makes room."""
    Staged("confluent", broker, name).play(_stops)


def _stops(stage: groups.Stage) -> None:
    admin, group = stage.admin, stage.group
    admin.create(group, PARTITIONS)
    cast = stage.cast()
    present = [groups.join(stage, cast, instance_id=f"static-{number}") for number in (1, 2)]
    fleeting = groups.join(stage, cast, instance_id="fleeting")
    cast.wait_shared([*present, fleeting], places(group, PARTITIONS))
    before = stage.generation() or 0
    fleeting.stop()
    assert fleeting.role.name in admin.describe(group)[1]
    cast.wait_shared(present, places(group, PARTITIONS))
    assert admin.describe(group)[1] == {one.role.name for one in present}
    assert (stage.generation() or 0) > before


# kafka-python keeps its partitions and its place in them, but its poll() returns nothing before it has joined; aiokafka
# has no cooperative rebalancing.
@pytest.mark.parametrize(("kind", "reads_on"), [("confluent", True), ("kafka-python", False), ("ottla", True)])
def test_cooperative_members_do_not_stop(kind: str, reads_on: bool, broker: Broker, cast: Cast) -> None:
    """They keep what does not move, and go on reading it while the group rebalances.

    ``reads_on``: this client gives records to its user while its JoinGroup is under way.
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
