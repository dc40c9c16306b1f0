"""Regexes of groups: when they are resolved, and to what (R3.8-R3.20)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core.consumer_groups.regexes import AT_A_TIME, ResolvedRegex, is_resolution_due, resolve
from ottla.broker.core.pattern import BadPattern, Pattern
from ottla.protocol.steps import finished

TIME = 1_700_000_000_000
REFRESH = 600_000


def due(after_ms: int = 0, **changed: Any) -> bool:
    """Whether a resolution is due so long after the last one, with a regex in use and nothing new."""
    given: dict[str, Any] = {
        "resolved": {"t.*": ResolvedRegex(("t",), 7, TIME)},
        "used": 1,
        "brings_new": False,
        "newest_topic_version": 7,
        "refresh_interval_ms": REFRESH,
        "wall_ms": TIME + after_ms,
    }
    return is_resolution_due(**given | changed)


REASONS: list[dict[str, Any]] = [{"brings_new": True, "used": 2}, {"used": 2}, {"newest_topic_version": 8}]


@pytest.mark.parametrize("reason", REASONS)
def test_the_interval_comes_before_every_reason(reason: dict[str, Any]) -> None:
    """R3.11: conditions 2 and 3."""
    assert not due(10_000, **reason)
    assert due(10_001, **reason)


def test_without_a_reason_it_waits_for_the_refresh() -> None:
    """R3.11: condition 3."""
    assert not due(REFRESH)
    assert due(REFRESH + 1)


def test_what_was_never_resolved_is_resolved_at_once() -> None:
    assert due(resolved={}, brings_new=True)
    assert due(resolved={})


@pytest.mark.parametrize("resolved", [{}, {"t.*": ResolvedRegex((), 7, TIME)}])
def test_a_group_without_regexes_resolves_nothing(resolved: dict[str, ResolvedRegex]) -> None:
    """R3.11: condition 0."""
    assert not due(REFRESH + 1, resolved=resolved, used=0)


def test_topics_that_match_as_a_whole() -> None:
    """R3.8, R3.5."""
    names = ["t2", "orders", "t", "t10", "at", "__consumer_offsets"]
    found = finished(resolve(["t.*", "t", ".*s|at", "x"], names))
    assert found == {
        "t.*": ("t", "t10", "t2"),
        "t": ("t",),
        ".*s|at": ("__consumer_offsets", "at", "orders"),
        "x": (),
    }


def test_what_is_no_regex_matches_nothing() -> None:
    assert finished(resolve(["(?=t)", "t"], ["t"])) == {"(?=t)": (), "t": ("t",)}


def test_every_step_is_work_for_another_thread() -> None:
    """So nobody waits for a pattern that takes long."""
    names = [f"topic-{number}" for number in range(2 * AT_A_TIME + 1)]
    steps = resolve([r"topic-\d*7"], names)
    work = next(steps)
    count = 0
    with pytest.raises(StopIteration) as stop:
        while True:
            assert callable(work)
            count += 1
            work = steps.send(work())
    assert count == 1 + 3
    assert len(stop.value.value[r"topic-\d*7"]) == sum(name.endswith("7") for name in names) == AT_A_TIME // 5


@pytest.mark.parametrize(
    ("regex", "topic"),
    [
        *(("t.*", "topic"), ("a|b", "b"), ("[abc]", "c"), ("[^abc]", "d"), (r"\d\w\D\W\S", "1aa-a"), (r"\s?t", "t")),
        *(("[[:alpha:]]", "a"), ("(a)(b)", "ab"), ("(?:a)", "a"), ("(?P<n>a)", "a"), ("(?i)a", "A"), ("(?s).", "a")),
        *(("(?m)^a$", "a"), ("a*?", "aa"), ("a{1000}", "a" * 1000), ("[[:alpha:]]{1000}", "ab" * 500)),
        *(("(?i)[[:alpha:]]{1000}", "aB" * 500), ("^a$", "a"), (r"\bt\b", "t"), (r"\Qa.b\E", "a.b"), (r"\pL", "a")),
        *((r"\p{Greek}", "λ"), ("[a-zA-Z0-9._-]{1,249}", "a-b.c_d")),
    ],
)
def test_what_every_client_may_use(regex: str, topic: str) -> None:
    """R3.20."""
    assert finished(resolve([regex], [topic, "!!"])) == {regex: (topic,)}


@pytest.mark.parametrize("regex", ["[", "(?=a)", "a**", "a{1001}", ")"])
def test_what_is_refused(regex: str) -> None:
    """R3.8, S35: the message says what is wrong."""
    with pytest.raises(BadPattern, match=r"\w+"):
        Pattern(regex)
