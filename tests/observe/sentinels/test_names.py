"""What alarms call members: briefly in the sentence, in full in the facts."""

from __future__ import annotations

import pytest

from ottla.broker.settings import Settings
from ottla.observe.sentinels.looks import look
from ottla.observe.sentinels.model import Finding, short
from ottla.observe.snapshot import MemberState
from tests.observe.timeline.synthetic import member as any_member
from tests.observe.timeline.synthetic import state

A, B = "0a1b2c3d-0000-4000-8000-000000000001", "4e5f6a7b-0000-4000-8000-000000000002"


@pytest.mark.parametrize(
    ("member_id", "name"),
    [
        (f"billing-1-{A}", "billing-1-0a1b2c3d"),
        (f"a-{B}-{A}", f"a-{B}-0a1b2c3d"),
        (A, A),
        ("made by hand", "made by hand"),
        (f"billing-{A.upper()}", f"billing-{A.upper()}"),
        ("", ""),
    ],
)
def test_a_member_id_is_cut_where_brokers_make_it_long(member_id: str, name: str) -> None:
    assert short(member_id) == name


def member(client_id: str, uuid: str, instance: str | None = None) -> MemberState:
    member_id = f"{instance or client_id}-{uuid}"
    return any_member(client_id, member_id=member_id, group_instance_id=instance, client_host="/10.0.0.1")


def found(*members: MemberState) -> Finding:
    """What is said of members that have partition 0 both."""
    findings = look(state("g", list(members)), lambda topic: 1, lambda group_id, topic, partitions: [], Settings())
    (one,) = [it for it in findings if it.sentinel == "two_believers"]
    return one


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (member("a", A), member("b", B), ("a", "b")),
        (member("a", A), member("a", B), ("a-0a1b2c3d", "a-4e5f6a7b")),
        (member("a", A, "one"), member("a", B), ("one", "a")),
        (member("", A), member("b", B), (f"-{A[:8]}", "b")),
    ],
)
def test_members_are_called_as_why_calls_them(first: MemberState, second: MemberState, names: tuple[str, str]) -> None:
    finding = found(first, second)
    assert finding.text.endswith(f": {names[0]} (10.0.0.1), {names[1]} (10.0.0.1)")
    assert finding.facts["members"] == f"{first.member_id}, {second.member_id}"
