"""Members of every kind of client in one group. With the defaults of all, roundrobin is the assignor they share."""

import pytest

from ottla.testing import Broker
from tests.e2e.inside import generation
from tests.interop.python.groups import values
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.kit import KINDS, produce

pytestmark = pytest.mark.e2e

PARTITIONS = 8


def test_every_client_in_one_group(broker: Broker, cast: Cast) -> None:
    """Each kind leaves once and comes back, so that each leads the group while others follow."""
    bootstrap, group = broker.bootstrap_servers, cast.group
    admin = confluent.admin(bootstrap)
    confluent.create_topics(bootstrap, {group: PARTITIONS})
    present = [cast.join(kind, options=plain(kind)) for kind in KINDS]
    cast.wait_shared(present, places(group, PARTITIONS))
    assert confluent.result(admin.describe_consumer_groups([group])).partition_assignor == "roundrobin"
    known = values("all")
    produce(bootstrap, group, known)
    cast.wait_seen_once(known)
    generations = [generation(broker, group)]

    for kind in KINDS:
        gone = next(one for one in present if one.role.kind == kind)
        gone.stop()
        present = [one for one in present if one is not gone] + [cast.join(kind, options=plain(kind))]
        cast.wait_shared(present, places(group, PARTITIONS))
        assert confluent.KIT(bootstrap).describe(group)[1] == {one.role.name for one in present}
        more = values(f"with a new {kind}")
        produce(bootstrap, group, more)
        known += more
        cast.wait_seen_once(known)
        generations.append(generation(broker, group))

    assert generations == sorted(set(generations)), "every change of members is a new generation"
    assert not any(one.troubles for one in cast.everyone), cast.describe()


def plain(kind: str) -> dict[str, object]:
    """The included client's defaults have no assignor in common with aiokafka's."""
    return {"partition_assignment_strategy": ["roundrobin"]} if kind == "ottla" else {}


def test_the_initial_delay_gathers_a_group() -> None:
    """With Kafka's own 3 s, members that start one after another are in the first generation together."""
    with (
        Broker({"group.initial.rebalance.delay.ms": 3000, "group.min.session.timeout.ms": 6000}) as broker,
        Cast(broker.bootstrap_servers, "gathered") as cast,
    ):
        confluent.create_topics(broker.bootstrap_servers, {cast.group: PARTITIONS})
        members = [cast.join(kind) for kind in KINDS[:3]]
        cast.wait_shared(members, places(cast.group, PARTITIONS))
        assert generation(broker, cast.group) == 1
        for one in members:
            assert [change.kind for change in one.changes if change.places] == ["assigned"], cast.describe()
