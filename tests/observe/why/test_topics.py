"""Topics that change: which rejoins are for them, and which are not."""

from __future__ import annotations

from typing import Any

from ottla.broker.core.events import TopicChanged
from ottla.observe.why.topics import LOOKS_MS, MOST_TOPICS, Topics
from ottla.observe.why.words import verdict
from tests.observe.why.scenarios import again, stable
from tests.observe.why.story import Story


def rejoined(story: Story, name: str = "w1", **options: Any) -> Story:
    others = [one for one in story.clients if one != name]
    story.join(name, **options)
    return again(story, *others)


def test_partitions_that_were_added_are_the_cause_once() -> None:
    story = stable()
    story.topic("orders", 8)
    story.topic("orders", 9)
    rejoined(story)
    assert verdict(story.last) == "cause topic-metadata-changed, triggered by w1, no culprit"
    assert story.last.headline.startswith("orders had 6 partitions and has 9 now, so the leader w1 joined again; ")
    rejoined(story)
    assert story.last.cause == "leader-rejoined", "all of them have an owner: it knows"
    story.topic("orders", 12)
    rejoined(story)
    assert story.last.headline.startswith("orders had 9 partitions and has 12 now, ")


def test_topics_that_the_leader_does_not_subscribe_to_are_no_reason() -> None:
    story = stable()
    story.topic("refunds", 8)
    assert rejoined(story).last.cause == "leader-rejoined"


def test_a_topic_that_changed_long_ago_is_no_reason() -> None:
    story = stable()
    story.topic("orders", 8)
    story.wait(LOOKS_MS + 1_000, beating=["w1", "w2"])
    assert rejoined(story).last.cause == "leader-rejoined"


def test_a_topic_that_is_deleted() -> None:
    story = Story({"orders": 2, "refunds": 2})
    for name in ("w1", "w2"):
        story.new(name, topics=("orders", "refunds"))
    stable(story=story)
    story.topic("refunds", 0)
    rejoined(story)
    assert story.last.cause == "topic-metadata-changed"
    assert story.last.headline.startswith("refunds was deleted, so the leader w1 joined again; ")
    assert rejoined(story).last.cause == "leader-rejoined"


def test_several_topics_are_told_by_the_newest_and_the_number_of_the_others() -> None:
    story = Story({"orders": 2, "refunds": 2})
    for name in ("w1", "w2"):
        story.new(name, topics=("orders", "refunds"))
    stable(story=story)
    story.topic("refunds", 4)
    story.topic("orders", 5)
    rejoined(story)
    told = " ".join(story.last.sentences)
    assert "orders had 2 partitions and has 5 now" in told
    assert "1 more of its topics changed" in told


def test_who_changes_its_subscription_itself_is_the_culprit() -> None:
    story = stable()
    story.topic("orders-eu", 3)
    story["w2"].topics = ("orders", "orders-eu", "refunds")
    rejoined(story, "w2")
    assert verdict(story.last) == "cause subscription-changed, triggered by w2, culprit w2"


def test_a_topic_that_was_there_when_the_group_formed_explains_no_new_subscription() -> None:
    story = Story()
    story.topic("orders-eu", 3)
    stable(story=story)
    story["w2"].topics = ("orders", "orders-eu")
    rejoined(story, "w2")
    assert verdict(story.last) == "cause subscription-changed, triggered by w2, culprit w2"


def test_what_is_remembered_is_bounded() -> None:
    topics = Topics()
    for number in range(3 * MOST_TOPICS):
        topics.take(
            TopicChanged(group_id="", cause=0, at_ms=number, topic=f"t{number}", partitions=1, partitions_before=0)
        )
    every = topics.changed((f"t{number}" for number in range(3 * MOST_TOPICS)), 3 * MOST_TOPICS)
    newest = range(3 * MOST_TOPICS - 1, 2 * MOST_TOPICS - 1, -1)
    assert [one.topic for one in every] == [f"t{number}" for number in newest]
