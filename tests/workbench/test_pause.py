"""A group that is paused: its joins and syncs wait, and its sessions do not run."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from tests.support.client import Client
from tests.workbench.test_faults import SILENT_S


def test_joins_and_syncs_wait(broker: Broker, connect: Callable[..., Client]) -> None:
    leader, other = connect(), connect()
    first = leader.stable("billing")
    group = broker.group("billing")
    group.pause()
    other.start_join("billing")
    assert other.is_silent(SILENT_S)
    assert leader.heartbeat("billing", first) == 0
    assert leader.commit("billing", "orders", generation_id_or_member_epoch=1, member_id=first.member_id) == 0
    assert connect().join("shipping").error_code == ErrorCode.MEMBER_ID_REQUIRED, "others are not held"
    group.resume()
    assert other.answer().error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert (group.state, group.generation) == ("Stable", 1)


def test_no_session_ends(broker: Broker, client: Client) -> None:
    joined = client.stable("billing", session_ms=6_000)
    group = broker.group("billing")
    broker.clock.freeze()
    broker.clock.advance(seconds=4)
    group.pause()
    group.pause()
    broker.clock.advance(days=1)
    assert list(group.members) == [joined.member_id]
    group.resume()
    broker.clock.advance(seconds=1)
    assert list(group.members) == [joined.member_id], "2 of its 6 s were left"
    broker.clock.advance(seconds=2)
    assert group.members == {}
    group.resume()


def test_a_group_may_be_paused_before_it_comes(broker: Broker, client: Client) -> None:
    group = broker.group("billing")
    group.pause()
    client.start_join("billing")
    assert client.is_silent(SILENT_S)
    assert group.state == "Dead"
    assert repr(group) == "<Group 'billing': Dead with 0 members, lag unknown, paused>"
    with pytest.raises(TimeoutError, match=r"lag unknown; it is paused$"):
        group.wait(members=1, timeout=0)
    group.resume()
    assert not group.is_paused
    assert client.answer().error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_broker_that_stops_does_not_wait_for_what_is_held(client: Client) -> None:
    with Broker() as broker, closing(Client(broker.port)) as held:
        broker.group("billing").pause()
        held.start_join("billing")
        assert held.is_silent(SILENT_S)
        began_s = time.monotonic()
        broker.stop()
        assert held.is_closed()
        assert time.monotonic() - began_s < broker.settings.shutdown_drain_ms / 2000
