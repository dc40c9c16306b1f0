"""Scenarios of consumer groups. The members are those of tests/e2e."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.interop.python.harness import Scenario, Stage, named
from tests.support.cast import Cast, places
from tests.support.kit import Row
from tests.support.waiting import stays, wait_for

PARTITIONS = 6
AMPLE_MS = 20_000
"""A session timeout, of those who come back, that a busy machine keeps."""


def values(round_name: str, count: int = 30) -> list[str]:
    return [f"{round_name} {number}" for number in range(count)]


def produce(stage: Stage, texts: Sequence[str]) -> None:
    stage.kit.produce(stage.topic, [Row(text.encode(), text.encode()) for text in texts])


def join(stage: Stage, cast: Cast, *, start: bool = True, **fields: Any) -> Any:
    """A member that asks often how its group is."""
    one = cast.add(stage.kit.kind, **{"options": dict(stage.kit.quick), **fields})
    return one.start() if start else one


def group_join_and_leave(stage: Stage) -> None:
    admin, group = stage.admin, stage.group
    admin.create(stage.topic, PARTITIONS)
    cast = stage.cast()
    members = [join(stage, cast) for _ in range(3)]
    cast.wait_shared(members, places(group, PARTITIONS))
    produce(stage, values("three"))
    cast.wait_seen_once(values("three"))
    assert admin.describe(group) == ("Stable", {one.role.name for one in members})
    assert group in admin.groups()
    before = stage.generation()

    members.pop(1).stop()
    assert admin.describe(group)[1] == {one.role.name for one in members}, "a member that closes leaves at once"
    cast.wait_shared(members, places(group, PARTITIONS))
    produce(stage, values("two"))
    cast.wait_seen_once(values("three") + values("two"))
    assert before is None or (stage.generation() or 0) > before
    for one in members:
        one.stop()
    assert admin.describe(group) == ("Empty", set())
    _without_trouble(cast)


def group_crash(stage: Stage) -> None:
    """A member is killed: it stays in the group until its session ends, then the others take over."""
    admin, group = stage.admin, stage.group
    admin.create(stage.topic, PARTITIONS)
    cast = stage.cast()
    doomed = join(stage, cast, start=False, process=True, session_timeout_ms=stage.session_ms)
    stayer = join(stage, cast, start=False, session_timeout_ms=AMPLE_MS)
    for one in (doomed, stayer):
        one.start()
    cast.wait_shared([doomed, stayer], places(group, PARTITIONS))
    produce(stage, values("two"))
    cast.wait_seen_once(values("two"))
    doomed.commit()
    doomed.kill()
    killed_at = time.monotonic()
    assert doomed.role.name in admin.describe(group)[1], "a member whose connection drops stays until its session ends"
    produce(stage, values("one"))
    late = join(stage, cast, session_timeout_ms=AMPLE_MS)
    cast.wait_shared([stayer, late], places(group, PARTITIONS))
    # The last heartbeat was at most an interval of 0.3 s before the end, and took its time on a busy machine.
    assert time.monotonic() - killed_at > stage.session_ms / 1000 - 1, cast.describe()
    cast.wait_seen(values("two") + values("one"))
    assert admin.describe(group) == ("Stable", {stayer.role.name, late.role.name})
    _without_trouble(cast)


def group_static_member(stage: Stage) -> None:
    """Static members are killed and come back: each has what it had, and the other notices nothing."""
    stage.need("static")
    admin, group = stage.admin, stage.group
    admin.create(stage.topic, PARTITIONS)
    cast = stage.cast()

    def static(instance_id: str, **fields: Any) -> Any:
        return join(stage, cast, start=False, instance_id=instance_id, session_timeout_ms=AMPLE_MS, **fields)

    # One of the two may lead the group, and one of them does not: both are tried.
    doomed = [static(f"static-{number}", process=True) for number in (1, 2)]
    witness = static("witness")
    for one in (*doomed, witness):
        one.start()
    cast.wait_shared([*doomed, witness], places(group, PARTITIONS))
    produce(stage, values("before"))
    cast.wait_seen_once(values("before"))
    owned, changes = [one.owned for one in doomed], list(witness.changes)
    before = stage.generation()
    for one in doomed:
        one.commit()
    for one in doomed:
        one.kill()
    back = [static(one.role.instance_id, process=True, name=one.role.name) for one in doomed]
    for one in back:
        one.start()
    stays(
        lambda: stage.generation() == before and witness.changes == changes,
        "nobody else notices that static members come back",
        until=lambda: [one.owned for one in back] == owned,
    )
    produce(stage, values("after"))
    cast.wait_seen_once(values("before") + values("after"))
    assert (stage.generation(), witness.changes) == (before, changes), cast.describe()
    assert admin.describe(group) == ("Stable", {one.role.name for one in (*back, witness)})


def group_cooperative(stage: Stage) -> None:
    """Members keep what does not move when one joins."""
    stage.need("cooperative")
    group = stage.group
    stage.admin.create(stage.topic, PARTITIONS)
    cast = stage.cast()
    first, second = (join(stage, cast, assignor="cooperative-sticky") for _ in range(2))
    cast.wait_shared([first, second], places(group, PARTITIONS))
    had = {one.role.name: one.owned for one in (first, second)}
    before = {one.role.name: len(one.changes) for one in (first, second)}
    late = join(stage, cast, assignor="cooperative-sticky")
    cast.wait_shared([first, second, late], places(group, PARTITIONS))
    produce(stage, values("three"))
    cast.wait_seen_once(values("three"))
    for one in (first, second):
        changes = [change for change in one.changes[before[one.role.name] :] if change.places]
        assert [change.kind for change in changes] == ["revoked"], cast.describe()
        assert changes[0].places == had[one.role.name] - one.owned, cast.describe()
    _without_trouble(cast)


def group_assignor(stage: Stage, assignor: str) -> None:
    stage.admin.create(stage.topic, PARTITIONS)
    cast = stage.cast()
    members = [join(stage, cast, assignor=assignor) for _ in range(2)]
    cast.wait_shared(members, places(stage.topic, PARTITIONS))
    produce(stage, values(assignor))
    cast.wait_seen_once(values(assignor))
    _without_trouble(cast)


def commit_and_resume(stage: Stage) -> None:
    admin, group = stage.admin, stage.group
    admin.create(stage.topic, 2)
    cast = stage.cast()
    first = join(stage, cast, auto_commit=False)
    produce(stage, values("first"))
    cast.wait_seen_once(values("first"))
    first.commit()
    produce(stage, values("second"))
    cast.wait_seen_once(values("first") + values("second"))
    first.stop()
    assert sum(admin.group_offsets(group).values()) == 30, "what was committed, no more"
    heir = join(stage, cast, auto_commit=False)
    wait_for(lambda: len(heir.seen) >= 30, "what was not committed", show=cast.describe)
    assert sorted(seen.value for seen in heir.seen) == sorted(values("second"))


def commit_with_note(stage: Stage) -> None:
    kit, group = stage.kit, stage.group
    kit.create(stage.topic)
    place = (stage.topic, 0)
    kit.commit(group, {place: (7, "ünïcode")})
    assert kit.committed(group, place) == (7, "ünïcode")
    assert kit.group_offsets(group) == {place: 7}


def members_come_and_go(stage: Stage) -> None:
    """Three join and one leaves while they join, again and again: nobody is lost."""
    stage.admin.create(stage.topic, PARTITIONS)
    cast = stage.cast()
    staying = [join(stage, cast), join(stage, cast)]
    for _ in range(4):
        passing = [join(stage, cast), join(stage, cast)]
        wait_for(lambda: all(one.owned for one in passing), "the new ones to join", show=cast.describe)  # noqa: B023
        passing[0].begin_stop()
        passing[1].begin_stop()
        for one in passing:
            one.stop()
    cast.wait_shared(staying, places(stage.topic, PARTITIONS))
    produce(stage, values("at last"))
    cast.wait_seen_once(values("at last"))
    _without_trouble(cast)


def regular_expression(stage: Stage) -> None:
    kit = stage.kit
    topics = [f"{stage.topic}.{end}" for end in ("a", "b")]
    for topic in [*topics, f"other-{stage.topic}"]:
        kit.create(topic)
        kit.produce(topic, [Row(topic.encode())], partition=0)
    pattern = f"^{stage.topic}\\..*"
    assert kit.subscribe_pattern(pattern, [topic.encode() for topic in topics], stage.group) == {
        topic.encode() for topic in topics
    }


def _without_trouble(cast: Cast) -> None:
    assert not any(one.troubles for one in cast.everyone), cast.describe()


SCENARIOS: list[tuple[str, Scenario]] = [
    *named(group_join_and_leave, group_crash, group_static_member, group_cooperative),
    *((f"group_{assignor}", partial(group_assignor, assignor=assignor)) for assignor in ("range", "roundrobin")),
    *named(commit_and_resume, commit_with_note, members_come_and_go, regular_expression),
]
