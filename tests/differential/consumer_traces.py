"""Consumer groups (KIP-848) when time passes, and what no random trace does."""

from __future__ import annotations

from ottla.protocol.apis import ApiKey
from tests.differential import calls, log_calls
from tests.differential.calls import TOPIC
from tests.differential.consumer_calls import IS_AWAY, beat, describe_consumers, join, leave_group, says
from tests.differential.log_calls import until
from tests.differential.tracing import Trace

GROUP = 32
SESSION_MS = 1_500


def short_sessions(t: Trace) -> None:
    """Let members of the group of this trace be silent for a second and a half."""
    changes = [("consumer.heartbeat.interval.ms", 0, "500"), ("consumer.session.timeout.ms", 0, str(SESSION_MS))]
    log_calls.alter(t, GROUP, t.name, *changes)
    keys = [key for key, _, _ in changes]
    resource = {"resource_type": GROUP, "resource_name": t.name, "configuration_keys": keys}

    def known() -> bool:
        answer = t.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource])
        return sorted(row.value for row in answer.results[0].configs) == sorted(value for _, _, value in changes)

    until(known)
    t.settle(100)


def trace_consumers_are_silent(t: Trace) -> None:
    short_sessions(t)
    join(t, "a", TOPIC)
    join(t, "b", TOPIC)
    for _ in range(4):
        t.settle(SESSION_MS // 2)
        beat(t, "a", owned="mine")
    describe_consumers(t)
    beat(t, "b")
    beat(t, "a")
    t.settle(SESSION_MS + 700)
    describe_consumers(t)
    beat(t, "a")
    join(t, "a", TOPIC)


def trace_consumers_are_away(t: Trace) -> None:
    short_sessions(t)
    join(t, "a", TOPIC, instance="i")
    leave_group(t, "a", instance="i", epoch=IS_AWAY)
    join(t, "b", TOPIC)
    beat(t, "a", epoch=2, instance="i")
    calls.commit(t, "a", 9, generation=2)
    t.settle(SESSION_MS - 800)
    beat(t, "b")
    describe_consumers(t)
    t.settle(1_500)
    beat(t, "b")
    describe_consumers(t)


def trace_consumers_come_back_as_another(t: Trace) -> None:
    """What the one whose id is taken had is free a heartbeat later."""
    join(t, "a", TOPIC, instance="i")
    join(t, "b", TOPIC)
    beat(t, "a")
    for who in "aba":
        beat(t, who, owned="mine")
    leave_group(t, "a", instance="i", epoch=IS_AWAY)
    beat(t, "a", instance="i", member="=b", epoch=0, owned="none", **says([TOPIC, "more"]))
    describe_consumers(t)
    beat(t, "b", epoch="+0", instance="i")
    describe_consumers(t)


def trace_consumers_do_not_revoke(t: Trace) -> None:
    join(t, "a", TOPIC, rebalance_timeout_ms=1_500)
    join(t, "b", TOPIC, rebalance_timeout_ms=1_500)
    beat(t, "a")
    for _ in range(2):
        t.settle(500)
        beat(t, "a", epoch=2)
        beat(t, "b")
    describe_consumers(t)
    t.settle(1_200)
    describe_consumers(t)
    beat(t, "a", epoch=2)
    beat(t, "b")


def trace_consumers_get_ids(t: Trace) -> None:
    """One at a time: the order of records of members depends on their ids, and on what a JVM makes of equal hashes."""
    for member in ("", " ", "\u00a0"):
        join(t, "a", TOPIC, version=1, member=member)
        join(t, "a", TOPIC, version=0, member=member)
        describe_consumers(t)
        beat(t, "a", 0)
        beat(t, "a", 0, member="", epoch=2)
        leave_group(t, "a")
        calls.leave(t, "admin", 3, (member, None))
    calls.describe(t, 5)
    calls.describe(t, 6)


def trace_consumers_wait_for_an_interval(t: Trace) -> None:
    log_calls.alter(t, GROUP, t.name, ("consumer.assignment.interval.ms", 0, "3000"))
    t.settle(500)
    join(t, "a", TOPIC)
    join(t, "b", TOPIC)
    describe_consumers(t)
    beat(t, "b")
    t.settle(3_200)
    describe_consumers(t)
    beat(t, "b")
    leave_group(t, "a")
    leave_group(t, "b")
    join(t, "c", TOPIC)
    describe_consumers(t)
    t.settle(3_200)
    beat(t, "c")


def trace_consumers_come_by_regex_while_others_wait(t: Trace) -> None:
    """Who comes by a regex that is not resolved changes no epoch, and the assignor is told of the group as it was
    before: where an assignment waits for its interval, he gets partitions of topics that he did not ask for.
    """
    log_calls.alter(t, GROUP, t.name, ("consumer.assignment.interval.ms", 0, "2000"))
    t.settle(500)

    def comes(who: str, regex: str) -> None:
        beat(t, who, joins=says(None, subscribed_topic_regex=regex, server_assignor="uniform"))

    comes("a", "order.")
    t.settle(2_500)
    comes("b", "nothing.*")
    describe_consumers(t)
    t.settle(500)
    for _ in range(2):
        for who in "ab":
            beat(t, who, owned="mine")
    describe_consumers(t)
    comes("c", "nowhere.*")
    t.settle(500)
    comes("d", "order.|x")
    t.settle(2_500)
    for _ in range(2):
        for who in "abcd":
            beat(t, who, owned="mine")
    describe_consumers(t)


def trace_consumers_go_after_a_topic_grew(t: Trace) -> None:
    """A departure is no occasion to look at topics: they are looked at with the next request, and the assignor is told
    of the group as it is then, though who comes by a regex that is not resolved changes no epoch. It does not matter
    whether anybody subscribes by then to the topic that grew.
    """
    for stays, goes in (("t", "t"), ("v", "w")):
        names = {suffix: log_calls.made(t, suffix, 2) for suffix in {stays, goes}}
        t.settle(500)
        join(t, "a", names[stays], server_assignor="range")
        join(t, "b", names[goes], server_assignor="range")
        beat(t, "a", owned="none")
        log_calls.grow(t, log_calls.change(names[goes], 5))
        t.settle(500)
        leave_group(t, "b")
        beat(t, "b", joins=says(None, subscribed_topic_regex="nothing.*", server_assignor="range"))
        describe_consumers(t)
        leave_group(t, "b")
        leave_group(t, "a")


def trace_waiting_for_who_is_of_the_other_protocol(t: Trace) -> None:
    """With the policy of these brokers a group with classic members alone stays a consumer group. When the last other
    member goes, nobody computes a target: heartbeats of classic members do not, and do not tell them to join again.
    """
    t.member["a"] = "!"  # before every id that a broker makes, as assignors go by ids
    join(t, "a", TOPIC)
    calls.enter(t, "b", 9, protocol_type="consumer")
    calls.sync(t, "b", 5, protocol_type="consumer", protocol_name="range")
    beat(t, "a", owned="mine")
    beat(t, "a", owned="none")
    for _ in range(2):
        calls.heartbeat(t, "b")
        calls.join(t, "b", 9, protocol_type="consumer")
        calls.sync(t, "b", 5, protocol_type="consumer", protocol_name="range")
        beat(t, "a", owned="mine")
    describe_consumers(t)
    leave_group(t, "a")
    for _ in range(3):
        calls.heartbeat(t, "b")
        t.settle(1_200)
    describe_consumers(t)
    calls.join(t, "b", 9, protocol_type="consumer")
    calls.sync(t, "b", 5, protocol_type="consumer", protocol_name="range")
    calls.heartbeat(t, "b")
    describe_consumers(t)
