"""Of topics that change only so many are remembered."""

from __future__ import annotations

from ottla.broker.core.events import TopicChanged
from ottla.observe.why.topics import MOST_TOPICS, Topics


def test_what_is_remembered_is_bounded() -> None:
    topics = Topics()
    for number in range(3 * MOST_TOPICS):
        topics.take(
            TopicChanged(group_id="", cause=0, at_ms=number, topic=f"t{number}", partitions=1, partitions_before=0)
        )
    every = topics.changed((f"t{number}" for number in range(3 * MOST_TOPICS)), 3 * MOST_TOPICS)
    newest = range(3 * MOST_TOPICS - 1, 2 * MOST_TOPICS - 1, -1)
    assert [one.topic for one in every] == [f"t{number}" for number in newest]
