"""Groups for the assignors: made up by hypothesis, and in the shape that other clients' assignors take."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from ottla.clients.assignors import MemberSubscription
from ottla.protocol.records import TopicPartition

Counts = dict[str, int]
Members = dict[str, MemberSubscription]

TOPICS = ["a", "b", "c", "d"]


@st.composite
def counts_and_members(draw: st.DrawFn, *, static: bool, same_topics: bool = False) -> tuple[Counts, Members]:
    """Topics with their partition counts, some of them unknown; members with their subscriptions."""
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1))
    ids = draw(st.lists(st.text("mnop0189", min_size=1, max_size=4), min_size=1, max_size=7, unique=True))
    common = draw(st.lists(st.sampled_from(TOPICS), min_size=1, unique=True))
    members: Members = {}
    for number, member_id in enumerate(ids):
        topics = common if same_topics else draw(st.lists(st.sampled_from(TOPICS), min_size=1, unique=True))
        instance = f"i{9 - number}" if static and draw(st.booleans()) else None
        members[member_id] = MemberSubscription(topics, group_instance_id=instance)
    return counts, members


class Cluster:
    """The cluster that other clients' assignors ask for partitions."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = counts

    def topics(self) -> set[str]:
        return set(self.counts)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self.counts[topic])) if topic in self.counts else None


class KafkaPythonMember:
    """A member as kafka-python's assignors take it."""

    def __init__(self, member_id: str, member: MemberSubscription, version: int = 0) -> None:
        self.member_id = member_id
        self.group_instance_id = member.group_instance_id
        SubTopicPartition: Any = ConsumerProtocolSubscription.TopicPartition
        self.metadata = ConsumerProtocolSubscription(
            version=version,
            topics=sorted(member.topics),
            user_data=member.user_data or b"",
            owned_partitions=[
                SubTopicPartition(topic=topic, partitions=partitions)
                for topic, partitions in by_topic(member.owned_partitions).items()
            ],
            generation_id=member.generation_id,
        )


def as_kafka_python(members: Members, version: int = 0) -> list[KafkaPythonMember]:
    """Static members first: kafka-python drops members when static and dynamic ones alternate."""
    ordered = sorted(members.items(), key=lambda item: item[1].group_instance_id is None)
    return [KafkaPythonMember(member_id, member, version) for member_id, member in ordered]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for tp in sorted(partitions):
        grouped[tp.topic].append(tp.partition)
    return dict(grouped)
