"""Refusals of members, and changes that members discover by themselves."""

from typing import Any

import pytest

from ottla.testing import Broker
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.kit import KINDS, produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_that_is_too_short(kind: str, broker: Broker, cast: Cast) -> None:
    """The broker's minimum is Kafka's 6 s."""
    confluent.create_topics(broker.bootstrap_servers, {cast.group: 1})
    one = cast.join(kind, session_timeout_ms=5_999)
    wait_for(lambda: one.troubles, "the member to be refused", show=cast.describe)
    trouble = one.troubles[0].lower().replace("_", "")
    assert "sessiontimeout" in trouble or "session timeout" in trouble, one.troubles
    assert not any(change.places for change in one.changes)


@pytest.mark.parametrize("kind", KINDS)
def test_no_assignor_in_common(kind: str, broker: Broker, cast: Cast) -> None:
    confluent.create_topics(broker.bootstrap_servers, {cast.group: 2})
    first = cast.join("confluent", assignor="roundrobin")
    cast.wait_shared([first], places(cast.group, 2))
    other = cast.join(kind, assignor="range")
    wait_for(lambda: other.troubles, "the member to be refused", show=cast.describe)
    assert "inconsistent" in other.troubles[0].lower(), other.troubles
    assert first.owned == frozenset(places(cast.group, 2))
    assert len(first.changes) == 1, "those who are in notice nothing"


def test_new_topics_and_partitions_are_found(broker: Broker, cast: Cast) -> None:
    """A pattern finds topics that come later, and a leader finds partitions that come later."""
    bootstrap, group = broker.bootstrap_servers, cast.group
    kit = confluent.KIT(bootstrap)
    confluent.create_topics(bootstrap, {f"{group}-a": 1, f"not-{group}": 1})
    options: dict[str, Any] = {"topic.metadata.refresh.interval.ms": 300}
    members = [cast.join("confluent", [f"^{group}-.*"], options=options) for _ in range(2)]

    def owned(wanted: list[tuple[str, int]]) -> None:
        wait_for(
            lambda: sorted(place for one in members for place in one.owned) == sorted(wanted),
            f"{wanted} to be assigned",
            show=cast.describe,
        )

    owned([(f"{group}-a", 0)])
    confluent.create_topics(bootstrap, {f"{group}-b": 2})
    owned([*places(f"{group}-a", 1), *places(f"{group}-b", 2)])
    kit.grow(f"{group}-a", 3)
    owned([*places(f"{group}-a", 3), *places(f"{group}-b", 2)])
    produce(bootstrap, f"{group}-a", ["late"], partition=2)
    cast.wait_seen_once(["late"])
    kit.delete(f"{group}-b")
    owned(places(f"{group}-a", 3))


def test_a_group_that_is_full() -> None:
    """group.max.size refuses whoever comes too late, and keeps those who are in."""
    with Broker({"group.max.size": 2}) as broker, Cast(broker.bootstrap_servers, "full") as full:
        confluent.create_topics(broker.bootstrap_servers, {"full": 4})
        members = [full.join("confluent"), full.join("confluent")]
        full.wait_shared(members, places("full", 4))
        late = full.join("confluent")
        wait_for(lambda: late.troubles, "the third to be refused", show=full.describe)
        assert "GROUP_MAX_SIZE_REACHED" in late.troubles[0]
        assert sorted(place for one in members for place in one.owned) == places("full", 4)
