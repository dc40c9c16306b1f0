"""Scenarios of members that come, go, go missing and change their minds."""

from __future__ import annotations

from tests.observe.why.playbook import ALL, again, scenario, stable
from tests.observe.why.story import Story

# Somebody comes


@scenario("group-started")
def group_started() -> Story:
    story = Story(group_initial_rebalance_delay_ms=3_000)
    story.join("w1")
    story.wait(500)
    story.join("w2")
    story.wait(6_000)
    story.sync("w1", "w2")
    return story


@scenario("member-joined", "w3")
def member_joined() -> Story:
    story = stable()
    story.join("w3")
    again(story, "w1", "w2")
    story.sync("w3")
    return story


@scenario("static-member-joined", "w3")
def static_member_joined() -> Story:
    story = stable()
    story.new("w3", instance="i3")
    story.join("w3")
    again(story, "w1", "w2")
    story.sync("w3")
    return story


@scenario("member-returned", "w2")
def member_returned() -> Story:
    story = left_closed()
    story.wait(8_000, beating=["w1"])
    story.new("w2")
    story.join("w2")
    return again(story, "w1")


# Somebody goes


@scenario("left-closed", "w2")
def left_closed() -> Story:
    story = stable()
    story.leave("w2", "the consumer is being closed")
    return again(story, "w1")


@scenario("left-closed", "w2")
def left_and_disconnected() -> Story:
    """librdkafka, aiokafka: no reason, and the connection is closed right afterwards."""
    story = stable()
    member_id = story["w2"].member_id
    story.leave("w2", version=1)
    story.wait(30)
    story["w2"].member_id = member_id
    story.disconnect("w2")
    return again(story, "w1")


@scenario("left-poll-timeout", "w2")
def left_poll_timeout() -> Story:
    story = stable()
    story.leave("w2", "consumer poll timeout has expired.")
    return again(story, "w1")


@scenario("left-poll-timeout", "w2")
def left_poll_timeout_unsaid() -> Story:
    """aiokafka, librdkafka, kafka-python: no reason, but the connection stays and the time is right."""
    story = Story()
    story.new("w2", poll_ms=30_000)
    story.start("w1", "w2")
    story.wait(30_400, beating=["w1", "w2"])
    story.leave("w2", version=1)
    return again(story, "w1")


@scenario("left-without-reason", "w2")
def left_without_reason() -> Story:
    story = stable()
    story.leave("w2", version=1)
    return again(story, "w1")


@scenario("left-unsubscribed", "w2")
def left_unsubscribed() -> Story:
    story = stable()
    story.leave("w2", "the consumer unsubscribed from all topics")
    return again(story, "w1")


@scenario("left-with-reason", "w2")
def left_with_reason() -> Story:
    story = stable()
    story.leave("w2", "making room for the batch run")
    return again(story, "w1")


@scenario("removed-by-admin")
def removed_by_admin() -> Story:
    story = stable()
    story.leave("w2", "member was removed by an admin: on call", by="adminclient-1")
    return again(story, "w1")


# Somebody goes missing


@scenario("session-expired-connection-lost", "w2")
def crashed() -> Story:
    story = stable()
    story.wait(1_000)
    story.disconnect("w2")
    story.wait(45_000, beating=["w1"])
    return again(story, "w1")


@scenario("session-expired-silent", "w2")
def frozen() -> Story:
    story = stable()
    story.wait(46_000, beating=["w1"])
    return again(story, "w1")


@scenario("session-expired", "w2")
def expired_after_a_load() -> Story:
    """The log does not say whether a member has a connection."""
    story = stable()
    story.restart()
    story.wait(46_000, beating=["w1"])
    return again(story, "w1")


@scenario("new-member-expired", "w2", began="member-joined")
def new_member_expired() -> Story:
    story = Story()
    for name in ALL:
        story.new(name, poll_ms=600_000)
    story.start("w1", "w2")
    story.wait(60_000, beating=["w1", "w2"])
    story.join("w3")
    story.join("w1")
    story.wait(301_000, beating=["w2"])
    story.join("w2")
    story.wait(20)
    story.sync("w1", "w2")
    return story


@scenario("join-barrier-missed", "w2", began="member-joined")
def poll_loop_busy() -> Story:
    story = Story()
    story.new("w2", poll_ms=60_000)
    story.new("w1", poll_ms=60_000)
    story.new("w3", poll_ms=60_000)
    stable(story=story)
    story.join("w3")
    story.wait(2_000, beating=["w1", "w2"])
    story.join("w1")
    story.wait(59_000, beating=["w2"])
    story.sync("w1", "w3")
    return story


