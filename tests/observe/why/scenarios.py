"""A scenario for each class of causes: what clients do on injected time, and who did it; but for plain members."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from tests.observe.why.playbook import ALL, SCENARIOS, Scenario, again, scenario, stable
from tests.observe.why.scenarios_members import cooperative_follow_up, poll_loop_busy
from tests.observe.why.story import Story

__all__ = ["SCENARIOS", "Scenario", "again", "cooperative_follow_up", "poll_loop_busy", "stable"]

# Static members


@scenario("static-member-replaced", "w2")
def static_member_replaced() -> Story:
    story = static_group()
    story.disconnect("w2")
    story.wait(4_000, beating=["w1"])
    restarted(story, "w2")
    return story


def static_group(*names: str) -> Story:
    story = Story()
    for name in names or ("w1", "w2"):
        story.new(name, instance=f"i{name[1:]}")
    return stable(*names, story=story)


def restarted(story: Story, name: str) -> None:
    """A static member starts anew, without its member id."""
    story[name].member_id = ""
    story.join(name)
    story.wait(5)
    story.sync(name)


@scenario("static-replaced-protocol-changed", "w2")
def static_protocol_changed() -> Story:
    story = Story()
    story.new("w1", instance="i1", assignors=("range", "roundrobin"))
    story.new("w2", instance="i2", assignors=("range", "roundrobin"))
    stable(story=story)
    story["w2"].assignors = ("roundrobin",)
    story["w2"].member_id = ""
    story.join("w2")
    return again(story, "w1")


@scenario("static-replaced-while-syncing", "w2")
def static_while_syncing() -> Story:
    story = Story()
    story.new("w1", instance="i1")
    story.new("w2", instance="i2")
    story.join("w1", "w2")
    story.wait(1)
    story["w2"].member_id = ""
    story.join("w2")
    return again(story, "w1")


@scenario("replacement-write-failed", "w2", began="static-member-replaced")
def replacement_not_written() -> Story:
    story = static_group()
    story.world.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    story["w2"].member_id = ""
    story.join("w2")
    return story


@scenario("duplicate-instance-id", "w9")
def duplicate_instance() -> Story:
    story = static_group()
    story.wait(4_000, beating=["w1", "w2"])
    story.new("w9", instance="i2")
    story.join("w9")
    story.wait(5)
    story.sync("w9")
    story.wait(3_000, beating=["w1", "w9", "w2"])
    return story


# The sync barrier


@scenario("sync-timeout", "w2")
def sync_timeout() -> Story:
    story = Story()
    story.new("w1", poll_ms=60_000)
    story.new("w2", poll_ms=60_000)
    story.join("w1", "w2")
    story.wait(1)
    story.sync("w1")
    story.wait(61_000, beating=["w1", "w2"])
    story.join("w1")
    story.wait(20)
    story.sync("w1")
    return story


@scenario("leader-never-synced", "w1")
def leader_blocked() -> Story:
    story = Story()
    story.new("w1", poll_ms=60_000)
    story.new("w2", poll_ms=60_000)
    story.join("w1", "w2")
    story.wait(1)
    story.sync("w2")
    story.wait(61_000, beating=["w1", "w2"])
    story.join("w2")
    story.wait(20)
    story.sync("w2")
    return story


# The broker


@scenario("assignment-write-failed")
def assignments_not_written() -> Story:
    story = Story()
    story.join("w1", "w2")
    story.wait(1)
    story.world.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    story.sync("w2", "w1")
    story.join("w1", "w2")
    story.wait(20)
    story.sync("w1", "w2")
    return story


@scenario("generation-write-failed")
def generation_not_written() -> Story:
    story = Story(group_generation_persist="join")
    story.join("w1", "w2")
    story.world.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    story.wait(1)
    story.join("w1", "w2")
    story.wait(20)
    story.sync("w1", "w2")
    return story


@scenario("group-write-failed", began="group-started")
def group_not_written() -> Story:
    story = Story(group_initial_rebalance_delay_ms=3_000)
    story.world.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    story.new("w1", instance="i1")
    story.join("w1")
    return story


@scenario("coordinator-loaded")
def coordinator_loaded() -> Story:
    story = stable()
    story.restart()
    return story


@scenario("coordinator-moved")
def coordinator_moved() -> Story:
    story = stable()
    story.world.coordinator.unload(0, story.world.now_ms, story.world.wall_ms)
    story.settle()
    return story


@scenario("over-capacity-on-load")
def over_capacity() -> Story:
    story = stable(*ALL)
    story.restart(group_max_size=2)
    again(story, "w1", "w2")
    return story


@scenario("unassigned-on-load")
def unassigned_on_load() -> Story:
    story = Story(group_generation_persist="join")
    story.join("w1", "w2")
    story.wait(1)
    story.restart()
    story.join("w1", "w2")
    story.wait(20)
    story.sync("w1", "w2")
    return story


@scenario("generation-lost-on-load")
def generation_lost() -> Story:
    story = stable()
    story.join("w1")
    story.join("w2")
    story.restart()
    story.beat("w1")
    story.join("w1")
    return again(story, "w2")


# Somebody is turned away


@scenario("turned-away-group-full", "w3")
def group_full() -> Story:
    story = stable(group_max_size=2)
    for _ in range(5):
        story.join_once("w3")
        story.wait(100, beating=["w1", "w2"])
    return story


@scenario("turned-away-assignor-mismatch", "w3")
def mixed_assignors() -> Story:
    story = stable()
    story.new("w3", assignors=("cooperative-sticky",))
    story.join_once("w3")
    return story


@scenario("turned-away-protocol-type", "w3")
def other_type() -> Story:
    story = stable()
    story.new("w3", type="connect", assignors=("sessioned",))
    story.join_once("w3")
    return story


@scenario("invalid-session-timeout", "w3")
def session_too_short() -> Story:
    story = stable()
    story.new("w3", session_ms=500)
    story.join_once("w3")
    return story


# Patterns


@scenario("flapping-member", "w2")
def flapping() -> Story:
    story = stable()
    for _ in range(3):
        story.leave("w2", "the consumer is being closed")
        again(story, "w1")
        story.wait(3_000, beating=["w1"])
        story.new("w2")
        story.join("w2")
        again(story, "w1")
        story.sync("w2")
        story.wait(5_000, beating=["w1", "w2"])
    return story


@scenario("rolling-restart", "w3")
def rolling_restart() -> Story:
    story = stable(*ALL)
    for name in ALL:
        others = [other for other in ALL if other != name]
        story.leave(name, "the consumer is being closed")
        again(story, *others)
        story.wait(6_000, beating=others)
        story.new(name)
        story.join(name)
        again(story, *others)
        story.sync(name)
        story.wait(10_000, beating=ALL)
    return story


@scenario("rolling-restart", "w3")
def rolling_restart_of_static_members() -> Story:
    story = static_group(*ALL)
    for name in ALL:
        story.disconnect(name)
        story.wait(6_000, beating=[other for other in ALL if other != name])
        restarted(story, name)
        story.wait(10_000, beating=ALL)
    return story


# Nothing is known


@scenario("unknown")
def beginning_not_seen() -> Story:
    """As in a recording whose first part is gone: the first that is seen is the end of the join barrier."""
    story = Story()
    story.told_from_barrier = True
    story.join("w1", "w2")
    story.wait(1)
    story.sync("w1", "w2")
    return story
