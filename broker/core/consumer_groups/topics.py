"""The topics of the cluster, as far as groups go by them (3.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from uuid import UUID

from ottla.broker.core.consumer_groups.metadata_hash import group_hash, topic_hash
from ottla.broker.core.events import TopicPartitions


class KnownTopic:
    """A topic, which is replaced when it changes.

    Args:
        racks: for each partition the racks of its replicas.
    """

    def __init__(self, name: str, topic_id: UUID, racks: Sequence[Sequence[str]]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.racks = racks

    @property
    def partition_count(self) -> int:
        return len(self.racks)

    @cached_property
    def hash(self) -> int:
        """See `topic_hash`."""
        return topic_hash(self.topic_id, self.name, self.racks)


class Topics:
    """Every topic that there is.

    Attributes:
        version: rises with each change, and is larger after a start than before: it is not below the Unix time in ms.
        newest_version: the version at which a topic came last, be it by a start (R3.19).
        news: the topics that changed since observers were told of them, each with whether only its racks did; None if
            they were told of none.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, KnownTopic] = {}
        self.by_id: dict[UUID, KnownTopic] = {}
        self.version = 0
        self.newest_version = 0
        self.news: dict[str, bool] | None = None

    def put(self, topic: KnownTopic, wall_ms: int) -> None:
        """A topic came, or has changed."""
        self.version = max(self.version + 1, wall_ms)
        before = self.by_name.get(topic.name)
        if before is None or before.topic_id != topic.topic_id:
            self.newest_version = self.version
        if self.news is not None:
            has_same = before is not None and (before.topic_id, before.partition_count) == (
                topic.topic_id,
                topic.partition_count,
            )
            self.news[topic.name] = has_same and self.news.get(topic.name, True)
        if before is not None:
            del self.by_id[before.topic_id]
        self.by_name[topic.name] = self.by_id[topic.topic_id] = topic

    def remove(self, name: str, wall_ms: int) -> None:
        """A topic is no more; nothing happens if it is not known."""
        topic = self.by_name.pop(name, None)
        if topic is not None:
            del self.by_id[topic.topic_id]
            self.version = max(self.version + 1, wall_ms)
            if self.news is not None:
                self.news[name] = False

    def learn(self, topics: Iterable[KnownTopic | str], version: int, newest_version: int) -> None:
        """Take over what observers were told: topics as they are, and the names of those that are gone."""
        news: dict[str, bool] = {}
        for one in topics:
            if isinstance(one, str):
                self.remove(one, 0)
                news[one] = False
            else:
                before = self.by_name.get(one.name)
                self.put(one, 0)
                news[one.name] = self.news is not None and before is not None and self.news[one.name]
        self.version, self.newest_version = version, newest_version
        if self.news is not None:
            self.news = news

    def existing(self, names: Iterable[str]) -> list[KnownTopic]:
        """The topics that there are among some names."""
        by_name = self.by_name
        return [by_name[name] for name in names if name in by_name]

    def told(self, partitions: Mapping[UUID, Iterable[int]]) -> list[TopicPartitions]:
        """Partitions as events name them."""
        by_id = self.by_id
        return [
            TopicPartitions(topic_id.bytes, sorted(numbers), by_id[topic_id].name if topic_id in by_id else "")
            for topic_id, numbers in partitions.items()
        ]

    def hash_of(self, names: Iterable[str]) -> int:
        """The metadata hash of a group that subscribes to these topics; see `group_hash`."""
        return group_hash({topic.name: topic.hash for topic in self.existing(names)})