@scenario("issued-id-unused", "ghost", began="member-joined")
def issued_id_unused() -> Story:
    story = stable()
    story.new("ghost", session_ms=10_000)
    story.join_once("ghost")
    story.join("w3")
    story.join("w1", "w2")
    story.wait(11_000)
    story.sync("w1", "w2", "w3")
    return story


@scenario("issued-id-left", "ghost")
def issued_id_left() -> Story:
    story = stable()
    story["ghost"].member_id = story.join_once("ghost").answer.member_id
    story.leave("ghost", "the consumer is being closed")
    return again(story, "w1", "w2")


@scenario("nobody-rejoined", "w1", began="left-closed")
def nobody_rejoined() -> Story:
    story = Story()
    story.new("w1", instance="i1", poll_ms=10_000)
    story.new("w2", instance="i2", poll_ms=10_000)
    story.new("w3", poll_ms=10_000)
    stable("w1", "w2", "w3", story=story)
    story.leave("w3", "the consumer is being closed")
    story.wait(12_000, beating=["w1", "w2"])
    story.join("w1", "w2")
    story.wait(20)
    story.sync("w1", "w2")
    return story


# Somebody changes its mind


@scenario("subscription-changed", "w2")
def subscription_changed() -> Story:
    story = stable(partitions={"orders": 4, "refunds": 2})
    story["w2"].topics = ("orders", "refunds")
    story.join("w2", reason="subscription has changed")
    return again(story, "w1")


@scenario("assignor-list-changed", "w2")
def assignors_changed() -> Story:
    story = stable()
    story["w2"].assignors = ("range", "roundrobin")
    story.join("w2")
    return again(story, "w1")


@scenario("cooperative-follow-up")
def cooperative_follow_up() -> Story:
    story = Story()
    for name in ALL:
        story.new(name, assignors=("cooperative-sticky",))
    stable(story=story)
    story.join("w3")
    again(story, "w1", "w2")
    story.sync("w3")
    story.join("w2", reason="need to revoke partitions and re-join")
    return again(story, "w1", "w3")


@scenario("topic-metadata-changed")
def partitions_added() -> Story:
    """librdkafka's leader joins again with the same subscription and no reason."""
    story = stable()
    story.topic("orders", 12)
    story.wait(9_000, beating=["w1", "w2"])
    story.join("w1")
    return again(story, "w2")


@scenario("topic-metadata-changed")
def topic_created() -> Story:
    """A topic that the group subscribed to before there was one; Java's client says why it joins."""
    story = Story()
    for name in ("w1", "w2"):
        story.new(name, topics=("orders", "refunds"))
    stable(story=story)
    story.topic("refunds", 1)
    story.wait(3_000, beating=["w1", "w2"])
    story.join("w1", reason="cached metadata has changed from (version1: {}) to (version2: {})")
    return again(story, "w2")


@scenario("topic-metadata-changed")
def metadata_changed_unseen() -> Story:
    """The broker has forgotten, or the recording begins later."""
    story = stable()
    story.join("w1", reason="cached metadata has changed")
    return again(story, "w2")


@scenario("subscription-changed")
def topic_matches_pattern() -> Story:
    story = stable()
    story.topic("orders-eu", 3)
    story.wait(4_000, beating=["w1", "w2"])
    story["w2"].topics = ("orders", "orders-eu")
    story.join("w2")
    return again(story, "w1")


@scenario("user-data-changed", "w2")
def user_data_changed() -> Story:
    story = stable()
    story["w2"].user_data = b"now warm"
    story.join("w2")
    return again(story, "w1")


@scenario("rebalance-enforced", "w1")
def rebalance_enforced() -> Story:
    story = stable()
    story.join("w1", reason="rebalance enforced by user")
    return again(story, "w2")


@scenario("rejoined-after-error", "w1")
def rejoined_after_error() -> Story:
    story = stable()
    story["w1"].generation = 9
    story.beat("w1")
    story.join("w1")
    return again(story, "w2")


@scenario("leader-rejoined", "w1")
def leader_rejoined() -> Story:
    story = stable()
    story.join("w1")
    return again(story, "w2")


@scenario("member-rejoined", "w2")
def member_rejoined() -> Story:
    story = stable()
    story["w2"].metadata_version = 2
    story.join("w2")
    return again(story, "w1")


@scenario("metadata-changed-while-syncing", "w2")
def changed_while_syncing() -> Story:
    story = Story()
    story.join("w1", "w2")
    story.wait(1)
    story["w2"].user_data = b"now warm"
    story.join("w2")
    return again(story, "w1")
