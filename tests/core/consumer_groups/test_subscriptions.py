"""What a group subscribes to (R3.1-R3.7)."""

from __future__ import annotations

from ottla.broker.core.consumer_groups.subscriptions import Subscriptions


def counted(*members: tuple[list[str], str], resolved: dict[str, list[str]] | None = None) -> Subscriptions:
    """The counts of members with names and a regex."""
    counts = Subscriptions()
    for names, regex in members:
        counts.add(names, regex)
    for topics in (resolved or {}).values():
        counts.add_resolved(topics)
    return counts


def test_a_group_without_members_is_homogeneous() -> None:
    assert Subscriptions().is_homogeneous(0)


def test_names_that_all_share() -> None:
    assert counted((["t", "u"], ""), (["u", "t"], "")).is_homogeneous(2)
    assert counted(([], ""), ([], "")).is_homogeneous(2)


def test_a_name_that_one_lacks() -> None:
    """R3.7: it need not exist."""
    assert not counted((["t", "u"], ""), (["t"], "")).is_homogeneous(2)
    assert not counted((["t"], ""), ([], "")).is_homogeneous(2)


def test_one_regex_of_all() -> None:
    assert counted(([], "t.*"), ([], "t.*"), resolved={"t.*": ["t1", "t2"]}).is_homogeneous(2)


def test_one_regex_that_is_not_resolved() -> None:
    """R3.7."""
    assert counted(([], "t.*"), ([], "t.*")).is_homogeneous(2)


def test_a_regex_that_one_lacks() -> None:
    assert not counted(([], "t.*"), ([], ""), resolved={"t.*": ["t1"]}).is_homogeneous(2)


def test_two_regexes() -> None:
    """Though they match the same, and each member uses one."""
    both = {"t.*": ["t1"], "t1": ["t1"]}
    assert not counted(([], "t.*"), ([], "t1"), resolved=both).is_homogeneous(2)


def test_a_regex_and_names() -> None:
    """Though all members have both."""
    members = (["u"], "t.*"), (["u"], "t.*")
    assert not counted(*members, resolved={"t.*": ["t1"]}).is_homogeneous(2)


def test_topics_are_told_once() -> None:
    """R3.1."""
    counts = counted((["u", "t1"], "t.*"), (["u"], "t.*"), resolved={"t.*": ["t1", "t2"]})
    assert sorted(counts.topics()) == ["t1", "t2", "u"]


def test_what_is_taken_back_leaves_nothing() -> None:
    counts = counted((["t", "u"], "t.*"), (["t"], "x"), resolved={"t.*": ["t1", "t2"], "x": ["t1"]})
    counts.remove(["t"], "x")
    counts.remove_resolved(["t1"])
    assert counts == counted((["t", "u"], "t.*"), resolved={"t.*": ["t1", "t2"]})
    counts.remove(["t", "u"], "t.*")
    counts.remove_resolved(["t1", "t2"])
    assert counts == Subscriptions()


def test_a_copy_is_of_its_own() -> None:
    counts = counted((["t"], "t.*"), resolved={"t.*": ["t1"]})
    other = counts.copy()
    assert other == counts
    other.add(["t"], "t.*")
    other.add_resolved(["t1"])
    assert counts == counted((["t"], "t.*"), resolved={"t.*": ["t1"]})


def test_topics_of_a_regex_that_went_with_its_last_member_count_until_a_member_changes() -> None:
    counts = counted((["t"], ""), ([], "t|u"))
    counts.add_resolved(["t", "u"])
    counts.remove([], "t|u")
    counts.remove_resolved(["t", "u"])
    assert counts.is_homogeneous(1)
    assert not counts.is_homogeneous(1, when_members_changed=True)
    counts.add(["t"], "")
    assert counts.is_homogeneous(2, when_members_changed=True)
